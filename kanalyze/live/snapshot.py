"""What the last seconds were like, as values.

In: nothing. Out: the types that a window is shown by. This module must not know how anything is
counted or shown.

Amounts are sums over the window, exact; :meth:`Snapshot.per_second` makes a rate of one. An entry
whose ``other`` is true stands for all keys beyond the limit; what it is called is then null.
Texts are as they came over the wire, of bounded length: whoever shows them escapes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kanalyze.live.sums import Amounts

__all__ = [
    "ApiEntry",
    "CaptureState",
    "ClientEntry",
    "ErrorEntry",
    "GroupEntry",
    "Snapshot",
    "TopicEntry",
]

_SECOND_NS = 1_000_000_000


class CaptureState(NamedTuple):
    """How a capture stands; counts are those since it began."""

    source: str
    """The interface or file, as given."""
    packets: int
    wire_bytes: int
    dropped_packets: int | None
    """Lost before they were read; None when nobody can say."""
    connections: int
    """TCP connections that are open now."""
    elapsed_ns: int
    """Since the capture began, by a clock that does not jump."""


class ApiEntry(NamedTuple):
    """Requests of one API; fetches that waited for data on purpose apart from the others."""

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
    """A consumer group in which members joined, synced, or were told that it rebalances."""

    group_id: str | None
    other: bool
    joins: int
    syncs: int
    told: int
    """Responses with REBALANCE_IN_PROGRESS."""
    longest_join_ns: int | None
    """The highest latency of a JoinGroup."""
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
    packets: int
    wire_bytes: int
    dropped_packets: int
    """In the window, as ``packets`` and ``wire_bytes``."""
    capture: CaptureState | None
    """As handed in at last; None when nothing was."""
    step_ns: int
    history: tuple[Amounts, ...]
    """Of each step of the last minutes, the oldest first, the last one not over yet."""
    apis: tuple[ApiEntry, ...]
    """Most requests first, as ``clients``."""
    clients: tuple[ClientEntry, ...]
    topics: tuple[TopicEntry, ...]
    """Most bytes first."""
    slowest: tuple[dict[str, Any], ...]
    """Up to 20, slowest first, as :class:`~kanalyze.analysis.totals.SlowestRequests` gives them."""
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
