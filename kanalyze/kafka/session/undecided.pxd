# No C types: undecided.py is compiled as it is; it works for each new connection.
