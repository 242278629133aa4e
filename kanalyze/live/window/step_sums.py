"""Sums over the rows of a step of time.

In: columns of rows. Out: sums with ``merge``, which is associative, and commutative below the
limits on keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.live.window.grouped_rows import GroupedRows, key_of, value_at
from kanalyze.live.window.keyed_sums import KeyedSums
from kanalyze.live.window.latency_sketch import LatencySketch
from kanalyze.live.window.rebalances import RebalanceTotals, add_groups
from kanalyze.live.window.row_measures import rows_of_items
from kanalyze.live.window.sums import (
    Amounts,
    EndSums,
    EndTotals,
    ErrorSums,
    RecordSums,
    SlowestRows,
    TopicSums,
    Traffic,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.live.window.row_measures import RowMeasures
    from kanalyze.tables.columns.block import RowBlock

__all__ = [
    "API_LIMIT",
    "MAX_SLOWEST",
    "CaptureSums",
    "PastStep",
    "RecentSums",
    "StepSums",
]

API_LIMIT = 128
"""APIs with sums of their own: Kafka has fewer, but keys on the wire may be wrong."""
MAX_SLOWEST = 20


class PastStep(Traffic):
    """What is kept of each step: its traffic, longer than its other sums."""

    __slots__ = ("p99_ns",)

    def __init__(self) -> None:
        super().__init__()
        self.p99_ns: int | None = None
        """:attr:`StepSums.p99_ns` of the step, set when the step leaves the window."""


class CaptureSums:
    """Packets that were captured and dropped."""

    __slots__ = ("dropped_packets", "packets", "wire_bytes")

    def __init__(self) -> None:
        self.packets = 0
        self.wire_bytes = 0
        self.dropped_packets = 0

    def merge(self, other: CaptureSums) -> None:
        """Add another sum."""
        self.packets += other.packets
        self.wire_bytes += other.wire_bytes
        self.dropped_packets += other.dropped_packets


class StepSums:
    """Sums over the rows of a step: of all rows, and by API, client, broker, topic and error."""

    __slots__ = (
        *("_p99_ns", "apis", "brokers", "captured", "clients", "errors", "topics"),
        "traffic",
    )

    def __init__(self, key_limit: int) -> None:
        """Start at 0; ``key_limit`` limits clients, brokers, topics and errors, each."""
        self.traffic = Traffic()
        self.captured = CaptureSums()
        self.apis: KeyedSums[EndTotals] = KeyedSums(EndTotals, API_LIMIT)
        """Sums by ``(wire, api_key, api_name, waited)``, with all latencies."""
        self.clients: KeyedSums[EndTotals] = KeyedSums(EndTotals, key_limit)
        """Sums by ``(client_id, client_ip)``; latencies are of requests that were not held back."""
        self.brokers: KeyedSums[EndTotals] = KeyedSums(EndTotals, key_limit)
        """Sums by ``(broker_ip, broker_port)``; latencies as for clients."""
        self.topics: KeyedSums[TopicSums] = KeyedSums(TopicSums, key_limit)
        """Sums by ``(topic, topic_id)``."""
        self.errors: KeyedSums[ErrorSums] = KeyedSums(ErrorSums, key_limit)
        """Sums by ``(api_name, error_code, error_name, topic)``."""
        self._p99_ns: int | None = None

    def add(self, rows: RowMeasures) -> Amounts:
        """Add rows, at least one; return their amounts."""
        amounts = Amounts(*GroupedRows(np.zeros(len(rows), dtype=np.int64)).sums(*rows.traffic)[0])
        self.traffic.count(amounts)
        self._p99_ns = None
        self._add_apis(rows)
        # A response without its request has no client id.
        self._add_ends(self.clients, ("client_id", "client_ip"), rows, rows.is_request)
        self._add_ends(self.brokers, ("broker_ip", "broker_port"), rows, None)
        _add_topics(self.topics, rows)
        _add_errors(self.errors, self.topics, rows)
        return amounts

    def merge(self, other: StepSums) -> None:
        """Add the sums of another step."""
        self.traffic.count(other.traffic)
        self.captured.merge(other.captured)
        self.apis.merge(other.apis)
        self.clients.merge(other.clients)
        self.brokers.merge(other.brokers)
        self.topics.merge(other.topics)
        self.errors.merge(other.errors)
        self._p99_ns = None

    @property
    def p99_ns(self) -> int | None:
        """The p99 of :meth:`latency`, cached until the step changes; None without latencies."""
        if self._p99_ns is None:
            self._p99_ns = self.latency().quantile(0.99)
        return self._p99_ns

    def latency(self) -> LatencySketch:
        """Return the latencies of all requests that were not held back on purpose."""
        sketch = LatencySketch()
        for (*_, waited), api in self.apis:
            if not waited:
                sketch.merge(api.latency)
        return sketch

    def _add_apis(self, rows: RowMeasures) -> None:
        keys = [rows.key(name) for name in ("wire", "api_key", "api_name")]
        waited = rows.is_held_back
        apis = GroupedRows(*map(key_of, keys), waited.astype(np.int64))
        sums = apis.sums(*rows.traffic)
        latencies = apis.values(rows.ints("latency_ns").values, rows.known("latency_ns"))
        for first, of_api, latencies_ns in zip(apis.firsts, sums, latencies, strict=True):
            wire, api_key, api_name = (value_at(key, first) for key in keys)
            api = self.apis.of((wire, api_key, api_name, int(waited[first])))
            api.add(EndSums._make([*of_api, latencies_ns]))

    @staticmethod
    def _add_ends(
        ends: KeyedSums[EndTotals],
        names: tuple[str, str],
        rows: RowMeasures,
        selected: NDArray[np.bool_] | None,
    ) -> None:
        """Add rows to the sums by two columns; ``selected`` masks rows, None for all."""
        indices = np.arange(len(rows)) if selected is None else np.flatnonzero(selected)
        if not len(indices):
            return
        keys = [rows.key(name) for name in names]
        groups = GroupedRows(*(key_of(key)[indices] for key in keys))
        sums = groups.sums(*(measure[indices] for measure in rows.traffic))
        latencies = groups.values(
            rows.ints("latency_ns").values[indices], rows.has_broker_latency[indices]
        )
        for first, of_end, latencies_ns in zip(groups.firsts, sums, latencies, strict=True):
            end = ends.of(tuple(value_at(key, indices[first]) for key in keys))
            end.add(EndSums._make([*of_end, latencies_ns]))


class RecentSums:
    """Sums that are kept longer than rates: the slowest requests, groups that rebalance."""

    __slots__ = ("groups", "slowest")

    def __init__(self, key_limit: int) -> None:
        """Start empty; ``key_limit`` limits the groups."""
        self.groups: KeyedSums[RebalanceTotals] = KeyedSums(RebalanceTotals, key_limit)
        """Sums by ``(group_id,)``."""
        self.slowest = SlowestRows(MAX_SLOWEST)

    def add(self, rows: RowMeasures, block: RowBlock) -> None:
        """Add the rows of a block, at least one; ``rows`` are its measures."""
        add_groups(self.groups, rows)
        # As in a report: requests that were held back on purpose are not slow.
        indices_with_latency = np.flatnonzero(rows.has_broker_latency)
        columns = [rows.ints(name).values[indices_with_latency] for name in SlowestRows.FIRST_BY]
        indices = self.slowest.candidates(*columns)
        if len(indices):
            self.slowest.add(
                block.take(indices_with_latency[indices].tolist()).rows(),
                int(columns[0][indices].max()),
            )

    def merge(self, other: RecentSums) -> None:
        """Add the sums of ``other``."""
        self.groups.merge(other.groups)
        self.slowest.merge(other.slowest)


def _add_topics(topics: KeyedSums[TopicSums], rows: RowMeasures) -> None:
    """Add produced and fetched records to the sums by topic: by name, or by id without a name."""
    parts = rows.partitions
    if parts is None:
        return
    is_named = parts.topic.codes >= 0
    ids = np.where(is_named, 0, key_of(parts.topic_id))
    is_produce = rows.is_produce[parts.row]
    count = np.where(parts.is_refused, 0, parts.record_count)
    size = np.where(parts.is_refused, 0, parts.record_bytes)
    groups = GroupedRows(is_produce.astype(np.int64), key_of(parts.topic), ids)
    sums = groups.sums(
        # A request counts once for each of its topics, whatever its partitions.
        groups.changes(parts.row),
        count,
        size,
        parts.is_unknown.astype(np.int64),
    )
    for first, (requests, *records) in zip(groups.firsts, sums, strict=True):
        name = value_at(parts.topic, first)
        topic_id = value_at(parts.topic_id, first) if name is None else None
        topic = topics.of((name, topic_id))
        if is_produce[first]:
            topic.produce_requests += requests
            topic.produced.merge(RecordSums(*records))
        else:
            topic.fetch_requests += requests
            topic.fetched.merge(RecordSums(*records))


def _add_errors(
    errors: KeyedSums[ErrorSums],
    topics: KeyedSums[TopicSums],
    rows: RowMeasures,
) -> None:
    """Add the error codes in rows to the sums by error, and to those of their topics."""
    lists = rows.lists("errors")
    row = rows_of_items(lists)
    if not len(row):
        return
    api_names = rows.words("api_name")
    keys = [lists.fields[name] for name in ("code", "name", "topic")]
    groups = GroupedRows(key_of(api_names)[row], *map(key_of, keys))
    times = rows.ints("response_start_ns").values[row]
    is_known = rows.known("response_start_ns")[row]
    latest = groups.highest(np.where(is_known, times, _EARLIEST_NS))
    counts = groups.sums(np.ones(len(row), dtype=np.int64))
    for first, (count,), last_ns in zip(groups.firsts, counts, latest, strict=True):
        code, name, topic = (value_at(key, first) for key in keys)
        error = errors.of((value_at(api_names, row[first]), code, name, topic))
        error.merge(ErrorSums(count, None if last_ns == _EARLIEST_NS else last_ns))
        if topic is not None:
            topics.of((topic, None)).errors += count


_EARLIEST_NS = -(2**63)
"""Stands for an unknown time."""
