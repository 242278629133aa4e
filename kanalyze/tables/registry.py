"""The tables of a run: their names, their columns, and what a line of each is.

In: nothing. Out: :data:`TABLES`, which databases and documentation are made from. This module must
not know how rows are made or where they go. It loads the columns of all tables; who gives rows of
one table does without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.tables.anomalies import ANOMALY_COLUMNS
from kanalyze.tables.connections import CONNECTION_COLUMNS
from kanalyze.tables.records.row import columns_of_records
from kanalyze.tables.row import COLUMNS, Column
from kanalyze.tables.told.group_row import GROUP_COLUMNS
from kanalyze.tables.told.metadata_row import METADATA_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ALWAYS", "TABLES", "TableSpec", "choose_tables"]


class TableSpec(NamedTuple):
    """The definition of a table of a run."""

    name: str
    line: str
    """What one line is."""
    columns: tuple[Column, ...]


TABLES: dict[str, TableSpec] = {
    table.name: table
    for table in (
        TableSpec("requests", "one request and its response", COLUMNS),
        TableSpec("connections", "one TCP connection, Kafka or not", CONNECTION_COLUMNS),
        TableSpec("anomalies", "one thing that is wrong with the input", ANOMALY_COLUMNS),
        TableSpec(
            "groups",
            "one event of a consumer group that says something: a join, sync or leave, a heartbeat "
            "that failed or brought something new, each partition of a commit or of offsets "
            "fetched",
            GROUP_COLUMNS,
        ),
        TableSpec(
            "metadata",
            "one broker, leader of a partition, or coordinator, as a connection was told it for "
            "the first time, or otherwise than before",
            METADATA_COLUMNS,
        ),
        TableSpec(
            "records",
            "one record in a Produce request or a Fetch response, without what users wrote",
            columns_of_records(values=False),
        ),
    )
}
"""By name, in the order in which they are told of."""

ALWAYS = ("requests", "connections", "anomalies")
"""Tables that cost next to nothing; the others are made for those who ask."""


def choose_tables(names: Iterable[str] = ()) -> tuple[TableSpec, ...]:
    """Return the tables with these names, and those of :data:`ALWAYS`; each once.

    Raises UsageError for a name that is no table.
    """
    asked = {*ALWAYS, *names}
    for name in sorted(asked):
        if name not in TABLES:
            raise UsageError(f"unknown table: {name!r}; there are {', '.join(TABLES)}")
    return tuple(table for table in TABLES.values() if table.name in asked)
