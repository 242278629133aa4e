"""The queries give the same figures as plain Python that counts the rows."""

from __future__ import annotations

import datetime
import functools
import math
import re
from collections import Counter, defaultdict, namedtuple
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest

import kanalyze
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.queries.database import Database
from kanalyze.queries.files import built_in, find_query, words_below
from tests.support.captures import NAMES, path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.spec.rows.requests import Row

MINUTE_S, HOUR_S = 60, 3600
PRODUCE = ("Produce", "MultiProduce")
FETCH = ("Fetch", "MultiFetch", "ShareFetch")
OF_REQUESTS = sorted({*built_in("questions")} - {"changes", "lag", "record_sizes"})
"""Queries that read nothing but requests; the others have tests of their own."""


@functools.cache
def rows() -> tuple[Row, ...]:
    """The rows of all captures, and copies of a few that are changed to look like Kafka 0.7."""
    found = list(kanalyze.requests(*(str(path(name)) for name in NAMES)))
    old = [row for row in found if row.api_name in ("Produce", "Fetch")][:5]
    found += [row._replace(wire="kafka-0.7", api_version=0, client_id=None) for row in old]
    return tuple(found)


Ask: TypeAlias = "Callable[..., list[Any]]"


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Run a query over all rows; `tests/spark/test_answers.py` does so with rows on Spark."""
    maker = BatchMaker()
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        database.create("requests", maker.schema)
        database.insert("requests", maker.of_rows(rows()))
        yield asking(lambda name, parameters: database.ask(find_query(name).sql, parameters))


def asking(answer: Callable[[str, dict[str, str]], pa.Table]) -> Ask:
    """Return what asks a question, of what returns the answer as a table."""

    def run(name: str, **parameters: str) -> list[Any]:
        table = with_python_types(answer(name, parameters))
        line_type = namedtuple("Line", table.column_names)
        return [line_type(**line) for line in table.to_pylist()]

    return run


def with_python_types(table: pa.Table) -> pa.Table:
    """Return a table with times that ``datetime`` has, and whole numbers of 64 bits."""
    types = [
        pa.timestamp("us")
        if pa.types.is_timestamp(kind)
        else pa.int64()
        if pa.types.is_decimal(kind) and not kind.scale
        else kind
        for kind in table.schema.types
    ]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


def assert_same_rows(found: Iterable[Any], expected: Iterable[tuple[Any, ...]]) -> None:
    """Compare rows in any order."""
    assert sorted(map(repr, map(tuple, found))) == sorted(map(repr, expected))


def time_of(row: Row, unit_s: int) -> datetime.datetime:
    """The start of the minute or hour of a request."""
    assert row.request_start_ns is not None
    start_s = row.request_start_ns // 10**9 // unit_s * unit_s
    return datetime.datetime.fromtimestamp(start_s, datetime.UTC).replace(tzinfo=None)


def day_of(row: Row) -> datetime.date:
    assert row.request_start_ns is not None
    return datetime.datetime.fromtimestamp(row.request_start_ns // 10**9, datetime.UTC).date()


def is_unread(row: Row) -> bool:
    """Return true if there is a response whose error code is not known."""
    return (
        row.status == "malformed" and row.response_start_ns is not None and row.error_code is None
    )


def grouped(
    chosen: Iterable[Row], key: Callable[[Row], tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[Row]]:
    groups = defaultdict(list)
    for row in chosen:
        groups[key(row)].append(row)
    return groups


def test_every_query_is_tested() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert OF_REQUESTS
    assert set(OF_REQUESTS) <= tested


def test_an_unknown_query_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match=r"^unknown query: 'nothing'; there are changes, clients, "
    ):
        find_query("nothing")


@pytest.mark.parametrize("name", sorted(built_in("questions")))
def test_every_query_begins_with_a_question_and_reads_a_table(name: str) -> None:
    question = find_query(name)
    assert re.fullmatch(r"[A-Z].*\?", question.title)
    tables = {"requests"} if name in OF_REQUESTS else {"groups", "changes", "records"}
    assert tables & words_below(question.sql)


def test_latency_by_client(ask: Ask) -> None:
    measured = [row for row in rows() if row.latency_ns is not None and row.waited is not True]
    groups = grouped(measured, lambda row: (day_of(row), row.client_id))
    expected = []
    for key, members in groups.items():
        latencies = sorted(row.latency_ns or 0 for row in members)
        quantiles = [latencies[math.ceil(p * len(latencies)) - 1] / 1e6 for p in (0.5, 0.99)]
        expected.append((*key, len(members), *quantiles, latencies[-1] / 1e6))
    assert len({day for day, _ in groups}) > 1
    assert max(map(len, groups.values())) > 100
    found = ask("latency_by_client")
    assert_same_rows(found, expected)
    assert found == sorted(found, key=lambda row: (row.day, -row.p99_ms))


def test_error_bursts(ask: Ask) -> None:
    # Of a response that was not read, nobody knows whether it was an error.
    minutes = grouped(
        (row for row in rows() if row.request_start_ns is not None and not is_unread(row)),
        lambda row: (day_of(row), time_of(row, MINUTE_S)),
    )
    totals: Counter[tuple[str, datetime.date]] = Counter()
    for (day, _), members in minutes.items():
        totals["requests", day] += len(members)
        totals["errors", day] += sum(row.status == "error" for row in members)
    expected = []
    for (day, minute), members in minutes.items():
        errors = [row for row in members if row.status == "error"]
        others_count = totals["requests", day] - len(members)
        if not others_count:
            continue
        usual = len(members) * (totals["errors", day] - len(errors)) / others_count
        if len(errors) >= max(3 * usual, usual + 10):
            names = sorted({row.error_name for row in errors if row.error_name is not None})
            expected.append((minute, len(members), len(errors), usual, names))
    assert 0 < len(expected) < len(minutes)
    found = ask("error_bursts")
    assert_same_rows(found, expected)
    assert found == sorted(found, key=lambda row: row.minute)


def test_old_versions(ask: Ask) -> None:
    catalog = Catalog()
    groups = defaultdict(list)
    for row in rows():
        if row.api_key is None or row.api_version is None:
            continue
        api = catalog.api(row.api_key)
        assert api is not None
        before, spoken = api.spoken_by("3.9"), api.spoken_by("4.0")
        if before.lowest > before.highest:
            continue  # newer than 4.0
        first = None if spoken.lowest > spoken.highest else spoken.lowest
        if row.wire == "kafka-0.7":
            first = None
        elif first is not None and row.api_version >= first:
            continue
        software = (row.client_software_name, row.client_software_version)
        key = (row.client_id, row.client_ip, *software, row.wire, row.api_name)
        groups[key, first].append(row.api_version)
    expected = [
        (*key, sorted(set(versions)), first, len(versions))
        for (key, first), versions in groups.items()
    ]
    assert {key[4] for key, _ in groups} == {"kafka", "kafka-0.7"}
    assert {None, 3, 4} <= {first for key, first in groups if key[4] == "kafka"}
    assert_same_rows(ask("old_versions"), expected)


def test_removed_versions_match_the_catalog() -> None:
    """The versions written into the view are those that kanalyze knows of Kafka 4.0."""
    text = built_in("tables")["removed_versions"].sql
    written = {
        int(key): (int(first), name)
        for key, first, name in re.findall(r"\((\d+), (\d+)\),? +-- (\w+)", text)
    }
    known = {}
    for api in Catalog().apis:
        before, after = api.spoken_by("3.9"), api.spoken_by("4.0")
        if after.lowest > after.highest and before.lowest <= before.highest:
            known[api.key] = (32767, api.name)
        elif 0 < after.lowest <= after.highest:
            known[api.key] = (after.lowest, api.name)
    assert written == known


def test_topic_throughput(ask: Ask) -> None:
    sums: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for row in rows():
        if row.api_name not in (*PRODUCE, *FETCH) or row.request_start_ns is None:
            continue
        at = 0 if row.api_name in PRODUCE else 2
        for part in row.partitions:
            if part.error_code:
                continue
            total = sums[time_of(row, HOUR_S), part.topic or part.topic_id]
            total[at] += part.record_count or 0
            total[at + 1] += part.record_bytes or 0
            total[4] += part.record_count is None
    assert len({hour for hour, _ in sums}) > 1
    assert any(total[0] and total[2] for total in sums.values())
    found = ask("topic_throughput")
    assert_same_rows(found, [(*key, *total) for key, total in sums.items()])
    order = [(row.hour, -row.produced_bytes - row.fetched_bytes) for row in found]
    assert order == sorted(order)


def test_rebalances(ask: Ask) -> None:
    chosen = [row for row in rows() if row.api_name in ("JoinGroup", "SyncGroup") and row.group_id]
    expected = []
    for (group,), members in grouped(chosen, lambda row: (row.group_id,)).items():
        times: dict[str | None, list[int]] = defaultdict(list)
        for row in members:
            times[row.api_name] += [] if row.total_time_ns is None else [row.total_time_ns]
        longest = [
            max(times[api]) / 1e6 if times[api] else None for api in ("JoinGroup", "SyncGroup")
        ]
        count = Counter(row.api_name for row in members)
        states = Counter(row.status for row in members)
        clients = {(row.client_id, row.client_ip) for row in members}
        expected.append(
            (
                group,
                count["JoinGroup"],
                count["SyncGroup"],
                len(clients),
                states["error"],
                states["unanswered"],
                sum(map(sum, times.values())) / 1e6,
                *longest,
            )
        )
    assert len(expected) > 5
    found = ask("rebalances")
    assert_same_rows(found, expected)
    assert found == sorted(found, key=lambda row: -row.paused_ms)


def test_top_producers(ask: Ask) -> None:
    chosen = [row for row in rows() if row.api_name in PRODUCE]
    expected = []
    groups = grouped(chosen, lambda row: (row.client_id, row.client_ip, row.principal))
    for key, members in groups.items():
        size = sum(row.record_bytes or 0 for row in members)
        codecs = {part.codec for row in members for part in row.partitions} - {None}
        acks = {row.acks for row in members} - {None}
        expected.append(
            (
                *key,
                len(members),
                sum(row.status == "error" for row in members),
                sum(row.record_count or 0 for row in members),
                size,
                size // len(members),
                sorted(map(str, codecs)),
                sorted(number for number in acks if number is not None),
            )
        )
    expected.sort(key=lambda row: (-row[6], [(text is not None, text or "") for text in row[:3]]))
    assert len(expected) > 50
    assert [tuple(row) for row in ask("top_producers")] == expected[:50]


def test_connection_trace(ask: Ask) -> None:
    (busiest, _), *_ = Counter(row.connection for row in rows()).most_common(1)
    chosen = [row for row in rows() if row.connection == busiest]
    starts: dict[int, int] = {}
    for row in chosen:
        start = row.request_start_ns
        if start is not None:
            known = starts.setdefault(row.connection_number, start)
            starts[row.connection_number] = min(known, start)
    chosen.sort(
        key=lambda row: (
            row.connection_number,
            row.request_start_ns is None,
            row.request_start_ns,
            row.request_packet or 0,
            row.correlation_id or 0,
        )
    )
    expected = [
        (
            row.connection_number,
            milliseconds(row.request_start_ns, starts[row.connection_number]),
            f"{row.api_name} v{row.api_version}",
            row.correlation_id,
            row.request_bytes,
            row.response_bytes,
            milliseconds(row.latency_ns),
            row.waited,
            row.status,
            row.error_name,
            row.capture,
            row.request_packet,
            row.response_packet,
        )
        for row in chosen
    ]
    assert len(expected) > 50
    found = ask("connection_trace", connection=busiest)
    assert [tuple(row) for row in found] == expected
    assert ask("connection_trace", connection="nobody's") == []


def milliseconds(end_ns: int | None, start_ns: int = 0) -> float | None:
    return None if end_ns is None else (end_ns - start_ns) / 1e6


INNER_APIS = {
    **dict.fromkeys((4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73), "controller"),
    **dict.fromkeys((27, 83, 84, 85, 86, 87), "replica"),
}
"""APIs that only brokers and controllers send."""
INNER_CLIENTS = r"broker-\d+-fetcher-|AddPartitionsManager-client-\d+$"


def test_clients(ask: Ask) -> None:
    def told(row: Row) -> str | None:
        """What a request tells of its connection."""
        client_id = row.client_id or ""
        if INNER_APIS.get(row.api_key or 0) == "controller" or re.match("raft-client-", client_id):
            return "controller"
        if INNER_APIS.get(row.api_key or 0) or re.match(INNER_CLIENTS, client_id):
            return "replica"
        return None

    def end(row: Row) -> tuple[str, int]:
        return row.connection, row.connection_number

    sent = [row for row in rows() if row.status != "orphan_response"]
    inner: dict[tuple[str, int], str] = {}
    for row in sent:
        traffic = told(row) if row.wire == "kafka" else None
        if traffic is not None:
            inner[end(row)] = min(traffic, inner.get(end(row), traffic))
    clients = grouped(
        sent,
        lambda row: (
            *(inner.get(end(row), "client"), row.client_id, row.client_ip, row.principal),
            *(row.client_software_name, row.client_software_version),
        ),
    )
    lines = ask("clients")
    assert {tuple(line[:6]) for line in lines} == set(clients)
    assert len(lines) == len(clients)
    for line in lines:
        of_client = clients[tuple(line[:6])]
        spoken = Counter((row.wire, row.api_name, row.api_version) for row in of_client)
        assert line.requests == len(of_client)
        assert line.errors == sum(row.status == "error" for row in of_client)
        assert line.versions == sorted(
            f"{name} v{version}: {count}" for (_, name, version), count in spoken.items()
        )
        refused = Counter(
            f"{row.api_name} v{row.api_version}" for row in of_client if row.error_code == 35
        )
        assert line.refused == sorted(f"{name}: {count}" for name, count in refused.items())
    order = [(line.traffic != "client", line.traffic, -line.requests) for line in lines]
    assert order == sorted(order)
    refused_by_4 = {
        name
        for line in lines
        if line.client_id == "kafka-python-consume"
        for name in line.kafka_4_refuses
    }
    assert "Fetch v0" in refused_by_4
