"""The columns with the names of addresses, which tables have when there are names.

In: nothing. Out: :data:`NAME_COLUMNS`, and the tables that have them.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import Column, Int32, columns_of


class Names(NamedTuple):
    """What is known of the two ends of a connection at the time of a line."""

    client_name: Annotated[str | None, "name of the client's address: of a pod, a host"]
    client_app: Annotated[str | None, "application that the client belongs to"]
    client_zone: Annotated[str | None, "zone that the client is in"]
    broker_name: Annotated[str | None, "name of the broker's address"]
    broker_id: Annotated[
        Int32 | None, "node id of the broker that responses name with this address and port"
    ]
    broker_zone: Annotated[str | None, "zone that the broker is in, or else its rack"]


NAME_COLUMNS: tuple[Column, ...] = columns_of(Names)
BROKER_COLUMNS = tuple(name for name in Names._fields if name.startswith("broker_"))

NAMED_TABLES = {
    "requests": "request_start_ns",
    "connections": "start_ns",
    "anomalies": "time_ns",
    **dict.fromkeys(
        ("groups", "metadata", "changes", "client_metrics", "partitions", "errors"),
        "request_start_ns",
    ),
    "flows": "first_time_ns",
}
"""The tables with addresses of both ends, and the column with the time of a line."""
NAMED_ROWS = {**NAMED_TABLES, "records": "time_ns"}
"""The same, with tables that have connections only."""
