"""Summaries and rows become something to look at: a terminal report, a table, JSON.

In: summaries and rows. Out: text. Begin reading with ``terminal.py``. It knows neither captures nor
how anything was counted.
"""
