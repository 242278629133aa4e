"""Rows become files: CSV, JSON Lines, Parquet, Arrow.

In: rows. Out: bytes in a file or on standard output. Knows neither captures nor terminals.
"""
