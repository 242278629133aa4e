"""Rows of Kafka 0.7."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler
from tests.support import kafka07 as old
from tests.support.building import OneCapture, rows_of_exchanges
from tests.support.talk import Talk

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row


def rows_of(talk: Talk) -> list[Row]:
    builder = RowAssembler(talk.catalog, Extractors(talk.catalog), OneCapture("x.pcap"))
    return rows_of_exchanges(builder, talk.exchanges)


def test_a_fetch_has_its_offset_and_its_messages() -> None:
    messages = old.message(b"a") + old.message(b"b")
    talk = Talk().client(old.fetch(4096, topic="clicks", partition=2)).broker(old.fetched(messages))
    (row,) = rows_of(talk)
    assert (row.wire, row.api_key, row.api_version, row.api_name) == ("kafka-0.7", 1, 0, "Fetch")
    assert (row.correlation_id, row.client_id, row.throttle_time_ms) == (None,) * 3
    assert (row.waited, row.waited_ns) == (False, 0)
    assert (row.status, row.error_code, row.error_name) == ("ok", 0, "NONE")
    assert row.partitions == [
        ("clicks", None, 2, 2, len(messages), 4096, None, "none", 0, *[None] * 4),
    ]
    assert (row.record_count, row.record_bytes, row.latency_ns) == (2, len(messages), 1)


def test_a_produce_is_one_way_and_counts_its_messages() -> None:
    (row,) = rows_of(Talk().client(old.produce(old.message(codec=2))).close())
    assert (row.status, row.api_name, row.error_code, row.acks) == (
        "one_way",
        "Produce",
        None,
        None,
    )
    assert (row.record_count, row.partitions[0].codec) == (None, "snappy")
    assert row.record_bytes == len(old.message())


def test_messages_inside_compressed_messages_are_counted() -> None:
    inside = gzip.compress(old.message(b"a") + old.message(b"b"))
    messages = old.message(inside, codec=1) + old.message()
    talk = Talk().client(old.produce(messages), old.fetch(0)).broker(old.fetched(messages))
    assert [(row.record_count, row.partitions[0].codec) for row in rows_of(talk)] == [
        (3, "mixed"),
        (3, "mixed"),
    ]


def test_the_five_request_types_have_their_names() -> None:
    several = old.request(old.MULTIFETCH, old.fetch_part(1), old.fetch_part(2, "t", 7))
    many = old.request(old.MULTIPRODUCE, old.produce_part(old.message()))
    talk = Talk().client(old.produce(), old.fetch(0)).broker(old.fetched())
    talk.client(several).broker(old.sized(b"\0\0" + old.fetched() + old.fetched(old.message())))
    talk.client(many, old.offsets()).broker(old.offsets_answer(90, 40))
    rows = rows_of(talk)
    names = ["Produce", "Fetch", "MultiFetch", "MultiProduce", "Offsets"]
    assert [row.api_name for row in rows] == names
    assert [row.api_key for row in rows] == [0, 1, 2, 3, 4]
    assert [part.record_count for part in rows[2].partitions] == [0, 1]
    assert rows[4].partitions[0].base_offset == 90
    assert rows[4].record_count is None


def test_an_error_has_its_kafka_0_7_name_and_its_partition() -> None:
    talk = Talk().client(old.fetch(0)).broker(old.fetched(error_code=3))
    (row,) = rows_of(talk)
    assert (row.status, row.error_code, row.error_name) == ("error", 3, "WRONG_PARTITION")
    assert row.errors == [("orders", 0, 3, "WRONG_PARTITION")]


def test_orphan_responses_and_unanswered_requests_leave_unknown_columns_null() -> None:
    talk = Talk(opened_by=None).broker(old.fetched()).client(old.offsets()).close()
    by_status = {row.status: row for row in rows_of(talk)}
    assert by_status["orphan_response"].api_name is None
    assert by_status["orphan_response"].wire == "kafka-0.7"
    assert by_status["unanswered"].partitions[0].base_offset is None
