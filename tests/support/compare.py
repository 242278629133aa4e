"""Comparison of rows and reports of a live run with those of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.spec.rows.requests import Row


def in_any_order(rows: Iterable[Row]) -> list[str]:
    """Rows as texts, without the name of the capture."""
    names = [column.name for column in COLUMNS if column.name != "capture"]
    return sorted(repr([getattr(row, name) for name in names]) for row in rows)


NAMES_OF_CAPTURES = ("capture", "first_capture")


def nameless(told: Any) -> Any:
    """A report, or a part of it, without the names of captures."""
    if isinstance(told, dict):
        return {
            key: nameless(value)
            for key, value in told.items()
            if not (key == "captures" or (key in NAMES_OF_CAPTURES and isinstance(value, str)))
        }
    return [nameless(each) for each in told] if isinstance(told, list) else told
