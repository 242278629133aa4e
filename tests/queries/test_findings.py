"""Each kind of finding: what it is found by, and what is just not one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import Database
from kanalyze.queries.files import Query, built_in
from kanalyze.queries.findings import Finding, findings_of, kind_of_finding
from kanalyze.tables.connections import CONNECTION_COLUMNS, ConnectionRow
from kanalyze.tables.row import COLUMNS, Row
from tests.support import rows as made
from tests.support.captures import NAMES, path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

S = 1_000_000_000
MS = 1_000_000
START_NS = 1_790_000_000 * S

EXPECTED = {
    "basics": {"rebalances"},
    "errors": {"refused_work"},
    "groups": {"rebalances"},
    "sasl": {"refused_work"},
    **{
        f"old-{release}": {"refused_by_kafka_4"}
        for release in ("0-8-2-2", "0-9-0-1", "0-10-2-2", "0-11-0-3", "1-1-1", "2-8-2")
    },
}
"""What is wrong in our captures; in the others nothing is."""


def findings(
    requests: Sequence[Row], connections: Sequence[ConnectionRow] = (), **thresholds: float
) -> list[Finding]:
    kinds = [kind_of_finding(query) for query in built_in("findings").values()]
    of_requests, of_connections = BatchMaker(COLUMNS), BatchMaker(CONNECTION_COLUMNS)
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        database.create("requests", of_requests.schema)
        database.create("connections", of_connections.schema)
        database.insert("requests", of_requests.of_rows(requests))
        database.insert("connections", of_connections.of_rows(connections))
        return findings_of(database, kinds, thresholds)


@cache
def a_connection() -> ConnectionRow:
    return next(iter(kanalyze.connections(path("basics"))))


def connection(**changes: Any) -> ConnectionRow:
    """A connection on which nothing is wrong."""
    sound = {"start_ns": START_NS, "end_ns": START_NS + 20 * S, "end": "fin", "protocol": "kafka"}
    return a_connection()._replace(**{**sound, **changes})


def request(at_ns: int = 0, latency_ns: int | None = MS, **changes: Any) -> Row:
    """A request that begins ``at_ns`` after the start, and takes so long."""
    begin_ns = START_NS + at_ns
    end_ns = None if latency_ns is None else begin_ns + latency_ns
    own = a_connection()
    times = {
        "connection": own.connection,
        "connection_number": own.connection_number,
        "request_start_ns": begin_ns,
        "request_end_ns": begin_ns,
        "response_start_ns": end_ns,
        "response_end_ns": end_ns,
        "latency_ns": latency_ns,
        "total_time_ns": latency_ns,
    }
    return made.row(**{**times, **changes})


def spread(count: int, over_s: float, **changes: Any) -> list[Row]:
    return [request(int(number * over_s * S / (count - 1)), **changes) for number in range(count)]


def failed(at_ns: int, code: int, name: str, topic: str | None = "orders", **changes: Any) -> Row:
    error = kanalyze_error(topic, code, name)
    return request(
        at_ns, status="error", error_code=code, error_name=name, errors=[error], **changes
    )


def kanalyze_error(topic: str | None, code: int, name: str) -> Any:
    return made.failed(topic, code, name).errors[0]


def names(found: Sequence[Finding]) -> set[str]:
    return {each.name for each in found}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_found_in_a_capture_is_what_is_wrong_with_it(name: str) -> None:
    found = findings(list(kanalyze.requests(path(name))), list(kanalyze.connections(path(name))))
    assert names(found) == EXPECTED.get(name, set())


def test_every_kind_says_how_bad_why_and_what_to_do() -> None:
    for query in built_in("findings").values():
        kind = kind_of_finding(query)
        assert 0 <= kind.severity <= 100
        assert kind.why.endswith(".")
        assert kind.repair.endswith(".")
        assert kind.sure.split(":")[0] in ("certain", "likely")


FAULTS: dict[str, tuple[Callable[[], tuple[list[Row], list[ConnectionRow]]], str]] = {}
"""By kind: what has the fault, and the beginning of the words for it."""


def fault(kind: str, words: str) -> Callable[[Any], Any]:
    def keep(make: Any) -> Any:
        FAULTS[kind] = (make, words)
        return make

    return keep


@fault(
    "refused_by_kafka_4",
    "2 requests of versions that Kafka 4.0 does not take: Fetch v3, Produce v2",
)
def old_versions() -> Any:
    old = [
        request(api_key=0, api_name="Produce", api_version=2),
        request(api_key=1, api_name="Fetch", api_version=3),
        request(api_key=1, api_name="Fetch", api_version=4),
    ]
    return old, []


@fault("throttled", "2 of 3 responses throttled, 500 ms in all, 400 ms at most")
def throttled() -> Any:
    return [request(throttle_time_ms=time_ms) for time_ms in (0, 100, 400)], []


@fault("metadata_storm", "7 Metadata requests in 30.0 s, 0 answered with an error")
def metadata_storm() -> Any:
    return spread(7, 30, api_name="Metadata", api_key=3), []


@fault("unanswered", "1 without an answer, after up to 20.0 s; 1 times the client closed")
def unanswered() -> Any:
    waiting = request(latency_ns=None, status="unanswered")
    return [waiting], [connection(closed_by="client", client_lost_bytes=0, broker_lost_bytes=0)]


@fault("idle_cut", "1 connections closed after 540 to 540 s of silence, 0 by the other end")
def idle_cut() -> Any:
    return [request(latency_ns=0)], [connection(end_ns=START_NS + 540 * S, closed_by="client")]


@fault("connection_storm", "30 connections in 29.0 s, 1.0 requests on each")
def connection_storm() -> Any:
    many = [
        connection(start_ns=START_NS + n * S, connection_number=n + 1, requests=1)
        for n in range(30)
    ]
    return [], many


@fault("rebalances", "3 rounds at least, 3 joins of 1 clients; the longest took 0.0 s")
def rebalances() -> Any:
    join = {"api_name": "JoinGroup", "api_key": 11, "group_id": "g", "member_id": "m"}
    return spread(3, 60, status="ok", **join), []


@fault("fetch_sessions_evicted", "2 sessions not found, of 1 clients")
def fetch_sessions_evicted() -> Any:
    lost = {"api_name": "Fetch", "api_key": 1}
    return [failed(n * S, 70, "FETCH_SESSION_ID_NOT_FOUND", None, **lost) for n in (0, 1)], []


@fault("tiny_batches", "201 produce requests of 100 B and 1.0 records for each partition")
def tiny_batches() -> Any:
    part = made.partition(record_bytes=100, record_count=1, codec="none")
    return spread(201, 2, api_name="Produce", api_key=0, partitions=[part]), []


@fault("stale_leader", "2 answers NOT_LEADER_OR_FOLLOWER over 30.0 s, 1 partitions")
def stale_leader() -> Any:
    return [failed(n * S, 6, "NOT_LEADER_OR_FOLLOWER") for n in (0, 30)], []


@fault("refused_work", "1 answers MESSAGE_TOO_LARGE to Produce on orders")
def refused_work() -> Any:
    return [failed(0, 10, "MESSAGE_TOO_LARGE", api_name="Produce")], []


@fault("hot_client", "96 % of the bytes of 6 clients")
def hot_client() -> Any:
    sizes = [("hot", 120_000), *((f"cool-{n}", 1_000) for n in range(5))]
    return [
        request(client_id=name, request_bytes=size, response_bytes=0) for name, size in sizes
    ], []


@fault("slow_network", "20 of 21 requests took 12.0 ms on average, of which round trips 8.0 ms; 1")
def slow_network() -> Any:
    far = {"total_time_ns": 11 * MS, "broker_network_ns": 7 * MS, "client_network_ns": MS}
    rows = spread(20, 10, latency_ns=11 * MS, **far)
    resent = rows[0]._replace(broker_network_ns=2 * MS, retransmitted_packets=1, zero_windows=1)
    waits = {"retransmission_wait_ns": 2 * MS, "response_send_ns": 1 * MS}
    rows[0] = resent._replace(**waits)
    rows[1] = rows[1]._replace(broker_network_ns=12 * MS)  # 8 ms on average, all the same
    near = rows[2]._replace(broker_network_ns=0, client_network_ns=0)
    return [*rows, near], []


@fault("slow_broker", "99 % of 100 within 30.0 ms; of the other brokers within 10.0 ms")
def slow_broker() -> Any:
    return [
        *spread(100, 10, broker_time_ns=10 * MS, broker_ip="10.0.0.1"),
        *spread(100, 10, broker_time_ns=30 * MS, broker_ip="10.0.0.2"),
    ], []


@fault("growing_lag", "1 partitions 1000 records further behind, now 1000")
def growing_lag() -> Any:
    def fetched(at_ns: int, offset: int, high_watermark: int) -> Row:
        part = made.partition(
            base_offset=offset, record_count=10, record_bytes=90, high_watermark=high_watermark
        )
        return request(at_ns, api_name="Fetch", api_key=1, partitions=[part])

    return [fetched(0, 0, 10), fetched(S, 10, 1020)], []


@pytest.mark.parametrize("kind", sorted(built_in("findings")))
def test_a_fault_is_found_and_said_with_its_figures(kind: str) -> None:
    make, words = FAULTS[kind]
    found = [each for each in findings(*make()) if each.name == kind]
    assert [each.what[: len(words)] for each in found] == [words]


def without_one(kind: str) -> tuple[list[Row], list[ConnectionRow]]:
    """What is just not a fault: the same with the least that makes it one taken away."""
    rows, connections = FAULTS[kind][0]()
    if kind == "throttled":
        return [row._replace(throttle_time_ms=0) for row in rows], connections
    if kind == "refused_by_kafka_4":
        return rows[2:], connections
    if kind == "unanswered":
        return rows, [each._replace(broker_lost_bytes=1) for each in connections]
    if kind == "idle_cut":
        return rows, [each._replace(end_ns=START_NS + 500 * S) for each in connections]
    if kind == "slow_network":
        return [rows[0]._replace(retransmission_wait_ns=0), *rows[1:]], connections
    if kind == "refused_work":
        return [row._replace(errors=[]) for row in rows], connections
    if kind == "hot_client":
        return rows[:5], connections
    if kind == "tiny_batches":
        return rows[::2], connections
    if kind == "fetch_sessions_evicted":
        return [*rows, request(60 * S)], connections
    return rows[:-1], connections[:-1]


@pytest.mark.parametrize("kind", sorted(built_in("findings")))
def test_what_is_just_below_a_threshold_is_not_found(kind: str) -> None:
    assert kind not in names(findings(*without_one(kind)))


def test_the_worst_stands_first_and_says_what_shows_its_rows() -> None:
    rows = [
        failed(0, 10, "MESSAGE_TOO_LARGE", "a*b", api_name="Produce", client_id="it's [me]"),
        request(api_key=1, api_name="Fetch", api_version=3, request_packet=7),
    ]
    worst, second = findings(rows)
    assert (worst.name, second.name) == ("refused_work", "refused_by_kafka_4")
    assert worst.options == (
        *("--client-id", "it's [[]me]", "--api", "Produce", "--topic", "a[*]b", "--errors"),
    )
    assert second.first_packet == 7


def test_a_threshold_can_be_given_and_one_that_is_not_there_is_an_error() -> None:
    rows, connections = tiny_batches()
    assert "tiny_batches" not in names(
        findings(rows, connections, **{"tiny_batches.least_per_s": 200})
    )
    with pytest.raises(UsageError, match=r"unknown threshold: 'tiny_batches\.least'"):
        findings(rows, connections, **{"tiny_batches.least": 1})


@pytest.mark.parametrize(
    ("description", "problem"),
    [
        ("severity: 1\nsure: yes\nwhy: because.", "does not say"),
        ("severity: high\nsure: yes\nwhy: a.\nrepair: b.", "does not say severity"),
        ("severity: 1\nsure: yes\nwhy: a.\nrepair: b.", "does not say all parameters"),
    ],
)
def test_a_query_whose_head_says_too_little_is_no_finding(description: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        kind_of_finding(Query("x", "X.", description, ("least",), "SELECT $least"))
