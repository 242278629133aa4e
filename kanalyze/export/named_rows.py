"""Adds the names of addresses to the rows of a command.

In: rows. Out: the same rows with more columns, for another sink.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kanalyze.spec.columns import columns_of
from kanalyze.spec.rows.names import NAME_COLUMNS, Names
from kanalyze.spec.rows.requests import Row
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.spec.columns import AnyRow
    from kanalyze.tables.name_columns import NameColumns

__all__ = ["NamedSink"]


class NamedSink:
    """A sink that adds the names of addresses to rows, for a writer or a table for people."""

    def __init__(self, sink: Any, names: NameColumns, *, as_objects: bool) -> None:
        self._sink = sink
        self._names = names
        self._as_objects = as_objects

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows in this order."""
        if rows:
            row_type: Any = type(rows[0])
            self._write(RowBlock.of_rows(rows, _columns_of(row_type)), row_type)

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block like ``write``."""
        for piece in block.pieces() if self._as_objects else (block,):
            self._write(piece, Row)

    def _write(self, block: RowBlock, row_type: Any) -> None:
        named = self._names.named(block)
        if self._as_objects:
            columns = (*_columns_of(row_type), *NAME_COLUMNS)
            self._sink.write(named.rows(_with_names(row_type), columns))
        else:
            self._sink.write_block(named)


_columns_of = cache(columns_of)


@cache
def _with_names(row_type: Any) -> Any:
    """Return the type of rows that have the names of addresses behind their other fields."""
    fields = (*row_type._fields, *Names._fields)
    places = range(len(row_type._fields), len(fields))
    names = {
        name: property(itemgetter(place)) for name, place in zip(Names._fields, places, strict=True)
    }
    return type(f"Named{row_type.__name__}", (row_type,), {"_fields": fields, **names})
