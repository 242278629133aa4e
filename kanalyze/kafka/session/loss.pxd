# No C types: loss.py is compiled as it is, which takes half the time of each new connection.
