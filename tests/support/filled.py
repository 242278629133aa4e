"""Databases of made-up rows, each ready in little time.

Making a database takes 15 ms, each empty table 10 ms, and planning a query takes longer the more
columns the tables have.
"""

from __future__ import annotations

import atexit
import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kanalyze.api.reports import names_of
from kanalyze.api.tables import create_tables
from kanalyze.queries.database import Database
from kanalyze.queries.findings import finding_kinds
from kanalyze.spec.rows.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kanalyze.export.arrow import BatchMaker
    from kanalyze.spec.rows.requests import Row

OF_FINDINGS = ("requests", "connections", "anomalies", "groups", "metadata", "capture_quality")


@functools.cache
def report_names() -> frozenset[str] | None:
    return names_of(finding_kinds(), has_page=True)


def report_tables(database: Database, *tables: str) -> dict[str, BatchMaker]:
    """Make empty tables with the columns that reports use; return the makers of their batches."""
    return create_tables(
        database, {table: TABLES[table].columns for table in tables}, report_names()
    )


@functools.cache
def used_again() -> tuple[Database, dict[str, BatchMaker]]:
    """Return a database with the tables of findings, all empty."""
    database = Database(max_memory_bytes=1 << 28, threads=1)
    atexit.register(database.close)
    return database, report_tables(database, *OF_FINDINGS)


@contextmanager
def filled(rows: Mapping[str, Sequence[Row]]) -> Iterator[Database]:
    """Yield a database with the tables of findings and these rows; only one at a time.

    Queries of a test must not change it.
    """
    database, makers = used_again()
    numbers = database._buffers._numbers
    assert numbers is not None
    for table, some in rows.items():
        if some:
            database.insert(table, makers[table].of_rows(some))
    try:
        yield database
    finally:
        database._insert_all()
        database.derived.drop()
        for table in OF_FINDINGS:
            database._connection.execute(f"DELETE FROM stored.{table}")
        numbers._requests = 0
