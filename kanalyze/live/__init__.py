"""Live captures: rows are shown, counted and written while they come.

In: packets and a clock. Out: a view, metrics, files. Begin reading with ``run.py``.
"""
