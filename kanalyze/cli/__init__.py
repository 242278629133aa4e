"""The command line: parses arguments, calls the other packages, writes to files and terminals.

In: arguments. Out: an exit status. Begin reading with ``main.py``.
"""
