"""Rows cut into blocks, for tests of code that takes blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.filters import RowFilter


def blocks_of(rows: Sequence[Row], dice: Random) -> list[RowBlock]:
    """Return rows in blocks, in order; some blocks may be empty."""
    cuts = sorted(dice.choices(range(len(rows) + 1), k=dice.randrange(8)))
    ends = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    return [RowBlock.of_rows(rows[first:last]) for first, last in ends]


def matches(row_filter: RowFilter, row: Row) -> bool:
    """Return true if a row meets every condition of a filter."""
    return list(row_filter.numbers(RowBlock.of_rows([row]))) == [0]
