"""The command line: arguments, and what a terminal needs. It calls everything and computes nothing.

In: arguments. Out: an exit status. Begin reading with ``main.py``.
"""
