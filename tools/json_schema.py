"""JSON Schemas (draft 2020-12) of what kanalyze writes: reports, findings, comparisons, rows.

In: the declarations in :mod:`kanalyze.spec` and beside this module. Out: :data:`SCHEMAS`,
which ``tools/sample_reports.py`` writes to ``docs/schema/``.

Every object is closed: a field without a description makes it invalid. Lines of
``kanalyze sql --format jsonl "FROM TABLE"`` may have more fields than a schema of rows requires:
timestamps beside Unix times, and numbers of requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.spec.columns import TYPES, with_times
from kanalyze.spec.fields import JsonField
from kanalyze.spec.report import LATENCY_SUMMARY
from kanalyze.spec.rows.records import columns_of_records
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.tables import SQL_TABLES, TABLES
from tools.comparison_fields import comparison_fields, comparison_parts
from tools.report_fields import FINDING, report_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.spec.columns import Column

__all__ = ["SCHEMAS"]

_Schema: TypeAlias = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_UNIX_TIME = "ns since 1970-01-01 00:00 UTC"
_COLUMN_KINDS = {"bool": "bool", "float64": "number", "list<string>": "texts"}
_RECORDS = "records"
_REPORT = """what kanalyze report --json writes. Lists that are tables have at most 10,000 lines; \
errors, clients, topics, groups and brokers may have one more, for the others. A value that is \
unknown is null, never 0. A table is null if a query of it failed"""

_SIMPLE: dict[str, _Schema] = {
    "text": {"type": "string"},
    "bool": {"type": "boolean"},
    "integer": {"type": "integer"},
    "count": {"type": "integer", "minimum": 0},
    "constant": {"type": "integer"},
    "time": {"type": "integer"},
    "number": {"type": "number"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "integers": {"type": "array", "items": {"type": "integer"}},
}
"""JSON Schema of each kind of field without other fields in it."""


def _schema(field: JsonField) -> _Schema:
    """Return the schema of a field's values."""
    match field.kind:
        case "object":
            schema = {"type": "object", **_members(field.fields)}
        case "list" | "pair":
            length = {"minItems": 2, "maxItems": 2} if field.kind == "pair" else {}
            schema = {"type": "array", "items": _items(field), **length}
        case "series":
            return _series(field)
        case "map":
            kind = "object" if field.fields else "count"
            value = JsonField("", kind, field.detail or "how many", fields=field.fields)
            schema = {"type": "object", "additionalProperties": _schema(value)}
        case "column":
            (column,) = (column for column in COLUMNS if column.name == field.name)
            return _schema(_column(column))
        case kind if kind.startswith("@"):
            return {"$ref": f"#/$defs/{kind[1:]}", "description": _sentence(field)}
        case kind:
            schema = {**_SIMPLE[kind], **_limits(field)}
    kind = schema.pop("type")
    return {
        "type": [kind, "null"] if field.nullable else kind,
        "description": _sentence(field),
        **schema,
    }


def _sentence(field: JsonField) -> str:
    unit = _UNIX_TIME if field.kind == "time" else field.unit
    words = f"{field.meaning.rstrip('.')}."
    return f"{words} Unit: {unit}." if unit else words


def _members(fields: Iterable[JsonField]) -> _Schema:
    """Return what the schema of an object says of its fields; there are no others."""
    return {
        "properties": {field.name: _schema(field) for field in fields},
        "required": [field.name for field in fields if not field.optional],
        "additionalProperties": False,
    }


def _items(field: JsonField) -> _Schema:
    """Return the schema of the items of a list."""
    if field.fields[0].name != "-":
        return _schema(_object(field.detail or "one line", field.fields))
    schemas = [_schema(item) for item in field.fields]
    return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]


def _series(field: JsonField) -> _Schema:
    """Return the schema of a list with a value for each bucket of time."""
    meaning = field.meaning.partition("; null:")[0]
    item = field._replace(kind=field.detail, detail="")
    return {
        "type": "array",
        "description": f"{meaning}, for each bucket.",
        "items": _schema(item),
    }


def _limits(field: JsonField) -> _Schema:
    """Return what the detail of a field says: a constant, one of several texts, or a range."""
    if not field.detail:
        return {}
    if field.kind == "constant":
        return {"const": int(field.detail)}
    if field.kind == "text":
        return {"enum": field.detail.split("|")}
    least, most = map(int, field.detail.split(".."))
    return {"minimum": least, "maximum": most}


def _object(meaning: str, fields: Iterable[JsonField]) -> JsonField:
    return JsonField("", "object", meaning, fields=tuple(fields))


def _document(title: str, field: JsonField, parts: Iterable[JsonField] = ()) -> _Schema:
    """Return a complete schema; ``parts`` are described once and referred to by their names."""
    defs = {part.name: _schema(part) for part in parts}
    return {
        "$schema": _DRAFT,
        "title": title,
        **_schema(field),
        **({"$defs": defs} if defs else {}),
    }


# -- rows -----------------------------------------------------------------------------------------


def _row_schema(table: str) -> _Schema:
    """Return the schema of one line of a table."""
    spec = SQL_TABLES[table]
    columns = with_times(columns_of_records(values=True)) if table == _RECORDS else spec.columns
    always = {column.name for column in TABLES.get(table, spec).columns if not column.source}
    fields = (_column(each)._replace(optional=each.name not in always) for each in columns)
    return _document(f"A line of {table}", _object(spec.line, fields))


def _column(column: Column) -> JsonField:
    """Return a column of a table as a field."""
    kind, detail = _COLUMN_KINDS.get(column.type, "text"), ""
    bits = TYPES[column.type].bits if column.type in TYPES else 0
    if bits:
        kind = "time" if column.is_time else "integer"
        limit = 1 << bits - 1
        detail = f"{-limit}..{limit - 1}"
    if column.fields:
        kind, detail = "list", f"an item of {column.name}"
    meaning = column.meaning
    if column.nullable and "null" not in meaning:
        meaning += "; null: unknown, or does not apply"
    return JsonField(
        column.name,
        kind,
        meaning,
        detail=detail,
        unit=column.unit,
        nullable=column.nullable,
        fields=tuple(map(_column, column.fields)),
    )


SCHEMAS: dict[str, _Schema] = {
    "report": _document(
        "A report of kanalyze",
        _object(_REPORT, report_fields()),
        (LATENCY_SUMMARY, FINDING),
    ),
    "finding": _document("A finding of kanalyze", FINDING),
    "compare": _document(
        "A comparison of kanalyze",
        _object("what kanalyze compare --format json writes", comparison_fields()),
        comparison_parts(),
    ),
    **{table: _row_schema(table) for table in SQL_TABLES},
}
"""Schemas by file name, without ``.schema.json``."""
