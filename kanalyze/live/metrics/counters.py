"""Counts the metrics for Prometheus.

In: rows; counts of the capture. Out: a ``prometheus_client`` registry, which
:mod:`kanalyze.live.metrics.server` serves.

Counters only rise; Prometheus computes rates and quantiles. Numbers are summed by column; Python
objects for them are made only at a scrape.
"""

from __future__ import annotations

import re
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import CollectorRegistry

from kanalyze.errors import UsageError
from kanalyze.live.metrics.label_counts import CounterTable, HistogramTable, LabelValues, label_text
from kanalyze.live.window.rebalances import are_assignments
from kanalyze.live.window.row_measures import RowMeasures, rows_of_items
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.columns.numpy_arrays import WordArray, endpoints_of
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray
    from prometheus_client.core import Metric

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
_PRODUCED, _FETCHED = "produced", "fetched"
_SENT, _RECEIVED = "sent", "received"
_REBALANCE_APIS: Final = {"JoinGroup": "join", "SyncGroup": "sync", "LeaveGroup": "leave"}
_REBALANCE_ERROR: Final = "REBALANCE_IN_PROGRESS"
_REBALANCING: Final = "rebalance_in_progress"
_ASSIGNED: Final = "assign"

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


class _RowMetrics:
    """The metrics of rows."""

    def __init__(self, max_clients: int, max_topics: int, max_groups: int) -> None:
        api = LabelValues("api", _MAX_APIS, null="unknown")
        broker = LabelValues("broker", _MAX_BROKERS)
        status = LabelValues("status", _MAX_FIXED)
        error = LabelValues("error", _MAX_ERRORS)
        client = LabelValues("client_id", max_clients)
        topic = LabelValues("topic", max_topics)
        group = LabelValues("group", max_groups)
        record_flow = LabelValues("direction", _MAX_FIXED)
        byte_flow = LabelValues("direction", _MAX_FIXED)
        event = LabelValues("event", _MAX_FIXED)
        self.api, self.broker, self.status, self.error = api, broker, status, error
        self.client, self.topic, self.group = client, topic, group
        self.record_flow, self.byte_flow, self.event = record_flow, byte_flow, event
        self.limited = (api, broker, error, client, topic, group)

        self.requests = CounterTable(api, broker, status)
        self.orphans = CounterTable(broker)
        self.errors = CounterTable(api, error)
        self.latency = HistogramTable(api, [int(edge) for edge in LATENCY_EDGES_NS])
        self.wait = HistogramTable(api, [int(edge) for edge in LATENCY_EDGES_NS])
        self.request_size = HistogramTable(api, SIZE_EDGES_BYTES)
        self.response_size = HistogramTable(api, SIZE_EDGES_BYTES)
        self.client_requests = CounterTable(client)
        self.client_errors = CounterTable(client)
        self.client_bytes = CounterTable(client, byte_flow)
        self.client_throttled = CounterTable(client)
        self.client_throttle_ms = CounterTable(client)
        self.topic_records = CounterTable(topic, record_flow)
        self.topic_bytes = CounterTable(topic, record_flow)
        self.group_events = CounterTable(group, event)

    def add(self, rows: RowMeasures) -> None:
        """Count rows."""
        api = self.api.slots(rows.words("api_name"))
        broker = self.broker.slots(endpoints_of(rows.words("broker_ip"), rows.ints("broker_port")))
        status = self.status.slots(rows.words("status"))
        is_request, orphan = rows.is_request, rows.is_orphan
        self.requests.add([api[is_request], broker[is_request], status[is_request]])
        # Prometheus counts the first error of an API only if the counter was 0 before.
        error = np.full(int(is_request.sum()), self.status.slot(_ERROR))
        self.requests.add(
            [api[is_request], broker[is_request], error], np.zeros(len(error), dtype=np.int64)
        )
        self.orphans.add([broker], orphan.astype(np.int64))
        self._add_errors(rows, api)
        self._add_histograms(rows, api)
        self._add_clients(rows)
        self._add_topics(rows)
        self._add_groups(rows)

    def _add_errors(self, rows: RowMeasures, api: NDArray[np.int64]) -> None:
        errors = rows.lists("errors")
        names = errors.fields["name"]
        assert isinstance(names, WordArray)
        self.errors.add([api[rows_of_items(errors)], self.error.slots(names)])

    def _add_histograms(self, rows: RowMeasures, api: NDArray[np.int64]) -> None:
        for table, name, is_counted in (
            (self.latency, "latency_ns", rows.has_broker_latency),
            (self.wait, "latency_ns", rows.known("latency_ns") & rows.is_held_back),
            (self.request_size, "request_bytes", rows.known("request_bytes")),
            (self.response_size, "response_bytes", rows.known("response_bytes")),
        ):
            table.add(api[is_counted], rows.ints(name).values[is_counted])

    def _add_clients(self, rows: RowMeasures) -> None:
        is_request = rows.is_request
        clients = rows.words("client_id")
        client = self.client.slots(WordArray(clients.codes[is_request], clients.words))
        self.client_requests.add([client])
        self.client_errors.add([client], rows.is_error[is_request].astype(np.int64))
        for direction, name in ((_SENT, "request_bytes"), (_RECEIVED, "response_bytes")):
            flow = np.full(len(client), self.byte_flow.slot(direction))
            self.client_bytes.add([client, flow], rows.ints(name).values[is_request])
        throttle_ms = np.maximum(rows.ints("throttle_time_ms").values[is_request], 0)
        self.client_throttled.add([client], (throttle_ms > 0).astype(np.int64))
        self.client_throttle_ms.add([client], throttle_ms)

    def _add_topics(self, rows: RowMeasures) -> None:
        parts = rows.partitions
        if parts is None:
            return
        has_data = ~parts.is_refused
        named = has_data & (parts.topic.codes >= 0)
        slots = np.zeros(len(has_data), dtype=np.int64)
        for mask, texts in ((named, parts.topic), (has_data & ~named, parts.topic_id)):
            slots[mask] = self.topic.slots(WordArray(texts.codes[mask], texts.words))
        flow = np.where(
            rows.is_produce[parts.row],
            self.record_flow.slot(_PRODUCED),
            self.record_flow.slot(_FETCHED),
        )
        for table, amounts in (
            (self.topic_records, parts.record_count),
            (self.topic_bytes, parts.record_bytes),
        ):
            # Counts in headers may be wrong, and negative.
            table.add([slots[has_data], flow[has_data]], np.maximum(amounts[has_data], 0))

    def _add_groups(self, rows: RowMeasures) -> None:
        groups = rows.words("group_id")
        apis, errors = rows.words("api_name"), rows.words("error_name")
        of_api = [self._event(_REBALANCE_APIS.get(name)) for name in apis.words]
        of_error = [
            self._event(_REBALANCING if name == _REBALANCE_ERROR else None) for name in errors.words
        ]
        for texts, of_word in ((apis, of_api), (errors, of_error)):
            # Code -1, null, is the last index.
            event = np.array([*of_word, -1], dtype=np.int64)[texts.codes]
            is_event = (event >= 0) & (groups.codes >= 0)
            if is_event.any():
                group = self.group.slots(WordArray(groups.codes[is_event], groups.words))
                self.group_events.add([group, event[is_event]])
        assigned = are_assignments(rows) & (groups.codes >= 0)
        if assigned.any():
            group = self.group.slots(WordArray(groups.codes[assigned], groups.words))
            event = np.full(len(group), self.event.slot(_ASSIGNED))
            self.group_events.add([group, event])

    def _event(self, name: str | None) -> int:
        return -1 if name is None else self.event.slot(name)

    def families(self) -> Iterator[Metric]:
        """Yield all metrics of rows."""
        for name, text, table in (
            ("requests", "Requests by status.", self.requests),
            ("orphan_responses", "Responses whose request was not seen.", self.orphans),
            ("errors", "Error codes in responses, other than 0, at any level.", self.errors),
            ("client_requests", "Requests by client.", self.client_requests),
            ("client_errors", "Requests that were answered with an error.", self.client_errors),
            (
                "client_bytes",
                "Bytes of requests (sent) and of responses (received), with size prefixes.",
                self.client_bytes,
            ),
            (
                "client_throttled_responses",
                "Responses with a throttle time.",
                self.client_throttled,
            ),
            ("topic_records", "Records, as batch headers count them.", self.topic_records),
            ("topic_bytes", "Bytes of records as they are on the wire.", self.topic_bytes),
            (
                "group_rebalance_events",
                "Joins, syncs and leaves of members, REBALANCE_IN_PROGRESS errors, assignments.",
                self.group_events,
            ),
        ):
            yield _counter(name, text, table)
        throttle = "Throttle time in responses."
        yield _counter(
            "client_throttle_time_seconds", throttle, self.client_throttle_ms, per_unit=_MS_PER_S
        )
        yield from self._histograms()
        yield from self._limits()

    def _histograms(self) -> Iterator[Metric]:
        for name, text, table, per_unit in (
            (
                "request_latency_seconds",
                "From the end of a request to its response, without those held back on purpose.",
                self.latency,
                _NS_PER_S,
            ),
            (
                "fetch_wait_seconds",
                "The same for requests held back on purpose, such as a Fetch that waits for data.",
                self.wait,
                _NS_PER_S,
            ),
            ("request_size_bytes", "Requests with their size prefix.", self.request_size, 1),
            ("response_size_bytes", "Responses with their size prefix.", self.response_size, 1),
        ):
            family = HistogramMetricFamily(f"kanalyze_{name}", text, labels=[table.label.name])
            edges = [repr(edge / per_unit) for edge in table.edges.tolist()]
            for texts, counts, total in table.histograms():
                buckets = list(zip([*edges, "+Inf"], counts, strict=True))
                family.add_metric(texts, buckets, total / per_unit)
            yield family

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
        for label in self.limited:
            used.add_metric([label.name], label.used)
            limit.add_metric([label.name], label.limit)
            folded.add_metric([label.name], label.folded)
        yield from (used, limit, folded)


def _counter(name: str, text: str, table: CounterTable, per_unit: int = 1) -> CounterMetricFamily:
    labels = [label.name for label in table.labels]
    family = CounterMetricFamily(f"kanalyze_{name}", text, labels=labels)
    for texts, total in table.sums():
        family.add_metric(texts, total if per_unit == 1 else total / per_unit)
    return family
