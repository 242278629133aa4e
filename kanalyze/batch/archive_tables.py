"""The tables that a batch wrote, as a database for queries.

In: the folder of an archive. Out: a database with its rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kanalyze.api.tables import create_tables
from kanalyze.batch.archive.table_files import ARCHIVE_TABLES, columns_of
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.batch.sums import insert_rows
from kanalyze.capture.io.stores import arrow_url, is_url
from kanalyze.queries.database import Database

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


@contextmanager
def archive_database(
    location: str, tables: Collection[str], *, max_memory_bytes: int, threads: int
) -> Iterator[Database]:
    """Provide a database with tables of an archive inside a ``with`` block.

    Args:
        location: the archive, as a path or a URL.
        tables: the tables to read besides ``requests``; those that no archive has are left out.
        max_memory_bytes: memory in bytes for tables and queries; more goes to files.
        threads: number of threads of a query.

    Raises:
        UsageError: a file cannot be listed.
        KanalyzeError: a file cannot be read.
    """
    folder = SharedFolder(arrow_url(location) if is_url(location) else location)
    chosen = [table for table in ARCHIVE_TABLES if table in {"requests", *tables}]
    with Database(max_memory_bytes=max_memory_bytes, threads=threads) as database:
        makers = create_tables(database, {table: columns_of(table) for table in chosen})
        for table, maker in makers.items():
            names = [entry.name for entry in folder.files(table)]
            files = [name for name in names if name.endswith(".parquet")]
            insert_rows(database, table, folder, files, maker.schema)
        yield database
