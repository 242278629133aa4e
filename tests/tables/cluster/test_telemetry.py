"""Metrics that clients push: as the broker's own classes read them, and made-up messages."""

from __future__ import annotations

import gzip
import json
import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

import kanalyze
from kanalyze.errors import UsageError
from kanalyze.tables.cluster.telemetry import client_metrics
from tests.support.captures import path, truth

INSTANCE = bytes(range(16))
CUMULATIVE = 2


def pushed(data: bytes, codec: int = 0) -> list[Any]:
    request = {
        "ClientInstanceId": INSTANCE,
        "Terminating": False,
        "CompressionType": codec,
        "Metrics": data,
    }
    return client_metrics(request, {"ErrorCode": 0})


def message() -> MetricsData:
    """One number of each kind."""
    data = MetricsData()
    of_resource = data.resource_metrics.add()
    of_resource.resource.attributes.add(key="group_id").value.string_value = "readers"
    metrics = of_resource.scope_metrics.add().metrics
    gauge = metrics.add(name="gauge", unit="ms").gauge.data_points.add(as_double=1.5)
    gauge.attributes.add(key="node").value.int_value = 7
    gauge.time_unix_nano = 5
    total = metrics.add(name="sum").sum
    total.aggregation_temporality = CUMULATIVE
    total.data_points.add(as_int=2**53)
    histogram = metrics.add(name="histogram").histogram
    histogram.data_points.add(count=3, sum=9.5, min=1.0, bucket_counts=[1, 2])
    metrics.add(name="exponential").exponential_histogram.data_points.add(count=2**64 - 1, sum=1)
    metrics.add(name="summary").summary.data_points.add(count=4, sum=8)
    metrics.add(name="nothing").gauge.data_points.add(as_double=math.nan)
    return data


def test_each_kind_of_number_is_a_line() -> None:
    lines = pushed(message().SerializeToString())
    values = [
        (line.metric, line.kind, line.value, line.observations, line.lowest) for line in lines
    ]
    assert values == [
        ("gauge", "gauge", 1.5, None, None),
        ("sum", "sum", 2.0**53, None, None),
        ("histogram", "histogram", 9.5, 3, 1.0),
        ("exponential", "exponential_histogram", 1.0, 2**63 - 1, None),
        ("summary", "summary", 8.0, 4, None),
        ("nothing", "gauge", None, None, None),
    ]
    gauge, total = lines[:2]
    assert (gauge.unit, gauge.labels, gauge.time_ns) == ("ms", '{"node": 7}', 5)
    assert gauge.resource == '{"group_id": "readers"}'
    assert (gauge.temporality, total.temporality) == (None, "cumulative")
    assert gauge.client_instance_id == "AAECAwQFBgcICQoLDA0ODw"


def test_what_cannot_be_read_is_a_line_that_says_why() -> None:
    data = message().SerializeToString()
    assert pushed(gzip.compress(data), 1) == pushed(data)
    for bad, codec, problem in (
        (data[:-1], 0, "malformed"),
        (b"\xff" * 9, 0, "malformed"),
        (data, 1, "bad_compression"),
        (data, 9, "unknown_codec"),
        (gzip.compress(bytes(5 << 20)), 1, "decompressed_too_large"),
    ):
        (line,) = pushed(bad, codec)
        assert (line.problem, line.metric, line.value) == (problem, None, None)


def test_a_push_of_very_many_numbers_ends() -> None:
    data = MetricsData()
    points = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge
    for number in range(10_001):
        points.data_points.add(as_int=number)
    lines = pushed(data.SerializeToString())
    assert [line.value for line in lines[:-1]] == list(range(10_000))
    assert lines[-1].problem == "too_many_numbers"


@given(st.binary(max_size=60), st.integers(-1, 6))
def test_any_bytes_raise_nothing(data: bytes, codec: int) -> None:
    for line in pushed(data, codec):
        assert line.problem or line.metric is not None


def test_numbers_are_those_that_the_broker_got() -> None:
    (push,) = [client for client in truth("telemetry")["clients"] if client["op"] == "push"]
    lines = kanalyze.client_metrics(path("telemetry"))
    found = [
        [
            *(line.client_id, line.client_instance_id, line.is_last, line.metric, line.kind),
            *(line.temporality == "delta", json.loads(line.labels or "{}"), line.value),
        ]
        for line in lines
    ]
    assert len(found) > 40
    assert found == push["pushed"]


def test_numbers_stay_the_same_in_files_and_sql(tmp_path: Any) -> None:
    kanalyze.save(path("telemetry"), output=tmp_path / "kept.duckdb")
    query = "SELECT * FROM client_metrics ORDER BY request_id, metric, labels, time_ns"
    kept = kanalyze.sql(str(tmp_path / "kept.duckdb"), query)
    assert kept == kanalyze.sql(str(path("telemetry")), query)
    assert str(kept.schema.field("value").type) == "double"
    rows = kanalyze.client_metrics(tmp_path / "kept.duckdb")
    assert list(rows) == list(kanalyze.client_metrics(path("telemetry")))


def test_without_opentelemetry_the_table_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kanalyze.tables.cluster.telemetry", None)
    with pytest.raises(UsageError, match=r"pip install 'kanalyze\[otlp\]'"):
        kanalyze.sql(str(path("basics")), "FROM client_metrics")
