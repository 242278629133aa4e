"""GitHub-flavoured Markdown.

In: texts. Out: Markdown in which characters of the texts are no markup.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.render.layout import TableColumn

__all__ = ["markdown_code", "markdown_table", "markdown_text"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown_text(text: str) -> str:
    """Return a text with every character escaped that has a meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def markdown_code(text: str) -> str:
    """Return a text of one line as a code span; nothing in it is escaped."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def markdown_table(columns: Sequence[TableColumn], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield _cells(column.title or " " for column in columns)
    yield f"| {' | '.join('---:' if column.right else '---' for column in columns)} |"
    yield from map(_cells, rows)


def _cells(texts: Iterable[str]) -> str:
    return f"| {' | '.join(map(markdown_text, texts))} |"
