"""Formats summaries and rows: a terminal report, a table, Markdown, HTML, JSON.

In: summaries and rows. Out: text. Begin reading with ``terminal.py``. This package must not know
captures, nor how the figures were computed.
"""
