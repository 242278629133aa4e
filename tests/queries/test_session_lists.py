"""Requests that refer to the list of their fetch session count as those that have it themselves."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.api.reports import names_of, report_on, tables_of
from kanalyze.api.tables import create_tables, opened_tables
from kanalyze.queries.database import Database
from kanalyze.queries.files import Query, built_in
from kanalyze.queries.findings import finding_kinds
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.requests import COLUMNS, SESSION_COLUMNS
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler
from tests.support import kafka as k
from tests.support import topic_ids as t
from tests.support.building import OneCapture
from tests.support.captures import path
from tests.support.cases import examples
from tests.support.filled import report_names
from tests.support.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from kanalyze.kafka.session.exchange import Exchange

KINDS = ("partition_requests", "topic_requests", "partition_sums", "amount_bins")
# A message of magic 1 with others inside: nobody knows how many without decompressing them.
COMPRESSED = struct.pack(">qiIbbqii4s", 5, 26, 0, 1, 1, 0, -1, 4, b"gzip")
WHOLE = Query(
    *("whole", "", "", ()),
    """
    SELECT
        request_id,
        list_concat(
            requests.partitions
            -- sessions: , inherited(requests.partitions, session_lists.partitions)
        ) AS partitions
    FROM requests
    -- sessions: LEFT JOIN session_lists USING (session_list)
    ORDER BY request_id
    """,
)


def some(random: Random) -> dict[str, list[int]]:
    """Return some partitions of some topics."""
    topics = random.sample(["a", "b", "c"], random.randrange(3))
    return {topic: random.sample(range(5), random.randrange(1, 5)) for topic in topics}


def fetches(random: Random) -> Iterator[Exchange]:
    """Yield the exchanges of a fetch session: with changes, errors, records, and what is lost."""
    talk = Talk()
    talk.client(t.fetch(1, 0, 0, {"a": [0, 1, 2], **some(random)})).broker(t.fetch_answer(1, 77))
    for number in range(1, random.randrange(2, 12)):
        changes = (some(random), some(random)) if random.random() < 0.3 else ()
        talk.client(t.fetch(number + 1, 77, number, *changes))
        if random.random() < 0.9:
            code = random.choice([0, 0, 0, 6])
            kinds = [b"", None, k.record_batch(3), k.record_batch()[:30], COMPRESSED]
            records = random.choices(kinds, k=random.randrange(1, 4))
            answer = t.fetch_answer(number + 1, 77, some(random), code, records)
            snap = random.randrange(30, 200) if random.random() < 0.2 else None
            talk.broker(answer, snap=snap)
    talk.close()
    yield from talk.exchanges


def database_of(stack: ExitStack, exchanges: list[list[Exchange]], first_list: int | None) -> Any:
    database = stack.enter_context(Database(max_memory_bytes=1 << 28, threads=1))
    columns = COLUMNS if first_list is None else (*COLUMNS, *SESSION_COLUMNS)
    maker = create_tables(database, {"requests": columns}, report_names())["requests"]
    for number, of_connection in enumerate(exchanges):
        talk = Talk()
        first = None if first_list is None else first_list + 1000 * number
        extractors = Extractors(talk.catalog)
        rows = RowAssembler(talk.catalog, extractors, OneCapture("x.pcap"), None, first)
        for exchange in of_connection:
            rows.add(exchange)
        database.insert("requests", maker.of_block(rows.drain()))
    return database


def answers(database: Database) -> list[Any]:
    lines = [sorted(map(repr, database.ask(f"FROM {kind}").to_pylist())) for kind in KINDS]
    slowest = database.answer(built_in("report")["slowest"], {"most": 1000})
    for line in slowest:
        line["partitions"] = sorted({part["topic"] for part in line["partitions"]})
    return [*lines, sorted(map(repr, slowest)), database.answer(WHOLE, {})]


@settings(max_examples=examples(40))
@given(st.lists(st.randoms(use_true_random=False), min_size=1, max_size=4))
def test_every_table_is_the_same(randoms: list[Random]) -> None:
    exchanges = [list(fetches(random)) for random in randoms]
    with ExitStack() as stack:
        listed, referring = (database_of(stack, exchanges, first) for first in (None, 1))
        assert answers(referring) == answers(listed)


def test_a_list_is_written_once_until_it_changes() -> None:
    talk = Talk()
    talk.client(t.fetch(1, 0, 0, {"a": list(range(50))})).broker(t.fetch_answer(1, 77))
    for number in range(1, 9):
        changes = {"b": [1]} if number == 5 else None
        talk.client(t.fetch(number + 1, 77, number, changes))
        talk.broker(t.fetch_answer(number + 1, 77))
    rows = RowAssembler(talk.catalog, Extractors(talk.catalog), OneCapture("x.pcap"), None, 7)
    for exchange in talk.exchanges:
        rows.add(exchange)
    block = rows.drain()
    numbers, lists = (block.values([column])[0] for column in SESSION_COLUMNS)
    assert numbers == [None, 7, 7, 7, 7, 8, 8, 8, 8]
    assert list(map(len, lists)) == [0, 50, 0, 0, 0, 51, 0, 0, 0]
    assert [len(row.partitions) for row in block.rows()] == [50, 0, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_report_on_a_capture_is_the_same(jobs: int) -> None:
    kinds = finding_kinds()
    names = names_of(kinds, has_page=False)
    file = str(path("fault-sessions-evicted"))
    reports = []
    for session_lists in (False, True):
        with opened_tables(
            *(Analysis([file], jobs=jobs), tables_of(kinds), names), session_lists=session_lists
        ) as tables:
            if session_lists:
                ((references,),) = tables.database.values(
                    "SELECT count(session_list) FROM requests"
                )
                assert references > 100
            reports.append(report_on(tables, kinds))
    assert reports[0] == reports[1]
