"""The first rows of a table in some order, without the rest of it in memory.

In: blocks of rows, a column, how many rows. Out: one block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kanalyze.errors import UsageError
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.spec.columns import Column

_MOST_PENDING: Final = 65_536
"""Rows that are gathered before those that are not among the first are dropped."""


def sort_column(name: str) -> Column:
    """Return the column that rows of requests are sorted by.

    Raises:
        UsageError: there is no such column, or it is a list.
    """
    column = next((each for each in COLUMNS if each.name == name), None)
    if column is None:
        from kanalyze.common.texts import known_or_similar  # imported late: for the message

        names = [each.name for each in COLUMNS]
        raise UsageError(f"unknown column: {name!r}{known_or_similar(name, names)}")
    if column.type.startswith("list"):
        raise UsageError(f"rows cannot be sorted by {name}, which is a list")
    return column


def first_rows(blocks: Iterable[RowBlock], column: Column, limit: int) -> Iterator[RowBlock]:
    """Yield the first rows by a column, at most ``limit``, when all were read.

    The largest numbers come first, and texts in the order of their characters; nulls are last.
    Rows that are equal keep their order.
    """
    pending: list[RowBlock] = []
    for block in blocks:
        pending.append(block)
        if sum(map(len, pending)) >= limit + _MOST_PENDING:
            pending = [_first(pending, column, limit)]
    if pending:
        yield _first(pending, column, limit)


def limited(blocks: Iterable[RowBlock], limit: int) -> Iterator[RowBlock]:
    """Yield rows in their order, up to ``limit``; no more blocks than needed are read."""
    left = limit
    for block in blocks:
        yield block.part(0, min(left, len(block)))
        left -= len(block)
        if left <= 0:
            return


def _first(blocks: list[RowBlock], column: Column, limit: int) -> RowBlock:
    block = RowBlock.joined(blocks)
    values = block.values([column])[0]
    is_text = column.type == "string"

    def key(row: int) -> tuple[bool, Any]:
        value = values[row]
        return value is None, 0 if value is None else value if is_text else -value

    return block.take(sorted(range(len(block)), key=key)[:limit])
