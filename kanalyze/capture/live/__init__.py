"""Packets of a network interface, as they come.

In: the name of an interface. Out: packets as columns, and how many the kernel dropped. Begin
reading with ``capture.py``.
"""
