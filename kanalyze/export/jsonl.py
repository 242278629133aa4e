"""Rows as JSON Lines: one object a row.

In: rows. Out: ASCII bytes. This module must not know where they go.

Every column is there, null included; integers are exact (readers that make doubles of them lose
nanoseconds). Everything but printable ASCII is escaped, so that nothing a client sent reaches a
terminal as it is.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kanalyze.analysis.row import COLUMNS
from kanalyze.export.files import OutputFile
from kanalyze.export.writer import FileWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.analysis.row import AnyRow, Column

__all__ = ["JsonLinesWriter", "json_item_maker"]

_encode = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


class JsonLinesWriter(FileWriter):
    """Writes rows as JSON Lines."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(OutputFile(destination, private=private))
        self._to_dict = _dict_maker(columns)

    def write(self, rows: Iterable[AnyRow]) -> None:
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


def _dict_maker(columns: Sequence[Column]) -> Callable[[AnyRow], dict[str, Any]]:
    names = tuple(column.name for column in columns)
    nested = [
        (column.name, maker) for column in columns if (maker := json_item_maker(column)) is not None
    ]
    # attrgetter gives a tuple for several names only.
    pick = attrgetter(*names) if len(names) > 1 else lambda row: (getattr(row, names[0]),)

    def to_dict(row: AnyRow) -> dict[str, Any]:
        result = dict(zip(names, pick(row), strict=True))
        for name, to_dicts in nested:
            if result[name]:
                result[name] = to_dicts(result[name])
        return result

    return to_dict
