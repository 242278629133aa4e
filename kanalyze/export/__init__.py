"""Writes rows to files: CSV, JSON Lines, Parquet, Arrow.

In: rows. Out: bytes in a file or on standard output. This package knows neither captures nor
terminals. Begin reading with ``open.py``.
"""
