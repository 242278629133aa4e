"""Rows made by hand and by hypothesis, for tests of code that takes rows."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from kanalyze.spec.rows.requests import COLUMNS, SESSION_COLUMNS, ErrorItem, PartitionItem, Row
from kanalyze.tables.columns.block import RowBlock, columns_of_rows

NOTHING: Row = Row._make([] if column.type.startswith("list<") else None for column in COLUMNS)
START_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z


def partition(topic: str | None = "orders", index: int = 0, **changes: Any) -> PartitionItem:
    item = PartitionItem(
        topic=topic,
        topic_id=None,
        partition=index,
        record_count=1,
        record_bytes=100,
        base_offset=0,
        high_watermark=None,
        codec="none",
        error_code=0,
        producer_id=None,
        producer_epoch=None,
        base_sequence=None,
        preferred_read_replica=None,
    )
    return item._replace(**changes)


def row(**changes: Any) -> Row:
    """Return a plain Produce row, with the given columns changed."""
    made = NOTHING._replace(
        capture="x.pcap",
        connection="10.0.0.1:40000>10.0.0.9:9092",
        connection_number=1,
        client_ip="10.0.0.1",
        broker_ip="10.0.0.9",
        client_port=40000,
        broker_port=9092,
        client_software_name="librdkafka",
        client_software_version="2.5.0",
        wire="kafka",
        api_key=0,
        api_version=9,
        api_name="Produce",
        correlation_id=7,
        client_id="app",
        request_start_ns=START_NS,
        request_end_ns=START_NS + 1_000,
        response_start_ns=START_NS + 2_001_000,
        response_end_ns=START_NS + 2_002_000,
        latency_ns=2_000_000,
        total_time_ns=2_002_000,
        request_bytes=200,
        response_bytes=50,
        request_packet=4,
        response_packet=6,
        status="ok",
        error_code=0,
        error_name="NONE",
        throttle_time_ms=0,
        partitions=[partition()],
        record_count=1,
        record_bytes=100,
        acks=-1,
        capture_point="client",
        request_send_ns=1_000,
        broker_network_ns=400_000,
        retransmission_wait_ns=0,
        pipeline_wait_ns=100_000,
        broker_time_ns=1_500_000,
        response_send_ns=1_000,
        client_network_ns=20_000,
        retransmitted_packets=0,
        zero_windows=0,
        waited_ns=0,
    )
    return made._replace(**changes)


def fetch(**changes: Any) -> Row:
    """Return a plain Fetch row, with the given columns changed."""
    columns: dict[str, Any] = {
        "api_key": 1,
        "api_name": "Fetch",
        "api_version": 12,
        "acks": None,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "waited": False,
    }
    return row(**(columns | changes))


def failed(topic: str | None, code: int, name: str, **changes: Any) -> Row:
    """Return a Produce row with one error."""
    columns: dict[str, Any] = {
        "status": "error",
        "error_code": code,
        "error_name": name,
        "errors": [ErrorItem(topic, 0, code, name)],
    }
    return row(**(columns | changes))


_NULL_OF_ORPHAN = (
    *("api_key", "api_version", "api_name", "client_id", "request_start_ns"),
    *("request_end_ns", "request_bytes", "request_packet", "latency_ns"),
    *("total_time_ns", "error_code", "error_name", "throttle_time_ms"),
    *("record_count", "record_bytes", "acks"),
)


def orphan(**changes: Any) -> Row:
    """Return a response without a request."""
    columns: dict[str, Any] = {
        **dict.fromkeys(_NULL_OF_ORPHAN),
        "status": "orphan_response",
        "partitions": [],
    }
    return row(**(columns | changes))


_NULL_OF_UNANSWERED = (
    *("response_start_ns", "response_end_ns", "response_bytes"),
    *("response_packet", "latency_ns", "total_time_ns", "error_code"),
    *("error_name", "throttle_time_ms", "record_count", "record_bytes"),
    *("waited",),
)


def unanswered(**changes: Any) -> Row:
    """Return a Fetch request without a response."""
    columns: dict[str, Any] = {
        **dict.fromkeys(_NULL_OF_UNANSWERED),
        "status": "unanswered",
        "partitions": [partition(record_count=None, record_bytes=None, error_code=None)],
    }
    return fetch(**(columns | changes))


def plain_traffic(count: int, seed: int = 1) -> list[Row]:
    """Return rows like those of a small cluster: produce, fetch, heartbeats, a few errors."""
    dice = random.Random(seed)
    clients = [(f"client-{number}", f"10.0.1.{number}") for number in range(8)]
    rows = []
    time_ns = START_NS
    for number in range(count):
        time_ns += int(dice.expovariate(1 / 200_000))
        client_id, client_ip = clients[number % len(clients)]
        latency_ns = int(dice.lognormvariate(14, 1))
        common: dict[str, Any] = {
            "connection": f"{client_ip}:40001>10.0.0.9:9092",
            "client_ip": client_ip,
            "client_id": client_id,
            "correlation_id": number,
            "request_start_ns": time_ns,
            "request_end_ns": time_ns + 5_000,
            "response_start_ns": time_ns + 5_000 + latency_ns,
            "response_end_ns": time_ns + 9_000 + latency_ns,
            "latency_ns": latency_ns,
            "total_time_ns": latency_ns + 9_000,
            "request_packet": 2 * number + 1,
            "response_packet": 2 * number + 2,
        }
        rows.append(_plain_row(dice, number, common))
    return rows


def _plain_row(dice: random.Random, number: int, common: dict[str, Any]) -> Row:
    topic = dice.choice(["orders", "payments", "clicks"])
    if number % 50 == 7:
        return failed(topic, 6, "NOT_LEADER_OR_FOLLOWER", **common)
    if number % 5 == 0:
        return row(
            **common,
            api_key=12,
            api_name="Heartbeat",
            api_version=4,
            group_id="billing",
            member_id="billing-1",
            partitions=[],
            record_count=None,
            record_bytes=None,
            acks=None,
        )
    items = [partition(topic, index, record_count=3, record_bytes=900) for index in range(2)]
    sums: dict[str, Any] = {"partitions": items, "record_count": 6, "record_bytes": 1800}
    if number % 2:
        return fetch(**common, **sums, waited=number % 3 == 0)
    return row(**common, **sums)


_TEXTS = st.sampled_from([None, "", "a", "b", "app-\x1b[31m", "=1+1", "caf\u00e9", "\ud800"])
_BYTES = st.none() | st.integers(0, 2**31 - 1)
_TIMES = st.none() | st.integers(START_NS, START_NS + 10**12)
_DURATIONS = st.none() | st.integers(-(10**6), 2**40)

_PARTITIONS = st.builds(
    PartitionItem,
    topic=_TEXTS,
    topic_id=st.sampled_from([None, "AAAAAAAAAAAAAAAAAAAAAQ"]),
    partition=st.integers(0, 3),
    record_count=st.none() | st.integers(0, 1000),
    record_bytes=_BYTES,
    base_offset=st.none() | st.integers(-1, 2**63 - 1),
    high_watermark=st.none() | st.integers(-1, 2**63 - 1),
    codec=st.sampled_from([None, "none", "zstd"]),
    error_code=st.none() | st.integers(-1, 130),
    producer_id=st.none() | st.integers(0, 2**63 - 1),
    producer_epoch=st.none() | st.integers(0, 2**15 - 1),
    base_sequence=_BYTES,
    preferred_read_replica=_BYTES,
)
_ERRORS = st.builds(
    ErrorItem,
    topic=_TEXTS,
    partition=st.none() | st.integers(0, 3),
    code=st.sampled_from([3, 6, 29]),
    name=st.sampled_from(["ONE", "TWO"]),
)
_API = st.sampled_from(
    [(0, "Produce"), (1, "Fetch"), (3, "Metadata"), (11, "JoinGroup"), (999, None), (None, None)]
)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Any row that the contract allows, each column on its own."""
    api_key, api_name = draw(_API)
    return row(
        client_ip=draw(st.sampled_from(["10.0.0.1", "10.0.0.2", "fe80::1"])),
        broker_ip=draw(st.sampled_from(["10.0.0.9", "2001:db8::9"])),
        client_software_name=draw(_TEXTS),
        principal=draw(_TEXTS),
        wire=draw(st.sampled_from(["kafka", "kafka-0.7"])),
        api_key=api_key,
        api_name=api_name,
        api_version=draw(st.none() | st.integers(0, 3)),
        correlation_id=draw(st.none() | st.integers(-(2**31), 2**31 - 1)),
        client_id=draw(_TEXTS),
        request_start_ns=draw(_TIMES),
        response_start_ns=draw(_TIMES),
        latency_ns=draw(_DURATIONS),
        total_time_ns=draw(_DURATIONS),
        request_bytes=draw(_BYTES),
        response_bytes=draw(_BYTES),
        request_packet=draw(st.none() | st.integers(1, 2**40)),
        status=draw(
            st.sampled_from(
                ["ok", "error", "one_way", "unanswered", "orphan_response", "malformed"]
            )
        ),
        errors=draw(st.lists(_ERRORS, max_size=3)),
        throttle_time_ms=draw(st.none() | st.integers(0, 1000)),
        partitions=draw(st.lists(_PARTITIONS, max_size=3)),
        record_count=draw(st.none() | st.integers(0, 1000)),
        record_bytes=draw(_BYTES),
        waited=draw(st.sampled_from([None, True, False])),
        group_id=draw(_TEXTS),
        anomalies=draw(st.lists(st.sampled_from(["trailing_bytes", "missing_bytes"]), max_size=2)),
    )


def without_sessions(block: RowBlock) -> RowBlock:
    """Return the block with the columns of session lists, in which there is none."""
    none = SimpleNamespace(session_list=None, session_partitions=())
    columns = columns_of_rows([none] * len(block), SESSION_COLUMNS)  # type: ignore[list-item]
    return RowBlock(len(block), {**block.columns, **columns})
