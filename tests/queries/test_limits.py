"""Every query answers on rows with any values that a capture can give, and so does what shows them.

Numbers are at the limits of their columns, one and several at a time, and texts are empty, long or
odd. The rows are those of faults: most of a finding's query is about groups of rows that have it.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.api.tables import create_tables
from kanalyze.errors import KanalyzeError
from kanalyze.queries.compare.comparison import Thresholds, compare_sides
from kanalyze.queries.compare.sides import side_of_rows
from kanalyze.queries.database import Database
from kanalyze.queries.files import built_in, questions, words_of
from kanalyze.queries.findings import finding_kinds
from kanalyze.queries.report import MAX_SLOWEST, report_with_findings
from kanalyze.render.compare import compare_lines, compare_markdown
from kanalyze.render.html import html_page
from kanalyze.render.json import summary_json
from kanalyze.render.report_markdown import report_markdown
from kanalyze.render.terminal import report_lines
from kanalyze.spec.rows.anomalies import QUALITY, QualityFact
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.quality import CaptureQuality
from tests.queries.test_findings import FAULTS, MS, START_NS, Made, S, connection, failed, request
from tests.queries.test_findings_network import (
    WHOLE,
    attempt,
    beats,
    listed_broker,
    made_line,
    refusing,
    resent,
    serving,
    slow_to_send,
)
from tests.queries.test_findings_racks import metadata, reading, writing
from tests.support import rows as made
from tests.support.limits import at_limits, mixed, named, odd_texts
from tests.support.pages import whole_cube

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.limits import Rows

TABLES_OF_QUERIES = tuple(TABLES)


def both_sides_of_a_nat() -> Rows:
    """Two connections with the same requests, 1 ms apart."""
    rows: dict[str, list[Any]] = {"requests": [], "connections": []}
    for side, ip in enumerate(("10.0.0.1", "10.9.9.9")):
        own = {"connection": f"{ip}:5000>10.0.0.2:9092", "connection_number": 1, "client_ip": ip}
        times = {"start_ns": START_NS + side * MS, "end_ns": START_NS + 9 * S + side * MS}
        rows["connections"].append(connection(requests=5, **own, **times))
        rows["requests"] += [request(n * S + side * MS, correlation_id=n, **own) for n in range(5)]
    return rows


def closed_at_once(**changes: Any) -> Rows:
    """Three connections, each of which the broker closes after its only request."""
    rows: dict[str, list[Any]] = {"requests": [], "connections": []}
    for number in range(3):
        times = {"start_ns": START_NS + number * S, "end_ns": START_NS + number * S + MS}
        kept = {"broker_lost_bytes": 0, "broker_payload_bytes": 0, "broker_packets": 2}
        rows["connections"].append(
            connection(closed_by="broker", connection_number=number, **kept, **times)
        )
        rows["requests"].append(
            request(number * S, latency_ns=None, connection_number=number, **changes)
        )
    return rows


def written_again() -> Rows:
    """A batch that is sent again after no answer, and appended again."""
    sizes = {"record_count": 5, "record_bytes": 90}
    return {
        "connections": [connection(**{**WHOLE, "broker_packets": 9})],
        "requests": [
            request(partitions=[made.partition(base_offset=10, **sizes)]),
            request(S, None, status="unanswered", partitions=[made.partition(**sizes)]),
            request(9 * S, partitions=[made.partition(base_offset=20, **sizes)]),
        ],
    }


IDEMPOTENT = {"producer_id": 7, "producer_epoch": 0}
OTHER_FAULTS = {
    "broker_slowed": lambda: {
        "requests": [
            request(n * S // 3, broker_time_ns=(200 if n > 20 else 1) * MS) for n in range(60)
        ]
    },
    "group_behind": lambda: {
        "requests": [
            request(partitions=[made.partition(record_count=10)]),
            request(S, api_name="OffsetCommit", group_id="g", partitions=[made.partition()]),
            request(9 * S, partitions=[made.partition(base_offset=10, record_count=2000)]),
        ]
    },
    "narrow_link": lambda: {
        "requests": [
            request(n * S, request_bytes=9000, request_send_ns=300 * MS, client_ip="10.0.9.9")
            for n in range(12)
        ]
    },
    "packets_lost": lambda: {
        "requests": [
            request(n * S, retransmitted_packets=n % 2, retransmission_wait_ns=n % 2 * S)
            for n in range(16)
        ]
    },
    "slow_follower": lambda: {
        "requests": [
            request(n * S, api_name="Fetch", api_key=1, client_id="broker-3-fetcher-0")
            for n in range(3)
        ]
    },
    "written_twice": written_again,
    # Long after all other faults: no write may fail meanwhile.
    "broker_restarted": lambda: {
        "connections": [serving(8, 9_000), *refusing(9_010), serving(9, 9_040)]
    },
    "broker_away": lambda: {
        "connections": [
            attempt(9, is_refused=False, broker_payload_bytes=1, protocol="kafka"),
            *(attempt(number, is_refused=True, at_s=number / 2) for number in range(3)),
        ]
    },
    "broker_stood_still": lambda: {
        "requests": [
            request(at * S, latency_s * S, api_name="Fetch", connection_number=number)
            for number in (1, 2)
            for at, latency_s in ((0, 1), (2, 5))
        ]
    },
    "capture_encrypted": lambda: {"connections": [connection(protocol="tls", tls_failure=None)]},
    "capture_lost_packets": lambda: {
        "connections": [connection(**{**WHOLE, "broker_lost_bytes": 1})],
        QUALITY: [QualityFact("dropped_packets", None, 7)],
    },
    "capture_one_way": lambda: {
        "connections": [connection(**WHOLE, broker_packets=0, opened_by="client", client_packets=3)]
    },
    "capture_snapped": lambda: {
        "connections": [connection(**{**WHOLE, "client_snapped_bytes": 1})]
    },
    "capture_twice": both_sides_of_a_nat,
    "closed_after_produce": lambda: closed_at_once(api_name="Produce", status="one_way", acks=0),
    "closed_at_api_versions": lambda: closed_at_once(
        api_name="ApiVersions", api_key=18, status="unanswered"
    ),
    "delayed_acknowledgment": lambda: slow_to_send(5, 6, 40),
    "error_storm": lambda: {
        "requests": [failed(n * S, 48, "INVALID_TXN_STATE") for n in range(15)]
    },
    "fenced": lambda: {
        "requests": [
            failed(0, 90, "PRODUCER_FENCED", transactional_id="payer"),
            request(S, transactional_id="payer", client_ip="10.0.0.7"),
        ]
    },
    "late_heartbeats": lambda: beats(16 * S, 10_000),
    "offset_out_of_range": lambda: {
        "requests": [
            failed(0, 1, "OFFSET_OUT_OF_RANGE", api_name="Fetch", api_key=1),
            request(
                S, api_name="ListOffsets", api_key=2, partitions=[made.partition(base_offset=7)]
            ),
            request(S, api_name="Fetch", api_key=1, partitions=[made.partition(high_watermark=9)]),
        ]
    },
    "refused_sequences": lambda: {
        "requests": [
            request(partitions=[made.partition(**IDEMPOTENT, base_sequence=4)]),
            failed(
                S,
                45,
                "OUT_OF_ORDER_SEQUENCE_NUMBER",
                partitions=[made.partition(**IDEMPOTENT, base_sequence=9, error_code=45)],
            ),
        ]
    },
    "reads_across_zones": lambda: {
        "requests": [*writing(), *reading(0, 1 << 30)],
        "metadata": metadata(),
    },
    "sends_no_rack": lambda: {
        "requests": [*writing(), *reading(1 << 20, 1 << 30, rack_id="")],
        "metadata": metadata(),
    },
    "sent_into_nothing": lambda: resent(
        request(-10 * S, latency_ns=S), request(0, latency_ns=None, status="unanswered")
    ),
    "unknown_topic": lambda: {
        "requests": [
            *(failed(n * S, 3, "UNKNOWN_TOPIC_OR_PARTITION", topic="oders") for n in range(4)),
            request(),
        ]
    },
    "wrong_crc": lambda: {"requests": [request(anomalies=["wrong_crc"])]},
    "wrong_listener": lambda: {
        "connections": [attempt(1, is_refused=True)],
        "metadata": [listed_broker("10.0.0.2")],
    },
}


@cache
def faults() -> dict[str, Rows]:
    """Return rows of each table with each kind of finding."""
    of_kinds = {kind: Made(*make())._asdict() for kind, (make, _) in FAULTS.items()}
    return {**of_kinds, **{kind: make() for kind, make in OTHER_FAULTS.items()}}


def usual_rows() -> Rows:
    """Return requests as those of a small cluster, for queries that are about all of them."""
    whole = {"action": "set", "resource_type": "topic_config", "resource": "orders"}
    change = made_line("changes", **whole, setting="retention.ms", value="60000", error_code=0)
    record = {"topic": "orders", "api_name": "Produce", "key_bytes": 8, "value_bytes": 90}
    return {
        "requests": made.plain_traffic(60),
        "connections": [connection()],
        "changes": [change],
        "records": [made_line("records", **record, batch_record_count=3)],
    }


@contextmanager
def database_of(copies: Iterable[Rows]) -> Iterator[Database]:
    """Provide a database with copies of rows, each with names of its own."""
    rows: dict[str, list[Any]] = {table: [] for table in TABLES_OF_QUERIES}
    for number, copy in enumerate(copies):
        for table, of_table in named(copy, number).items():
            rows[table] += of_table
    with Database(max_memory_bytes=1 << 30, threads=1) as database:
        makers = create_tables(database, {name: TABLES[name].columns for name in TABLES_OF_QUERIES})
        for table, of_table in rows.items():
            for first in range(0, len(of_table), 5_000):
                some = of_table[first : first + 5_000]
                database.insert(table, makers[table].of_rows(some))
        yield database


PARAMETERS = {
    "most_keys": 10_000,
    "most": MAX_SLOWEST,
    "connection": "10.0.0.1:40000>10.0.0.9:9092~0",
}


def failures_in(database: Database) -> dict[str, str]:
    """Return why queries of reports, findings and questions fail or find nothing, by name."""
    failures = {}
    kinds = {kind.query: easy(kind.thresholds) for kind in finding_kinds()}
    queries = [*built_in("report").values(), *questions().values(), *kinds]
    for query in queries:
        try:
            found = database.answer(
                query, kinds.get(query, PARAMETERS), 1 if query in kinds else None
            )
        except KanalyzeError as error:
            failures[query.name] = str(error)
        else:
            if query in kinds and not found:
                failures[query.name] = "has computed nothing"
    return failures


def easy(thresholds: dict[str, float]) -> dict[str, float]:
    """Return thresholds that many more rows reach."""
    return {name: 0 if name.startswith("least") else value for name, value in thresholds.items()}


def assert_everything_answers(copies: Iterable[Rows]) -> None:
    """Run all queries on copies of rows, and show their results in every form."""
    with database_of(copies) as database:
        assert failures_in(database) == {}
        quality = CaptureQuality()
        report = report_with_findings(database, quality, None, finding_kinds())
        cube = whole_cube(database, report)
        sides = [side_of_rows(database, quality, {}, slices) for slices in (8, 8)]
    comparison = compare_sides(sides[0], sides[1], Thresholds())
    summary_json(report)
    for width in (80, 140):
        assert list(report_lines(report, width))
        assert list(compare_lines(comparison, width))
    assert report_markdown(report)
    assert compare_markdown(comparison)
    assert html_page(report, cube)


def test_every_kind_of_finding_has_rows_here() -> None:
    """A query of which no row passes the conditions would not compute anything."""
    assert sorted(faults()) == sorted(built_in("findings"))


def columns_of(kind: str) -> set[str]:
    """Return the names of the columns that the query of a kind uses, itself or by views."""
    queries = [built_in("findings")[kind], *built_in("tables").values()]
    used, words = {kind}, set(words_of(queries[0].sql))
    while names := (words & built_in("tables").keys()) - used:
        used |= names
        words |= {word for name in names for word in words_of(built_in("tables")[name].sql)}
    return words


@pytest.mark.parametrize("most_rows", [1_000, pytest.param(50_000, marks=pytest.mark.long)])
def test_a_number_at_its_limit_fails_no_query(most_rows: int) -> None:
    """``most_rows`` is the number of rows of one kind: some faults have hundreds of rows."""
    dice = random.Random(most_rows)
    copies = list(faults().values())
    for kind, rows in faults().items():
        of_kind = list(at_limits(rows, columns_of(kind)))
        dice.shuffle(of_kind)
        copies += of_kind[: most_rows // sum(map(len, rows.values()))]
    assert_everything_answers(copies)


def test_numbers_and_texts_at_limits_together_fail_no_query() -> None:
    dice = random.Random(1)
    usual = usual_rows()
    copies = [usual, *faults().values()]
    copies += at_limits(usual, {column.name for column in COLUMNS})
    for rows in faults().values():
        copies += [mixed(rows, dice, share) for share in (0.02, 0.2, 1)]
        copies.append(mixed(odd_texts(rows, dice), dice, 0.1))
    assert_everything_answers(copies)
