"""What stands in the cells of a report's tables.

In: columns as :mod:`kanalyze.spec.report` declares them, and the table's lines. Out: columns with
functions that make texts and styles. Text from the wire is escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tcp import Endpoint
from kanalyze.render.layout import TableColumn
from kanalyze.render.phrases import api_text, listed, packets_text, status_text
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text, moment_text
from kanalyze.render.units import (
    bytes_text,
    count_text,
    duration_text,
    per_mille_text,
    records_text,
)
from kanalyze.spec.report import LATENCY_SUMMARY, PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kanalyze.spec.fields import JsonField
    from kanalyze.spec.report import DeclaredColumn, DeclaredTable

__all__ = ["Cell", "Item", "cells_of"]

Item: TypeAlias = dict[str, Any]

_SECONDS = 19
"""Number of characters of a time without the fraction of its second."""
_LARGE_PER_MILLE = 500


class Cell(NamedTuple):
    """A column of a table in the report."""

    column: TableColumn
    text: Callable[[Item], str]
    style: Callable[[Item], str]


def cells_of(
    table: DeclaredTable, lines: Sequence[Item], *, is_dated: bool, is_wide: bool
) -> list[Cell]:
    """Return the columns of a table that are shown for these lines.

    Args:
        table: the declaration of the table.
        lines: all lines of the table.
        is_dated: whether times need a date.
        is_wide: whether there is room for the columns of wide terminals.
    """
    fields = {field.name: field for field in table.fields}
    shown_columns = [column for column in table.columns if _is_shown(column, lines, is_wide)]
    cells = [_cell(column, fields, is_dated) for column in shown_columns]
    if table.others:
        first = cells[0]
        cells[0] = first._replace(text=_with_others(first.text, table.others))
    return cells


def _with_others(text: Callable[[Item], str], others: str) -> Callable[[Item], str]:
    return lambda item: others if item["other"] else text(item)


def _is_shown(column: DeclaredColumn, lines: Sequence[Item], is_wide: bool) -> bool:
    match column.when:
        case "any":
            return any(_value(line, column.field) not in (0, []) for line in lines)
        case "several":
            return len({_FORMS[column.form](line) for line in lines}) > 1
        case "wide":
            return is_wide
        case "narrow":
            return not is_wide
        case _:
            return True


def _cell(column: DeclaredColumn, fields: Mapping[str, JsonField], is_dated: bool) -> Cell:
    path = column.field.partition("+")[0]
    field = _field_at(fields, path)
    if column.form in _FORMS:
        text, right = _FORMS[column.form], column.form in _RIGHT_FORMS
    else:
        text, right = _text_of(column, field, fields, is_dated=is_dated), field.kind in _NUMBERS
    layout = TableColumn(
        column.title,
        right=right,
        least=column.least,
        rank=column.rank,
        may_have_ids=column.form in ("topic", "text or id"),
    )
    style = _STYLES.get(column.style)
    return Cell(
        layout,
        text,
        (lambda _: column.style) if style is None else lambda item: style(item, column.field),
    )


def _field_at(fields: Mapping[str, JsonField], path: str) -> JsonField:
    """Return the field that a path like ``latency_ns.p50`` names."""
    name, _, inner = path.partition(".")
    field = fields[name]
    if not inner:
        return field
    members = LATENCY_SUMMARY.fields if field.kind.startswith("@") else field.fields
    return _field_at({member.name: member for member in members}, inner)


def _value(item: Item, path: str) -> Any:
    """Return the value at a path, or the sum of the values at several."""
    if "+" in path:
        return sum(_value(item, each) for each in path.split("+"))
    value: Any = item
    for name in path.split("."):
        value = value[name]
    return value


_NUMBERS = ("count", "integer", "time")
_UNITS = {"": count_text, "B": bytes_text, "ns": duration_text, "per mille": per_mille_text}


def _text_of(
    column: DeclaredColumn, field: JsonField, fields: Mapping[str, JsonField], *, is_dated: bool
) -> Callable[[Item], str]:
    """Return the function that writes a field as its kind and its unit say."""
    path = column.field
    if f"{path}_known" in fields:
        return lambda item: _records(item[path], item[f"{path}_known"])
    if field.kind == "time":
        return lambda item: clock_text(item[path], dated=is_dated)
    if field.kind == "texts":
        return lambda item: listed([shown(text) for text in item[path]], more=item[f"more_{path}"])
    if field.kind == "text":
        return lambda item: shown(item[path])
    unit = _UNITS[column.form or field.unit]
    return lambda item: unit(_value(item, path))


def _records(count: int | None, known: bool) -> str:
    return MISSING if count is None else records_text(count, known=known)


# -- cells of several fields ----------------------------------------------------------------------


def _topic(item: Item) -> str:
    return shown(item["topic"]) if item["topic"] is not None else f"id {shown(item['topic_id'])}"


def _api(item: Item) -> str:
    if item["api_key"] is None:
        return "(response alone)"
    name = api_text(item["api_name"], item["api_key"])
    name = name if item["wire"] == "kafka" else f"{name} {shown(item['wire'])}"
    return f"{name} (waited)" if item.get("is_waited") else name


def _versions(item: Item) -> str:
    """Return the versions of an API, the most frequent first."""
    counts = sorted(item["versions"].items(), key=lambda version: -version[1])
    return ", ".join(
        f"{'v' if version.isdigit() else ''}{version}: {count_text(count)}"
        for version, count in counts
    )


def _large_parts(item: Item) -> list[str]:
    """Return the parts of a request's time, the largest first, without those below 1 %."""
    total_ns = item["total_time_ns"]
    parts = [(item[part.name], part.title) for part in PARTS if item[part.name] and total_ns]
    percents = [(round(100 * duration_ns / total_ns), title) for duration_ns, title in parts]
    ordered = sorted(percents, key=lambda part: -part[0])
    return [f"{title} {percent} %" for percent, title in ordered if percent]


_FORMS: Mapping[str, Callable[[Item], str]] = {
    "acknowledged": lambda item: _records(
        item["acknowledged_records"], item["produced_records_known"]
    ),
    "api": _api,
    "api and version": lambda item: (
        f"{api_text(item['api_name'], item['api_key'])} v{item['api_version']}"
    ),
    "endpoint": lambda item: str(Endpoint(item["broker_ip"], item["broker_port"])),
    "error": lambda item: f"{shown(item['error_name'])} {item['error_code']}",
    "largest part": lambda item: ", ".join(_large_parts(item)[:1]) or MISSING,
    "other parts": lambda item: ", ".join(_large_parts(item)[1:]) or MISSING,
    "packets": lambda item: packets_text(item["request_packet"], item["response_packet"]),
    "status": lambda item: status_text(item["status"], item["error_name"]),
    "text or id": lambda item: shown(item["topic"]),
    "topic": _topic,
    "valid until": lambda item: moment_text(item["not_after_ns"])[:_SECONDS],
    "versions": _versions,
}
_RIGHT_FORMS = ("acknowledged", "packets", "valid until")


def _if_large(item: Item, path: str) -> str:
    per_mille = _value(item, path)
    return "bold" if per_mille is not None and per_mille >= _LARGE_PER_MILLE else ""


_STYLES: Mapping[str, Callable[[Item, str], str]] = {
    "alarm": lambda item, path: "red" if item[path] else "dim",
    "expired": lambda item, _: "red" if item["expired"] else "dim",
    "most": _if_large,
}
