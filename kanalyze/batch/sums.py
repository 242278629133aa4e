"""What the tables of a report need of rows, summed up: so a report does not read rows again.

In: files with rows; sums. Out: :data:`Sums`, which can be added up, as bytes, and as a database
that answers the queries of a report.

Reports count, sum up, and take quantiles of amounts in bins. What they need of requests is in some
derived tables (``queries/sql/tables/``) whose lines of two inputs can be added up: :data:`_ADDED`
says how. The slowest requests are rows. Of connections, those with TLS are kept as rows, because
medians of handshakes are exact; of the others, which brokers speak Kafka.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from kanalyze.api.tables import create_tables
from kanalyze.batch.archive.table_files import columns_of
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.file_rows import StoreFile
from kanalyze.queries.files import built_in, words_of
from kanalyze.spec.rows.cluster import REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Sums: TypeAlias = "dict[str, pa.Table]"
"""By name: the derived tables of :data:`_ADDED`, the slowest requests, and connections."""

MAX_SLOWEST_KEPT: Final = 100
"""How many of the slowest requests sums have; a report with more of them reads all rows."""
_GRAIN: Final = (
    "start_ns // (SELECT grain_ns FROM time_buckets) * (SELECT grain_ns FROM time_buckets)"
)
_LATENCIES: Final = {"many": "sum", "lowest": "min", "highest": "max", "total": "sum"}
_PARTS: Final = (
    *("request_send_ns", "broker_network_ns", "retransmission_wait_ns", "pipeline_wait_ns"),
    *("broker_time_ns", "response_send_ns", "client_network_ns"),
)
_ADDED: Final[dict[str, dict[str, str]]] = {
    # The others that have times need the width of a span of time.
    "time_extent": {"first_ns": "min", "last_ns": "max"},
    "request_sums": {
        **dict.fromkeys(("many", "responses", "request_bytes", "response_bytes"), "sum"),
        **dict.fromkeys(("carried_records", "carried_bytes", "refused_records"), "sum"),
        **dict.fromkeys(("refused_versions", "throttled", "throttle_time_ms"), "sum"),
        "total_time_ns": "sum",
        "has_uncounted_records": "bool_or",
        **dict.fromkeys(("longest_total_time_ns", "last_time_ns"), "max"),
        "first_time_ns": "min",
    },
    "partition_sums": {
        **dict.fromkeys(("records", "bytes"), "sum"),
        **dict.fromkeys(("high_watermark", "last_time_ns"), "max"),
        "is_uncounted": "bool_or",
        "first_time_ns": "min",
    },
    "topic_requests": {"requests": "sum"},
    "partition_requests": {"requests": "sum"},
    "error_sums": {"many": "sum", "first_time_ns": "min", "last_time_ns": "max"},
    "codec_sums": dict.fromkeys(("requests", "batches", "records", "bytes"), "sum"),
    "latency_part_sums": {
        **dict.fromkeys(("requests", "with_retransmissions", "with_zero_windows"), "sum"),
        **dict.fromkeys(("spent_ns", *_PARTS, *(f"{part}_count" for part in _PARTS)), "sum"),
    },
    "amount_bins": _LATENCIES,
    "moment_bins": _LATENCIES,
    "moment_sums": dict.fromkeys(("requests", "errors", "request_bytes", "response_bytes"), "sum"),
}
"""By derived table: how columns are added up; the others are the keys of its lines."""
_OF_MOMENTS: Final = frozenset({"moment_bins", "moment_sums"})
_SLOWEST: Final = "slowest"
_CONNECTIONS: Final = "connections"
_NEEDED_CONNECTIONS: Final = """
    SELECT * FROM connections WHERE tls_decrypted IS NOT NULL
    UNION ALL BY NAME
    SELECT DISTINCT broker_ip, broker_port, protocol
    FROM connections
    WHERE tls_decrypted IS NULL AND protocol = 'kafka'
"""


def sums_of(location: str, files: Mapping[str, Sequence[str]]) -> bytes:
    """Sum up the requests and the connections in files; return :data:`Sums` as bytes.

    Args:
        location: their folder, as a path or a URL.
        files: their names, by table.

    Raises:
        KanalyzeError: a file cannot be read.
    """
    with _database() as (database, schemas):
        folder = SharedFolder(location)
        for table, names in files.items():
            insert_rows(database, table, folder, names, schemas[table])
        return dump_sums(sums_in(database))


@contextmanager
def sums_database(parts: Sequence[Sums]) -> Iterator[Database]:
    """Provide a database that answers the queries of a report, inside a ``with`` block.

    ``parts`` are added up.
    """
    with _database() as (database, _):
        # The first query gives a database the memory for queries.
        database.ask("FROM time_extent")
        parts = parts or [sums_in(database)]
        rows = {name: _joined([part[name] for part in parts]) for name in parts[0]}
        for name, measures in _ADDED.items():
            adding = _adding(name, rows[name].schema.names, measures)
            database.derived.give(name, rows[name], adding)
        # Only requests with a latency, and without a wait on purpose, are among the slowest.
        slowest = "SELECT *, latency_ns AS work_latency_ns FROM incoming"
        database.derived.give("measured", rows[_SLOWEST], slowest)
        database.derived.give(_CONNECTIONS, rows[_CONNECTIONS], "FROM incoming")
        yield database


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive")


def _adding(name: str, columns: Sequence[str], measures: Mapping[str, str]) -> str:
    """Return SQL that adds up the lines of a derived table."""
    chosen = [
        f"{measures[column]}({column}) AS {column}"
        if column in measures
        else f"{_GRAIN} AS start_ns"
        if name in _OF_MOMENTS and column == "start_ns"
        else f'"{column}"'
        for column in columns
    ]
    return f"SELECT {', '.join(chosen)} FROM incoming GROUP BY ALL"  # noqa: S608 - our own names


def add_connections(database: Database, folder: SharedFolder, files: Sequence[str]) -> None:
    """Add the connections in files to a database of sums.

    Args:
        database: the database.
        folder: where the files are.
        files: their names.

    Raises:
        KanalyzeError: a file cannot be read.
    """
    with _database() as (more, schemas):
        insert_rows(more, _CONNECTIONS, folder, files, schemas[_CONNECTIONS])
        added = more.ask(_NEEDED_CONNECTIONS)
    rows = _joined([database.ask(f"FROM {_CONNECTIONS}"), added])
    database.derived.give(_CONNECTIONS, rows, "FROM incoming")


def sums_in(database: Database) -> Sums:
    """Return what a database of rows or of sums has, as sums."""
    slowest = built_in("report")[_SLOWEST]
    return {
        **{name: database.ask(f"FROM {name}") for name in _ADDED},
        _SLOWEST: database.ask(slowest.sql, {"most": MAX_SLOWEST_KEPT}),
        _CONNECTIONS: database.ask(_NEEDED_CONNECTIONS),
    }


@contextmanager
def _database() -> Iterator[tuple[Database, dict[str, pa.Schema]]]:
    """Provide a database with empty tables, and their schemas."""
    queries = [*built_in("tables").values(), *built_in("report").values()]
    names = frozenset({REQUEST_ID.name}).union(*(words_of(query.sql) for query in queries))
    columns = {table: columns_of(table) for table in ("requests", _CONNECTIONS)}
    with Database(max_memory_bytes=DEFAULT_MEMORY_BYTES, threads=1) as database:
        makers = create_tables(database, columns, names)
        yield database, {table: maker.schema for table, maker in makers.items()}


def insert_rows(
    database: Database, table: str, folder: SharedFolder, files: Sequence[str], schema: pa.Schema
) -> None:
    """Add the rows of files to an empty table; columns that they lack are null.

    Raises KanalyzeError if a file cannot be read, if a column has another type, and for a null in a
    column that has none: all files have these, and without them figures would be wrong.
    """
    paths = [folder.plain_path(name) for name in files]
    plain_paths = [path for path in paths if path is not None]
    database.insert_files(
        table,
        plain_paths if len(plain_paths) == len(files) else _streamed(folder, files, schema.names),
        [field.name for field in schema if not field.nullable],
    )


def _streamed(
    folder: SharedFolder, files: Sequence[str], columns: Sequence[str]
) -> Iterator[StoreFile]:
    """Yield files of a store, each open until the next, with those columns that they have."""
    for name in files:
        with folder.open_file(name) as file:
            rows = pq.ParquetFile(file)
            found = pa.schema([field for field in rows.schema_arrow if field.name in columns])
            batches = rows.iter_batches(columns=found.names)
            reader = pa.RecordBatchReader.from_batches(found, batches)
            yield StoreFile(f"{folder.shown}/{name}", reader)


# -- as bytes --------------------------------------------------------------------------------------


_QUERIES: Final = "queries"
"""The name of the entry with the digest of the queries that made the sums."""


def dump_sums(sums: Sums) -> bytes:
    """Return sums as bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_QUERIES), _digest())
        for name, rows in sums.items():
            stream = io.BytesIO()
            pq.write_table(rows, stream, compression="zstd")
            archive.writestr(zipfile.ZipInfo(name), stream.getvalue())
    return target.getvalue()


def load_sums(data: bytes | None) -> Sums | None:
    """Undo :func:`dump_sums`; None for damaged bytes, and for sums that other queries made."""
    try:
        with zipfile.ZipFile(io.BytesIO(data or b"")) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        if entries.pop(_QUERIES, b"") != _digest():
            return None
        return {name: pq.ParquetFile(io.BytesIO(entry)).read() for name, entry in entries.items()}
    except (zipfile.BadZipFile, pa.ArrowException, OSError, ValueError):
        return None


def _digest() -> bytes:
    """Return a digest of the queries: after an upgrade, sums may mean something else."""
    kinds = ("macros", "tables", "report")
    texts = [query.sql for kind in kinds for query in built_in(kind).values()]
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).digest()
