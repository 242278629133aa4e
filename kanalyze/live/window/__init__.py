"""Sums over the rows of the last seconds, for the view and for lines of rates.

In: blocks of rows, and the time. Out: snapshots. Begin reading with ``windows.py``.
"""
