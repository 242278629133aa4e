"""Aggregates rows into the summary of a report.

In: blocks of rows. Out: sums, quantiles, series, in bounded memory. Begin reading with
``summary.py``.
"""
