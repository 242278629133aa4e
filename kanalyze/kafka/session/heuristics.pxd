# No C types: heuristics.py is compiled as it is, which takes half the time of each new connection.
