"""JSON Schemas of rows: lines of JSON Lines that commands write, with one schema for each table.

In: the columns of the tables. Out: :data:`ROW_SCHEMAS`.

Lines of ``kanalyze sql --format jsonl "FROM TABLE"`` may have more fields, which are not required:
timestamps beside Unix times, and numbers of requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.queries.json_schema.parts import UNIX_TIME, document, integer, struct, text

from kanalyze.common.argument_values import truth
from kanalyze.render.phrases import listed
from kanalyze.spec.columns import TYPES, with_times
from kanalyze.spec.rows.records import columns_of_records
from kanalyze.spec.rows.tables import SQL_TABLES, TABLES

if TYPE_CHECKING:
    from kanalyze.queries.json_schema.parts import Schema

    from kanalyze.spec.columns import Column

__all__ = ["ROW_SCHEMAS", "schema_of"]

_RECORDS = "records"


def _row_schema(table: str) -> Schema:
    """Return the schema of one line of a table."""
    spec = SQL_TABLES[table]
    columns = spec.columns
    if table == _RECORDS:
        columns = with_times(columns_of_records(values=True))
    always = {column.name for column in TABLES.get(table, spec).columns if not column.source}
    optional = [column.name for column in columns if column.name not in always]
    return document(
        f"A line of {table}",
        struct(spec.line, {c.name: schema_of(c) for c in columns}, optional=optional),
    )


def schema_of(column: Column) -> Schema:
    """Return the schema of the values of a column."""
    null = None
    if column.nullable:
        null = "" if "null" in column.meaning else "unknown, or does not apply"
    meaning = column.meaning
    if column.type == "list<string>":
        return listed(meaning, {"type": "string"}, null=null)
    if column.fields:
        fields = {field.name: schema_of(field) for field in column.fields}
        return listed(meaning, struct(f"an item of {column.name}", fields), null=null)
    if column.type == "bool":
        return truth(meaning, null=null)
    bits = TYPES[column.type].bits
    if bits:
        unit = UNIX_TIME if column.is_time else column.unit
        limit = 1 << bits - 1
        return {**integer(meaning, unit=unit, null=null), "minimum": -limit, "maximum": limit - 1}
    return text(meaning, null=null)


ROW_SCHEMAS: dict[str, Schema] = {table: _row_schema(table) for table in SQL_TABLES}
"""Schemas by name of the table."""
