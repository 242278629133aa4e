"""Writes rows to files: CSV, JSON Lines, Parquet, Arrow.

In: rows. Out: bytes in a file or on standard output. Begin reading with ``open.py``.
"""
