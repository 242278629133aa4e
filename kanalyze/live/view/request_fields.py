"""The fields of one request, for people.

In: a row. Out: a name and a text for each field that is not null; texts from the wire are escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.render.units import bytes_text, count_text, duration_text, moment_text, shown
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.spec.rows.requests import Row

__all__ = ["request_fields"]

_MAX_ITEMS = 100
"""Maximum number of items to show of a list, such as the partitions of a request."""


def request_fields(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each field, in the order of columns; for lists, of each item."""
    for column in COLUMNS:
        value = getattr(row, column.name)
        if isinstance(value, list):
            for item in value[:_MAX_ITEMS]:
                yield column.name, _item_text(item)
            if len(value) > _MAX_ITEMS:
                yield column.name, f"{count_text(len(value) - _MAX_ITEMS)} more"
        elif value is not None:
            yield column.name, _text(column.name, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int):
        return shown(str(value))
    if name.endswith(("_start_ns", "_end_ns")):
        return moment_text(value)
    if name.endswith("_ns"):
        return duration_text(value)
    if name.endswith("_bytes"):
        return f"{bytes_text(value)} ({value:,})"
    return str(value)


def _item_text(item: Any) -> str:
    """Return a struct's fields, without nulls, or a text."""
    if not hasattr(item, "_asdict"):
        return shown(str(item))
    return ", ".join(
        f"{name} {shown(str(value))}" for name, value in item._asdict().items() if value is not None
    )
