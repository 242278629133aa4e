"""The stages put together and run, in one process or in several workers.

In: captures and settings. Out: rows, the quality of the captures, or the state of open connections.
Begin reading with ``pipeline.py``: ``Analysis`` is the one door.
"""
