"""Lines of styled text, independent of a terminal or a file.

In: texts, each with the name of a style. Out: :class:`Line`, also broken to fit a width.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kanalyze.render.layout import (
    GAP,
    cell_width,
    fitted,
    natural_widths,
    padded,
    with_whole_ids,
    without_last,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.render.layout import TableColumn

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


_HANGING = 2
_WORD = re.compile(r"\s*\S+\s*")
_SHELL_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+\s*""")
_CONTINUATION = " \\"
"""At the end of a line, it makes a shell read the next line as its continuation."""


class Line:
    """A line: parts of text, each with a style such as ``bold cyan``; ``""`` is no style."""

    __slots__ = ("_is_command", "parts")

    def __init__(self, text: str = "", style: str = "", *, is_command: bool = False) -> None:
        """Make a line of one part; without a text, an empty line to append to.

        A command is broken so that its lines can be pasted into a shell.
        """
        self.parts = [(text, style)] if text else []
        self._is_command = is_command

    def append(self, text: str, style: str = "") -> None:
        """Add a part at the end."""
        self.parts.append((text, style))

    def rstrip(self) -> None:
        """Remove the spaces at the end."""
        while self.parts:
            text, style = self.parts.pop()
            if text := text.rstrip():
                self.append(text, style)
                return

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(text for text, _ in self.parts)

    def fitted(self, width: int) -> Iterator[Line]:
        """Yield the line as lines that take at most ``width``.

        A line of a single part is prose. It is broken between words, and a word that is longer than
        a line is broken too. If it begins with spaces, continuation lines begin with two more. A
        line of several parts stands in columns; it is cut off at ``width``.
        """
        if cell_width(self.plain) <= width:
            yield self
        elif len(self.parts) == 1:
            ((text, style),) = self.parts
            indent = len(text) - len(text.lstrip(" "))
            room = max(width - indent - _HANGING, 1) if indent else width
            text, margin = text[indent:], " " * indent
            words, line_end = _WORD.findall(text), ""
            if self._is_command:
                shell_words = _SHELL_WORD.findall(text)
                longest = max(cell_width(word.rstrip()) for word in shell_words)
                if longest <= room - len(_CONTINUATION):
                    words, line_end = shell_words, _CONTINUATION
            pieces = list(_broken(words, room - len(line_end)))
            for number, piece in enumerate(pieces, 1):
                yield Line(margin + piece + (line_end if number < len(pieces) else ""), style)
                margin = " " * (indent + _HANGING) if indent else ""
        else:
            yield self.cut(width)

    def cut(self, width: int) -> Line:
        """Return the line as one line that takes at most ``width``."""
        cut, room = Line(), width
        for text, style in self.parts:
            text_width = min(cell_width(text), room)
            cut.append(padded(text, text_width), style)
            room -= text_width
        return cut


def _broken(words: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines of at most ``width``; each of ``words`` includes the spaces after it."""
    line = ""
    for word in words:
        if cell_width(line + word.rstrip()) <= width:
            line += word
            continue
        if line:
            yield line.rstrip()
        *full, line = _folded(word, width)
        yield from full
    yield line.rstrip()


def _folded(word: str, width: int) -> list[str]:
    """Return a word in pieces of at most ``width``; the spaces after the word do not count."""
    pieces = [""]
    for char in word.rstrip():
        if pieces[-1] and cell_width(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    pieces[-1] += word[len(word.rstrip()) :]
    return pieces


def fitted_table(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[tuple[str, str]]], width: int | None
) -> Iterator[Line]:
    """Yield the titles of a table, in bold, then its rows; cells are texts with their styles.

    Columns are narrowed or left out as :func:`~kanalyze.render.layout.fitted` says.
    """
    texts = [[text for text, _ in row] for row in rows]
    widths = fitted(with_whole_ids(columns, texts), natural_widths(columns, texts), width)
    widths = without_last(widths, width)
    for row in ([(column.title, "bold") for column in columns], *rows):
        yield table_line(columns, widths, row)


def table_line(
    columns: Sequence[TableColumn],
    widths: Sequence[int | None],
    cells: Sequence[tuple[str, str]],
) -> Line:
    """Return a row of a table; ``cells`` are texts with their styles.

    A column whose width is None is left out, as :func:`~kanalyze.render.layout.fitted` says.
    """
    line = Line()
    for column, width, (text, style) in zip(columns, widths, cells, strict=True):
        if width is None:
            continue
        if line.parts:
            line.append(" " * GAP)
        line.append(padded(text, width, right=column.right), style)
    line.rstrip()
    return line
