"""The view of ``kanalyze live`` on a terminal.

In: snapshots and keys. Out: lines on a screen. Begin reading with ``view.py``.
"""
