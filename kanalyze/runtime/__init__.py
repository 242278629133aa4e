"""Connects the stages and runs them, in one process or in several workers.

In: captures and settings. Out: rows, the quality of the captures, or the state of open connections.
Begin reading with ``pipeline.py``: everything goes through ``Analysis``.
"""
