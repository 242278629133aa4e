"""The page of a report whose sums could not be made: what the terminal shows, without scripts.

In: a report. Out: one HTML text that loads nothing from a network.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from kanalyze.render.phrases import captures_text
from kanalyze.render.terminal import report_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["plain_page"]

_WIDTH = 140


def plain_page(report: Mapping[str, Any]) -> str:
    """Return a report as an HTML page with its text alone."""
    title = escape(captures_text(report["capture"]["captures"]))
    lines = "\n".join(escape(line.plain) for line in report_lines(dict(report), _WIDTH))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">\n'
        f"<title>{title} \u2013 Kafka on the wire</title>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n<p>The sums that a page selects from could not be made, so this is "
        f"the report as text.</p>\n<pre>{lines}</pre>\n</main>\n</body>\n</html>\n"
    )
