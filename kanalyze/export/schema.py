"""The row contract as an Arrow schema.

In: the columns of :mod:`kanalyze.spec.rows`. Out: a ``pyarrow.Schema``, and the paths of the
columns in a Parquet file. pyarrow takes longer to load than most commands take to run, so it is
imported only when a schema is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.texts import known_or_similar
from kanalyze.errors import UsageError
from kanalyze.spec.columns import TYPES, Column, time_name
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def choose_columns(
    names: Iterable[str] | None, table: tuple[Column, ...] = COLUMNS
) -> tuple[Column, ...]:
    """Return the columns of a table with these names, in this order; None for all.

    Raises UsageError for an unknown name, for a name that is given twice, and for no names.
    """
    if names is None:
        return table
    columns = {column.name: column for column in table}
    selected = tuple(names)
    for name in selected:
        if name not in columns:
            raise UsageError(f"unknown column: {name!r}{known_or_similar(name, columns)}")
    if not selected or len(set(selected)) < len(selected):
        raise UsageError("columns: name at least one column, and each only once")
    return tuple(columns[name] for name in selected)


def arrow_schema(
    columns: Sequence[Column] = COLUMNS, *, coded: bool = False, unit: str = "ns"
) -> Any:
    """Return the ``pyarrow.Schema`` of columns.

    The metadata of a field has its ``meaning`` and, if there is one, its ``unit``. A column of
    Unix times in ns also has ``timestamp``: the name of the column of timestamps beside it. The
    schema's own metadata makes pandas read nullable integers as ``Int64``, not as floats.

    With ``coded``, texts are ``dictionary<int32, string>``, in lists too. ``unit`` is that of
    timestamps.
    """
    import pyarrow as pa

    metadata = {"pandas": _pandas_metadata(columns)}
    return pa.schema([_field(column, coded, unit) for column in columns], metadata)


def arrow_type(column: Column, *, coded: bool = False, unit: str = "ns") -> Any:
    """Return the ``pyarrow.DataType`` of a column; the others are as in :func:`arrow_schema`."""
    import pyarrow as pa

    # Items are named as in Parquet, so that a file that is read back has the same schema.
    if column.type == "list<struct>":
        fields = [_field(item, coded, unit) for item in column.fields]
        return pa.list_(pa.field("element", pa.struct(fields)))
    text = pa.dictionary(pa.int32(), pa.string()) if coded else pa.string()
    if column.type == "list<string>":
        return pa.list_(pa.field("element", text))
    if column.type == "string":
        return text
    if column.type == "timestamp":
        return pa.timestamp(unit, "UTC")
    return getattr(pa, TYPES[column.type].arrow)()


def integer_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns, each once; timestamps are replaced by the integers that they are made of."""
    integers = (
        column._replace(name=column.source, type="int64", source="") if column.source else column
        for column in columns
    )
    return tuple({column.name: column for column in integers}.values())


def parquet_paths(columns: Sequence[Column] = COLUMNS) -> dict[str, str]:
    """Return the ``type`` of each column by its path in a Parquet file.

    A list has the path of its elements: a list of texts ``anomalies.list.element``, a list of
    structs ``errors.list.element.code`` and so on.
    """
    paths = {}
    for column in columns:
        inner = f"{column.name}.list.element"
        if column.fields:
            paths.update({f"{inner}.{field.name}": field.type for field in column.fields})
        elif column.type.startswith("list<"):
            paths[inner] = column.type.removeprefix("list<").removesuffix(">")
        else:
            paths[column.name] = column.type
    return paths


def _field(column: Column, coded: bool, unit: str) -> Any:
    import pyarrow as pa

    metadata = {"meaning": column.meaning}
    if column.unit:
        metadata["unit"] = column.unit
    if column.is_time:
        metadata["timestamp"] = time_name(column.name)
    return pa.field(
        column.name, arrow_type(column, coded=coded, unit=unit), column.nullable, metadata
    )


def _pandas_metadata(columns: Iterable[Column]) -> bytes:
    """Return the pandas metadata of a schema, in pandas' own format, for columns that need it."""
    import json

    described = [
        {
            "name": column.name,
            "field_name": column.name,
            "pandas_type": column.type,
            "numpy_type": TYPES[column.type].pandas,
            "metadata": None,
        }
        for column in columns
        if column.nullable and column.type in TYPES and TYPES[column.type].pandas
    ]
    return json.dumps({"index_columns": [], "column_indexes": [], "columns": described}).encode(
        "ascii"
    )
