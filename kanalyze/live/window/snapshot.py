"""The values of a snapshot of the last seconds.

In: nothing. Out: the types of a snapshot.

Amounts are exact sums over the window; :meth:`Snapshot.per_second` converts one to a rate. An entry
with ``other`` sums up all keys beyond the limit; its names are null. Texts are as on the wire, of
limited length; they are escaped where they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.queries.report_names import named_text, names_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kanalyze.live.silence import SilentBroker
    from kanalyze.model.anomalies import AnomalyKind
    from kanalyze.queries.finding import Finding
    from kanalyze.runtime.monitor import InFlight, TlsConnections
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.names import AddressNames

PIPE = "-"
"""The source of a capture from a pipe."""

_SECOND_NS = 1_000_000_000
RECENT_NS = 60 * _SECOND_NS
"""A fault that was last seen longer ago is over."""


class Amounts(NamedTuple):
    """Requests, and bytes of requests and responses."""

    requests: int
    errors: int
    """Requests with an error code other than 0."""
    request_bytes: int
    response_bytes: int
    unread: int = 0
    """Requests whose response was not read: nobody knows whether it has an error code."""


class LagOfTopic(NamedTuple):
    """How far a consumer group is behind in a topic, as the table ``lag`` of a report says."""

    group_id: str
    topic: str
    partitions: int
    assigned: int
    unknown: int
    lag: int | None
    highest_lag: int | None
    lag_ns: int | None
    last_time_ns: int


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
    lag: tuple[LagOfTopic, ...] | None = None
    """Lag of groups in the same requests, the highest first; None if its query failed."""

    def present(self, now_ns: int, recent_ns: int = RECENT_NS) -> list[Finding]:
        """Return the findings of faults that were last seen at most ``recent_ns`` ago."""
        return [
            finding
            for finding in self.findings
            if finding.last_time_ns is None or finding.last_time_ns >= now_ns - recent_ns
        ]


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
    write_failures: Mapping[str, int] = {}
    """Attempts to write files that failed, by what the files contain."""
    tls: TlsConnections | None = None
    """Connections with TLS; None: not counted."""
    silent_brokers: tuple[SilentBroker, ...] = ()
    """Brokers that answer nobody now, those with most requests that wait first."""
    findings: LatestFindings | None = None
    """The result of the latest search for findings; None before the first."""


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
    apis: tuple[Any, ...]
    """Most requests first, as ``clients`` and ``brokers``."""
    clients: tuple[Any, ...]
    brokers: tuple[Any, ...]
    topics: tuple[Any, ...]
    """Most bytes first."""
    slowest: tuple[dict[str, Any], ...]
    """Up to 20 requests of :class:`.SlowestRows`, the slowest first."""
    groups: tuple[Any, ...]
    """The latest rebalance first."""
    errors: tuple[Any, ...]
    """Most frequent first."""
    findings: LatestFindings | None = None
    """None before the first round of queries."""
    opened: OpenedRows | None = None
    """The requests of a line that was opened."""
    filters: str = ""
    """The filters of the run, as options of the command line."""
    zone: Zone = UTC
    """The time zone of the times that are shown."""
    names: AddressNames | None = None
    """The names of the addresses that are shown."""
    unfiltered: Snapshot | None = None
    """The snapshot of all rows, if this one is of a selection; otherwise None."""

    def per_second(self, amount: int) -> float:
        """Return the rate per second of an amount."""
        return amount * _SECOND_NS / self.window_ns

    def named(self, text: str) -> str:
        """Return an escaped text with the names beside the addresses in it, escaped too."""
        return text if self.names is None else named_text(text, self.names, self.time_ns)

    def with_names(self, texts: Iterable[str | None]) -> Iterator[str | None]:
        """Yield texts, each followed by the names of the addresses in it."""
        for text in texts:
            yield text
            yield from names_in(text or "", self.names, self.time_ns)

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
