"""What the last seconds were like.

In: blocks of rows, and the time. Out: snapshots of sums. Begin reading with ``windows.py``.
"""
