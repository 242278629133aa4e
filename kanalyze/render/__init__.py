"""Shows summaries and rows: a terminal report, a table, JSON.

In: summaries and rows. Out: text. This package knows neither captures nor how rows are counted.
"""
