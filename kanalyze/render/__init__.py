"""Formats reports and rows: as a terminal report, a table, Markdown, HTML or JSON.

In: reports and rows. Out: text. Begin reading with ``terminal.py``. This package must not know
captures, nor how the figures were computed.
"""
