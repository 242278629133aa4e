"""Rows added up: what a report says.

In: blocks of rows. Out: sums, quantiles, series, in bounded memory. Begin reading with
``summary.py``.
"""
