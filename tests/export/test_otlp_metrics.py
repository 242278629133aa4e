"""Metrics sent by OTLP are those that Prometheus scrapes, by OpenTelemetry's own definitions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import kanalyze
from kanalyze.export.otlp_metrics import metrics_message
from kanalyze.live.metrics import Metrics
from kanalyze.tables.columns.block import RowBlock
from tests.support.captures import path
from tests.support.collector import collecting, points_of
from tests.support.piped import run_piped

if TYPE_CHECKING:
    from prometheus_client.core import Metric

KINDS = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}
NOW_NS = 1_790_000_000_000_000_000


def number_of(point: Any) -> float:
    return float(getattr(point, point.WhichOneof("value")))


def in_prometheus(family: Metric) -> dict[tuple[tuple[str, str], ...], Any]:
    """The numbers of a family by its labels: one, or those of a histogram."""
    found: dict[tuple[tuple[str, str], ...], Any] = {}
    for sample in family.samples:
        labels = dict(sample.labels)
        bound = labels.pop("le", None)
        key = tuple(sorted(labels.items()))
        if family.type != "histogram":
            found[key] = sample.value
        elif bound is not None:
            found.setdefault(key, {})[float(bound)] = sample.value
        else:
            found[key][sample.name.rpartition("_")[2]] = sample.value
    return found


def of_histogram(point: Any) -> dict[Any, float]:
    below: dict[Any, float] = {}
    total = 0
    bounds = [*point.explicit_bounds, math.inf]
    for bound, count in zip(bounds, point.bucket_counts, strict=True):
        below[bound] = total = total + count
    return {**below, "count": point.count, "sum": point.sum}


def check(registry: CollectorRegistry, message: bytes) -> int:
    """Compare all samples of a message with those of a scrape; return how many points there are."""
    points = points_of(message)
    families = {
        family.name: family
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        if family.samples
    }
    assert points.keys() == families.keys()
    for name, family in families.items():
        found = {}
        for kind, labels, point in points[name]:
            assert kind == KINDS[family.type]
            value = of_histogram(point) if kind == "histogram" else number_of(point)
            found[tuple(sorted(labels.items()))] = value
        assert found == in_prometheus(family)
    return sum(map(len, points.values()))


@pytest.mark.parametrize("name", ["basics", "errors", "groups", "waits"])
def test_every_sample_of_a_scrape_is_a_point(name: str) -> None:
    metrics = Metrics()
    rows = list(kanalyze.requests(path(name)))
    metrics.add(RowBlock.of_rows(rows), NOW_NS)
    message = metrics_message(metrics.registry.collect(), NOW_NS, NOW_NS + 5)
    assert check(metrics.registry, message) > 100
    for each in points_of(message).values():
        for _, _, point in each:
            assert (point.start_time_unix_nano, point.time_unix_nano) == (NOW_NS, NOW_NS + 5)


def test_metrics_of_others_too() -> None:
    registry = CollectorRegistry()
    Gauge("depth", 'How "deep".', ["where"], registry=registry).labels('a "b"\n').set(-1.5)
    Gauge("none", "Without a sample.", ["where"], registry=registry)
    size = Histogram("size", "Bytes.", buckets=[0.5, 10, 1e6], registry=registry)
    for number in (0.1, 7, 8, 10, 2e6):
        size.observe(number)
    families = [family for family in registry.collect() if family.samples]
    for family in families:
        family.samples = [each for each in family.samples if not each.name.endswith("_created")]
    points = points_of(metrics_message(families, 1, 2))
    assert points.keys() == {"depth", "size"}
    ((kind, labels, point),) = points["depth"]
    assert (kind, labels, point.as_double) == ("gauge", {"where": 'a "b"\n'}, -1.5)
    ((_, _, histogram),) = points["size"]
    assert list(histogram.bucket_counts) == [1, 3, 0, 1]
    assert (histogram.count, histogram.sum) == (5, 2_000_025.1)


def test_live_sends_metrics_beside_spans(monkeypatch: Any, capfdbinary: Any) -> None:
    with collecting() as collector:
        done = run_piped(
            *("live", "-", "--format", "rows", "--otlp", collector.url),
            data=path("basics").read_bytes(),
            monkeypatch=monkeypatch,
            captured=capfdbinary,
        )
    assert done.returncode == 0, done.stderr
    points = points_of(collector.metrics[-1])
    requests = sum(number_of(point) for _, _, point in points["kanalyze_requests"])
    rows = list(kanalyze.requests(path("basics")))
    assert requests == sum(row.status != "orphan_response" for row in rows)
    assert {"process_cpu_seconds", "kanalyze_capture_packets"} <= points.keys()


def test_live_without_what_counts_metrics_sends_spans(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    monkeypatch.setattr("kanalyze.cli.live_sinks.find_spec", lambda _: None)
    with collecting() as collector:
        done = run_piped(
            *("live", "-", "--format", "rows", "--otlp", collector.url),
            data=path("basics").read_bytes(),
            monkeypatch=monkeypatch,
            captured=capfdbinary,
        )
    assert done.returncode == 0
    assert b"metrics need prometheus_client: pip install 'kanalyze[live]'" in done.stderr
    assert collector.messages
    assert not collector.metrics
