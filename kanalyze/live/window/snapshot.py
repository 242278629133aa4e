"""The values of a snapshot of the last seconds.

In: nothing. Out: the types of a snapshot.

Amounts are exact sums over the window; :meth:`Snapshot.per_second` converts one to a rate. An entry
with ``other`` sums up all keys beyond the limit; its names are null. Texts are as on the wire, of
limited length; they are escaped where they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.model.anomalies import AnomalyKind
    from kanalyze.queries.findings import Finding
    from kanalyze.runtime.monitor import InFlight, TlsConnections
    from kanalyze.spec.rows.requests import Row

__all__ = [
    "PIPE",
    "Amounts",
    "ApiEntry",
    "BrokerEntry",
    "CaptureState",
    "ClientEntry",
    "ErrorEntry",
    "GroupEntry",
    "LatestFindings",
    "OpenedRows",
    "Snapshot",
    "TopicEntry",
]

PIPE = "-"
"""The source of a capture from a pipe."""

_SECOND_NS = 1_000_000_000


class Amounts(NamedTuple):
    """Requests, and bytes of requests and responses."""

    requests: int
    errors: int
    """Requests with an error code other than 0."""
    request_bytes: int
    response_bytes: int
    unread: int = 0
    """Requests whose response was not read: nobody knows whether it has an error code."""


class LatestFindings(NamedTuple):
    """The result of the latest search for findings."""

    time_ns: int
    """The time of the packets when the search began."""
    requests: int
    """The number of requests that were searched: the latest ones."""
    span_ns: int
    """The time from the first of these requests to the last."""
    findings: tuple[Finding, ...]
    """The most severe first."""
    not_searched: Mapping[str, str]
    """By kind of finding: why it was not searched for."""


class OpenedRows(NamedTuple):
    """Requests of a line of a table."""

    rows: tuple[Row, ...]
    """The first requests in the order of the view."""
    total: int
    """The number of all requests of the line."""


class CaptureState(NamedTuple):
    """The state of a capture; counts are since it began unless stated otherwise."""

    source: str
    """``live:`` and the interface, or :data:`PIPE`."""
    packets: int
    wire_bytes: int
    dropped_packets: int | None
    """Packets lost before they were read; None if not known."""
    connections: int
    """TCP connections that are open now."""
    elapsed_ns: int
    """The time since the capture began, by a monotonic clock."""
    connections_seen: int = 0
    """TCP connections seen, including closed ones."""
    held_bytes: int = 0
    """Bytes buffered now for open connections, because bytes before them are missing."""
    last_packet_ns: int | None = None
    """Unix time of the last packet; None before the first."""
    anomalies: Mapping[AnomalyKind, int] | None = None
    """Counts of anomalies by kind, without zeros; None: not counted."""
    in_flight: InFlight | None = None
    """Requests without a response now; None: not counted."""
    doubts: Mapping[str, Any] | None = None
    """Connections that were refused or not recognised, and TCP data of no stream, as
    :meth:`kanalyze.runtime.monitor.RunMonitor.doubts` returns them. None: not counted."""
    problems: tuple[str, ...] = ()
    """Why files cannot be written now."""
    tls: TlsConnections | None = None
    """Connections with TLS; None: not counted."""


class ApiEntry(NamedTuple):
    """Requests of an API; those that the broker held back on purpose have their own entry."""

    wire: str | None
    api_key: int | None
    """None for responses whose request is not known."""
    api_name: str | None
    waited: bool
    other: bool
    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    unread: int
    """Requests whose response was not read, as in ``traffic``."""
    p50_ns: int | None
    p99_ns: int | None
    """Quantiles of latency, such as ``p50_ns``; None if there are none."""


class ClientEntry(NamedTuple):
    """Requests of a client id from an address."""

    client_id: str | None
    client_ip: str | None
    other: bool
    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    unread: int
    p50_ns: int | None
    p99_ns: int | None
    """Quantiles of latency, such as ``p50_ns``, without requests that were held back on purpose."""


class BrokerEntry(NamedTuple):
    """Requests to a broker."""

    broker: str | None
    """Its address and port."""
    other: bool
    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    unread: int
    p50_ns: int | None
    p99_ns: int | None
    """Quantiles of the same requests as for clients."""


class TopicEntry(NamedTuple):
    """What was produced to and fetched from a topic."""

    topic: str | None
    topic_id: str | None
    """None if the name is known."""
    other: bool
    produce_requests: int
    produced_records: int
    produced_bytes: int
    fetch_requests: int
    fetched_records: int
    fetched_bytes: int
    records_known: bool
    """False: there may be more records."""
    errors: int
    """Error codes other than 0 of the topic."""


class ErrorEntry(NamedTuple):
    """An error code of an API on a topic; every code in a response counts."""

    api_name: str | None
    error_code: int | None
    error_name: str | None
    topic: str | None
    other: bool
    occurrences: int
    last_time_ns: int | None


class GroupEntry(NamedTuple):
    """A group whose members joined, left, failed, had to rejoin or got an assignment.

    Members of the newer protocols join and leave by heartbeats: for their groups ``joins``,
    ``syncs``, ``leaves`` and ``told`` are 0.
    """

    group_id: str | None
    other: bool
    protocol: str | None
    """``classic``, ``consumer``, ``share`` or ``streams``; None if not known."""
    members: int
    """Members seen, up to :data:`~kanalyze.live.window.tables.MEMBER_LIMIT`."""
    members_known: bool
    """False: there were more."""
    rebalances: int | None
    """The lowest possible number of rebalances: the assignments to the member that got most. None
    if not known, as for streams groups and the entry of others."""
    joins: int
    syncs: int
    leaves: int
    told: int
    """Responses with REBALANCE_IN_PROGRESS."""
    errors: int
    """Failed requests of members, without errors that belong to any rebalance."""
    last_error_name: str | None
    """The error of the last failed request."""
    longest_join_ns: int | None
    """The highest latency of a JoinGroup: held back until all members have joined."""
    longest_sync_ns: int | None
    """The highest latency of a SyncGroup: held back until the leader has sent assignments."""
    last_time_ns: int | None


class Snapshot(NamedTuple):
    """A snapshot of the last seconds."""

    time_ns: int
    """The time of the packets."""
    window_ns: int
    """The length of the window over which amounts are summed; at least a step."""
    recent_ns: int
    """The length of time that ``slowest`` and ``groups`` cover."""
    rows: int
    """All rows since the beginning, or since the windows were cleared."""
    late_rows: int
    """Rows older than the window, which count in its oldest step."""
    traffic: Amounts
    p50_ns: int | None
    """Quantiles of latency without requests held back on purpose; None if there are none."""
    p99_ns: int | None
    packets: int
    wire_bytes: int
    dropped_packets: int
    """Counts in the window, such as ``packets`` and ``wire_bytes``."""
    idle_ns: int
    """The time since the last packet."""
    capture: CaptureState | None
    """The latest state; None if there is none."""
    step_ns: int
    history: tuple[Amounts, ...]
    """The steps of the last minutes, the oldest first; the last one is not complete."""
    p99_history: tuple[int | None, ...]
    """``p99_ns`` of each of these steps."""
    apis: tuple[ApiEntry, ...]
    """Most requests first, as ``clients`` and ``brokers``."""
    clients: tuple[ClientEntry, ...]
    brokers: tuple[BrokerEntry, ...]
    topics: tuple[TopicEntry, ...]
    """Most bytes first."""
    slowest: tuple[dict[str, Any], ...]
    """Up to 20 requests of :class:`.SlowestRows`, the slowest first."""
    groups: tuple[GroupEntry, ...]
    """The latest rebalance first."""
    errors: tuple[ErrorEntry, ...]
    """Most frequent first."""
    findings: LatestFindings | None = None
    """None before the first round of queries."""
    opened: OpenedRows | None = None
    """The requests of a line that was opened."""
    filters: str = ""
    """The filters of the run, as options of the command line."""
    unfiltered: Snapshot | None = None
    """The snapshot of all rows, if this one is of a selection; otherwise None."""

    def per_second(self, amount: int) -> float:
        """Return the rate per second of an amount."""
        return amount * _SECOND_NS / self.window_ns

    @property
    def error_share(self) -> float | None:
        """The share of requests with an error, without those whose response was not read.

        0 without requests; None if there are requests, and no response was read.
        """
        traffic = self.traffic
        known = traffic.requests - traffic.unread
        if known <= 0:
            return None if traffic.unread else 0.0
        return traffic.errors / known
