"""Counts the metrics for Prometheus.

In: rows; counts of the capture. Out: a ``prometheus_client`` registry, which
:mod:`kanalyze.live.metrics.server` serves.

Counters only rise; Prometheus computes rates and quantiles. Numbers are summed by column; Python
objects for them are made only at a scrape.
"""

from __future__ import annotations

import re
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import CollectorRegistry

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.live.metrics.label_values import LabelValues, label_text
from kanalyze.live.window.rebalances import REBALANCE, GroupRows
from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.sums import KeyedSums, Sum
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.columns.numpy_arrays import IntArray, WordArray, endpoints_of
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from prometheus_client.core import Metric

    from kanalyze.live.window.grouped_rows import GroupedRows
    from kanalyze.live.window.row_measures import PartitionMeasures
    from kanalyze.live.window.sums import Mask
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["Metrics"]

_NS_PER_S: Final = 1_000_000_000
_MS_PER_S: Final = 1_000
LATENCY_EDGES_NS: Final = (
    *(digits * 10**power for power in range(5, 10) for digits in (1, 2.5, 5)),
    *(10e9, 30e9, 60e9),
)
"""100 us to 1 minute. A broker that answers from memory needs some 100 us."""
SIZE_EDGES_BYTES: Final = tuple(64 * 4**power for power in range(11))
"""64 B to 64 MiB; Kafka's own limit of a request is 100 MiB."""

_MAX_APIS: Final = 128
_MAX_BROKERS: Final = 64
_MAX_ERRORS: Final = 256
_MAX_FIXED: Final = 16
"""Limit for labels whose values kanalyze itself defines; each has fewer values than this."""

_ERROR: Final = "error"

_LABEL_NAME: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_OWN_LABELS: Final = frozenset(
    {
        *("api", "broker", "client_id", "direction", "error", "event", "files", "group", "kind"),
        *("label", "le", "status", "topic", "version"),
    }
)


class Metrics:
    """The metrics. One thread may add rows while others scrape ``registry``."""

    def __init__(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        max_clients: int = 100,
        max_topics: int = 100,
        max_groups: int = 100,
    ) -> None:
        """Start with all counts at 0.

        Args:
            labels: added to every sample, for example the interface.
            max_clients: client ids with a series of their own; the others are ``other``.
            max_topics: the same for topics.
            max_groups: the same for consumer groups.

        Raises:
            UsageError: a limit is below 0, or the name of a label is wrong or in use.
        """
        for limit in (max_clients, max_topics, max_groups):
            if limit < 0:
                raise UsageError(f"not a limit of label values, 0 or more: {limit}")
        self._labels = {name: label_text(value) for name, value in (labels or {}).items()}
        for name in self._labels:
            if name in _OWN_LABELS or not _LABEL_NAME.fullmatch(name):
                raise UsageError(f"not a valid name for a label, or already in use: {name!r}")
        self._lock = Lock()
        self._rows = _RowMetrics(max_clients, max_topics, max_groups)
        self._capture: list[tuple[str, int | float | None]] = []
        # Prometheus sees a rise to 1 only if the counter was 0 before.
        self._anomalies = dict.fromkeys(AnomalyKind, 0)
        self._write_failures: dict[str, int] = {}
        self.registry = CollectorRegistry(auto_describe=True)
        """Contains these metrics; others may register in it too."""
        self.registry.register(self)

    def add(self, block: RowBlock) -> None:
        """Count rows."""
        if not len(block):
            return
        measures = RowMeasures(block.columns)
        with self._lock:
            self._rows.add(measures)

    def set_capture(
        self,
        *,
        packets: int,
        captured_bytes: int,
        dropped_packets: int | None = None,
        connections: int | None = None,
        open_connections: int | None = None,
        held_bytes: int | None = None,
        last_packet_time_ns: int | None = None,
        in_flight_requests: int | None = None,
        oldest_in_flight_ns: int | None = None,
    ) -> None:
        """Set the counts of the capture since it began; unknown ones (None) have no sample.

        Args:
            packets: captured packets.
            captured_bytes: their bytes, with link headers.
            dropped_packets: packets that the kernel or the network card dropped.
            connections: TCP connections seen so far, including closed ones.
            open_connections: TCP connections that are open now.
            held_bytes: bytes buffered for open connections.
            last_packet_time_ns: Unix time of the last packet.
            in_flight_requests: requests without a response now.
            oldest_in_flight_ns: age of the oldest request in flight that the broker does not hold
                back on purpose; 0 if there is none.
        """
        last_s = _seconds(last_packet_time_ns)
        with self._lock:
            self._capture = [
                ("capture_packets", packets),
                ("capture_bytes", captured_bytes),
                ("capture_dropped_packets", dropped_packets),
                ("connections", connections),
                ("open_connections", open_connections),
                ("held_bytes", held_bytes),
                ("last_packet_timestamp_seconds", last_s),
                ("in_flight_requests", in_flight_requests),
                ("oldest_in_flight_request_age_seconds", _seconds(oldest_in_flight_ns)),
            ]

    def set_anomalies(self, counts: Mapping[AnomalyKind, int]) -> None:
        """Set the counts of anomalies since the capture began, by kind."""
        with self._lock:
            self._anomalies |= counts

    def set_write_failures(self, counts: Mapping[str, int]) -> None:
        """Set the counts of write failures, by what the files contain."""
        with self._lock:
            self._write_failures = dict(counts)

    def collect(self) -> list[Metric]:
        """Return all metrics; the registry calls this."""
        with self._lock:
            return [self._labelled(metric) for metric in self._families()]

    def _families(self) -> Iterator[Metric]:
        build = GaugeMetricFamily(
            "kanalyze_build_info", "The version that counted; always 1.", labels=["version"]
        )
        build.add_metric([__version__], 1)
        yield build
        yield from self._rows.families()
        values = dict(self._capture)
        for name, text in _CAPTURE_COUNTERS.items():
            yield CounterMetricFamily(f"kanalyze_{name}", text, value=values.get(name))
        for name, text in _CAPTURE_GAUGES.items():
            yield GaugeMetricFamily(f"kanalyze_{name}", text, value=values.get(name))
        anomalies = CounterMetricFamily(
            "kanalyze_anomalies",
            "Problems of the traffic or the capture.",
            labels=["kind"],
        )
        for kind, count in self._anomalies.items():
            anomalies.add_metric([kind.value], count)
        yield anomalies
        failures = CounterMetricFamily(
            "kanalyze_write_failures",
            "Attempts to write files of rows or of packets that failed.",
            labels=["files"],
        )
        for files, count in self._write_failures.items():
            failures.add_metric([files], count)
        yield failures

    def _labelled(self, metric: Metric) -> Metric:
        if self._labels:
            metric.samples = [
                sample._replace(labels=self._labels | sample.labels) for sample in metric.samples
            ]
        return metric


_CAPTURE_COUNTERS: Final = {
    "capture_packets": "Packets captured.",
    "capture_bytes": "Bytes of captured packets, link headers included.",
    "capture_dropped_packets": "Packets that were dropped before they were captured.",
    "connections": "TCP connections seen.",
}
_CAPTURE_GAUGES: Final = {
    "open_connections": "TCP connections that are open.",
    "held_bytes": "Bytes buffered for open connections.",
    "last_packet_timestamp_seconds": "Unix time of the last packet captured.",
    "in_flight_requests": "Requests that wait for their response.",
    "oldest_in_flight_request_age_seconds": "Age of the oldest not held back on purpose.",
}


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_S


class _Counter(Sum[Any]):
    """A counter of rows or items."""

    def __init__(
        self,
        name: str,
        text: str,
        amounts: Callable[[Any], NDArray[np.int64] | Mask],
        *,
        label: tuple[str, str] | None = None,
        per_unit: int = 1,
    ) -> None:
        """Count ``amounts``, 0 or above, with one more label, in another unit."""
        super().__init__(name, amounts)
        self.text = text
        self._label = label
        self._per_unit = per_unit

    def family(self, labels: Sequence[str]) -> CounterMetricFamily:
        """Return the metric, without samples."""
        own = () if self._label is None else (self._label[0],)
        return CounterMetricFamily(f"kanalyze_{self.name}", self.text, labels=[*labels, *own])

    def add_sample(self, family: Any, texts: Sequence[str], value: int) -> None:
        """Add the value of some labels."""
        own = () if self._label is None else (self._label[1],)
        total = value if self._per_unit == 1 else value / self._per_unit
        family.add_metric([*texts, *own], total)


class _Histogram:
    """A histogram of numbers; a value is the counts of its buckets, and the sum.

    Negative numbers count as 0: a sum never decreases.
    """

    def __init__(
        self,
        name: str,
        text: str,
        column: str,
        where: Callable[[RowMeasures], Mask],
        edges: Sequence[float],
        per_unit: int = 1,
    ) -> None:
        """Count a column of rows; ``edges`` are upper bounds, inclusive, rising."""
        self.name = name
        self.text = text
        self._column = column
        self._where = where
        self._edges = np.array(edges, dtype=np.int64)
        self._per_unit = per_unit

    def start(self) -> tuple[NDArray[np.int64], int]:
        """Return a histogram without numbers; one more bucket is above the last bound."""
        return np.zeros(len(self._edges) + 1, dtype=np.int64), 0

    def values(self, groups: GroupedRows, rows: RowMeasures) -> list[tuple[NDArray[np.int64], int]]:
        """Return the histogram of each group."""
        where = self._where(rows)
        numbers = np.where(where, np.maximum(rows.ints(self._column).values, 0), 0)
        counts = [
            np.bincount(np.searchsorted(self._edges, values), minlength=len(self._edges) + 1)
            for values in groups.values(numbers, where)
        ]
        return list(zip(counts, groups.sums(numbers), strict=True))

    def merged(
        self, value: tuple[NDArray[np.int64], int], more: tuple[NDArray[np.int64], int]
    ) -> tuple[NDArray[np.int64], int]:
        """Add both."""
        # The nanoseconds of all requests of a day overflow an int64: the sum is Python's.
        return value[0] + more[0], value[1] + more[1]

    def figures(self, value: tuple[NDArray[np.int64], int]) -> dict[str, object]:
        """Return the histogram."""
        return {self.name: value}

    def family(self, labels: Sequence[str]) -> HistogramMetricFamily:
        """Return the metric, without samples."""
        return HistogramMetricFamily(f"kanalyze_{self.name}", self.text, labels=labels)

    def add_sample(
        self, family: Any, texts: Sequence[str], value: tuple[NDArray[np.int64], int]
    ) -> None:
        """Add the histogram of some labels, unless it has no numbers."""
        counts, total = value
        if counts.any():
            edges = [repr(edge / self._per_unit) for edge in self._edges.tolist()]
            buckets = zip([*edges, "+Inf"], np.cumsum(counts).tolist(), strict=True)
            family.add_metric(texts, list(buckets), total / self._per_unit)


class _Table(NamedTuple):
    """Metrics with the same labels."""

    labels: tuple[str, ...]
    metrics: tuple[_Counter | _Histogram, ...]
    where: Callable[[Any], Mask] | None = None
    """Returns which items count; None for all."""


class _Source(NamedTuple):
    """Rows or items, and their metrics."""

    items: Callable[[RowMeasures], Any]
    """Returns the items of rows; None if there are none."""
    labels: Mapping[str, Callable[[Any], WordArray]]
    tables: tuple[_Table, ...]
    where: Callable[[Any], Mask] | None = None
    """Returns which items get values of labels; None for all."""


class _Directed:
    """Partitions, and the direction of their records."""

    def __init__(self, parts: PartitionMeasures) -> None:
        self.has_data = parts.has_data
        # Counts in headers may be wrong, and negative.
        self.records, self.bytes = np.maximum(parts.records, 0), np.maximum(parts.bytes, 0)
        self.direction = WordArray(parts.is_produce.astype(np.int32), ["fetched", "produced"])
        ids = parts.topic_id.codes
        ids = np.where(ids < 0, -1, ids + len(parts.topic.words))
        codes = np.where(parts.topic.codes >= 0, parts.topic.codes, ids).astype(np.int32)
        self.topic = WordArray(codes, [*parts.topic.words, *parts.topic_id.words])
        """Names, and ids of topics without a name."""

    @classmethod
    def of(cls, rows: RowMeasures) -> _Directed | None:
        """Return the partitions of rows; None if there are none."""
        return None if rows.partitions is None else cls(rows.partitions)


class _GroupEvents:
    """The events of groups, one item for each event of a row."""

    def __init__(self, rows: RowMeasures) -> None:
        groups = GroupRows(rows)
        events = {
            "join": groups.is_join,
            "sync": groups.is_sync,
            "leave": groups.is_leave,
            "rebalance_in_progress": rows.words("error_name").is_one_of({REBALANCE}),
            "assign": groups.is_assigned,
        }
        has_group = groups.group_id.codes >= 0
        found = [np.flatnonzero(is_event & has_group) for is_event in events.values()]
        codes = np.repeat(np.arange(len(found), dtype=np.int32), [*map(len, found)])
        self.event = WordArray(codes, list(events))
        self.group = WordArray(groups.group_id.codes[np.concatenate(found)], groups.group_id.words)
        self.is_item = np.ones(len(codes), dtype=np.bool_)


def _bytes_of(name: str) -> Callable[[RowMeasures], NDArray[np.int64]]:
    return lambda rows: rows.ints(name).values


def _known(name: str) -> Callable[[RowMeasures], Mask]:
    return lambda rows: rows.known(name)


def _throttle_ms(rows: RowMeasures) -> NDArray[np.int64]:
    return np.maximum(rows.ints("throttle_time_ms").values, 0)


_CLIENT_BYTES: Final = "Bytes of requests (sent) and of responses (received), with size prefixes."
_SOURCES: Final = (
    _Source(
        lambda rows: rows,
        {
            "api": lambda rows: rows.words("api_name"),
            "broker": lambda rows: endpoints_of(rows.words("broker_ip"), rows.ints("broker_port")),
            "status": lambda rows: rows.words("status"),
        },
        (
            _Table(
                ("api", "broker", "status"),
                (_Counter("requests", "Requests by status.", attrgetter("is_request")),),
                attrgetter("is_request"),
            ),
            _Table(
                ("broker",),
                (
                    _Counter(
                        "orphan_responses",
                        "Responses whose request was not seen.",
                        attrgetter("is_orphan"),
                    ),
                ),
            ),
            _Table(
                ("api",),
                (
                    _Histogram(
                        "request_latency_seconds",
                        "From the end of a request to its response, without those held back on "
                        "purpose.",
                        "latency_ns",
                        attrgetter("has_broker_latency"),
                        LATENCY_EDGES_NS,
                        _NS_PER_S,
                    ),
                    _Histogram(
                        "fetch_wait_seconds",
                        "The same for requests held back on purpose, such as a Fetch that waits "
                        "for data.",
                        "latency_ns",
                        lambda rows: rows.known("latency_ns") & rows.is_held_back,
                        LATENCY_EDGES_NS,
                        _NS_PER_S,
                    ),
                    _Histogram(
                        "request_size_bytes",
                        "Requests with their size prefix.",
                        "request_bytes",
                        _known("request_bytes"),
                        SIZE_EDGES_BYTES,
                    ),
                    _Histogram(
                        "response_size_bytes",
                        "Responses with their size prefix.",
                        "response_bytes",
                        _known("response_bytes"),
                        SIZE_EDGES_BYTES,
                    ),
                ),
            ),
        ),
    ),
    _Source(
        attrgetter("errors"),
        {"api": attrgetter("api_name"), "error": attrgetter("name")},
        (
            _Table(
                ("api", "error"),
                (
                    _Counter(
                        "errors",
                        "Error codes in responses, other than 0, at any level.",
                        attrgetter("is_item"),
                    ),
                ),
            ),
        ),
    ),
    _Source(
        lambda rows: rows,
        {"client_id": lambda rows: rows.words("client_id")},
        (
            _Table(
                ("client_id",),
                (
                    _Counter("client_requests", "Requests by client.", attrgetter("is_request")),
                    _Counter(
                        "client_errors",
                        "Requests that were answered with an error.",
                        attrgetter("is_error"),
                    ),
                    _Counter(
                        "client_bytes",
                        _CLIENT_BYTES,
                        _bytes_of("request_bytes"),
                        label=("direction", "sent"),
                    ),
                    _Counter(
                        "client_bytes",
                        _CLIENT_BYTES,
                        _bytes_of("response_bytes"),
                        label=("direction", "received"),
                    ),
                    _Counter(
                        "client_throttled_responses",
                        "Responses with a throttle time.",
                        lambda rows: _throttle_ms(rows) > 0,
                    ),
                    _Counter(
                        "client_throttle_time_seconds",
                        "Throttle time in responses.",
                        _throttle_ms,
                        per_unit=_MS_PER_S,
                    ),
                ),
                attrgetter("is_request"),
            ),
        ),
        attrgetter("is_request"),
    ),
    _Source(
        _Directed.of,
        {"topic": attrgetter("topic"), "direction": attrgetter("direction")},
        (
            _Table(
                ("topic", "direction"),
                (
                    _Counter(
                        "topic_records",
                        "Records, as batch headers count them.",
                        attrgetter("records"),
                    ),
                    _Counter(
                        "topic_bytes",
                        "Bytes of records as they are on the wire.",
                        attrgetter("bytes"),
                    ),
                ),
                attrgetter("has_data"),
            ),
        ),
        attrgetter("has_data"),
    ),
    _Source(
        _GroupEvents,
        {"group": attrgetter("group"), "event": attrgetter("event")},
        (
            _Table(
                ("group", "event"),
                (
                    _Counter(
                        "group_rebalance_events",
                        "Joins, syncs and leaves of members, REBALANCE_IN_PROGRESS errors, "
                        "assignments.",
                        attrgetter("is_item"),
                    ),
                ),
            ),
        ),
    ),
)
_TABLES: Final = tuple(table for source in _SOURCES for table in source.tables)


class _RowMetrics:
    """The metrics of rows."""

    def __init__(self, max_clients: int, max_topics: int, max_groups: int) -> None:
        limits = {
            "api": _MAX_APIS,
            "broker": _MAX_BROKERS,
            "error": _MAX_ERRORS,
            "client_id": max_clients,
            "topic": max_topics,
            "group": max_groups,
        }
        self._limited = [
            LabelValues(name, limit, null="unknown" if name == "api" else "")
            for name, limit in limits.items()
        ]
        fixed = [LabelValues(name, _MAX_FIXED) for name in ("status", "direction", "event")]
        self._labels = {label.name: label for label in (*self._limited, *fixed)}
        self._sums = {table: KeyedSums(table.metrics, None) for table in _TABLES}

    def add(self, rows: RowMeasures) -> None:
        """Count rows."""
        for source in _SOURCES:
            items = source.items(rows)
            if items is None:
                continue
            where = None if source.where is None else source.where(items)
            slots = {
                name: IntArray(self._labels[name].slots(column(items), where), None)
                for name, column in source.labels.items()
            }
            for table in source.tables:
                self._sums[table].add(
                    [slots[name] for name in table.labels],
                    items,
                    where=None if table.where is None else table.where(items),
                )

    def families(self) -> Iterator[Metric]:
        """Yield all metrics of rows: counters first."""
        self._add_error_counters()
        families: dict[str, Metric] = {}
        for table, sums in self._sums.items():
            for number, metric in enumerate(table.metrics):
                family = families.setdefault(metric.name, metric.family(table.labels))
                for key, values in sums:
                    texts = [
                        self._labels[name].texts[int(slot or 0)]
                        for name, slot in zip(table.labels, key, strict=True)
                    ]
                    metric.add_sample(family, texts, values[number])
        yield from sorted(families.values(), key=lambda family: family.type != "counter")
        yield from self._limits()

    def _add_error_counters(self) -> None:
        """Add the counter of errors, at 0, of each API and broker.

        Prometheus counts the first error of an API only if the counter was 0 before.
        """
        sums, status = self._sums[_TABLES[0]], self._labels["status"]
        for api, broker, _ in [key for key, _ in sums]:
            sums.of((api, broker, status.slot(_ERROR)))

    def _limits(self) -> Iterator[Metric]:
        used = GaugeMetricFamily(
            "kanalyze_label_values", "Values that have a series of their own.", labels=["label"]
        )
        limit = GaugeMetricFamily(
            "kanalyze_label_values_limit", "The limit of kanalyze_label_values.", labels=["label"]
        )
        folded = CounterMetricFamily(
            "kanalyze_label_folded",
            "Items counted under the value other, because of the limit.",
            labels=["label"],
        )
        for label in self._limited:
            used.add_metric([label.name], label.used)
            limit.add_metric([label.name], label.limit)
            folded.add_metric([label.name], label.folded)
        yield from (used, limit, folded)
