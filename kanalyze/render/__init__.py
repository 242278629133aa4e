"""Formats reports and rows: as a terminal report, a table, Markdown, HTML or JSON.

In: reports and rows. Out: text. Begin reading with ``terminal.py``.
"""
