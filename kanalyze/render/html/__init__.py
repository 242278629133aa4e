"""The report as one HTML page that works offline.

In: a report and its cube, the sums by which the page filters. Out: HTML. Begin reading with
``page.py``.
"""

from __future__ import annotations

from kanalyze.render.html.page import html_page, plain_page

__all__ = ["html_page", "plain_page"]
