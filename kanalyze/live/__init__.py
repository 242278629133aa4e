"""The same rows while they happen: shown, counted, kept.

In: packets and a clock. Out: a view, metrics, files. Begin reading with ``run.py``.
"""
