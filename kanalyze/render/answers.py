"""The columns that the answer to an SQL query has in a table.

In: column names, and values of any SQL type. Out: cells of a table.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kanalyze.render.layout import TableColumn
from kanalyze.render.table import ReadableColumn
from kanalyze.render.units import MISSING, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_ITEMS = 60
_LEAST = 20
"""Enough to tell most names apart, such as broker-1-fetcher-0 and broker-2-fetcher-0."""


def answer_columns(
    names: Sequence[str],
    are_numbers: Sequence[bool],
    are_whole: Sequence[bool] | None = None,
    left_out: Sequence[str] = (),
) -> tuple[ReadableColumn, ...]:
    """Return the columns for rows that are tuples; columns of numbers are right-aligned.

    Titles and numbers are never cut, nor columns that ``are_whole``, and texts not to where they
    say nothing: many columns take more than the width of a terminal. Then those that may be
    ``left_out`` are, the last one first.
    """
    ranks = {name: rank for rank, name in enumerate(left_out, 1)}
    return tuple(
        _column(index, name, is_number, ranks.get(name, 0), is_whole=is_number or is_whole)
        for index, (name, is_number, is_whole) in enumerate(
            zip(names, are_numbers, are_whole or are_numbers, strict=True)
        )
    )


def _column(index: int, name: str, is_number: bool, rank: int, *, is_whole: bool) -> ReadableColumn:
    title = shown(name)
    least = None if is_whole else max(_LEAST, len(title))
    return ReadableColumn(
        TableColumn(title, right=is_number, least=least, rank=rank, narrowest=least or 0),
        lambda line: _text(line[index]),
    )


def _text(value: Any) -> str:
    """Return a value as short text."""
    if value is None:
        return MISSING
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int | Decimal | date | datetime):
        return str(value)
    if isinstance(value, dict):
        return ":".join(map(_text, value.values()))
    if isinstance(value, list):
        return ", ".join(map(_text, value[:_MAX_ITEMS])) or MISSING
    return shown(str(value))
