"""A DuckDB database of rows that answers SQL, in this process.

In: Arrow batches of rows. Out: results as Arrow tables. DuckDB is imported when a database is made,
because the import takes 0.1 s.

As long as they are few, rows may be kept as they come, in files that are mapped into memory
(``mapped_rows.py``). When they become more, all are compressed into a file, a row group at a time,
so that memory and room are bounded. Rows that do not fill a row group are buffered
(``row_buffers.py``) until a query is made. They are committed then, because a query that fails
while it runs would undo uncommitted rows. The files, and all that queries write, are in a folder of
their own, which is removed at the end.

Every row of ``requests`` gets a number, ``request_id``, unless it has one: from 1, in the order of
the rows. ``partitions`` and ``errors`` refer to their request by it. Rows are in the schema
``stored``. The views that queries see have a timestamp (``TIMESTAMP_NS``, in UTC) beside each
Unix time; it is computed when it is queried.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import weakref
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from kanalyze.common import unfinished
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.errors import KanalyzeError
from kanalyze.queries.engine import QueryError
from kanalyze.queries.file_rows import FileInserter
from kanalyze.queries.files import built_in, derived, derived_in, words_of
from kanalyze.queries.mapped_rows import MappedTables
from kanalyze.queries.name_tables import NameTables
from kanalyze.queries.row_buffers import ROW_GROUP, RowBuffers
from kanalyze.queries.saved import (
    ROWS,
    attach_saved,
    duckdb_errors,
    header_lines,
    quoted,
    shown_columns,
    view_of,
)
from kanalyze.spec.rows.requests import SESSION_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from kanalyze.queries.file_rows import StoreFile
    from kanalyze.queries.files import Query

__all__ = [
    "DEFAULT_MEMORY_BYTES",
    "REPORT_MEMORY_BYTES",
    "Database",
    "DerivedViews",
    "MemoryLimit",
    "QueryError",
    "ScratchFolder",
]

_PREFIX = "kanalyze-tables-"
_LOCK = "lock"


class ScratchFolder:
    """An empty folder in the system's folder for temporary files."""

    def __init__(self) -> None:
        """Make a folder, and remove those of dead processes."""
        _remove_abandoned()
        self.path = Path(tempfile.gettempdir()).absolute() / f"{_PREFIX}{os.urandom(8).hex()}"
        # Not by tempfile, which tells the name when the folder is already there.
        unfinished.begin(self.path)
        self.path.mkdir(mode=0o700)
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        unnamed = self.path / f"{_LOCK}.new"
        self._lock = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder with its files; a second call does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            self._finalizer()
            unfinished.end(self.path)


def _remove_abandoned() -> None:
    """Remove the folders of processes that no longer run."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # The folder may belong to another user, or another process may have removed it.
        with suppress(OSError):
            if _is_abandoned(folder):
                shutil.rmtree(folder)


def _is_abandoned(folder: Path) -> bool:
    """Return true if the lock of a folder is free; raises OSError if that cannot be checked.

    A folder without a lock file is just being made by another process.
    """
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


_Result = TypeVar("_Result")
_NO_ROOM = "failed to pin block"
"""Part of DuckDB's messages if a block does not fit into memory. A commit that fails for that
reason is another kind of error than a query that does."""

_LEAST_BYTES = 16 << 20
"""The least usual limit for queries of rows that are mapped."""
_FILLING_BYTES = 32 << 20
"""The limit while tables are filled. DuckDB would use more memory only to cache rows that are in
the file already. The analysis needs memory at that time, and has freed it when queries begin."""


_TIMES_INCOMING = 6
"""How much memory rows take while they are compressed, as a multiple of their size. Lists with
thousands of items in each row need it; usual rows are so small that the limit stays."""


class MemoryLimit:
    """The limit of a connection, which must be opened with ``limit_bytes``."""

    def __init__(self, usual_bytes: int | None, most_bytes: int) -> None:
        """Begin with the limit for filling.

        Args:
            usual_bytes: the limit for queries, as long as it is enough; None for ``most_bytes``.
            most_bytes: the limit that is never exceeded.
        """
        self._usual_bytes = min(usual_bytes or most_bytes, most_bytes)
        self._most_bytes = most_bytes
        self.limit_bytes = min(self._usual_bytes, _FILLING_BYTES)
        self._is_filling = True

    def begin_insert(self, connection: duckdb.DuckDBPyConnection, incoming_bytes: int) -> None:
        """Set a limit that is enough to write rows of this size, and while filling no higher one.

        A commit that lacks memory makes the file invalid, so it cannot be tried again.
        """
        limit_bytes = min(_TIMES_INCOMING * incoming_bytes, self._most_bytes)
        usual_bytes = min(self._usual_bytes, _FILLING_BYTES)
        limit_bytes = max(limit_bytes, usual_bytes if self._is_filling else self.limit_bytes)
        if limit_bytes != self.limit_bytes:
            self._set(connection, limit_bytes)

    def begin_queries(self, connection: duckdb.DuckDBPyConnection, mapped_bytes: int) -> None:
        """Set the usual limit for queries, once.

        A part of it is left to rows that are mapped: a query has up to two thirds of them in
        memory, and keeps no copy.
        """
        if not self._is_filling:
            return
        self._is_filling = False
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
        least_bytes = min(self._usual_bytes, _LEAST_BYTES)
        usual_bytes = max(self._usual_bytes - mapped_bytes // 3, least_bytes)
        if self.limit_bytes != usual_bytes:
            self._set(connection, usual_bytes)

    def run(self, connection: duckdb.DuckDBPyConnection, run: Callable[[], _Result]) -> _Result:
        """Return what ``run`` returns; it runs again with more memory as long as it lacks some.

        Raises DuckDB's error if the most that is allowed is not enough, or if it is another one.
        """
        import duckdb

        while True:
            try:
                return run()
            except duckdb.Error as error:
                lacks_memory = isinstance(error, duckdb.OutOfMemoryException)
                if not ((lacks_memory or _NO_ROOM in str(error)) and self.allow_more(connection)):
                    raise

    def allow_more(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Raise the limit by half; return False if that is not possible."""
        if self.limit_bytes == self._most_bytes:
            return False
        self._set(connection, min(self.limit_bytes * 3 // 2, self._most_bytes))
        return True

    def allow_all(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set the highest limit."""
        self._set(connection, self._most_bytes)

    def _set(self, connection: duckdb.DuckDBPyConnection, limit_bytes: int) -> None:
        connection.execute(f"SET memory_limit = '{limit_bytes}B'")
        self.limit_bytes = limit_bytes


class DerivedViews:
    """The views that exist now."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Begin without views; they will be made in ``connection``."""
        self._connection = connection
        self._kinds: dict[str, str] = {}
        """TABLE or VIEW, by name."""
        self._given: set[str] = set()
        """Names of tables that take the place of a view."""
        self._with_rows = False
        self._with_sessions = False
        self._macros: set[str] = set()

    def make(self, sql: str, above: frozenset[str] = frozenset()) -> None:
        """Make the views and macros that a statement may name, and those that they name.

        Args:
            sql: the statement.
            above: views that are being made, and that this statement is a part of.
        """
        tables, macros = derived(), built_in("macros")
        words = words_of(sql)
        for name in sorted(words & macros.keys()):
            if name not in self._macros:
                self._macros.add(name)
                self.make(macros[name].sql, above)  # it may call others
                self._connection.execute(macros[name].sql)
        for name in sorted(derived_in(sql) - above - self._given):
            if name not in self._kinds:
                table = tables[name].with_rows() if self._with_rows else tables[name]
                table = self.of_sessions(table)
                self.make(table.sql, above | {name})
                self._create(table)

    def _create(self, table: Query) -> None:
        kind = "TABLE" if table.is_stored else "VIEW"
        self._connection.execute(f"CREATE TEMP {kind} {table.name} AS {table.sql}")
        self._kinds[table.name] = kind

    def give(self, table: str, rows: pa.Table, sql: str) -> None:
        """Have a table contain what ``sql`` makes of rows, and not what its query does.

        Args:
            table: its name; its columns and their types stay.
            rows: the rows, which ``sql`` calls ``incoming``.
            sql: one of our own queries.
        """
        self.make(f"FROM {table}")
        columns = self._connection.execute(f"DESCRIBE FROM {table}").fetchall()
        typed = ", ".join(f"{quoted(name)} {kind}" for name, kind, *_ in columns)
        self.drop()
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({typed})")
        self._given.add(table)
        self._connection.register(_INCOMING, rows)
        self.make(sql)
        self._connection.execute(f"INSERT INTO {table} BY NAME {sql}")
        self._connection.unregister(_INCOMING)

    def say_rows(self) -> None:
        """From now on, say which rows findings mean; see :meth:`.Query.with_rows`."""
        self.drop()
        self._with_rows = True

    def read_sessions(self) -> None:
        """From now on, requests refer to lists of fetch sessions."""
        self._with_sessions = True

    def of_sessions(self, query: Query) -> Query:
        """Return what a query is if it reads lists of fetch sessions, where there are any."""
        return query.with_sessions() if self._with_sessions else query

    def drop(self) -> None:
        """Remove all views; macros stay, because no rows are in them."""
        for name, kind in self._kinds.items():
            self._connection.execute(f"DROP {kind} {name}")
        self._kinds.clear()


DEFAULT_MEMORY_BYTES = 1 << 30
REPORT_MEMORY_BYTES = 64 << 20
"""Usual memory limit of a report in bytes. Its queries aggregate, so they rarely need more memory
for more rows."""

_SESSION_LIST = SESSION_COLUMNS[0].name
_INCOMING = "incoming"
_CREATE = f"CREATE TABLE {ROWS}.{{}} AS FROM {_INCOMING}"
_INSERT = f"INSERT INTO {ROWS}.{{}} FROM {_INCOMING}"
_COPY_OPTIONS = {
    "csv": "FORMAT csv, HEADER true",
    "jsonl": "FORMAT json, ARRAY false",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
_TABLES = "tables"
"""The name of the file among the databases of a connection."""
_END = re.compile(r";\s*(?:--[^\n]*\s*)*\Z")
"""The end of a query in a file of a user."""
_WORST = (
    "SELECT * FROM (\n{}\n) AS found ORDER BY weight DESC, "
    "COLUMNS(lambda name: name NOT IN ('request_ids', 'connection_keys')) NULLS LAST LIMIT {}"
)
"""Those of the same weight in the order of their columns, so that it is always the same."""
_HINTS = ("Did you mean", "Candidate bindings:")
"""How lines of DuckDB's messages begin that suggest other names."""
_READ_ROWS = 4096
"""Number of rows in a batch that is read from a saved file."""
_SAVED_BLOCK_BYTES = 65_536
"""A quarter of DuckDB's default: small files get a third as large, large files no larger."""
_SAVED_FORMAT = "v1.1.0"
"""The oldest DuckDB that opens saved files. Our types and compressions need no newer one."""
_SAVED_VIEWS = ("partitions", "errors")
"""Views of ``sql/tables/`` that a saved file has, for users who open it with DuckDB."""
_SAVED_MACRO = """
CREATE MACRO main.make_timestamp_ns(ns) AS CAST(
    CAST(make_timestamp((ns - (ns % 1000000000 + 1000000000) % 1000000000) // 1000) AS VARCHAR)
    || '.' || lpad(CAST((ns % 1000000000 + 1000000000) % 1000000000 AS VARCHAR), 9, '0')
    AS TIMESTAMP_NS
)
"""
"""A function that the views of a saved file name, and that DuckDB 1.1 lacks. By way of a text,
because nothing else there makes a timestamp of nanoseconds: 0.2 s for a million."""


class Database(ClosedAtEnd):
    """Tables that are filled once and queried often. A ``with`` block removes its files."""

    def __init__(
        self,
        *,
        max_memory_bytes: int,
        threads: int,
        usual_memory_bytes: int | None = None,
        mapped_bytes: int = 0,
        file: str | None = None,
    ) -> None:
        """Make an empty database.

        Args:
            max_memory_bytes: memory limit of tables and queries in bytes; the rest goes to files.
            threads: number of threads of a query.
            usual_memory_bytes: the limit as long as it is enough for :meth:`answer`; None for
                ``max_memory_bytes``.
            mapped_bytes: up to how many bytes of rows are kept as they come.
            file: path of a new file that keeps the tables; see :meth:`finish`. None for none.
        """
        import duckdb

        self._errors = duckdb_errors()
        self._memory = MemoryLimit(usual_memory_bytes, max_memory_bytes)
        self._query_threads = threads
        self._folder = ScratchFolder()
        self._connection = duckdb.connect(
            config={
                "max_memory": f"{self._memory.limit_bytes}B",
                # Only one thread inserts rows; others would take memory while tables are filled.
                "threads": 1,
                "temp_directory": str(self._folder.path),
                # Nothing is fetched from a network.
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        path = (file or str(self._folder.path / "tables.duckdb")).replace("'", "''")
        # Without a log: what was not finished is removed, and a log of few rows with long lists
        # would be larger than the rows, and cause a checkpoint, which compresses them again.
        options = f"ROW_GROUP_SIZE {ROW_GROUP}, RECOVERY_MODE 'no_wal_writes'"
        if file is not None:
            options += f", BLOCK_SIZE {_SAVED_BLOCK_BYTES}, STORAGE_VERSION '{_SAVED_FORMAT}'"
        self._connection.execute(f"ATTACH '{path}' AS {_TABLES} ({options})")
        self._connection.execute(f"USE {_TABLES}")
        self._buffers = RowBuffers()
        self._mapped = MappedTables(self._connection, self._folder.path, mapped_bytes)
        self.derived = DerivedViews(self._connection)
        """The views of ``sql/tables/``."""
        self.names = NameTables(self._connection)
        self.headers: list[dict[str, Any]] = []
        """The headers of the attached saved files."""
        self.attached: list[str] = []
        """The tables of the attached saved files."""
        # A progress bar would be mixed with the output on standard output.
        self._connection.execute("SET enable_progress_bar = false")
        # A checkpoint takes 80 ms, and would write to a file that is removed immediately.
        self._connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        self._connection.execute(f"CREATE SCHEMA {ROWS}")

    def attach(self, files: Sequence[str], names: Container[str] | None = None) -> None:
        """Use the tables of saved files, one file after the other, instead of tables of rows.

        After that, no other file can be accessed.

        Args:
            files: paths of the files.
            names: names of columns that are needed; None for all.

        Raises:
            SavedFileError: see :func:`kanalyze.queries.saved.attach_saved`.
        """
        self._insert_all()
        # No setting can be changed later.
        self._memory.allow_all(self._connection)
        folder = str(self._folder.path)
        self.headers, self.attached = attach_saved(self._connection, files, folder)
        for table in self.attached:
            self._connection.execute(view_of(table, shown_columns(table, names)))

    def close(self) -> None:
        """Discard all tables and remove all files; a second call does nothing."""
        self._connection.close()
        self._mapped.close()
        self._folder.close()

    def create(self, table: str, schema: pa.Schema) -> None:
        """Make an empty table with the columns of a schema."""
        import pyarrow as pa

        schema = self._buffers.create(table, schema)
        # Not schema.empty_table(): if pandas is installed, that imports it.
        empty = pa.Table.from_batches([], schema)
        self._write(table, empty, _CREATE)
        columns = [(field.name, _timestamp_name(field)) for field in schema]
        self._connection.execute(view_of(table, columns))
        self._mapped.create(table, schema, columns)

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables, without views."""
        return self._buffers.tables.union(self.attached)

    def insert(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows to a table; the batch must have the table's columns."""
        self.derived.drop()
        batch = self._buffers.numbered(table, batch)
        if _SESSION_LIST in batch.schema.names and batch[_SESSION_LIST].null_count < len(batch):
            self.derived.read_sessions()
        if not self._mapped.add(table, batch):
            # From now on no rows are mapped.
            for name, rows in self._buffers.add_all(
                chain(self._mapped.take_all(), [(table, batch)])
            ):
                self._write(name, rows)

    def insert_files(
        self,
        table: str,
        files: Sequence[str] | Iterable[StoreFile],
        never_null: Iterable[str] = (),
    ) -> None:
        """Add the rows of Parquet files to a table, in half the time of :meth:`insert`.

        Args:
            table: rows of :meth:`insert` that are still buffered will come after these.
            files: local paths without ``*``, ``?`` and ``[``, or files that are read elsewhere.
                Columns that the table lacks are left out; those that a file lacks are null.
            never_null: columns in which a null is an error; only for an empty table.

        Raises:
            KanalyzeError: a file cannot be read, or a column has another type or a null.
        """
        self.derived.drop()
        for name, buffered in self._buffers.add_all(self._mapped.take_all()):
            self._write(name, buffered)
        rows = FileInserter(self._connection, table, self._buffers.columns(table))
        with self._errors_as(KanalyzeError):
            rows.require(never_null)
            rows.insert(files)

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows of a table, in order, in batches.

        Raises:
            QueryError: the rows cannot be read.
        """
        self._insert_all()
        names = ", ".join(map(quoted, columns))
        with self._errors_as(QueryError):
            relation = self._connection.sql(f"SELECT {names} FROM {ROWS}.{table}")
            yield from relation.to_arrow_reader(_READ_ROWS)

    def values(
        self, sql: str, parameters: Mapping[str, object] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of one of our own statements.

        Raises:
            QueryError: the statement fails.
        """
        self._insert_all()
        with self._errors_as(QueryError):
            return self._connection.execute(sql, parameters or {}).fetchall()

    def finish(self, header: Mapping[str, Any]) -> None:
        """Write everything to the file, with a header of plain values.

        Raises:
            KanalyzeError: the file cannot be written.
        """
        self._insert_all()
        with self._errors_as(KanalyzeError):
            self._connection.execute(_SAVED_MACRO)
            for view in _SAVED_VIEWS:
                self._connection.execute(
                    f"CREATE VIEW main.{view} AS {built_in('tables')[view].sql}"
                )
            self._connection.execute(f"CREATE TABLE {ROWS}.header (name VARCHAR, value VARCHAR)")
            self._connection.executemany(
                f"INSERT INTO {ROWS}.header VALUES (?, ?)", header_lines(header)
            )
            self._connection.execute("CHECKPOINT")

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Return the result of one SQL query.

        Args:
            sql: the query in DuckDB's dialect; parameters are written ``$name``.
            parameters: values by name.

        Raises:
            QueryError: the query is invalid or fails.
        """
        with self._errors_as(QueryError):
            sql = _checked(sql)
            self._prepare(sql)
            sql = self.names.named(sql)
            return self._memory.run(
                self._connection,
                lambda: self._connection.sql(sql, params=dict(parameters or {})).to_arrow_table(),
            )

    @contextmanager
    def answer_file(
        self, sql: str, parameters: Mapping[str, object], file_format: str
    ) -> Iterator[BinaryIO]:
        """Provide the result of one query as an open file inside a ``with`` block.

        Args:
            sql: see :meth:`ask`.
            parameters: see :meth:`ask`.
            file_format: ``csv``, ``jsonl`` or ``parquet``.

        Raises:
            QueryError: see :meth:`ask`.
        """
        path = self._folder.path / "answer"
        with self._errors_as(QueryError):
            sql = _checked(sql)
            self._prepare(sql)
            sql = self.names.named(sql)
            copy = f"COPY ({sql.strip().rstrip(';')}\n) TO '{path}' ({_COPY_OPTIONS[file_format]})"
            self._connection.execute(copy, dict(parameters))
        try:
            with path.open("rb") as file:
                yield file
        finally:
            path.unlink()

    def answer(
        self, query: Query, parameters: Mapping[str, object], worst: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a query's result, or only the ``worst``, those of the most ``weight``.

        ``parameters`` may have more names than the query. Raises QueryError if the query fails.
        """
        values = {name: parameters[name] for name in query.parameters}
        query = self.derived.of_sessions(query)
        sql = query.sql if worst is None else _WORST.format(_END.sub("", query.sql), worst)

        def lines() -> list[dict[str, Any]]:
            self._prepare(query.sql)
            # Not by a DuckDB relation, which is planned twice.
            result = self._connection.execute(sql, values)
            names = [column[0] for column in result.description]
            return [dict(zip(names, line, strict=True)) for line in result.fetchall()]

        try:
            return self._memory.run(self._connection, lines)
        except self._errors as error:
            raise QueryError(_one_line(error), query.name) from None
        finally:
            self._mapped.release()

    def interrupt(self) -> None:
        """Interrupt the query of another thread, if there is one; it raises a QueryError there."""
        self._connection.interrupt()

    def keep(self, table: str, query: Query, parameters: Mapping[str, object]) -> None:
        """Store the result of a query as a table; it replaces a table of that name."""
        sql = f"CREATE OR REPLACE TEMP TABLE {table} AS\n{query.sql}"
        self.answer(query._replace(sql=sql), parameters)

    def forget(self, table: str) -> None:
        """Remove a table of :meth:`keep`."""
        self._connection.execute(f"DROP TABLE {table}")

    def _prepare(self, sql: str) -> None:
        """Insert all rows, and make the views that a statement may name."""
        self._insert_all()
        if "requests" in self.tables:
            self.derived.make(sql)

    def _insert_all(self) -> None:
        """Write all buffered rows, and let queries take the memory that they may."""
        for table, rows in self._buffers.take_all():
            self._write(table, rows)
        self._mapped.show()
        self._memory.begin_queries(self._connection, self._mapped.bytes)
        if self._query_threads > 1:
            self._connection.execute(f"SET threads = {self._query_threads}")
            self._query_threads = 1

    def _write(self, table: str, incoming: pa.Table, statement: str = _INSERT) -> None:
        """Write rows to a table."""
        sql = statement.format(table)
        self._connection.register(_INCOMING, incoming)
        self._memory.begin_insert(self._connection, incoming.nbytes)
        with self._errors_as(KanalyzeError):
            self._memory.run(self._connection, lambda: self._connection.execute(sql))
            self._connection.unregister(_INCOMING)

    @contextmanager
    def _errors_as(self, kind: type[KanalyzeError]) -> Iterator[None]:
        """Raise ``kind``, with DuckDB's message in one line, for DuckDB's errors in the block."""
        try:
            yield
        except self._errors as error:
            raise kind(_one_line(error)) from None


def _checked(sql: str) -> str:
    """Return what to run for a query of a user; raises QueryError if it is none, or changes rows.

    SHOW TABLES lists all tables, most of which are only made when a query names them.
    """
    import duckdb

    statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type not in _read_only_types():
        raise QueryError("use a single query, such as SELECT ... FROM requests")
    return _all_tables() if sql.strip(" \n;").lower().split() == ["show", "tables"] else sql


def _all_tables() -> str:
    """Return a query for the names of all tables, and what a line of each is."""
    from kanalyze.spec.rows.tables import SQL_TABLES  # imported late: large tables

    lines = ", ".join(f"('{table.name}', '{table.line}')" for table in SQL_TABLES.values())
    return f"SELECT * FROM (VALUES {lines}) AS tables (name, line)"


def _read_only_types() -> frozenset[object]:
    """Return the types of statements that only read (PIVOT consists of several)."""
    from duckdb import StatementType

    return frozenset({StatementType.SELECT, StatementType.EXPLAIN, StatementType.MULTI})


def _timestamp_name(field: pa.Field) -> str | None:
    """Return the name of the timestamp column beside a column; None if it is not a time."""
    name = (field.metadata or {}).get(b"timestamp")
    return None if name is None else name.decode("utf-8")


def _one_line(error: Exception) -> str:
    """Return the first line of DuckDB's message, and the names that it suggests."""
    first, *further_lines = str(error).splitlines() or [""]
    hints = [line for line in further_lines[:1] if line.startswith(_HINTS)]
    return " ".join([first, *hints])
