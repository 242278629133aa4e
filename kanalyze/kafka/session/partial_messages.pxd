# No C types: partial_messages.py is compiled as it is; it works for each new connection.
