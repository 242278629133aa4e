# No C types: failure_details.py is compiled as it is; it works for each new connection.
