"""The stages, put together and run: in one process, or in several workers.

In: captures and settings. Out: rows, quality, ended connections; or the state of open connections,
as bytes. Begin reading with ``pipeline.py``.
"""
