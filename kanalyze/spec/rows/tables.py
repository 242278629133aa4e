"""The tables of a run: their names, their columns, and what a line of each is.

In: nothing. Out: :data:`TABLES`, from which databases are made, and :data:`SQL_TABLES`, which SQL
queries see: tables and views. The documentation is made from the latter. It imports the columns of
all tables; code that makes rows of a single table should not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.spec.columns import Column, with_times
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, QUALITY, QUALITY_COLUMNS
from kanalyze.spec.rows.cluster import (
    CHANGE_COLUMNS,
    CLIENT_METRIC_COLUMNS,
    GROUP_COLUMNS,
    METADATA_COLUMNS,
    REQUEST_ID,
)
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.spec.rows.records import columns_of_records
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.views import FLOW_COLUMNS, LAG_COLUMNS, REPLICATION_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class TableSpec(NamedTuple):
    """The definition of a table of a run."""

    name: str
    line: str
    """What one row of the table is, in words."""
    columns: tuple[Column, ...]


TABLES: dict[str, TableSpec] = {
    table.name: table
    for table in (
        TableSpec("requests", "one request and its response", COLUMNS),
        TableSpec("connections", "one TCP connection, Kafka or not", CONNECTION_COLUMNS),
        TableSpec("anomalies", "one thing that is wrong with the input", ANOMALY_COLUMNS),
        TableSpec(
            "groups",
            "one event of a consumer group: a join, sync or leave, a heartbeat that failed or "
            "changed something, each partition of a commit or of fetched offsets",
            GROUP_COLUMNS,
        ),
        TableSpec(
            "metadata",
            "one broker, leader of a partition, coordinator, or set of announced versions, when it "
            "first appears on a connection or when it changes",
            METADATA_COLUMNS,
        ),
        TableSpec(
            "changes",
            "one setting that a request asks to change, or a resource that it creates or deletes",
            CHANGE_COLUMNS,
        ),
        TableSpec(
            "client_metrics",
            "one number of the metrics that a client pushes to a broker (KIP-714); it needs "
            "kanalyze[otlp]",
            CLIENT_METRIC_COLUMNS,
        ),
        TableSpec(
            "records",
            "one record in a Produce request or a Fetch or ShareFetch response, without keys and "
            "values",
            columns_of_records(values=False, is_table=True),
        ),
        TableSpec(
            QUALITY,
            "one count of what the capture contains, lacks, or could not be decoded",
            QUALITY_COLUMNS,
        ),
    )
}
"""The tables by name, in the order of the documentation."""

ALWAYS = ("requests", "connections", "anomalies")
"""Tables that are always made, at almost no cost; the others are made only on request."""


def stored_columns(table: str) -> tuple[Column, ...]:
    """Return the columns of a table where its rows are stored: requests have their numbers."""
    columns = TABLES[table].columns
    return (REQUEST_ID, *columns) if table == "requests" else columns


_OF_REQUEST = (
    *("request_id", "capture", "connection", "connection_number", "client_ip", "broker_ip"),
    *("broker_port", "client_software_name", "client_software_version", "client_id"),
    *("principal", "group_id", "wire", "api_key", "api_name"),
    *("api_version", "correlation_id", "request_start_ns", "response_start_ns", "latency_ns"),
    *("waited", "request_packet", "response_packet"),
)
_BY_NAME = {column.name: column for column in stored_columns("requests")}


def _view(
    name: str, more: Iterable[str], names: Mapping[str, str], last: tuple[Column, ...] = ()
) -> TableSpec:
    """Return the view with one row per item of a list column of the table ``requests``.

    Args:
        name: name of the list and of the view.
        more: columns of the request to copy besides :data:`_OF_REQUEST`.
        names: new names for some columns of the items.
        last: columns to put after those of the items.
    """
    request = [_BY_NAME[column] for column in (*_OF_REQUEST, *more)]
    items = [
        column._replace(name=names.get(column.name, column.name))
        for column in _BY_NAME[name].fields
    ]
    line = f"one item of the list {name} of a request, with some columns of the request"
    return TableSpec(name, line, with_times((*request, *items, *last)))


_COUNTED = _BY_NAME["record_count"]._replace(name="request_record_count")
SQL_TABLES: dict[str, TableSpec] = {
    **{name: table._replace(columns=with_times(table.columns)) for name, table in TABLES.items()},
    "requests": TABLES["requests"]._replace(columns=with_times(stored_columns("requests"))),
    "partitions": _view("partitions", ("status", "acks"), {}, (_COUNTED,)),
    "errors": _view("errors", (), {"code": "error_code", "name": "error_name"}),
    "flows": TableSpec(
        "flows",
        "what a client has sent and got, for a group, about a topic, in one direction, at a broker",
        with_times(FLOW_COLUMNS),
    ),
    "lag": TableSpec(
        "lag",
        "how far a consumer group is behind in a partition, as of a second",
        with_times(LAG_COLUMNS),
    ),
    "replication": TableSpec(
        "replication",
        "what a follower has fetched from a leader, by one of its fetchers",
        with_times(REPLICATION_COLUMNS),
    ),
}
"""The tables and views that SQL can query."""


def choose_tables(names: Iterable[str] = ()) -> tuple[TableSpec, ...]:
    """Return the tables with these names, and those of :data:`ALWAYS`, without repetition.

    Raises UsageError for an unknown name.
    """
    selected = {*ALWAYS, *names}
    for name in sorted(selected):
        if name not in TABLES:
            raise UsageError(f"unknown table: {name!r}; there are {', '.join(TABLES)}")
    return tuple(table for table in TABLES.values() if table.name in selected)
