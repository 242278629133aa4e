"""Adds the names of addresses to the rows of a command.

In: rows. Out: the same rows with more columns, for another sink.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kanalyze.spec.columns import columns_of
from kanalyze.spec.rows.names import NAME_COLUMNS, Names
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.spec.columns import AnyRow
    from kanalyze.tables.name_columns import NameColumns


class NamedSink:
    """A sink that adds the names of addresses to rows, for a writer or a table for people."""

    def __init__(self, sink: Any, names: NameColumns, *, as_objects: bool) -> None:
        self._sink = sink
        self._names = names
        self._as_objects = as_objects

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows in this order."""
        if not rows:
            return
        row_type: Any = type(rows[0])
        columns = _columns_of(row_type)
        if not self._as_objects:
            self.write_block(RowBlock.of_rows(rows, columns))
            return
        needed = [column for column in columns if column.name in self._names.needed]
        named = self._names.named(RowBlock.of_rows(rows, needed)).values(NAME_COLUMNS)
        make = _with_names(row_type)._make
        lines = zip(rows, zip(*named, strict=True), strict=True)
        self._sink.write([make((*row, *names)) for row, names in lines])

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block like ``write``."""
        if self._as_objects:
            for piece in block.pieces():
                self.write(piece.rows())
        else:
            self._sink.write_block(self._names.named(block))


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
