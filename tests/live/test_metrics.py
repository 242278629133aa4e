"""Two parsers read scraped metrics, which are compared with sums over the rows."""

from __future__ import annotations

import random
import threading
import urllib.request
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import kanalyze
from kanalyze.live.metrics import OTHER, LabelValues, Metrics, label_text
from kanalyze.live.metrics_server import ListenAddress, MetricsServer
from kanalyze.live.window.snapshot import CaptureState, LagOfTopic, LatestFindings
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint
from kanalyze.runtime.monitor import InFlight, InFlightRequest
from kanalyze.tables.columns.block import RowBlock, Words
from kanalyze.tables.names import AddressNames, NamedAddress
from tests.support import rows as sample_rows
from tests.support.captures import path
from tests.support.findings import kinds_of
from tests.support.row_blocks import blocks_of
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.core import Metric

    from kanalyze.spec.rows.requests import Row


Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]


def counted(rows: Sequence[Row], **limits: int) -> Metrics:
    metrics = Metrics(**limits)
    for batch in blocks_of(rows, random.Random(len(rows))):
        metrics.add(batch, 0)
    return metrics


def samples(metrics: Metrics) -> Samples:
    return samples_of(parse_text(generate_latest(metrics.registry).decode()))


def samples_of(families: Iterable[Metric]) -> Samples:
    samples: Samples = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
    return samples


def by(samples: Samples, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the sums of a metric by some of its labels."""
    sums: Counter[tuple[str, ...]] = Counter()
    for (sample, pairs), value in samples.items():
        if sample == f"kanalyze_{name}":
            labels_of_sample = dict(pairs)
            sums[tuple(labels_of_sample[label] for label in labels)] += value
    return dict(sums)


def positive(sums: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """Return the sums above 0. Counters begin at 0, so that Prometheus sees the first increase."""
    return {key: value for key, value in sums.items() if value}


def scrape(url: str, accept: str) -> tuple[str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=LONG_S) as response:
        return response.headers["Content-Type"], response.read().decode()


@pytest.fixture(scope="module", params=["errors", "groups", "waits", "ipv6", "transactions"])
def capture(request: pytest.FixtureRequest) -> tuple[list[Row], Samples]:
    rows = list(kanalyze.requests(path(request.param)))
    assert rows
    return rows, samples(counted(rows))


def is_request(row: Row) -> bool:
    return row.status != "orphan_response"


def broker_of(row: Row) -> str:
    ip = f"[{row.broker_ip}]" if ":" in row.broker_ip else row.broker_ip
    return f"{ip}:{row.broker_port}"


def test_requests_are_those_of_the_rows(capture: tuple[list[Row], Samples]) -> None:
    rows, scraped = capture
    expected = Counter(
        (row.api_name, broker_of(row), row.status) for row in filter(is_request, rows)
    )
    sums = by(scraped, "requests_total", "api", "broker", "status")
    assert positive(sums) == expected
    # Counters of errors begin at 0 for every API that may have errors.
    assert {(api, broker, "error") for api, broker, _ in sums} <= sums.keys()
    assert {broker for _, broker, _ in sums} <= {
        broker for (broker,) in by(scraped, "orphan_responses_total", "broker")
    }


def test_errors_are_those_of_the_rows(capture: tuple[list[Row], Samples]) -> None:
    rows, scraped = capture
    expected = Counter((row.api_name, error.name) for row in rows for error in row.errors)
    assert by(scraped, "errors_total", "api", "error") == expected


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("request_latency_seconds", lambda row: None if row.waited else row.latency_ns, 1e9),
        ("fetch_wait_seconds", lambda row: row.latency_ns if row.waited else None, 1e9),
        ("request_size_bytes", lambda row: row.request_bytes, 1),
        ("response_size_bytes", lambda row: row.response_bytes, 1),
    ],
)
def test_histograms_are_those_of_the_rows(
    capture: tuple[list[Row], Samples],
    name: str,
    value: Callable[[Row], int | None],
    unit: float,
) -> None:
    rows, scraped = capture
    values = [(row.api_name, value(row)) for row in rows]
    known = [(api, number) for api, number in values if number is not None]
    assert by(scraped, f"{name}_count", "api") == Counter((api,) for api, _ in known)
    sums = by(scraped, f"{name}_sum", "api")
    for (api,), total in sums.items():
        expected = sum(number for row_api, number in known if row_api == api)
        assert total == pytest.approx(expected / unit, rel=1e-12)
    for (api, edge), count in by(scraped, f"{name}_bucket", "api", "le").items():
        below = [n for row_api, n in known if row_api == api and n <= float(edge) * unit]
        assert count == len(below)


def test_clients_are_those_of_the_rows(capture: tuple[list[Row], Samples]) -> None:
    rows, scraped = capture
    requests = list(filter(is_request, rows))
    assert by(scraped, "client_requests_total", "client_id") == Counter(
        (row.client_id or "",) for row in requests
    )
    errors = by(scraped, "client_errors_total", "client_id")
    assert positive(errors) == Counter(
        (row.client_id or "",) for row in requests if row.status == "error"
    )
    assert errors.keys() == by(scraped, "client_requests_total", "client_id").keys()
    client_bytes: Counter[tuple[str, str]] = Counter()
    for row in requests:
        client_bytes[row.client_id or "", "sent"] += row.request_bytes or 0
        client_bytes[row.client_id or "", "received"] += row.response_bytes or 0
    assert by(scraped, "client_bytes_total", "client_id", "direction") == client_bytes


def test_topics_and_groups_are_those_of_the_rows(capture: tuple[list[Row], Samples]) -> None:
    rows, scraped = capture
    records: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for row in rows:
        direction = {"Produce": "produced", "Fetch": "fetched"}.get(row.api_name or "")
        for partition in row.partitions if direction else ():
            if not partition.error_code:
                key = partition.topic or partition.topic_id or "", direction or ""
                records[key] += partition.record_count or 0
                sizes[key] += partition.record_bytes or 0
    assert by(scraped, "topic_records_total", "topic", "direction") == records
    assert by(scraped, "topic_bytes_total", "topic", "direction") == sizes
    events: Counter[tuple[str, str]] = Counter()
    names = {"JoinGroup": "join", "SyncGroup": "sync", "LeaveGroup": "leave"}
    for row in rows:
        if row.group_id is not None and row.api_name in names:
            events[row.group_id, names[row.api_name]] += 1
        if row.group_id is not None and row.error_name == "REBALANCE_IN_PROGRESS":
            events[row.group_id, "rebalance_in_progress"] += 1
        if row.group_id is not None and row.api_name == "SyncGroup" and row.status == "ok":
            events[row.group_id, "assign"] += 1
    # window/test_tables.py tests events of heartbeats.
    by_heartbeat = {row.group_id for row in rows if "GroupHeartbeat" in (row.api_name or "")}
    counted_events = by(scraped, "group_rebalance_events_total", "group", "event")
    assert {key: count for key, count in counted_events.items() if key[0] not in by_heartbeat} == {
        key: count for key, count in events.items() if key[0] not in by_heartbeat
    }


def test_assignments_in_heartbeats_are_counted_as_rebalances() -> None:
    rows = list(kanalyze.requests(path("next-groups")))
    counted_events = by(samples(counted(rows)), "group_rebalance_events_total", "group", "event")
    assigned = {group for group, event in counted_events if event == "assign"}
    with_heartbeats = {row.group_id for row in rows if row.api_name == "ConsumerGroupHeartbeat"}
    assert with_heartbeats
    assert with_heartbeats <= assigned


def test_throttling_is_counted_by_client() -> None:
    rows = [
        sample_rows.row(client_id="a", throttle_time_ms=1500),
        sample_rows.row(client_id="a", throttle_time_ms=500),
        sample_rows.row(client_id="b", throttle_time_ms=0),
        sample_rows.row(client_id="b", throttle_time_ms=None),
    ]
    scraped = samples(counted(rows))
    seconds = by(scraped, "client_throttle_time_seconds_total", "client_id")
    assert seconds == {("a",): 2.0, ("b",): 0}
    assert by(scraped, "client_throttled_responses_total", "client_id") == {("a",): 2, ("b",): 0}


def test_brokers_have_their_latest_name_and_zone() -> None:
    names = AddressNames(
        [
            NamedAddress("10.0.0.1", "old", until_ns=50),
            NamedAddress("10.0.0.1", "kafka-1", zone="east", since_ns=50),
            NamedAddress("2001:db8::/32", zone='we"st'),
        ]
    )
    brokers = [("10.0.0.1", 9092), ("10.0.0.1", 9093), ("2001:db8::1", 9092), ("10.0.0.3", 9092)]
    metrics = Metrics(names=names)
    for ip, port in brokers:
        metrics.add(RowBlock.of_rows([sample_rows.row(broker_ip=ip, broker_port=port)]), 0)
    found = by(samples(metrics), "broker_info", "broker", "name", "zone")
    assert found == {
        ("10.0.0.1:9092", "kafka-1", "east"): 1,
        ("10.0.0.1:9093", "kafka-1", "east"): 1,
        ("[2001:db8::1]:9092", "", 'we"st'): 1,
    }
    assert by(samples(Metrics()), "broker_info", "broker") == {}


def test_requests_are_counted_by_application_and_zone_of_the_client() -> None:
    known = [NamedAddress("10.1.0.0/16", app="shop", zone="a"), NamedAddress("10.2.0.1", app="s\n")]
    metrics = Metrics(names=AddressNames(known))
    ips = ("10.1.2.3", "10.1.9.9", "10.2.0.1", "192.0.2.7")
    metrics.add(RowBlock.of_rows([sample_rows.row(client_ip=ip) for ip in ips]), 0)
    scraped = samples(metrics)
    assert by(scraped, "app_requests_total", "client_app", "client_zone") == {
        ("shop", "a"): 2,
        ("s\\n", ""): 1,
        ("", ""): 1,
    }
    assert by(samples(counted([sample_rows.row()])), "app_requests_total") == {}


def test_orphan_responses_are_no_requests_but_their_bytes_are_counted() -> None:
    scraped = samples(counted([sample_rows.orphan(broker_ip="fe80::1", response_bytes=70)]))
    assert by(scraped, "requests_total") == {}
    assert by(scraped, "orphan_responses_total", "broker") == {("[fe80::1]:9092",): 1}
    assert by(scraped, "response_size_bytes_sum", "api") == {("unknown",): 70}


def test_label_values_beyond_the_limit_are_counted_as_other() -> None:
    rows = [sample_rows.row(client_id=f"client-{n % 7}") for n in range(70)]
    scraped = samples(counted(rows, max_clients=3))
    clients = by(scraped, "client_requests_total", "client_id")
    assert len(clients) == 4
    assert clients[("other",)] == 40
    assert by(scraped, "label_values", "label")[("client_id",)] == 3
    assert by(scraped, "label_values_limit", "label")[("client_id",)] == 3
    assert by(scraped, "label_folded_total", "label")[("client_id",)] == 40


def test_the_number_of_series_is_bounded() -> None:
    """New names come again and again."""
    metrics = Metrics(max_clients=5, max_topics=5, max_groups=5)
    sizes = set()
    for number in range(20):
        rows = [
            sample_rows.row(
                client_id=f"app-{number}-{n}",
                group_id=f"group-{number}-{n}",
                broker_port=number * 100 + n,
                partitions=[sample_rows.partition(f"topic-{number}-{n}")],
            )
            for n in range(100)
        ]
        metrics.add(RowBlock.of_rows(rows), 0)
        sizes.add(len(generate_latest(metrics.registry).splitlines()))
    assert len(sizes) == 1


@settings(max_examples=20)
@given(st.lists(sample_rows.rows(), max_size=20))
def test_any_rows_can_be_scraped_and_no_counter_decreases(rows: list[Row]) -> None:
    metrics = Metrics(max_clients=2)
    before: Samples = {}
    for row in rows:
        metrics.add(RowBlock.of_rows([row]), 0)
        scraped = samples(metrics)
        assert all(scraped[key] >= value for key, value in before.items())
        before = scraped
    total = sum(by(before, "requests_total").values())
    assert total == sum(map(is_request, rows))


def test_both_parsers_read_the_same_names() -> None:
    names = ['q"uote', "back\\slash", "new\nline", "caf\u00e9", "\ud800", "{}=,", "x" * 300, "\r"]
    metrics = counted([sample_rows.row(client_id=name) for name in names])
    with MetricsServer(metrics.registry, ListenAddress("127.0.0.1", 0)) as server:
        _, text = scrape(server.url, "text/plain")
        _, openmetrics = scrape(server.url, "application/openmetrics-text; version=1.0.0")
    first = by(samples_of(parse_text(text)), "client_requests_total", "client_id")
    assert len(first) == len(names)
    assert {('q"uote',), ("new\\nline",), ("back\\\\slash",), ("caf\u00e9",)} <= first.keys()
    second = by(samples_of(parse_openmetrics(openmetrics)), "client_requests_total", "client_id")
    assert first == second


def test_the_response_has_the_requested_format() -> None:
    metrics = counted(sample_rows.plain_traffic(200))
    state = CaptureState("-", 7, 900, 0, 3, 0, anomalies={AnomalyKind.LOST_BYTES: 2})
    metrics.tick(state, 0, 0)
    with MetricsServer(metrics.registry, ListenAddress("127.0.0.1", 0)) as server:
        plain_type, text = scrape(server.url, "text/plain; version=0.0.4")
        open_type, openmetrics = scrape(server.url, "application/openmetrics-text; version=1.0.0")
    assert plain_type.startswith("text/plain")
    assert open_type.startswith("application/openmetrics-text")
    first, second = samples_of(parse_text(text)), samples_of(parse_openmetrics(openmetrics))
    assert first == second
    assert by(first, "capture_packets_total") == {(): 7}
    assert by(first, "capture_dropped_packets_total") == {(): 0}
    assert positive(by(first, "anomalies_total", "kind")) == {("lost_bytes",): 2}
    assert len(by(first, "anomalies_total", "kind")) == len(AnomalyKind)
    assert by(first, "build_info", "version") == {(kanalyze.__version__,): 1}


def test_requests_in_flight_and_the_age_of_the_oldest_are_metrics() -> None:
    metrics = Metrics()
    ends = Endpoint("10.0.0.1", 40000), Endpoint("10.0.0.9", 9092)
    oldest = InFlightRequest(500_000_000, 0, "Produce", "c", *ends)
    state = CaptureState("-", 1, 60, None, 0, 0, in_flight=InFlight(12, (oldest,)))
    metrics.tick(state, 3_000_000_000, 0)
    scraped = samples(metrics)
    assert by(scraped, "in_flight_requests") == {(): 12}
    assert by(scraped, "oldest_in_flight_request_age_seconds") == {(): 2.5}


NO_FINDINGS = CaptureState("-", 1, 60, None, 0, 0)


def _finding(name: str, severity: int) -> Any:
    return SimpleNamespace(name=name, severity=severity, last_time_ns=None)


def _state_with(found: list[Any], lag: tuple[LagOfTopic, ...] | None = None) -> CaptureState:
    return NO_FINDINGS._replace(findings=LatestFindings(0, 1, 1, tuple(found), {}, lag))


def test_findings_are_counted_by_kind_and_those_that_are_over_count_0() -> None:
    metrics = Metrics()
    [slow], [throttled] = kinds_of("slow_broker"), kinds_of("throttled")
    found = [_finding(kind.query.name, kind.severity) for kind in (slow, slow)]
    metrics.tick(_state_with(found), 0, 0)
    over = {("slow_broker", str(slow.severity)): 2}
    assert by(samples(metrics), "findings", "finding", "severity") == over
    metrics.tick(_state_with([_finding("throttled", throttled.severity)]), 0, 0)
    assert by(samples(metrics), "findings", "finding", "severity") == {
        ("slow_broker", str(slow.severity)): 0,
        ("throttled", str(throttled.severity)): 1,
    }


def test_lag_of_groups_beyond_the_limit_is_summed_up() -> None:
    metrics = Metrics(max_groups=1)
    first = LagOfTopic("a", "orders", 2, 2, 0, 7, 5, 1_500_000_000, 9)
    unknown = first._replace(topic="new", lag=None, lag_ns=None)
    others = [
        first._replace(group_id=name, lag=100, lag_ns=count) for count, name in enumerate("bc")
    ]
    metrics.tick(_state_with([], (first, unknown, *others)), 0, 0)
    scraped = samples(metrics)
    lag = {("a", "orders"): 7, (OTHER, "orders"): 200}
    assert by(scraped, "group_lag_records", "group", "topic") == lag
    assert by(scraped, "group_lag_seconds", "group", "topic") == {
        ("a", "orders"): 1.5,
        (OTHER, "orders"): 1e-9,
    }
    metrics.tick(_state_with([]), 0, 0)
    assert by(samples(metrics), "group_lag_records", "group", "topic") == {}


@pytest.mark.parametrize("name", ["basics", "groups", "fault-hot-client"])
def test_flows_are_the_records_of_each_client_and_topic(name: str) -> None:
    rows = list(kanalyze.requests(path(name)))
    expected: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        if row.api_name in ("Produce", "Fetch", "ShareFetch"):
            direction = "produced" if row.api_name == "Produce" else "fetched"
            for item in row.partitions:
                if not item.error_code:
                    key = (row.client_id or "", item.topic or item.topic_id or "", direction)
                    expected[key] += item.record_bytes or 0
    found = by(samples(counted(rows)), "flow_bytes_total", "client_id", "topic", "direction")
    assert found == expected


def test_flows_beyond_the_limit_are_summed_up() -> None:
    rows = [
        sample_rows.row(client_id=f"c{n}", partitions=[sample_rows.partition(f"t{m}")])
        for n in range(40)
        for m in range(40)
    ]
    found = by(samples(counted(rows)), "flow_records_total", "client_id", "topic", "direction")
    assert len(found) == 1001
    assert (sum(found.values()), found[OTHER, OTHER, OTHER]) == (1600, 600)


def test_unknown_values_have_no_sample() -> None:
    metrics = Metrics()
    assert by(samples(metrics), "capture_packets_total") == {}
    metrics.tick(NO_FINDINGS, 0, 0)
    scraped = samples(metrics)
    assert by(scraped, "capture_packets_total") == {(): 1}
    assert by(scraped, "capture_dropped_packets_total") == {}
    assert by(scraped, "last_packet_timestamp_seconds") == {}
    assert by(scraped, "in_flight_requests") == {}


def test_counters_never_decrease_while_rows_are_added() -> None:
    metrics = Metrics()
    traffic = RowBlock.of_rows(sample_rows.plain_traffic(300))
    done = threading.Event()

    def add() -> None:
        for _ in range(20):
            metrics.add(traffic, 0)
        done.set()

    thread = threading.Thread(target=add)
    thread.start()
    totals = []
    while not done.is_set() or not totals:
        scraped = samples(metrics)
        totals.append(sum(by(scraped, "requests_total").values()))
        # A scrape shows one moment: counts of the same rows are equal.
        assert totals[-1] == sum(by(scraped, "client_requests_total").values())
    thread.join()
    assert totals == sorted(totals)


def words(*texts: str | None) -> Words:
    known = sorted({text for text in texts if text is not None})
    codes = [-1 if text is None else known.index(text) for text in texts]
    return Words(np.array(codes, dtype=np.int32), known)


def test_the_label_for_null_does_not_count_for_the_limit() -> None:
    label = LabelValues("api", 1, null="unknown")
    slots_of_rows = label.slots(words(None, "a", None))
    assert [label.texts[slot] for slot in slots_of_rows] == ["unknown", "a", "unknown"]
    assert label.used == 1


def test_words_that_no_row_has_get_no_label() -> None:
    label = LabelValues("topic", 1)
    label.slots(Words(np.array([2], dtype=np.int32), ["a", "b", "c"]))
    assert label.texts[2:] == ["c"]


@pytest.mark.parametrize(("value", "label"), [(OTHER, "\\u006fther"), ("unknown", "\\u0075nknown")])
def test_values_that_equal_a_reserved_label_are_escaped(value: str, label: str) -> None:
    values = LabelValues("api", 2, null="unknown")
    assert values.texts[values.slot(value)] == label
    assert values.used == 1
    # A value that equals the escaped text is a third label.
    assert values.texts[values.slot(label)] == f"\\{label}"
    assert values.texts[values.slot("one too many")] == OTHER


@given(st.text(max_size=400))
def test_labels_are_bounded_and_can_be_written(value: str) -> None:
    assert label_text(value).isprintable()
    assert len(label_text(value).encode()) <= 128 * 12


def test_long_values_with_a_common_prefix_have_different_labels() -> None:
    labels = [label_text("x" * 200 + end) for end in "abc"]
    assert len(set(labels)) == 3
    assert {len(label) for label in labels} == {128}
