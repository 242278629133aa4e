"""The sums of a step for one API, client, broker, topic or error; and the slowest requests.

In: sums over rows with the same key. Out: sums with ``merge``, which is associative and
commutative. The queries in ``kanalyze/queries/sql/report/`` define each figure; a test compares the
two.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import bounded_text
from kanalyze.live.window.latency_sketch import LatencySketch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kanalyze.live.window.latency_sketch import Latencies
    from kanalyze.spec.rows.requests import Row

__all__ = [
    "Amounts",
    "EndSums",
    "EndTotals",
    "ErrorSums",
    "RecordSums",
    "SlowestRows",
    "TopicSums",
    "Traffic",
]

MAX_SLOWEST_TOPICS = 3


class RecordSums:
    """Numbers of records and of their bytes, and of partitions that could not be counted."""

    __slots__ = ("bytes", "count", "unknown")

    def __init__(self, count: int = 0, size: int = 0, unknown: int = 0) -> None:
        self.count = count
        self.bytes = size
        self.unknown = unknown
        """Partitions whose records could not be counted."""

    def merge(self, other: RecordSums) -> None:
        """Add another sum."""
        self.count += other.count
        self.bytes += other.bytes
        self.unknown += other.unknown


class Amounts(NamedTuple):
    """Requests, and bytes of requests and responses."""

    requests: int
    errors: int
    """Requests with an error code other than 0."""
    request_bytes: int
    response_bytes: int
    unread: int = 0
    """Requests whose response was not read: nobody knows whether it has an error code."""


class EndSums(NamedTuple):
    """Sums over rows of one API, one client or one broker."""

    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    unread: int
    latencies_ns: Latencies
    """Latencies of the rows that have one."""


class Traffic:
    """Numbers of requests and of bytes, to which others are added."""

    __slots__ = ("errors", "request_bytes", "requests", "response_bytes", "unread")

    def __init__(self) -> None:
        self.requests = self.errors = self.request_bytes = self.response_bytes = self.unread = 0

    @property
    def amounts(self) -> Amounts:
        """The sums."""
        return Amounts(
            self.requests, self.errors, self.request_bytes, self.response_bytes, self.unread
        )

    def count(self, more: Traffic | Amounts | EndSums) -> None:
        """Add numbers of requests and of bytes."""
        self.requests += more.requests
        self.errors += more.errors
        self.request_bytes += more.request_bytes
        self.response_bytes += more.response_bytes
        self.unread += more.unread


class EndTotals(Traffic):
    """Sums of one API, one client or one broker, to which rows are added."""

    __slots__ = ("latency",)

    def __init__(self) -> None:
        super().__init__()
        self.latency = LatencySketch()

    def add(self, sums: EndSums) -> None:
        """Add rows of this API, client or broker."""
        self.count(sums)
        self.latency.add_values(sums.latencies_ns)

    def merge(self, other: EndTotals) -> None:
        """Add another sum over the same API, client or broker."""
        self.count(other)
        self.latency.merge(other.latency)

    @property
    def figures(self) -> tuple[int, int, int, int, int, int | None, int | None]:
        """The :class:`Amounts`, then p50 and p99 of latency."""
        sketch = self.latency
        return (*self.amounts, sketch.quantile(0.5), sketch.quantile(0.99))


class TopicSums:
    """Sums of one topic."""

    __slots__ = ("errors", "fetch_requests", "fetched", "produce_requests", "produced")

    def __init__(self) -> None:
        self.produce_requests = 0
        self.produced = RecordSums()
        self.fetch_requests = 0
        self.fetched = RecordSums()
        self.errors = 0
        """Number of error codes other than 0 that concern the topic."""

    def merge(self, other: TopicSums) -> None:
        """Add another sum over the same topic."""
        self.produce_requests += other.produce_requests
        self.produced.merge(other.produced)
        self.fetch_requests += other.fetch_requests
        self.fetched.merge(other.fetched)
        self.errors += other.errors


class ErrorSums:
    """Sums of one error code, of one API, on one topic."""

    __slots__ = ("count", "last_time_ns")

    def __init__(self, count: int = 0, last_time_ns: int | None = None) -> None:
        self.count = count
        self.last_time_ns = last_time_ns

    def merge(self, other: ErrorSums) -> None:
        """Add another sum over the same error."""
        self.count += other.count
        self.last_time_ns = of_known(max, self.last_time_ns, other.last_time_ns)


class SlowestRows:
    """The requests with the highest latency; the caller leaves out requests that waited on purpose.

    Requests of equal latency are sorted by time, then by packet number, then by connection, so that
    the order of adding does not decide which are kept.
    """

    __slots__ = ("_entries", "_most")

    FIRST_BY = ("latency_ns", "request_start_ns", "request_packet")
    """Columns that decide which requests are the slowest, before all others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: list[tuple[tuple[int | str, ...], dict[str, Any]]] = []

    def add(self, rows: Iterable[Row], highest_ns: int) -> None:
        """Add rows if they are among the slowest; ``highest_ns`` is their highest latency."""
        least_ns = self._least_ns()
        if least_ns is not None and highest_ns < least_ns:
            return
        candidates = [
            (_slowness(row, row.latency_ns), row)
            for row in rows
            if row.latency_ns is not None and (least_ns is None or row.latency_ns >= least_ns)
        ]
        candidates.sort(key=itemgetter(0))
        if len(candidates) > self._most:
            last = candidates[self._most - 1][0]
            candidates = [candidate for candidate in candidates if candidate[0] <= last]
        entries = [(order, _slow_entry(row)) for order, row in candidates]
        # Entries that are equal in this order are sorted by all their fields.
        self._keep(((*order, repr(entry)), entry) for order, entry in entries)

    def candidates(
        self,
        latency_ns: NDArray[np.int64],
        request_start_ns: NDArray[np.int64],
        request_packet: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the indices of the rows that may be kept; none of the other rows would be.

        The columns are those of :attr:`FIRST_BY`, with 0 for unknown values; all rows have a
        latency.
        """
        least_ns = self._least_ns()
        indices = np.arange(len(latency_ns))
        if least_ns is not None:
            indices = np.flatnonzero(latency_ns >= least_ns)
        if len(indices) <= self._most:
            return indices
        latencies = latency_ns[indices]
        indices = indices[latencies >= np.partition(latencies, -self._most)[-self._most]]
        columns = np.stack(
            [~latency_ns[indices], request_start_ns[indices], request_packet[indices]]
        )
        order = np.lexsort(columns[::-1])
        ordered = columns[:, order]
        # All rows up to the last one within the limit, and those that are equal to that one.
        is_last = (ordered == ordered[:, [self._most - 1]]).all(axis=0)
        kept: NDArray[np.int64] = indices[order[: np.flatnonzero(is_last)[-1] + 1]]
        return kept

    def merge(self, other: SlowestRows) -> None:
        """Add the requests of ``other`` if they are among the slowest."""
        self._keep(other._entries)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the requests, slowest first."""
        return [entry for _, entry in self._entries]

    def _least_ns(self) -> int | None:
        """Return the lowest latency that is kept; None while there is room for any request."""
        if len(self._entries) < self._most:
            return None
        least: int = self._entries[-1][1]["latency_ns"]
        return least

    def _keep(self, entries: Iterable[tuple[tuple[int | str, ...], dict[str, Any]]]) -> None:
        self._entries = sorted([*self._entries, *entries], key=itemgetter(0))[: self._most]


def _slowness(row: Row, latency_ns: int) -> tuple[int | str, ...]:
    return (
        -latency_ns,
        row.request_start_ns or 0,
        row.request_packet or 0,
        row.capture,
        row.connection,
        row.connection_number,
        row.correlation_id or 0,
    )


_SLOW_COLUMNS = (
    "capture",
    "connection",
    "connection_number",
    "client_id",
    "api_key",
    "api_name",
    "api_version",
    "correlation_id",
    "latency_ns",
    "total_time_ns",
    "request_start_ns",
    "request_end_ns",
    "response_start_ns",
    "response_end_ns",
    "request_packet",
    "response_packet",
    "request_bytes",
    "response_bytes",
    "throttle_time_ms",
    "status",
    "error_name",
)


def _slow_entry(row: Row) -> dict[str, Any]:
    entry = {name: getattr(row, name) for name in _SLOW_COLUMNS}
    if row.client_id is not None:
        entry["client_id"] = bounded_text(row.client_id)
    names = {item.topic or item.topic_id for item in row.partitions}
    topics = sorted({bounded_text(name) for name in names if name is not None})
    entry["topics"] = topics[:MAX_SLOWEST_TOPICS]
    entry["more_topics"] = len(topics) > MAX_SLOWEST_TOPICS
    return entry
