"""The command line: arguments, and what a terminal needs. It knows everything and does nothing.

In: arguments. Out: an exit status. Begin reading with ``main.py``.
"""
