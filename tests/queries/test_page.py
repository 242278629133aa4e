"""The cube of the HTML page matches sums that plain Python counts."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import Database
from kanalyze.queries.page import (
    BIN_RATIO,
    MAX_PACKED_BYTES,
    NONE,
    OTHERS,
    packed,
)
from kanalyze.queries.report import report_of
from kanalyze.tables.quality import CaptureQuality
from tests.support import rows as made
from tests.support.captures import NAMES, analysis
from tests.support.pages import report_and_cube, report_and_cube_of, whole_cube
from tests.support.plain_report import (
    FETCH,
    PRODUCE,
    durations,
    is_uncounted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.spec.rows.requests import PartitionItem, Row

MS = 1_000_000
MANY = 6_000
CHOSEN = (
    *("basics", "errors", "waits", "transactions", "cluster", "old-0-8-2-2"),
    *("fault-network", "fault-throttled"),
)
"""Captures that fill every part of the cube."""
EVERY = [
    name if name in CHOSEN else pytest.param(name, marks=pytest.mark.long)
    for name in (*NAMES, *CHOSEN[-2:])
]


def lines(columns: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def topic_of(item: PartitionItem) -> str | None:
    return item.topic if item.topic is not None else item.topic_id


def bucket_of(row: Row, cube: Mapping[str, Any]) -> int:
    time_ns = row.request_start_ns if row.request_start_ns is not None else row.response_start_ns
    return -1 if time_ns is None else (time_ns - cube["start_ns"]) // cube["bucket_ns"]


def named_key(cube: Mapping[str, Any], cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """The key of a cell, with names in place of numbers."""
    names = cube["names"]
    api = names["apis"][cell["api"]]
    version = names["versions"][cell["version"]]["api_version"] if cell["version"] >= 0 else None
    return (
        names["clients"][cell["client"]]["name"] if cell["client"] >= 0 else None,
        (api["wire"], api["api_key"], api["api_name"]),
        version,
        names["brokers"][cell["broker"]]["broker"],
        None if cell["group"] == NONE else names["groups"][cell["group"]]["name"],
        None if cell["topic"] == NONE else names["topics"][cell["topic"]]["name"],
        bool(cell["waited"]),
        cell["status"],
        cell["bucket"],
    )


def own_key(row: Row, topic: str | None, cube: Mapping[str, Any]) -> tuple[Any, ...]:
    is_request = row.status != "orphan_response"
    ip = f"[{row.broker_ip}]" if ":" in row.broker_ip else row.broker_ip
    return (
        row.client_id,
        (row.wire, row.api_key, row.api_name),
        row.api_version if is_request else None,
        f"{ip}:{row.broker_port}",
        row.group_id,
        topic,
        bool(row.waited),
        row.status,
        bucket_of(row, cube),
    )


def bin_of(latency_ns: int) -> int:
    if latency_ns < 0:
        return -1 - bin_of(-latency_ns)
    return math.floor(math.log(max(latency_ns, 1)) / math.log(BIN_RATIO))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", EVERY)
def test_every_sum_matches_plain_python(name: str) -> None:
    rows, _ = analysis(name)
    _, cube = report_and_cube_of(name)
    expected: dict[Any, Counter[str]] = defaultdict(Counter)
    bins: dict[Any, Counter[int]] = defaultdict(Counter)
    for row in rows:
        items: dict[str | None, list[PartitionItem]] = defaultdict(list)
        for item in row.partitions:
            items[topic_of(item)].append(item)
        for topic in items or [None]:
            key = own_key(row, topic, cube)
            counted_items = [
                item
                for item in items.get(topic, [])
                if row.api_name in PRODUCE + FETCH
                and not (item.error_code and row.status == "error")
            ]
            expected[key] += Counter(
                rows=1,
                responses=row.response_start_ns is not None,
                request_bytes=row.request_bytes or 0,
                response_bytes=row.response_bytes or 0,
                records=sum(item.record_count or 0 for item in counted_items),
                record_bytes=sum(item.record_bytes or 0 for item in counted_items),
                uncounted=row.api_name in PRODUCE + FETCH and is_uncounted(row),
                throttled=bool(row.throttle_time_ms),
            )
            if row.latency_ns is not None:
                bins[key][bin_of(row.latency_ns)] += 1
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    found_bins: dict[Any, Counter[int]] = defaultdict(Counter)
    for cell in lines(cube["cells"]):
        assert -1 <= cell["bucket"] < cube["buckets"]
        key = named_key(cube, cell)
        names = ("rows", "responses", "request_bytes", "response_bytes", "records", "record_bytes")
        found[key] += Counter(
            {column: cell[column] for column in (*names, "uncounted", "throttled")}
        )
        pairs = cell["latencies"]
        for place in range(0, len(pairs), 2):
            found_bins[key][pairs[place]] += pairs[place + 1]
    assert found == expected
    assert {k: b for k, b in found_bins.items() if b} == bins


@pytest.mark.few(2)
@pytest.mark.parametrize("name", EVERY)
def test_errors_and_batches_match_plain_python(name: str) -> None:
    rows, _ = analysis(name)
    _, cube = report_and_cube_of(name)
    names = cube["names"]
    errors = Counter(
        (row.client_id, row.api_name, error.code, error.topic)
        for row in rows
        for error in row.errors
    )
    found: Counter[Any] = Counter()
    for cell in lines(cube["failures"]):
        if not cell["is_again"]:
            topic = None if cell["is_topicless"] else names["topics"][cell["topic"]]["name"]
            client = names["clients"][cell["client"]]["name"] if cell["client"] >= 0 else None
            code = names["codes"][cell["code"]]["error_code"]
            api = names["apis"][cell["api"]]["api_name"]
            found[client, api, code, topic] += cell["rows"]
    assert found == errors
    sizes: Counter[Any] = Counter()
    for row in rows:
        for item in row.partitions if row.api_name in PRODUCE + FETCH else ():
            if not item.error_code and item.partition is not None:
                sizes[topic_of(item), item.partition, item.codec] += item.record_bytes or 0
    found_sizes: Counter[Any] = Counter()
    for cell in lines(cube["batches"]):
        part = names["parts"][cell["part"]]
        found_sizes[part["topic"], part["partition"], cell["codec"]] += cell["record_bytes"]
    assert found_sizes == sizes


def figures(latencies_ns: Iterable[int | None]) -> list[int | None]:
    known = durations(latencies_ns)
    return [known[name] for name in ("p50", "p90", "p99", "max")]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", EVERY)
def test_exact_quantiles_match_plain_python(name: str) -> None:
    rows, _ = analysis(name)
    _, cube = report_and_cube_of(name)
    names = cube["names"]
    timed = [row for row in rows if row.latency_ns is not None and not row.waited]
    for client, waited, *quantiles in cube["exact"]["clients"]:
        client_latencies_ns = [
            r.latency_ns for r in timed if r.client_id == names["clients"][client]["name"]
        ]
        assert waited or quantiles == figures(client_latencies_ns)
    for topic, api, waited, *quantiles in cube["exact"]["topic_apis"]:
        topic_name = None if topic == NONE else names["topics"][topic]["name"]
        client_latencies_ns = [
            row.latency_ns
            for row in timed
            if topic_name in (set(map(topic_of, row.partitions)) or {None})
            and row.api_name == names["apis"][api]["api_name"]
        ]
        assert waited or quantiles == figures(client_latencies_ns)
    for bucket, waited, *quantiles in cube["exact"]["times"]:
        assert waited or quantiles == figures(
            row.latency_ns for row in timed if bucket_of(row, cube) == bucket
        )


@cache
def crowd() -> tuple[dict[str, Any], dict[str, Any]]:
    """A report on thousands of clients and topics, and its cube."""
    return report_and_cube(many_rows(MANY, clients=5_000, topics=3_000))


def many_rows(many: int, clients: int, topics: int) -> list[Row]:
    dice = random.Random(17)
    rows = []
    for number in range(many):
        latency_ns = int(10 ** dice.uniform(4, 10))
        start_ns = made.START_NS + number * 37 * MS
        rows.append(
            made.row(
                client_id=f"client-{dice.randrange(clients)}",
                broker_ip=f"10.0.{dice.randrange(9)}.9",
                group_id=f"group-{dice.randrange(500)}",
                api_version=dice.randrange(30),
                request_start_ns=start_ns,
                request_end_ns=start_ns,
                response_start_ns=start_ns + latency_ns,
                response_end_ns=start_ns + latency_ns,
                latency_ns=latency_ns,
                total_time_ns=latency_ns,
                partitions=[
                    made.partition(f"topic-{dice.randrange(topics)}", dice.randrange(50))
                    for _ in range(2)
                ],
            )
        )
    return rows


@pytest.mark.long
def test_thousands_of_clients_and_topics_make_a_small_cube() -> None:
    _, cube = crowd()
    assert len(packed(cube)) <= MAX_PACKED_BYTES
    cells = lines(cube["cells"])
    assert any(cell["client"] == OTHERS for cell in cells)
    assert sum(cell["rows"] for cell in cells if not cell["is_again"]) == MANY
    assert sum(cell["records"] for cell in cells) == 2 * MANY


def test_without_rows_the_cube_is_empty() -> None:
    _, cube = report_and_cube([])
    assert cube["buckets"] == 0
    assert lines(cube["cells"]) == []
    assert json.loads(json.dumps(cube)) == cube


def test_temporary_tables_are_removed() -> None:
    maker = BatchMaker()
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        database.create("requests", maker.schema)
        report = report_of(database, CaptureQuality())
        before = database.ask("SELECT table_name FROM duckdb_tables()").to_pylist()
        assert whole_cube(database, report) == whole_cube(database, report)
        assert database.ask("SELECT table_name FROM duckdb_tables()").to_pylist() == before


def test_the_middle_of_a_bin_differs_by_less_than_5_percent() -> None:
    for latency_ns in (1, 2, 10, 999, 1_234_567, 10**12):
        middle = BIN_RATIO ** (bin_of(latency_ns) + 0.5)
        assert abs(middle - latency_ns) / latency_ns < 0.05
