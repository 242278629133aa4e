"""Sums over the last seconds.

In: blocks of rows, and the time. Out: snapshots. Begin reading with ``windows.py``.
"""
