"""Files of saved tables, and how to read them without trusting them.

In: paths of such files. Out: views of their tables in a database, and their headers.

A file is a DuckDB database. Its rows are in the schema :data:`ROWS`, with one table for each table
of the run. Its header is in ``ROWS.header``: names, and values as JSON. There are also the views of
``kanalyze sql``, for users who open the file with DuckDB itself.

The file may come from anyone and contain anything. So it is opened read-only, in a database that
cannot access any other file or the network. Only the tables that we know are read, and only columns
with our names and types that are not expressions.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from kanalyze.errors import KanalyzeError
from kanalyze.spec.columns import TYPES, Column, time_name
from kanalyze.spec.rows.cluster import REQUEST_ID as ID_COLUMN
from kanalyze.spec.rows.tables import ALWAYS, TABLES, stored_columns

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    import duckdb

__all__ = [
    "ID_COLUMN",
    "LAYOUT",
    "REQUEST_ID",
    "ROWS",
    "SavedFileError",
    "attach_saved",
    "duckdb_errors",
    "fits",
    "header_lines",
    "quoted",
    "shown_columns",
    "view_of",
]

LAYOUT = 1
"""Version of the file's layout. Later versions cannot be read; columns and fields that older files
lack are null."""
ROWS = "stored"
"""The schema of the tables that hold rows."""
REQUEST_ID = ID_COLUMN.name

_MAX_HEADER_BYTES = 16 << 20
_SHIFTED = (REQUEST_ID, "connection_number")
"""Columns with numbers from 1: the numbers of a second file continue those of the first."""


class SavedFileError(KanalyzeError):
    """A saved file cannot be read; the text says why."""


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def view_of(
    table: str, columns: Iterable[tuple[str, str | None]], source: str | None = None
) -> str:
    """Return the SQL of a view of a table's rows, with timestamps beside Unix times.

    Args:
        table: name of the table.
        columns: name of each column, and of its timestamp column (in UTC) or None.
        source: what the rows are read from, in a view that hides the one of all rows that are
            stored; None for that one.
    """
    expressions = []
    for name, time in columns:
        expressions.append(quoted(name))
        if time is not None:
            # DuckDB's timestamps use the largest number for infinity.
            ns = f"nullif({quoted(name)}, 9223372036854775807)"
            expressions.append(f"make_timestamp_ns({ns}) AS {quoted(time)}")
    listed = ", ".join(expressions)
    if source is None:
        return f"CREATE VIEW main.{table} AS SELECT {listed} FROM {ROWS}.{table}"
    return f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT {listed} FROM {source}"


def header_lines(header: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a header as the rows of its table."""
    return [(name, json.dumps(value)) for name, value in {"layout": LAYOUT, **header}.items()]


def duckdb_errors() -> tuple[type[Exception], ...]:
    """Return what DuckDB raises: its own errors, and those of C++ that damaged files cause."""
    import duckdb

    return (duckdb.Error, RuntimeError, ValueError, IndexError, OverflowError, MemoryError)


def attach_saved(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], folder: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Make views ``ROWS.TABLE`` of all rows of files, one file after the other.

    Return the headers of the files, and the names of the tables that all of them have. Afterwards
    the connection can access no other files except in ``folder``, and its settings are locked.

    Raises:
        SavedFileError: a file cannot be read, was not saved by kanalyze, or by a newer version.
    """
    names = [f"saved_{number}" for number in range(1, len(files) + 1)]
    path = ""
    try:
        for name, path in zip(names, files, strict=True):
            real_path = os.path.realpath(path).replace("'", "''")
            connection.execute(f"ATTACH '{real_path}' AS {name} (TYPE duckdb, READ_ONLY)")
        connection.execute("SET allowed_directories = [$folder]", {"folder": folder})
        for setting in ("enable_external_access = false", "lock_configuration = true"):
            connection.execute(f"SET {setting}")
        attached = []
        for name, path in zip(names, files, strict=True):
            attached.append(_Attached(connection, name, path))
        tables = _union(connection, attached)
    except duckdb_errors() as error:
        raise SavedFileError(
            f"{path}: cannot be read: {str(error).partition(chr(10))[0]}"
        ) from None
    return [file.header for file in attached], tables


class _Attached:
    """An attached file; only its checked tables and columns are used."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, path: str) -> None:
        self.name = name
        self._connection = connection
        self._path = path
        self._columns = self._stored_columns()
        self.header = self._header()
        self.tables = [
            table
            for table in TABLES
            if table in ALWAYS or table in {stored_table for stored_table, _ in self._columns}
        ]

    def select(self, table: str, shift: Mapping[str, int]) -> str:
        """Return the SQL that selects the rows of a table, with numbers increased by ``shift``."""
        columns = stored_columns(table)
        kinds = _types_of(self._connection, columns)
        expressions = []
        for column, kind in zip(columns, kinds, strict=True):
            name = quoted(column.name)
            stored = self._columns.get((table, column.name))
            if stored is None:
                self._check_nullable(column, table, column.name)
                expressions.append(f"CAST(NULL AS {kind}) AS {name}")
            elif stored != (kind, False):
                self._check_fields(column, table, kind, *stored)
                expressions.append(f"CAST({name} AS {kind}) AS {name}")
            elif column.name in shift:
                expressions.append(f"{name} + {shift[column.name]} AS {name}")
            else:
                expressions.append(name)
        return f"SELECT {', '.join(expressions)} FROM {self.name}.{ROWS}.{table}"

    def _check_nullable(self, column: Column, table: str, shown: str) -> None:
        """Raise SavedFileError if what the file lacks, a column or a field, is never null."""
        if not column.nullable:
            raise SavedFileError(
                f"{self._path}: has no column {shown} of {table}: "
                "save the captures again with this kanalyze"
            )

    def _check_fields(
        self, column: Column, table: str, kind: str, stored: str, is_computed: bool
    ) -> None:
        """Raise SavedFileError unless a column differs from ours only in which fields it has."""
        found, expected = map(self._connection.type, (stored, kind))
        if is_computed or not fits(found, expected):
            raise SavedFileError(f"{self._path}: column {column.name} of {table} is invalid")
        names = dict(found.child.children)
        for field in column.fields:
            if field.name not in names:
                self._check_nullable(field, table, f"{column.name}.{field.name}")

    def last(self, column: str) -> int:
        """Return the largest number in a column, over all tables; 0 if there is none."""
        tables = [t for t in self.tables if (t, column) in self._columns]
        sql = " UNION ALL ".join(
            f"SELECT max({column}) FROM {self.name}.{ROWS}.{table}" for table in tables
        )
        maxima = self._connection.execute(sql).fetchall()
        return max((number for (number,) in maxima if number is not None), default=0)

    def _stored_columns(self) -> dict[tuple[str, str], tuple[str, bool]]:
        """Return the type of each stored column, and whether the column is an expression."""
        sql = (
            "SELECT c.table_name, c.column_name, c.data_type, c.is_generated "
            "FROM duckdb_columns() AS c JOIN duckdb_tables() AS t USING (database_name, table_oid) "
            "WHERE c.database_name = $name AND c.schema_name = $rows"
        )
        rows = self._connection.execute(sql, {"name": self.name, "rows": ROWS}).fetchall()
        return {(table, column): (kind, is_generated) for table, column, kind, is_generated in rows}

    def _header(self) -> dict[str, Any]:
        expected = {(("header", name), ("VARCHAR", False)) for name in ("name", "value")}
        if not expected <= set(self._columns.items()):
            raise SavedFileError(f"{self._path}: a DuckDB file that kanalyze did not save")
        table = f"{self.name}.{ROWS}.header"
        sql = f"SELECT coalesce(sum(strlen(name) + strlen(value)), 0) FROM {table}"
        ((size,),) = self._connection.execute(sql).fetchall()
        if size > _MAX_HEADER_BYTES:
            raise SavedFileError(f"{self._path}: the header is too large: {size} bytes")
        lines = self._connection.execute(f"SELECT name, value FROM {table}").fetchall()
        try:
            header = {str(name): json.loads(value) for name, value in lines}
        except (TypeError, ValueError, RecursionError):
            raise SavedFileError(f"{self._path}: has a damaged header") from None
        layout = header.get("layout")
        if type(layout) is not int or layout < 1:
            raise SavedFileError(f"{self._path}: has a damaged header")
        if layout > LAYOUT:
            raise SavedFileError(
                f"{self._path}: was saved by a newer kanalyze (layout {layout}; "
                f"this one reads {LAYOUT})"
            )
        return header


def _union(connection: duckdb.DuckDBPyConnection, files: Sequence[_Attached]) -> list[str]:
    """Make a view of the rows of each table that all files have; return the names of these.

    Numbers of a second file continue after those of the first.
    """
    shifts: list[dict[str, int]] = [{}]
    for file in files[:-1]:
        last = {column: file.last(column) for column in _SHIFTED}
        shifts.append({name: shifts[-1].get(name, 0) + last[name] for name in _SHIFTED})
    tables = [table for table in TABLES if all(table in file.tables for file in files)]
    for table in tables:
        pairs = zip(files, shifts, strict=True)
        rows = " UNION ALL ".join(file.select(table, shift) for file, shift in pairs)
        connection.execute(f"CREATE VIEW {ROWS}.{table} AS {rows}")
    return tables


def shown_columns(table: str, names: Container[str] | None = None) -> list[tuple[str, str | None]]:
    """Return the columns of a table for :func:`view_of`; only those with ``names``, if given.

    All of them where no column has one of the names: a view has to have a column.
    """
    names_and_times: list[tuple[str, str | None]] = []
    for column in stored_columns(table):
        time = time_name(column.name) if column.is_time else None
        if names is None:
            names_and_times.append((column.name, time))
        elif column.name in names:
            names_and_times.append((column.name, time if time in names else None))
    return names_and_times or shown_columns(table)


def _types_of(connection: duckdb.DuckDBPyConnection, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return DuckDB's names of the types of columns."""
    nulls = ", ".join(f"typeof(CAST(NULL AS {_type_of(column)}))" for column in columns)
    (types,) = connection.execute(f"SELECT {nulls}").fetchall()
    return tuple(types)


def fits(kind: Any, stored: Any) -> bool:
    """Return true if values of a type are those of another, some fields of structs perhaps null.

    Both are types of DuckDB. It is so for files of a kanalyze that had fewer fields, or others.
    """
    if kind == stored or kind.id != stored.id or kind.id not in {"list", "struct"}:
        return bool(kind == stored)
    fields = dict(stored.children)
    return all(fits(each, fields[name]) for name, each in kind.children if name in fields)


def _type_of(column: Column) -> str:
    if column.fields:
        fields = ", ".join(f"{quoted(field.name)} {_type_of(field)}" for field in column.fields)
        return f"STRUCT({fields})[]"
    if column.type == "list<string>":
        return f"{TYPES['string'].sql}[]"
    return TYPES[column.type].sql
