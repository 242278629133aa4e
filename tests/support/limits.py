"""Rows with values at the limits of their columns: for queries that have to answer on any row.

The rows are those of a fault, because most of a finding's query is about rows that have the fault.
A *copy* of them has some columns changed, and names of its own, so that no query takes two copies
for one client, broker, topic or group.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.spec.rows.tables import TABLES, stored_columns

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kanalyze.spec.columns import Column

Rows: TypeAlias = "Mapping[str, Sequence[Any]]"
"""Rows by table."""

_LIMITS = {
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_FRAME_BYTES = (0, 2**31 + 3)  # the size is an int32, and has 4 bytes itself
_NARROWER = {
    **dict.fromkeys(("request_bytes", "response_bytes", "record_bytes"), _FRAME_BYTES),
    # An int32 for each of the batches in a frame, which have at least 61 bytes.
    "record_count": (-(2**31), 2**62 // 61),
}
_LARGEST_TIME_NS = 2**63 - 1
"""The latest time that a reader of captures gives; the earliest is 0."""
_NAMED = (
    *("client_ip", "broker_ip", "client_id", "connection", "group_id", "member_id", "topic"),
    *("host", "partitions", "errors", "assigned", "subscribed_topics"),
)
"""Columns with names, which a copy has of its own."""
_ODD_TEXTS = (
    *("", "\0", "'", '"', "\\", "%_*?[", "a" * 70_000, "\U0001f600", "-1", "NaN", "\ud800"),
    *("\u202e", "<script>alert(1)</script>", "\x1b[31m", "\n", "=1+1", "true", ",", ";"),
    "99999999999999999999",
)


def at_limits(rows: Rows, columns: Collection[str]) -> Iterator[Rows]:
    """Yield copies of rows, each with one column at its limits in one of several ways.

    Args:
        rows: the rows of a fault.
        columns: the names of the columns to change, also of columns in lists.
    """
    for table, of_table in rows.items():
        if not of_table:
            continue
        for path, column in _numeric_columns(table):
            if column.name not in columns:
                continue
            lowest, highest = limits_of(column)
            some: list[int | None] = [lowest, highest, 0]
            if column.nullable:
                some.append(None)
            for value in some:
                yield {**rows, table: _changed(of_table, path, [value])}
            yield {**rows, table: _changed(of_table, path, [lowest, highest])}
            yield {**rows, table: _changed(of_table, path, [highest, 1, lowest])}
            yield {**rows, table: [*_changed(of_table[:1], path, [highest]), *of_table[1:]]}


def mixed(rows: Rows, dice: random.Random, share: float) -> Rows:
    """Return a copy of rows in which a share of all numbers is at a limit, or null."""
    mixed_rows = {}
    for table, of_table in rows.items():
        changed = list(of_table)
        for path, column in _numeric_columns(table):
            lowest, highest = limits_of(column)
            some = [lowest, highest, 0, 1, *([None] if column.nullable else ())]
            changed = [
                _with(row, path, dice.choice(some)) if dice.random() < share else row
                for row in changed
            ]
        mixed_rows[table] = changed
    return mixed_rows


def odd_texts(rows: Rows, dice: random.Random, share: float = 0.3) -> Rows:
    """Return a copy of rows in which a share of all texts is empty, odd, or null."""
    odd_rows = {}
    for table, of_table in rows.items():
        changed = list(of_table)
        for path, column in _columns(table):
            if column.type == "string":
                some = [*_ODD_TEXTS, *([None] if column.nullable else ())]
                changed = [
                    _with(row, path, dice.choice(some)) if dice.random() < share else row
                    for row in changed
                ]
        odd_rows[table] = changed
    return odd_rows


def limits_of(column: Column) -> tuple[int, int]:
    """Return the lowest and the highest value that a capture can give a column."""
    if column.is_time:
        return 0, _LARGEST_TIME_NS
    if column.unit == "ns":  # the difference of two times
        return -_LARGEST_TIME_NS, _LARGEST_TIME_NS
    if column.name.endswith("_port"):
        return 0, 65_535
    return _NARROWER.get(column.name, _LIMITS[column.type])


def named(rows: Rows, number: int) -> Rows:
    """Return rows in which all names of clients, brokers, topics and groups are those of a copy."""
    of_copy = {}
    for table, of_table in rows.items():
        names = [name for name in _NAMED if name in {c.name for c in stored_columns(table)}]
        of_copy[table] = [_renamed(row, names, number) for row in of_table]
    return of_copy


def _renamed(row: Any, names: Sequence[str], number: int) -> Any:
    values = {name: getattr(row, name) for name in names}
    return _replaced(row, {name: _own(value, number) for name, value in values.items()})


def _own(value: Any, number: int) -> Any:
    if isinstance(value, str):
        # What a broker calls itself ends in a number.
        return f"{value}{number}" if value.startswith("broker-") else f"{value}~{number}"
    if isinstance(value, tuple) and hasattr(value, "_replace"):
        return value._replace(topic=_own(value.topic, number))
    if isinstance(value, list | tuple):
        return [_own(item, number) for item in value]
    return value


def _columns(table: str) -> Iterator[tuple[tuple[str, ...], Column]]:
    """Yield the columns of a table, and those in its lists, each with its path."""
    for column in TABLES[table].columns:
        yield (column.name,), column
        for field in column.fields:
            yield (column.name, field.name), field


def _numeric_columns(table: str) -> Iterator[tuple[tuple[str, ...], Column]]:
    return ((path, column) for path, column in _columns(table) if column.type in _LIMITS)


def _changed(rows: Sequence[Any], path: tuple[str, ...], values: Sequence[int | None]) -> list[Any]:
    """Return rows with these values of a column, in turn."""
    return [_with(row, path, values[place % len(values)]) for place, row in enumerate(rows)]


def _with(row: Any, path: tuple[str, ...], value: Any) -> Any:
    name, *inner = path
    if not inner:
        return _replaced(row, {name: value})
    items = [item._replace(**{inner[0]: value}) for item in getattr(row, name)]
    return _replaced(row, {name: items})


def _replaced(row: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(row, SimpleNamespace):
        return SimpleNamespace(**{**vars(row), **values})
    return row._replace(**values)
