"""Fits the columns of a table to a width.

In: cells as text. Out: padded cells. Widths are counted in terminal columns: a wide character takes
2, a combining one 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP = 2
"""Spaces between columns."""

NARROWEST = 8
_LEAST_SPACES = 3
"""Spaces in the shortest sentence; names have fewer."""
_NUMBER = re.compile(r"\bv?\d[\d.,]*(?<=\d)", re.ASCII)
_TOPIC_ID = re.compile(r"\(?(?:id )?[\w-]{22}(?![\w-])\)?", re.ASCII)


class TableColumn(NamedTuple):
    """A column of a table, and how it is narrowed or left out if there is little room."""

    title: str
    right: bool = False
    least: int | None = None
    """Width to which the column may be cut before columns are left out; None if it is never cut."""
    rank: int = 0
    """0 if the column is always shown. Other columns are left out, the highest rank first."""
    may_have_ids: bool = False
    """Whether cells may begin with the id of a topic, which is of use only whole."""
    narrowest: int = NARROWEST
    """Width to which the column may be cut after others were left out."""


def cell_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # imported late: most texts do not need its tables

    return cell_len(text)


def natural_widths(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width that each column needs to show all of its cells."""
    widths = [cell_width(column.title) for column in columns]
    for row in rows:
        widths = [max(width, cell_width(cell)) for width, cell in zip(widths, row, strict=True)]
    return widths


def with_whole_ids(
    columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]
) -> list[TableColumn]:
    """Return the columns; those with an id of a topic are not cut to less than its width."""
    widths = [0] * len(columns)
    places = [index for index, column in enumerate(columns) if column.may_have_ids]
    for row in rows if places else ():
        for index in places:
            found = _TOPIC_ID.match(row[index])
            if found is not None:
                # Of a longer text an ellipsis takes the last place.
                is_longer = found.end() < len(row[index])
                widths[index] = max(widths[index], found.end() + is_longer)
    return [
        column
        if column.least is None or not width
        else column._replace(least=max(column.least, width), narrowest=width)
        for column, width in zip(columns, widths, strict=True)
    ]


def fitted(
    columns: Sequence[TableColumn], natural: Sequence[int], width: int | None
) -> list[int | None]:
    """Return the width of each column, so that a line takes at most ``width``; None: left out.

    If there is too little room, columns are cut down to ``least``, then left out by rank, then cut
    down to ``narrowest``. If that is not enough, the line stays too long (see
    :func:`without_last`). With ``width`` None nothing is cut.
    """
    widths: list[int | None] = list(natural)
    if width is None:
        return widths
    for index in _by_rank(columns):
        if line_width(_least_widths(columns, widths)) <= width:
            break
        widths[index] = None
    widths = _cut(widths, _least_widths(columns, widths), width)
    return _cut(widths, _least_widths(columns, widths, narrowest=True), width)


def without_last(widths: Sequence[int | None], width: int | None) -> list[int | None]:
    """Return widths without those of the last columns, as many as make the line fit.

    A number that is cut would be another number. The first column always stays.
    """
    kept = list(widths)
    for index in reversed(range(1, len(kept))):
        if width is None or line_width(kept) <= width:
            break
        kept[index] = None
    return kept


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a cell's text in exactly ``width``; an ellipsis replaces a part of a longer text."""
    text_width = cell_width(text)
    if text_width > width:
        text = _shortened(text, width - 1) if width > 0 else ""
        text_width = cell_width(text)
    space = " " * (width - text_width)
    return space + text if right else text + space


def _shortened(text: str, width: int) -> str:
    """Return the beginning and the end of a text that is wider than ``width``, in that width.

    Names often differ at their end: ports, numbers, versions. Of sentences and lists, and of what
    begins with the id of a topic, the beginning says more; a number in them is left out as a whole.
    """
    found = _TOPIC_ID.match(text)
    is_cut_at_end = text.count(" ") >= _LEAST_SPACES or ", " in text or text.endswith("\u2026")
    is_cut_at_end |= found is not None and found.end() <= width
    end = 0 if is_cut_at_end else width // 2
    begin = width - end
    if is_cut_at_end:
        numbers = (found.span() for found in _NUMBER.finditer(text))
        begin = next((first for first, last in numbers if first < begin < last), begin)
    if text.isascii():
        return f"{text[:begin]}\u2026{text[len(text) - end :]}"
    from rich.cells import set_cell_size

    last = next(at for at in range(len(text) + 1) if cell_width(text[at:]) <= end)
    while last < len(text) and not cell_width(text[last]):
        last += 1  # an accent whose letter is left out
    tail = " " * (end - cell_width(text[last:])) + text[last:]
    return f"{set_cell_size(text, begin)}\u2026{tail}"


def _by_rank(columns: Sequence[TableColumn]) -> list[int]:
    """Return the indices of the columns that may be left out, in the order of leaving out."""
    ranked = [index for index, column in enumerate(columns) if column.rank]
    return sorted(ranked, key=lambda index: -columns[index].rank)


def _least_widths(
    columns: Sequence[TableColumn], widths: Sequence[int | None], *, narrowest: bool = False
) -> list[int | None]:
    return [
        width
        if width is None or column.least is None
        else min(width, column.least, column.narrowest if narrowest else column.least)
        for column, width in zip(columns, widths, strict=True)
    ]


def line_width(widths: Iterable[int | None]) -> int:
    """Return the width of a table's lines; a column whose width is None is left out."""
    shown = [width for width in widths if width is not None]
    return sum(shown) + GAP * (len(shown) - 1)


def _cut(widths: Sequence[int | None], least: Sequence[int | None], width: int) -> list[int | None]:
    """Narrow the widest column that may be cut, until the line fits."""
    cut = list(widths)
    for _ in range(line_width(cut) - width):
        spare = [
            (now, -index)
            for index, (now, low) in enumerate(zip(cut, least, strict=True))
            if now is not None and low is not None and now > low
        ]
        if not spare:
            break
        widest, index = max(spare)
        cut[-index] = widest - 1
    return cut


_EIGHTHS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def resampled(amounts: list[int], together: int) -> list[int]:
    """Return the sum of every ``together`` amounts; the last group may be shorter."""
    return [sum(amounts[first : first + together]) for first in range(0, len(amounts), together)]


def largest(amounts: list[int | None], together: int) -> list[int]:
    """Return the maximum of every ``together`` amounts; 0 for a group of only nulls."""
    return [
        max(
            (amount for amount in amounts[first : first + together] if amount is not None),
            default=0,
        )
        for first in range(0, len(amounts), together)
    ]


def bar_lines(amounts: list[int], height: int, repeat: int = 1) -> list[str]:
    """Return a bar chart as ``height`` lines, from the top. The largest amount fills the height.

    Each bar is ``repeat`` columns wide. An amount above 0 always shows at least the lowest block.
    """
    top = max(amounts, default=0)
    levels = [_level(amount, top, 8 * height) for amount in amounts]
    return [
        "".join(_EIGHTHS[min(max(level - 8 * row, 0), 8)] * repeat for level in levels)
        for row in reversed(range(height))
    ]


def _level(amount: int, top: int, levels: int) -> int:
    if amount <= 0 or top <= 0:
        return 0
    return max(1, round(amount * levels / top))
