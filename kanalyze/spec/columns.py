"""What a column of a table is, and how it is declared.

In: row types, named tuples whose annotations declare columns: ``Annotated[Bytes | None, "what it
is"]``. Out: :class:`Column`, and :data:`TYPES`: what each type is in Arrow, SQL, Spark and JSON.

The type and whether it can be null are those of the annotation; a unit may follow the meaning. In
the meaning of two columns, one for each end of a connection, ``{end}`` and ``{other}`` stand for
``client`` and ``broker``, or the reverse: the column's name begins with its end.

The row types are in :mod:`kanalyze.spec.rows`. Files of rows, databases, Spark, JSON Schemas and
the documentation are made from their columns.
"""

# No "from __future__ import annotations" here and in row types: it makes annotations texts, which
# would have to be compiled at every start to make the columns.

import types
import typing
from typing import Annotated, TypeAlias

from kanalyze.common.named_tuples import NamedTuple

AnyRow: TypeAlias = tuple[typing.Any, ...]
"""A row of any table: a NamedTuple whose fields are the table's columns."""


class ColumnType(NamedTuple):
    """One type of columns, as others name it."""

    arrow: str
    """The function of ``pyarrow`` that returns it; also that of a column of a Parquet file."""
    sql: str
    spark: str
    """The class in ``pyspark.sql.types``."""
    pandas: str = ""
    """The type for nullable values, which pandas would read as floats or objects."""
    bits: int = 0
    """Size of an integer."""
    width: int = 0
    """Bytes of a value in memory; 0 for texts and bytes."""


TYPES: dict[str, ColumnType] = {
    "string": ColumnType("string", "VARCHAR", "StringType"),
    "int16": ColumnType("int16", "SMALLINT", "ShortType", "Int64", 16, 2),
    "int32": ColumnType("int32", "INTEGER", "IntegerType", "Int64", 32, 4),
    "int64": ColumnType("int64", "BIGINT", "LongType", "Int64", 64, 8),
    "float64": ColumnType("float64", "DOUBLE", "DoubleType", "Float64", 0, 8),
    "bool": ColumnType("bool_", "BOOLEAN", "BooleanType", "boolean", 0, 1),
    "binary": ColumnType("binary", "BLOB", "BinaryType"),
    "timestamp": ColumnType("timestamp", "TIMESTAMP_NS", "TimestampType"),
}
"""The types of values by the name that a :class:`Column` has; a list is ``list<TYPE>``."""


class Column(NamedTuple):
    """One column of a table.

    ``type`` is one of :data:`TYPES`, ``list<string>``, or ``list<struct>`` with the struct's
    columns in ``fields``. A column with ``is_time`` is a Unix time in ns; its name ends in ``_ns``.
    For each of these, Arrow and Parquet also have a column of type ``timestamp``, whose ``source``
    is the column in ns (see :func:`with_times`). ``field`` says which field of a message a column
    is; ``item`` is the type of a list's structs.
    """

    name: str
    type: str
    unit: str
    nullable: bool
    meaning: str
    fields: "tuple[Column, ...]" = ()
    is_time: bool = False
    source: str = ""
    field: "FieldSource | None" = None
    item: typing.Any = None


class FieldSource(NamedTuple):
    """The field of a message, or the fields of several, that a column of requests has as they are.

    See :func:`from_field`.
    """

    paths: tuple[str, ...]
    entity: str
    is_newer: bool


def from_field(*paths: str, entity: str = "", is_newer: bool = False) -> FieldSource:
    """Declare that a column of requests is a field of a message. Null if the version has no such.

    Args:
        paths: ``FetchRequest.MinBytes``; ``*.MemberId`` is a field of that name in any message, but
            not inside of its structs.
        entity: also text fields that Kafka's definitions mark with this entity type.
        is_newer: whether the last format of states was written before there was the column.
    """
    return FieldSource(paths, entity, is_newer)


class _Number(NamedTuple):
    type: str
    unit: str = ""
    is_time: bool = False


Int16: TypeAlias = Annotated[int, _Number("int16")]
Int32: TypeAlias = Annotated[int, _Number("int32")]
Int64: TypeAlias = Annotated[int, _Number("int64")]
Float64: TypeAlias = Annotated[float, _Number("float64")]
Bytes: TypeAlias = Annotated[int, _Number("int64", "B")]
Milliseconds: TypeAlias = Annotated[int, _Number("int32", "ms")]
Nanoseconds: TypeAlias = Annotated[int, _Number("int64", "ns")]
Time: TypeAlias = Annotated[int, _Number("int64", "ns", is_time=True)]
"""A Unix time in ns."""

_OTHER_END = {"client": "broker", "broker": "client"}
_OTHER_TYPES = {bool: "bool", bytes: "binary"}


def columns_of(row_type: type[NamedTuple]) -> tuple[Column, ...]:
    """Return the columns that the annotations of a row type declare, in order."""
    return tuple(_column(name, hint) for name, hint in row_type.__annotations__.items())


def _column(name: str, hint: typing.Any) -> Column:
    value_type, metadata = hint.__origin__, list(hint.__metadata__)
    nullable = False
    if typing.get_origin(value_type) in (typing.Union, types.UnionType):
        value_type, _ = typing.get_args(value_type)
        nullable = True
    if typing.get_origin(value_type) is Annotated:
        metadata = [*value_type.__metadata__, *metadata]
        value_type = value_type.__origin__
    number = metadata.pop(0) if isinstance(metadata[0], _Number) else None
    field = metadata.pop() if isinstance(metadata[-1], FieldSource) else None
    meaning, *units = metadata
    if "{end}" in meaning:
        end = name.partition("_")[0]
        meaning = meaning.format(end=end, other=_OTHER_END[end])
    if number is not None:
        unit = units[0] if units else number.unit
        return Column(name, number.type, unit, nullable, meaning, (), number.is_time, field=field)
    if typing.get_origin(value_type) not in (list, tuple):
        kind = _OTHER_TYPES.get(value_type, "string")
        return Column(name, kind, "", nullable, meaning, field=field)
    item = typing.get_args(value_type)[0]
    if item is str:
        return Column(name, "list<string>", "", nullable, meaning)
    return Column(name, "list<struct>", "", nullable, meaning, columns_of(item), item=item)


def columns_named(columns: "typing.Iterable[Column]", *names: str) -> list[Column]:
    """Return the columns with these names, in the order of the names."""
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in names]


def time_name(name: str) -> str:
    """Return the name of the timestamp column for a column ``name`` of Unix times.

    ``_ns`` is replaced by ``_time``: ``request_start_time``; but ``time`` is not repeated.
    """
    stem = name.removesuffix("_ns")
    return stem if stem.split("_")[-1] == "time" else f"{stem}_time"


def with_times(columns: "typing.Iterable[Column]") -> tuple[Column, ...]:
    """Return columns with a timestamp column after each column of Unix times."""
    all_columns = []
    for column in columns:
        all_columns.append(column)
        if column.is_time:
            meaning = f"{column.name} as a timestamp, in UTC"
            name = time_name(column.name)
            all_columns.append(
                Column(name, "timestamp", "", column.nullable, meaning, source=column.name)
            )
    return tuple(all_columns)
