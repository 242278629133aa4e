"""The row contract as an Arrow schema.

In: the columns of :mod:`kanalyze.tables.row`. Out: a ``pyarrow.Schema``, and where in a Parquet
file its columns are. pyarrow is imported
when a schema is asked for, not before: it takes longer to load than most commands to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.errors import UsageError
from kanalyze.tables.row import COLUMNS, Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["arrow_schema", "arrow_type", "choose_columns", "parquet_paths"]


def choose_columns(
    names: Iterable[str] | None, table: tuple[Column, ...] = COLUMNS
) -> tuple[Column, ...]:
    """Return the columns of a table with these names, in this order; all of them for None.

    Raises UsageError for a name that is no column, for one given twice, and for no name at all.
    """
    if names is None:
        return table
    known = {column.name: column for column in table}
    asked = tuple(names)
    for name in asked:
        if name not in known:
            raise UsageError(f"unknown column: {name!r}; there are {', '.join(known)}")
    if not asked or len(set(asked)) < len(asked):
        raise UsageError("columns must be named, and each once")
    return tuple(known[name] for name in asked)


def arrow_schema(columns: Sequence[Column] = COLUMNS, *, coded: bool = False) -> Any:
    """Return the ``pyarrow.Schema`` of columns.

    Each field's metadata holds its ``meaning`` and, where it has one, its ``unit``. With ``coded``
    texts are ``dictionary<int32, string>``.
    """
    import pyarrow as pa

    return pa.schema([_field(column, coded=coded) for column in columns])


def arrow_type(column: Column, *, coded: bool = False) -> Any:
    """Return the ``pyarrow.DataType`` of a column; ``coded`` as in :func:`arrow_schema`."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string()) if coded else pa.string()
    # Items are named as Parquet names them, so that what is read back has the same schema.
    if column.type == "list<struct>":
        fields = [_field(item, coded=coded) for item in column.fields]
        return pa.list_(pa.field("element", pa.struct(fields)))
    if column.type == "list<string>":
        return pa.list_(pa.field("element", text))
    if column.type == "string":
        return text
    if column.type == "bool":
        return pa.bool_()
    return getattr(pa, column.type)()


def parquet_paths(columns: Sequence[Column] = COLUMNS) -> dict[str, str]:
    """Return the ``type`` of each column by its path in a Parquet file.

    Of a list the path is that of what it holds: of texts ``anomalies.list.element``, of structs
    ``errors.list.element.code``.
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


def _field(column: Column, *, coded: bool) -> Any:
    import pyarrow as pa

    metadata = {"meaning": column.meaning}
    if column.unit:
        metadata["unit"] = column.unit
    return pa.field(column.name, arrow_type(column, coded=coded), column.nullable, metadata)
