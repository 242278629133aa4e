"""The report as one HTML page that opens offline.

In: a report and its cube, as plain values. Out: HTML. Begin reading with ``page.py``. This package
must not know where they come from.
"""

from __future__ import annotations

from kanalyze.render.html.page import html_page

__all__ = ["html_page"]
