"""TCP segments become bytes in order, and what is missing of them.

In: segments as columns. Out: chunks and gaps of each connection, and what is measured of it. Begin
reading with ``reassembly.py``.
"""
