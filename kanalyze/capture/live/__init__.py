"""Live capture: packets of a network interface.

In: the name of an interface. Out: packets as columns, and the number that the kernel dropped. Begin
reading with ``capture.py``.
"""
