"""What the last seconds were like, as values.

In: nothing. Out: the types that a window is shown by. This module must not know how anything is
counted or shown.

Amounts are sums over the window, exact; :meth:`Snapshot.per_second` makes a rate of one. An entry
whose ``other`` is true stands for all keys beyond the limit; what it is called is then null.
Texts are as they came over the wire, of bounded length: whoever shows them escapes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.live.window.step_sums import Amounts
    from kanalyze.model.anomalies import AnomalyKind
    from kanalyze.statistics.in_flight import InFlight

__all__ = [
    "PIPE",
    "ApiEntry",
    "CaptureState",
    "ClientEntry",
    "ErrorEntry",
    "GroupEntry",
    "Snapshot",
    "TopicEntry",
]

PIPE = "-"
"""The source of a capture that comes through a pipe."""

_SECOND_NS = 1_000_000_000


class CaptureState(NamedTuple):
    """How a capture stands; counts are those since it began."""

    source: str
    """``live:`` and the interface, or :data:`PIPE`."""
    packets: int
    wire_bytes: int
    dropped_packets: int | None
    """Lost before they were read; None when nobody can say."""
    connections: int
    """TCP connections that are open now."""
    elapsed_ns: int
    """Since the capture began, by a clock that does not jump."""
    begun_connections: int = 0
    """TCP connections seen, those that ended among them."""
    held_bytes: int = 0
    """Of the traffic, for open connections: what waits for what comes before or after it."""
    last_packet_ns: int | None = None
    """Unix time of the last packet; None before there was one."""
    anomalies: Mapping[AnomalyKind, int] | None = None
    """How often each kind of anomaly was met, without kinds that were not; None: not counted."""
    in_flight: InFlight | None = None
    """Requests without a response now; None: not counted."""
    doubts: Mapping[str, Any] | None = None
    """Connections that never came to be, those not recognised beside a broker, open ones among
    them, and TCP data that is of no stream: as :meth:`kanalyze.runtime.monitor.RunMonitor.doubts`
    gives them. None: not counted."""
    problems: tuple[str, ...] = ()
    """Why files cannot be written now, a few words each."""


class ApiEntry(NamedTuple):
    """Requests of one API; those that the broker held back on purpose apart from the others."""

    wire: str | None
    api_key: int | None
    """Null for responses of which the request is not known."""
    api_name: str | None
    waited: bool
    other: bool
    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    p50_ns: int | None
    p99_ns: int | None
    """As ``p50_ns`` of latencies; None where there was none."""


class ClientEntry(NamedTuple):
    """Requests of one client id from one address."""

    client_id: str | None
    client_ip: str | None
    other: bool
    requests: int
    errors: int
    request_bytes: int
    response_bytes: int


class TopicEntry(NamedTuple):
    """What was produced to and fetched from one topic."""

    topic: str | None
    topic_id: str | None
    """Only where no name is known."""
    other: bool
    produce_requests: int
    produced_records: int
    produced_bytes: int
    fetch_requests: int
    fetched_records: int
    fetched_bytes: int
    records_known: bool
    """False: the records are those known at least."""
    errors: int
    """Error codes other than 0 that concern the topic, each counted."""


class ErrorEntry(NamedTuple):
    """One error code, of one API, on one topic; every code in a response counts."""

    api_name: str | None
    error_code: int | None
    error_name: str | None
    topic: str | None
    other: bool
    occurrences: int
    last_time_ns: int | None


class GroupEntry(NamedTuple):
    """A group in which members joined, got an assignment, left, failed or were told to rejoin.

    Members of the newer protocols join and leave by heartbeats as any others: of those groups
    ``joins``, ``syncs`` and ``leaves`` are 0, and so is ``told``.
    """

    group_id: str | None
    other: bool
    protocol: str | None
    """``classic``, ``consumer``, ``share`` or ``streams``; None where no row tells it."""
    members: int
    """Members seen, up to :data:`~kanalyze.live.window.rebalances.MEMBER_LIMIT`."""
    members_known: bool
    """False: there were more."""
    rebalances: int | None
    """Assignments to the member that got the most: the group rebalanced so often at least. None
    where they are not known, as in streams groups, or where the group is not one."""
    joins: int
    syncs: int
    leaves: int
    told: int
    """Responses with REBALANCE_IN_PROGRESS."""
    errors: int
    """Requests of members that failed, without what is part of any rebalance."""
    last_error_name: str | None
    """What the last of them failed with."""
    longest_join_ns: int | None
    """The highest latency of a JoinGroup: held back until all members have joined."""
    longest_sync_ns: int | None
    """The highest latency of a SyncGroup: held back until the leader has sent assignments."""
    last_time_ns: int | None


class Snapshot(NamedTuple):
    """What the last seconds were like."""

    time_ns: int
    """The time handed in: that of the packets."""
    window_ns: int
    """What amounts are summed over; a step at least."""
    recent_ns: int
    """What ``slowest`` and ``groups`` look back on."""
    rows: int
    """All rows since the beginning, or since windows were cleared."""
    late_rows: int
    """Of them, those older than the window, which count in its oldest step."""
    traffic: Amounts
    p50_ns: int | None
    """Of latencies, but for requests that were held back on purpose. None where there was none."""
    p99_ns: int | None
    packets: int
    wire_bytes: int
    dropped_packets: int
    """In the window, as ``packets`` and ``wire_bytes``."""
    idle_ns: int
    """For how long no packet has come."""
    capture: CaptureState | None
    """As handed in at last; None when nothing was."""
    step_ns: int
    history: tuple[Amounts, ...]
    """Of each step of the last minutes, the oldest first, the last one not over yet."""
    p99_history: tuple[int | None, ...]
    """What ``p99_ns`` was in each of these steps."""
    apis: tuple[ApiEntry, ...]
    """Most requests first, as ``clients``."""
    clients: tuple[ClientEntry, ...]
    topics: tuple[TopicEntry, ...]
    """Most bytes first."""
    slowest: tuple[dict[str, Any], ...]
    """Up to 20, slowest first, as :class:`.SlowestRequests` gives them."""
    groups: tuple[GroupEntry, ...]
    """The one that rebalanced last first."""
    errors: tuple[ErrorEntry, ...]
    """Most frequent first."""

    def per_second(self, amount: int) -> float:
        """Return an amount of the window per second."""
        return amount * _SECOND_NS / self.window_ns

    @property
    def error_share(self) -> float:
        """Requests with an error among all requests of the window; 0 without requests."""
        traffic = self.traffic
        return traffic.errors / traffic.requests if traffic.requests else 0.0
