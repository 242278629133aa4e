"""The row contracts of views that sum up other tables.

In: nothing. Out: :class:`Flow`, and its columns.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import Bytes, Column, Int32, Int64, Time, columns_of
from kanalyze.spec.rows.requests import ClientId, Principal, Topic

__all__ = ["FLOW_COLUMNS", "FLOW_KEYS", "Flow"]


class Flow(NamedTuple):
    """What one client has sent and got: for a group, about a topic, in one direction, at a broker.

    Sums over all lines are those over all requests.
    """

    traffic: Annotated[
        str,
        "client; mirror (MirrorMaker 2, by its client ids); replica: between brokers; controller: "
        "to and between controllers. By API and client id; other requests of such connections "
        "belong to them",
    ]
    direction: Annotated[str, "produce, fetch, or other: requests without records"]
    client_id: ClientId
    client_ip: Annotated[str, "IP address of the client"]
    principal: Principal
    group_id: Annotated[
        str | None,
        "consumer group: that of the request, or the one that the client (client id, address and "
        "user) sends requests for; null if it sends requests for none, or for several",
    ]
    client_software_name: Annotated[str | None, "from ApiVersions v3+ on the same connection"]
    client_software_version: Annotated[str | None, "from ApiVersions v3+ on the same connection"]
    topic: Topic
    topic_id: Annotated[str | None, "id of a topic whose name is not known"]
    broker_ip: Annotated[str, "IP address of the broker"]
    broker_port: Annotated[Int32, "TCP port of the broker"]
    requests: Annotated[
        Int64, "requests; one that names several topics counts in the line of each of them"
    ]
    errors: Annotated[Int64, "those with an error code of this topic, or of the whole request"]
    record_count: Annotated[
        Int64, "records, without refused ones; from batch headers, where these are in the capture"
    ]
    record_bytes: Annotated[Bytes, "bytes of record batches, without refused ones"]
    request_bytes: Annotated[
        Bytes,
        "bytes of requests on the wire; those of a request with several topics are divided by "
        "their bytes of records, evenly if there are none",
    ]
    response_bytes: Annotated[Bytes, "bytes of responses on the wire, divided likewise"]
    first_time_ns: Annotated[Time | None, "begin of the first request"]
    last_time_ns: Annotated[Time | None, "begin of the last request"]


FLOW_COLUMNS: tuple[Column, ...] = columns_of(Flow)
"""The columns of :class:`Flow`, in the order of its fields."""
FLOW_KEYS = Flow._fields[: Flow._fields.index("requests")]
"""The columns that tell flows apart; the others are sums."""
