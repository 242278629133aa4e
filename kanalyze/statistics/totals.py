"""The sums that a report is made of: per API, client, broker, topic, group and error.

In: sums over groups of alike rows. Out: plain values. This module must not know how rows are
grouped, and imports no I/O.

All sums have ``merge``, which is associative and commutative.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.statistics.bounded_counters import SmallestTexts, bounded_text
from kanalyze.statistics.quantile_sketch import Int64Values, QuantileSketch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kanalyze.tables.row import Row

__all__ = [
    "ApiTotals",
    "ClientTotals",
    "ConsumerGroupTotals",
    "EndpointSums",
    "EndpointTotals",
    "ErrorTotals",
    "RecordTotals",
    "RowSums",
    "SlowestRequests",
    "TopicTotals",
]

MAX_VERSIONS = 64
"""Versions of one API that are counted apart; beyond, they count as ``other``."""
MAX_TEXTS = 8
"""Client addresses, principals and software versions shown for one client."""
MAX_SLOWEST = 10
MAX_SLOWEST_TOPICS = 3


class RecordTotals:
    """Records and their bytes, and whether that is all of them."""

    __slots__ = (
        "acknowledged",
        "acknowledged_bytes",
        "bytes",
        "count",
        "one_way",
        "refused",
        "unanswered",
        "unknown",
    )

    def __init__(
        self,
        count: int = 0,
        size: int = 0,
        unknown: int = 0,
        refused: int = 0,
        acknowledged: int = 0,
        acknowledged_bytes: int = 0,
        unanswered: int = 0,
        one_way: int = 0,
    ) -> None:
        self.count = count
        self.bytes = size
        self.unknown = unknown
        """Requests or partitions whose records could not be counted."""
        self.refused = refused
        """Records in partitions that were answered with an error; in none of the others."""
        self.acknowledged = acknowledged
        """Of the records, those in partitions that were answered without an error."""
        self.acknowledged_bytes = acknowledged_bytes
        self.unanswered = unanswered
        """Of the records, those in requests whose answer is due and missing."""
        self.one_way = one_way
        """Of the records, those in requests that no answer is due to."""

    def merge(self, other: RecordTotals) -> None:
        """Add another sum."""
        self.count += other.count
        self.bytes += other.bytes
        self.unknown += other.unknown
        self.refused += other.refused
        self.acknowledged += other.acknowledged
        self.acknowledged_bytes += other.acknowledged_bytes
        self.unanswered += other.unanswered
        self.one_way += other.one_way


class RowSums(NamedTuple):
    """Sums over rows that are alike in API, version, status, client and broker."""

    status: str
    rows: int
    responses: int
    request_bytes: int
    response_bytes: int
    throttled: int
    throttle_time_ms: int
    latencies_ns: Int64Values
    """Of the rows that have one."""
    total_times_ns: Int64Values
    waited: bool
    """The answers to all rows were held back on purpose."""
    records: RecordTotals | None
    """None for an API that carries no records."""

    @property
    def requests(self) -> int:
        """Rows that have a request."""
        return 0 if self.status == "orphan_response" else self.rows

    @property
    def errors(self) -> int:
        """Rows with an error code other than 0."""
        return self.rows if self.status == "error" else 0


class WaitedTotals:
    """Requests of which the broker held the answer back on purpose."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.record_count = 0
        self.latency = QuantileSketch()
        self.total_time = QuantileSketch()

    def add(self, sums: RowSums) -> None:
        """Add rows that waited."""
        self.requests += sums.requests
        self.errors += sums.errors
        self.request_bytes += sums.request_bytes
        self.response_bytes += sums.response_bytes
        self.record_count += 0 if sums.records is None else sums.records.count
        self.latency.add_values(sums.latencies_ns)
        self.total_time.add_values(sums.total_times_ns)

    def merge(self, other: WaitedTotals) -> None:
        """Add another sum."""
        self.requests += other.requests
        self.errors += other.errors
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes
        self.record_count += other.record_count
        self.latency.merge(other.latency)
        self.total_time.merge(other.total_time)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as ``waited`` in the report's ``apis`` entries has them."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "record_count": self.record_count,
            "latency_ns": self.latency.to_dict(),
            "total_time_ns": self.total_time.to_dict(),
        }


class ApiTotals:
    """One API; its latencies are those of requests that did not wait on purpose."""

    def __init__(self) -> None:
        self.versions: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.requests = 0
        self.responses = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.throttled = 0
        self.throttle_time_ms = 0
        self.records = RecordTotals()
        self.carries_records = False
        self.latency = QuantileSketch()
        self.total_time = QuantileSketch()
        self.waited = WaitedTotals()

    def add(self, version: int | None, sums: RowSums) -> None:
        """Add rows of this API in one version."""
        self._count_version("unknown" if version is None else str(version), sums.requests)
        self.statuses[sums.status] += sums.rows
        self.requests += sums.requests
        self.responses += sums.responses
        self.request_bytes += sums.request_bytes
        self.response_bytes += sums.response_bytes
        self.throttled += sums.throttled
        self.throttle_time_ms += sums.throttle_time_ms
        if sums.records is not None:
            self.carries_records = True
            self.records.merge(sums.records)
        if sums.waited:
            self.waited.add(sums)
        else:
            self.latency.add_values(sums.latencies_ns)
            self.total_time.add_values(sums.total_times_ns)

    def merge(self, other: ApiTotals) -> None:
        """Add another sum over the same API."""
        for version, count in other.versions.items():
            self._count_version(version, count)
        self.statuses.update(other.statuses)
        self.requests += other.requests
        self.responses += other.responses
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes
        self.throttled += other.throttled
        self.throttle_time_ms += other.throttle_time_ms
        self.records.merge(other.records)
        self.carries_records = self.carries_records or other.carries_records
        self.latency.merge(other.latency)
        self.total_time.merge(other.total_time)
        self.waited.merge(other.waited)

    def _count_version(self, version: str, count: int) -> None:
        if not count:
            return
        if version not in self.versions and len(self.versions) >= MAX_VERSIONS:
            version = "other"
        self.versions[version] += count

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as the report's ``apis`` entries have them."""
        carries = self.carries_records
        return {
            "requests": self.requests,
            "responses": self.responses,
            "versions": dict(sorted(self.versions.items(), key=_version_order)),
            "statuses": dict(sorted(self.statuses.items())),
            "errors": self.statuses["error"],
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "record_count": self.records.count if carries else None,
            "record_bytes": self.records.bytes if carries else None,
            "record_count_known": self.records.unknown == 0 if carries else None,
            "throttled": self.throttled,
            "throttle_time_ms": self.throttle_time_ms,
            "latency_ns": self.latency.to_dict(),
            "total_time_ns": self.total_time.to_dict(),
            "waited": {**self.waited.to_dict(), **({} if carries else {"record_count": None})},
        }


def _version_order(item: tuple[str, int]) -> tuple[int, str]:
    text = item[0]
    return (int(text), "") if text.lstrip("-").isdigit() else (1 << 16, text)


class EndpointSums(NamedTuple):
    """Sums over rows of one client or one broker."""

    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    latencies_ns: Int64Values
    """Of the rows that have one, without those that waited on purpose."""


class EndpointTotals:
    """One client or one broker."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.latency = QuantileSketch()
        """Without requests that waited on purpose."""

    def add(self, sums: EndpointSums) -> None:
        """Add rows of this client or broker."""
        self.requests += sums.requests
        self.errors += sums.errors
        self.request_bytes += sums.request_bytes
        self.response_bytes += sums.response_bytes
        self.latency.add_values(sums.latencies_ns)

    def merge(self, other: EndpointTotals) -> None:
        """Add another sum over the same client or broker."""
        self.requests += other.requests
        self.errors += other.errors
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes
        self.latency.merge(other.latency)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as the report has them."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "latency_ns": self.latency.to_dict(),
        }


def _texts() -> SmallestTexts:
    return SmallestTexts(MAX_TEXTS)


class ClientTotals:
    """Everything that calls itself by one client id."""

    def __init__(self) -> None:
        self.party = EndpointTotals()
        self.ips: SmallestTexts = _texts()
        self.software: SmallestTexts = _texts()
        """Name and version, as the clients give them to the broker."""
        self.principals: SmallestTexts = _texts()

    def merge(self, other: ClientTotals) -> None:
        """Add another sum over the same client id."""
        self.party.merge(other.party)
        self.ips.merge(other.ips)
        self.software.merge(other.software)
        self.principals.merge(other.principals)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as the report's ``clients`` entries have them."""
        return {
            "software": self.software.to_list(),
            "more_software": self.software.more,
            "client_ips": self.ips.to_list(),
            "more_client_ips": self.ips.more,
            "principals": self.principals.to_list(),
            "more_principals": self.principals.more,
            **self.party.to_dict(),
        }


class TopicTotals:
    """One topic."""

    def __init__(self) -> None:
        self.produce_requests = 0
        self.produced = RecordTotals()
        self.fetch_requests = 0
        self.fetched = RecordTotals()
        self.errors = 0
        """Error codes other than 0 that concern the topic, each counted."""

    def merge(self, other: TopicTotals) -> None:
        """Add another sum over the same topic."""
        self.produce_requests += other.produce_requests
        self.produced.merge(other.produced)
        self.fetch_requests += other.fetch_requests
        self.fetched.merge(other.fetched)
        self.errors += other.errors

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as the report's ``topics`` entries have them."""
        return {
            "produce_requests": self.produce_requests,
            "produced_records": self.produced.count,
            "produced_records_known": self.produced.unknown == 0,
            "produced_bytes": self.produced.bytes,
            "acknowledged_records": self.produced.acknowledged,
            "acknowledged_bytes": self.produced.acknowledged_bytes,
            "unanswered_records": self.produced.unanswered,
            "one_way_records": self.produced.one_way,
            "fetch_requests": self.fetch_requests,
            "fetched_records": self.fetched.count,
            "fetched_records_known": self.fetched.unknown == 0,
            "fetched_bytes": self.fetched.bytes,
            "errors": self.errors,
        }


class ConsumerGroupTotals:
    """One consumer group."""

    def __init__(self) -> None:
        self.requests = 0
        self.joins = 0
        self.errors = 0

    def merge(self, other: ConsumerGroupTotals) -> None:
        """Add another sum over the same group."""
        self.requests += other.requests
        self.joins += other.joins
        self.errors += other.errors

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as the report's ``groups`` entries have them."""
        return {"requests": self.requests, "joins": self.joins, "errors": self.errors}


class ErrorTotals:
    """One error code, of one API, on one topic."""

    __slots__ = ("count", "first_time_ns", "last_time_ns")

    def __init__(
        self, count: int = 0, first_time_ns: int | None = None, last_time_ns: int | None = None
    ) -> None:
        self.count = count
        self.first_time_ns = first_time_ns
        self.last_time_ns = last_time_ns

    def add(self, time_ns: int | None) -> None:
        """Count one occurrence, in a response that began at ``time_ns``."""
        self.count += 1
        self._stretch(time_ns, time_ns)

    def merge(self, other: ErrorTotals) -> None:
        """Add another sum over the same error."""
        self.count += other.count
        self._stretch(other.first_time_ns, other.last_time_ns)

    def _stretch(self, first: int | None, last: int | None) -> None:
        if first is None or last is None:
            return
        if self.first_time_ns is None or first < self.first_time_ns:
            self.first_time_ns = first
        if self.last_time_ns is None or last > self.last_time_ns:
            self.last_time_ns = last

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as the report's ``errors`` entries have them."""
        return {
            "count": self.count,
            "first_time_ns": self.first_time_ns,
            "last_time_ns": self.last_time_ns,
        }


class SlowestRequests:
    """The requests with the highest latency, waiting fetches left out by whoever adds.

    Of equal latencies the earlier request stands first, then the lower packet number, then the
    connection's name: the choice does not depend on the order of adding.
    """

    __slots__ = ("_entries", "_most")

    FIRST_BY = ("latency_ns", "request_start_ns", "request_packet")
    """Columns that mostly decide which requests are kept."""

    def __init__(self, most: int = MAX_SLOWEST) -> None:
        self._most = most
        self._entries: list[tuple[tuple[int | str, ...], dict[str, Any]]] = []

    def add(self, rows: Iterable[Row], highest_ns: int) -> None:
        """Consider rows, of which the highest latency is ``highest_ns``."""
        least_ns = self._least_ns()
        if least_ns is not None and highest_ns < least_ns:
            return
        considered = [
            (_slowness(row, row.latency_ns), row)
            for row in rows
            if row.latency_ns is not None and (least_ns is None or row.latency_ns >= least_ns)
        ]
        considered.sort(key=itemgetter(0))
        if len(considered) > self._most:
            last = considered[self._most - 1][0]
            considered = [item for item in considered if item[0] <= last]
        entries = [(order, _slow_entry(row)) for order, row in considered]
        # Between equals decides whatever else is shown of them.
        self._keep(((*order, repr(entry)), entry) for order, entry in entries)

    def candidates(
        self,
        latency_ns: NDArray[np.int64],
        request_start_ns: NDArray[np.int64],
        request_packet: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the places of rows that are worth adding, of many: of the others none is kept.

        The columns are those of :attr:`FIRST_BY`, 0 where not known; all rows have a latency.
        """
        least_ns = self._least_ns()
        places = np.arange(len(latency_ns))
        if least_ns is not None:
            places = np.flatnonzero(latency_ns >= least_ns)
        if len(places) <= self._most:
            return places
        latencies = latency_ns[places]
        places = places[latencies >= np.partition(latencies, -self._most)[-self._most]]
        columns = np.stack([~latency_ns[places], request_start_ns[places], request_packet[places]])
        order = np.lexsort(columns[::-1])
        ordered = columns[:, order]
        # The last one that is kept, and all that are not told from it by these columns.
        is_last = (ordered == ordered[:, [self._most - 1]]).all(axis=0)
        kept: NDArray[np.int64] = places[order[: np.flatnonzero(is_last)[-1] + 1]]
        return kept

    def merge(self, other: SlowestRequests) -> None:
        """Consider the requests of another."""
        self._keep(other._entries)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the requests, slowest first."""
        return [entry for _, entry in self._entries]

    def _least_ns(self) -> int | None:
        """Return the latency that gets a request in; None while any does."""
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
    topics = SmallestTexts(MAX_SLOWEST_TOPICS)
    for item in row.partitions:
        name = item.topic or item.topic_id
        if name is not None:
            topics.add(name)
    entry["topics"] = topics.to_list()
    entry["more_topics"] = topics.more
    return entry
