"""The same rows while they happen: what the last seconds were like, shown, told and kept.

In: rows, and the state of a capture. Out: a view on a terminal, lines of JSON, metrics, files.
Knows neither packets nor how rows are made.
"""
