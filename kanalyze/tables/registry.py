"""The tables of a run: their names, their columns, and what a line of each is.

In: nothing. Out: :data:`TABLES`, which databases are made from, and :data:`SQL_TABLES`, as who asks
sees them, with the views, which the documentation is made from. This module must not know how rows
are made or where they go. It loads the columns of all tables; who gives rows of one table does
without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.tables.anomalies import ANOMALY_COLUMNS
from kanalyze.tables.cluster.carried import REQUEST_ID
from kanalyze.tables.cluster.group_row import GROUP_COLUMNS
from kanalyze.tables.cluster.metadata_row import METADATA_COLUMNS
from kanalyze.tables.connections import CONNECTION_COLUMNS
from kanalyze.tables.quality_facts import QUALITY, QUALITY_COLUMNS
from kanalyze.tables.records.row import columns_of_records
from kanalyze.tables.row import COLUMNS, Column, with_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ALWAYS", "SQL_TABLES", "TABLES", "TableSpec", "choose_tables"]


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
        TableSpec(
            QUALITY,
            "one count of what the capture holds, lacks, or could not be read",
            QUALITY_COLUMNS,
        ),
    )
}
"""The tables by name, in the order of the documentation."""

ALWAYS = ("requests", "connections", "anomalies")
"""Tables that cost next to nothing; the others are made for those who ask."""

_OF_REQUEST = (
    *("request_id", "capture", "connection", "connection_number", "client_ip", "broker_ip"),
    *("broker_port", "client_id", "principal", "group_id", "wire", "api_key", "api_name"),
    *("api_version", "correlation_id", "request_start_ns", "response_start_ns", "latency_ns"),
    *("waited", "request_packet", "response_packet"),
)
_BY_NAME = {column.name: column for column in (REQUEST_ID, *COLUMNS)}


def _view(
    name: str, more: Iterable[str], names: Mapping[str, str], last: tuple[Column, ...] = ()
) -> TableSpec:
    """Return the view of a list of requests.

    Args:
        name: of the view, and of the list.
        more: further columns of the request.
        names: what some columns of the items are called in the view.
        last: the columns behind those of the items.
    """
    request = [_BY_NAME[column] for column in (*_OF_REQUEST, *more)]
    items = [
        column._replace(name=names.get(column.name, column.name))
        for column in _BY_NAME[name].fields
    ]
    line = f"one item of the list {name} of a request, with what matters of the request"
    return TableSpec(name, line, (*request, *items, *last))


_COUNTED = _BY_NAME["record_count"]._replace(name="request_record_count")
SQL_TABLES: dict[str, TableSpec] = {
    **{n: table._replace(columns=with_times(table.columns)) for n, table in TABLES.items()},
    "requests": TABLES["requests"]._replace(columns=with_times((REQUEST_ID, *COLUMNS))),
    "partitions": _view("partitions", ("status", "acks"), {}, (_COUNTED,)),
    "errors": _view("errors", (), {"code": "error_code", "name": "error_name"}),
}
"""The tables and views that SQL can query."""


def choose_tables(names: Iterable[str] = ()) -> tuple[TableSpec, ...]:
    """Return the tables with these names, and those of :data:`ALWAYS`; each once.

    Raises UsageError for a name that is no table.
    """
    asked = {*ALWAYS, *names}
    for name in sorted(asked):
        if name not in TABLES:
            raise UsageError(f"unknown table: {name!r}; there are {', '.join(TABLES)}")
    return tuple(table for table in TABLES.values() if table.name in asked)
