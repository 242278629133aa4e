"""Counts the metrics for Prometheus.

In: rows; counts of the capture. Out: a ``prometheus_client`` registry, which
:mod:`kanalyze.live.metrics_server` serves.

Counters only rise; Prometheus computes rates and quantiles. Numbers are summed by column; Python
objects for them are made only at a scrape.

Values from the wire are unlimited, and a metrics server keeps a series for each. So only the first
values of a label get a series; all others are counted as ``other``.
"""

from __future__ import annotations

import operator
from hashlib import blake2s
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import CollectorRegistry

from kanalyze.common.int_columns import total
from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import escape
from kanalyze.live.run import Sink
from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.sums import ExactSum, KeyedSums, numbers_of
from kanalyze.live.window.tables import GroupEvents
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.columns.numpy_arrays import IntArray, WordArray
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from prometheus_client.core import Metric

    from kanalyze.live.window.snapshot import CaptureState, LagOfTopic, LatestFindings
    from kanalyze.live.window.sums import GroupedRows, Items
    from kanalyze.model.packets import PacketBatch
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.names import AddressNames

OTHER: Final = "other"
"""The label of all values beyond the limit; no other value has it."""
_MAX_LABEL_CHARS: Final = 128
_DIGEST_CHARS: Final = 8

_OTHER_SLOT: Final = 0
_NULL_SLOT: Final = 1
_RESERVED: Final = 2


def label_text(value: str) -> str:
    """Return a value from the wire as a label: printable, of limited length.

    A long value is cut, and a digest makes it unique.
    """
    if len(value) <= _MAX_LABEL_CHARS:
        return escape(value)
    digest = blake2s(value.encode("utf-8", "backslashreplace"), digest_size=_DIGEST_CHARS // 2)
    return escape(value[: _MAX_LABEL_CHARS - _DIGEST_CHARS - 1]) + "~" + digest.hexdigest()


class LabelValues:
    """The values of a label, each with a number (its *slot*), up to a limit.

    If a value from the wire equals a reserved label, such as :data:`OTHER`, its first character is
    escaped.
    """

    def __init__(self, name: str, limit: int, *, null: str = "") -> None:
        """Start without values.

        Args:
            name: of the label.
            limit: the number of values with a slot of their own.
            null: the label of unknown values; if it is empty, empty values share it.
        """
        self.name = name
        self.limit = limit
        self.texts = [OTHER, null]
        """Texts of the values, by slot."""
        self.folded = 0
        """The number of items counted under :data:`OTHER`."""
        self._reserved = frozenset(filter(None, self.texts))
        self._slots: dict[str, int] = {} if null else {null: _NULL_SLOT}

    @property
    def used(self) -> int:
        """The number of values with a slot of their own."""
        return len(self.texts) - _RESERVED

    def slot(self, value: str) -> int:
        """Return the slot of a value."""
        text = label_text(value)
        if text in self._reserved:
            text = f"\\u{ord(text[0]):04x}{text[1:]}"
        used_slot = self._slots.get(text)
        if used_slot is not None:
            return used_slot
        if self.used == self.limit:
            return _OTHER_SLOT
        self._slots[text] = slot = len(self.texts)
        self.texts.append(text)
        return slot

    def slots(self, values: WordArray, *, counts_folded: bool = True) -> NDArray[np.int64]:
        """Return the slot of each value; ``counts_folded``: those of :data:`OTHER` are counted."""
        codes, words = values
        # Words that do not occur get no slot. Code -1, null, is the last index.
        slots = np.full(len(words) + 1, _NULL_SLOT)
        counts = np.bincount(codes + 1, minlength=len(words) + 1)[1:]
        for code in np.flatnonzero(counts).tolist():
            slots[code] = slot = self.slot(words[code])
            if slot == _OTHER_SLOT and counts_folded:
                self.folded += int(counts[code])
        return slots[codes]


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
_MAX_ZONES: Final = 64
_MAX_ERRORS: Final = 256
_MAX_FIXED: Final = 16
"""Limit for labels whose values kanalyze itself defines; each has fewer values than this."""

_ERROR: Final = "error"


class Metrics(Sink):
    """The metrics. One thread may add rows while others scrape ``registry``."""

    def __init__(
        self,
        *,
        max_clients: int = 100,
        max_topics: int = 100,
        max_groups: int = 100,
        names: AddressNames | None = None,
    ) -> None:
        """Start with all counts at 0; that many clients, topics and groups have their own series.

        The others are counted under ``other``. ``names`` are those of brokers' addresses.
        """
        self._lock = Lock()
        self._rows = _RowMetrics(max_clients, max_topics, max_groups, names)
        self._captured_bytes = 0
        """Bytes of packets, with link headers."""
        self._capture: dict[str, int | float | None] = {}
        # Prometheus sees a rise to 1 only if the counter was 0 before.
        self._anomalies = dict.fromkeys(AnomalyKind, 0)
        self._write_failures: Mapping[str, int] = {}
        self._findings: dict[tuple[str, int], int] = {}
        self._lag_lines: Sequence[LagOfTopic] | None = None
        self._lag: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        """By group and topic: the lag in records and in ns."""
        self.registry = CollectorRegistry(auto_describe=True)
        """Contains these metrics; others may register in it too."""
        self.registry.register(self)

    def add_packets(self, packets: PacketBatch) -> None:
        """Count bytes."""
        self._captured_bytes += total(packets.captured_bytes)

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - as in Sink
        """Count rows."""
        if not len(rows):
            return
        measures = RowMeasures(rows.columns)
        with self._lock:
            self._rows.add(measures)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Set what the state of the capture says; what is unknown has no sample."""
        in_flight = state.in_flight
        requests, age_ns = None, None
        if in_flight is not None:
            requests, age_ns = in_flight.requests, in_flight.age_ns(now_ns)
        with self._lock:
            self._anomalies |= state.anomalies or {}
            self._write_failures = state.write_failures
            if state.findings is not None:
                self._set_findings(state.findings, now_ns)
            self._capture = {
                "capture_packets": state.packets,
                "capture_bytes": self._captured_bytes,
                "capture_dropped_packets": state.dropped_packets,
                "connections": state.connections_seen,
                "open_connections": state.connections,
                "held_bytes": state.held_bytes,
                "last_packet_timestamp_seconds": _seconds(state.last_packet_ns),
                "in_flight_requests": requests,
                "oldest_in_flight_request_age_seconds": _seconds(age_ns),
                "silent_brokers": None if in_flight is None else len(state.silent_brokers),
            }
        return True

    def _set_findings(self, latest: LatestFindings, now_ns: int) -> None:
        """Set the findings that are present, and lag; kinds that were found before count 0."""
        self._findings = dict.fromkeys(self._findings, 0)
        for finding in latest.present(now_ns):
            kind = finding.name, finding.severity
            self._findings[kind] = self._findings.get(kind, 0) + 1
        if latest.lag is not self._lag_lines:
            self._lag_lines, self._lag = latest.lag, self._rows.lag_of(latest.lag or ())

    def collect(self) -> list[Metric]:
        """Return all metrics; the registry calls this."""
        with self._lock:
            return list(self._families())

    def _families(self) -> Iterator[Metric]:
        version = {(__version__,): 1}
        yield _gauge("build_info", "The version that counted; always 1.", ("version",), version)
        yield from self._rows.families()
        for name, text in _CAPTURE_COUNTERS.items():
            yield CounterMetricFamily(f"kanalyze_{name}", text, value=self._capture.get(name))
        for name, text in _CAPTURE_GAUGES.items():
            yield GaugeMetricFamily(f"kanalyze_{name}", text, value=self._capture.get(name))
        anomalies = {(kind.value,): count for kind, count in self._anomalies.items()}
        yield _counter("anomalies", "Problems of the traffic or the capture.", ("kind",), anomalies)
        text = "Attempts to write files of rows or of packets that failed."
        failures = {(files,): count for files, count in self._write_failures.items()}
        yield _counter("write_failures", text, ("files",), failures)
        findings = {(name, str(severity)): n for (name, severity), n in self._findings.items()}
        yield _gauge("findings", "Findings of the last minute.", ("finding", "severity"), findings)
        for number, (name, text) in enumerate(_LAGS.items()):
            lag = {labels: amounts[number] for labels, amounts in self._lag.items()}
            yield _gauge(name, text, ("group", "topic"), lag, _NS_PER_S if number else 1)


def _apps_and_zones(rows: RowMeasures, names: AddressNames) -> Iterator[WordArray]:
    """Yield the application and the zone of each client: the latest of its address."""
    addresses = rows.words("client_ip")
    latest = [(*names.at(address)[-1:], None)[0] for address in addresses.words]
    for field in ("app", "zone"):
        yield WordArray(addresses.codes, [getattr(known, field, None) or "" for known in latest])


def _counter(name: str, text: str, labels: Sequence[str], values: Mapping[Any, int]) -> Metric:
    family = CounterMetricFamily(f"kanalyze_{name}", text, labels=labels)
    for texts, value in values.items():
        family.add_metric(texts, value)
    return family


def _gauge(
    name: str,
    text: str,
    labels: Sequence[str],
    values: Mapping[Any, int | None],
    per_unit: int = 1,
) -> Metric:
    """Return a gauge; what is not known has no sample."""
    family = GaugeMetricFamily(f"kanalyze_{name}", text, labels=labels)
    for texts, value in values.items():
        if value is not None:
            family.add_metric(texts, value if per_unit == 1 else value / per_unit)
    return family


_LAGS: Final = {
    "group_lag_records": "Records that were written and not committed, in the last minutes.",
    "group_lag_seconds": "How long ago the log grew beyond a committed offset, the longest.",
}
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
    "silent_brokers": "Brokers that answer nobody, though several connections wait for them.",
}


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_S


class _Labels(NamedTuple):
    """Labels by which items of rows are counted."""

    items: Callable[[RowMeasures], Items | None]
    """Returns the items of rows; None if there are none."""
    columns: tuple[tuple[str, str], ...]
    """Labels, and the columns with their values."""
    where: str | None = None
    """The column that says which items count; None for all."""
    most: int | None = None
    """Number of combinations with series of their own; the others are counted as ``other``."""


def _rows(rows: RowMeasures) -> RowMeasures:
    return rows


_API: Final = ("api", "api_name")
_REQUESTS: Final = _Labels(_rows, (_API, ("broker", "broker"), ("status", "status")), "is_request")
_BROKERS: Final = _Labels(_rows, (("broker", "broker"),))
_ERRORS: Final = _Labels(attrgetter("errors"), (_API, ("error", "name")))
_CLIENTS: Final = _Labels(_rows, (("client_id", "client_id"),), "is_request")
_TOPICS: Final = _Labels(
    attrgetter("partitions"), (("topic", "topic_or_id"), ("direction", "direction")), "has_data"
)
_MAX_FLOWS: Final = 1000
_FLOWS: Final = _Labels(
    attrgetter("partitions"),
    (("client_id", "client_id"), ("topic", "topic_or_id"), ("direction", "direction")),
    *("has_data", _MAX_FLOWS),
)
_GROUPS: Final = _Labels(GroupEvents, (("group", "group"), ("event", "event")))
_APIS: Final = _Labels(_rows, (_API,))
_APPS: Final = _Labels(
    _rows, (("client_app", "client_app"), ("client_zone", "client_zone")), "is_request"
)
"""Only where there are names of addresses."""


class _Counter(ExactSum):
    """A counter: the sum of a column."""

    def __init__(
        self, name: str, text: str, column: str, *, direction: str | None = None, per_unit: int = 1
    ) -> None:
        """Count amounts of one direction, or without a direction, in another unit."""
        super().__init__(name, column)
        self.text = text
        self._direction = direction
        self._per_unit = per_unit

    def family(self, labels: Sequence[str]) -> CounterMetricFamily:
        """Return the metric, without samples."""
        own = () if self._direction is None else ("direction",)
        return CounterMetricFamily(f"kanalyze_{self.name}", self.text, labels=[*labels, *own])

    def add_sample(self, family: Any, texts: Sequence[str], value: int) -> None:
        """Add the value of some labels."""
        own = () if self._direction is None else (self._direction,)
        total = value if self._per_unit == 1 else value / self._per_unit
        family.add_metric([*texts, *own], total)


class _Histogram:
    """A histogram of a column of numbers. A value is the counts of its buckets, and the sum.

    Negative numbers count as 0: a sum never decreases.
    """

    def __init__(
        self,
        name: str,
        text: str,
        column: str,
        edges: Sequence[float],
        where: str | None = None,
        per_unit: int = 1,
    ) -> None:
        """Count the numbers for which the column ``where`` is true.

        ``edges`` are upper bounds, inclusive, rising; one more bucket is above the last one.
        """
        self.name = name
        self.text = text
        self._column = column
        self._where = where
        self._edges = np.array(edges, dtype=np.int64)
        self._per_unit = per_unit

    def start(self) -> tuple[NDArray[np.int64], int]:
        """Return a histogram without numbers."""
        return np.zeros(len(self._edges) + 1, dtype=np.int64), 0

    def values(self, groups: GroupedRows, items: Items) -> list[tuple[NDArray[np.int64], int]]:
        """Return the histogram of each group."""
        numbers, where = numbers_of(items, self._column, self._where)
        numbers = np.maximum(numbers if where is None else np.where(where, numbers, 0), 0)
        counts = [
            np.bincount(np.searchsorted(self._edges, values), minlength=len(self._edges) + 1)
            for values in groups.values(numbers, where)
        ]
        return list(zip(counts, groups.sums(numbers), strict=True))

    @staticmethod
    def merged(
        value: tuple[NDArray[np.int64], int], more: tuple[NDArray[np.int64], int]
    ) -> tuple[NDArray[np.int64], int]:
        """Add both. The sum is Python's: nanoseconds of a day's requests overflow an int64."""
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


_CLIENT_BYTES: Final = "Bytes of requests (sent) and of responses (received), with size prefixes."
_EVENTS: Final = "Joins, syncs and leaves of members, REBALANCE_IN_PROGRESS errors, assignments."
_LATENCY: Final = "From the end of a request to its response, without those held back on purpose."
_WAIT: Final = "The same for requests held back on purpose, such as a Fetch that waits for data."
_METRICS: Final[dict[_Labels, tuple[_Counter | _Histogram, ...]]] = {
    _REQUESTS: (_Counter("requests", "Requests by status.", "is_request"),),
    _BROKERS: (_Counter("orphan_responses", "Responses whose request was not seen.", "is_orphan"),),
    _ERRORS: (_Counter("errors", "Error codes in responses, other than 0, at any level.", "one"),),
    _CLIENTS: (
        _Counter("client_requests", "Requests by client.", "is_request"),
        _Counter("client_errors", "Requests that were answered with an error.", "is_error"),
        _Counter("client_bytes", _CLIENT_BYTES, "request_bytes", direction="sent"),
        _Counter("client_bytes", _CLIENT_BYTES, "response_bytes", direction="received"),
        _Counter("client_throttled_responses", "Responses with a throttle time.", "is_throttled"),
        _Counter(
            *("client_throttle_time_seconds", "Throttle time in responses.", "throttle_ms"),
            per_unit=_MS_PER_S,
        ),
    ),
    _TOPICS: (
        _Counter("topic_records", "Records, as batch headers count them.", "counted_records"),
        _Counter("topic_bytes", "Bytes of records as they are on the wire.", "counted_bytes"),
    ),
    _FLOWS: (
        _Counter("flow_records", "Records by client and topic.", "counted_records"),
        _Counter("flow_bytes", "Bytes of these records on the wire.", "counted_bytes"),
    ),
    _APPS: (
        _Counter("app_requests", "Requests by application and zone of the client.", "is_request"),
        _Counter("app_errors", "Those that were answered with an error.", "is_error"),
        _Counter("app_bytes", _CLIENT_BYTES, "request_bytes", direction="sent"),
        _Counter("app_bytes", _CLIENT_BYTES, "response_bytes", direction="received"),
    ),
    _GROUPS: (_Counter("group_rebalance_events", _EVENTS, "one"),),
    _APIS: (
        _Histogram(
            *("request_latency_seconds", _LATENCY, "latency_ns", LATENCY_EDGES_NS),
            *("is_not_held_back", _NS_PER_S),
        ),
        _Histogram(
            *("fetch_wait_seconds", _WAIT, "latency_ns", LATENCY_EDGES_NS),
            *("is_held_back", _NS_PER_S),
        ),
        _Histogram(
            *("request_size_bytes", "Requests with their size prefix."),
            *("request_bytes", SIZE_EDGES_BYTES),
        ),
        _Histogram(
            *("response_size_bytes", "Responses with their size prefix."),
            *("response_bytes", SIZE_EDGES_BYTES),
        ),
    ),
}
"""The metrics of rows, by their labels."""


class _RowMetrics:
    """The metrics of rows."""

    def __init__(
        self, max_clients: int, max_topics: int, max_groups: int, names: AddressNames | None
    ) -> None:
        self._names = names
        limits = {
            "api": _MAX_APIS,
            "broker": _MAX_BROKERS,
            "error": _MAX_ERRORS,
            "client_id": max_clients,
            **({} if names is None else {"client_app": max_clients, "client_zone": _MAX_ZONES}),
            "topic": max_topics,
            "group": max_groups,
        }
        self._limited = [
            LabelValues(name, limit, null="unknown" if name == "api" else "")
            for name, limit in limits.items()
        ]
        fixed = [LabelValues(name, _MAX_FIXED) for name in ("status", "direction", "event")]
        self._labels = {label.name: label for label in (*self._limited, *fixed)}
        self._sums = {
            labels: KeyedSums(metrics, labels.most)
            for labels, metrics in _METRICS.items()
            if labels is not _APPS or names is not None
        }

    def add(self, rows: RowMeasures) -> None:
        """Count rows."""
        if self._names is not None:
            rows.client_app, rows.client_zone = _apps_and_zones(rows, self._names)
        slots: dict[tuple[str, Items], IntArray] = {}
        for labels, sums in self._sums.items():
            items = labels.items(rows)
            if items is None:
                continue
            for name, column in labels.columns:
                # The values of a label are looked up once, because that counts those beyond the
                # limit.
                if (name, items) not in slots:
                    # Clients and topics of flows are counted as such already.
                    numbers = self._labels[name].slots(
                        items[column], counts_folded=labels is not _FLOWS
                    )
                    slots[name, items] = IntArray(numbers, None)
            keys = [slots[name, items] for name, _ in labels.columns]
            sums.add(keys, items, None if labels.where is None else items[labels.where])

    def lag_of(
        self, lines: Iterable[LagOfTopic]
    ) -> dict[tuple[str, str], tuple[int | None, int | None]]:
        """Return lag in records (summed) and in ns (the longest) by the labels group and topic."""
        found: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        for line in lines:
            group, topic = (
                self._labels[name].texts[self._labels[name].slot(value)]
                for name, value in (("group", line.group_id), ("topic", line.topic))
            )
            records, ns = found.get((group, topic), (None, None))
            found[group, topic] = (
                of_known(operator.add, records, line.lag),
                of_known(max, ns, line.lag_ns),
            )
        return found

    def families(self) -> Iterator[Metric]:
        """Yield all metrics of rows."""
        self._add_error_counters()
        families: dict[str, Metric] = {}
        for labels, sums in self._sums.items():
            names = [name for name, _ in labels.columns]
            for number, metric in enumerate(_METRICS[labels]):
                family = families.setdefault(metric.name, metric.family(names))
                for key, values in sums:
                    texts = [
                        self._labels[name].texts[int(slot or 0)]
                        for name, slot in zip(names, key, strict=True)
                    ]
                    metric.add_sample(family, texts, values[number])
                if sums.others is not None:
                    metric.add_sample(family, [OTHER] * len(names), sums.others[number])
        yield from families.values()
        yield from self._limits()
        if self._names is not None:
            yield self._broker_info(self._names)

    def _broker_info(self, names: AddressNames) -> Metric:
        """Return the latest name and zone of each broker, to be joined by its label."""
        infos = {
            (broker, *map(label_text, (known.name or "", known.zone or ""))): 1
            for broker in self._labels["broker"].texts[_RESERVED:]
            for known in names.at(broker.rpartition(":")[0].strip("[]"))[-1:]
        }
        return _gauge("broker_info", "1: what a broker is.", ("broker", "name", "zone"), infos)

    def _add_error_counters(self) -> None:
        """Add the counter of errors, at 0, of each API and broker.

        Prometheus counts the first error of an API only if the counter was 0 before.
        """
        sums, status = self._sums[_REQUESTS], self._labels["status"]
        for api, broker, _ in [key for key, _ in sums]:
            sums.of((api, broker, status.slot(_ERROR)))

    def _limits(self) -> Iterator[Metric]:
        used, limits, folded = (
            {(label.name,): getattr(label, field) for label in self._limited}
            for field in ("used", "limit", "folded")
        )
        text = "Values that have a series of their own."
        yield _gauge("label_values", text, ("label",), used)
        text = "The limit of kanalyze_label_values."
        yield _gauge("label_values_limit", text, ("label",), limits)
        text = "Items counted under the value other, because of the limit."
        yield _counter("label_folded", text, ("label",), folded)
