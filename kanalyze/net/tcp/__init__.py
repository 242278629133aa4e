"""TCP segments become bytes in order, and gaps.

In: segments as columns. Out: chunks, gaps and measures of each connection. Begin reading with
``reassembly.py``.
"""
