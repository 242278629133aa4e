"""Rows as JSON Lines: one object a row.

In: rows. Out: ASCII bytes. This module must not know where they go.

Every column is there, null included; integers are exact (readers that make doubles of them lose
nanoseconds). Everything but printable ASCII is escaped, so that nothing a client sent reaches a
terminal as it is.
"""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kanalyze.analysis.row import COLUMNS, Row
from kanalyze.export.files import OutputFile
from kanalyze.export.writer import FileWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.analysis.row import Column

__all__ = ["JsonLinesWriter", "json_item_maker"]

_encode = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


class JsonLinesWriter(FileWriter):
    """Writes rows as JSON Lines."""

    def __init__(self, destination: str, columns: Sequence[Column] = COLUMNS) -> None:
        super().__init__(OutputFile(destination))
        self._to_dict = _dict_maker(columns)

    def write(self, rows: Iterable[Row]) -> None:
        """Write rows; raises OSError."""
        to_dict = self._to_dict
        lines = [_encode(to_dict(row)) for row in rows]
        if lines:
            self.output.file.write(("\n".join(lines) + "\n").encode("ascii"))


def json_item_maker(column: Column) -> Callable[[list[Any]], list[Any]] | None:
    """Return what makes a nested column's value fit for JSON; None when it is already."""
    if column.type != "list<struct>":
        return None
    names = tuple(field.name for field in column.fields)

    def to_dicts(items: list[Any]) -> list[Any]:
        return [dict(zip(names, item, strict=True)) for item in items]

    return to_dicts


def _dict_maker(columns: Sequence[Column]) -> Callable[[Row], dict[str, Any]]:
    names = tuple(column.name for column in columns)
    positions = tuple(Row._fields.index(name) for name in names)
    nested = [
        (column.name, maker) for column in columns if (maker := json_item_maker(column)) is not None
    ]
    # itemgetter gives a tuple for several positions only.
    pick = itemgetter(*positions) if len(positions) > 1 else lambda row: (row[positions[0]],)

    def to_dict(row: Row) -> dict[str, Any]:
        result = dict(zip(names, pick(row), strict=True))
        for name, to_dicts in nested:
            if result[name]:
                result[name] = to_dicts(result[name])
        return result

    return to_dict
