"""The rows of records from Kafka 0.7."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.tables.filters import RowFilter
from kanalyze.tables.records.rows import RecordReader, has_records
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler
from tests.support import kafka07 as old
from tests.support.building import OneCapture, rows_of_exchanges
from tests.support.record_rows import record_batches
from tests.support.talk import BROKER, CLIENT, Talk

if TYPE_CHECKING:
    from kanalyze.spec.rows.records import RecordRow

CATALOG = Catalog()
DECODERS = Decoders(CATALOG)
PACKED = old.message(gzip.compress(old.message(b"b") + old.message(b"c", magic=0)), codec=1)


def talk() -> Talk:
    """Return the exchanges of a connection; messages with records keep their bytes."""
    reader = MessageReader(CATALOG, DECODERS, Extractors(CATALOG).needed_fields)
    return Talk(tracker=ConnectionTracker(reader, CATALOG, keep=has_records))


def rows_of(talk: Talk, **options) -> list[RecordRow]:
    builder = RowAssembler(CATALOG, Extractors(CATALOG), OneCapture("x.pcap"))
    pairs = list(zip(talk.exchanges, rows_of_exchanges(builder, talk.exchanges), strict=True))
    reader = RecordReader(CATALOG, DECODERS, values_as="base64", **options)
    return [row for rows in record_batches(reader, pairs) for row in rows]


def test_fetched_messages_have_their_offsets_in_the_log() -> None:
    first = old.message(b"a", magic=0)
    request = old.fetch(4096, topic="clicks", partition=2)
    one, two, three = rows_of(talk().client(request).broker(old.fetched(first + PACKED)))
    assert (one.api_name, one.topic, one.topic_id, one.partition) == ("Fetch", "clicks", None, 2)
    assert (one.packet, one.error_code, one.client_id) == (2, 0, None)
    assert (one.offset, one.batch_base_offset, one.batch_bytes) == (4096, 4096, len(first))
    assert (one.key, one.key_bytes, one.value, one.value_bytes) == (None, None, "a", 1)
    assert (one.magic, one.codec, one.crc_ok, one.timestamp_ms) == (0, "none", True, None)
    assert (one.sequence, one.producer_id, one.is_control, one.problem) == (None, None, False, None)
    at = 4096 + len(first)
    assert [(r.record_index, r.offset, r.batch_base_offset) for r in (two, three)] == [
        (1, at, at),
        (2, at, at),
    ]
    assert [(r.value, r.magic, r.codec, r.crc_ok) for r in (two, three)] == [
        ("b", 1, "gzip", True),
        ("c", 1, "gzip", True),
    ]


def test_produced_messages_have_no_offsets() -> None:
    found = rows_of(talk().client(old.produce(old.message(b"a") + PACKED, partition=-1)).close())
    assert [(r.api_name, r.partition, r.packet, r.value) for r in found] == [
        ("Produce", -1, 1, value) for value in ("a", "b", "c")
    ]
    assert {(r.offset, r.batch_base_offset, r.error_code) for r in found} == {(None, None, None)}


def test_the_parts_of_multifetch_and_multiproduce_are_distinguished() -> None:
    request = old.request(old.MULTIFETCH, old.fetch_part(10), old.fetch_part(20, "t", 7))
    answer = old.sized(b"\0\0" + old.fetched(error_code=1) + old.fetched(old.message(b"x")))
    many = old.request(
        old.MULTIPRODUCE,
        old.produce_part(old.message(b"y")),
        old.produce_part(old.message(b"z"), "t", 3),
    )
    found = rows_of(talk().client(request).broker(answer).client(many))
    assert [(r.api_name, r.topic, r.partition, r.offset, r.value) for r in found] == [
        ("MultiFetch", "t", 7, 20, "x"),
        ("MultiProduce", "orders", 0, None, "y"),
        ("MultiProduce", "t", 3, None, "z"),
    ]
    found = rows_of(
        talk().client(request).broker(answer).client(many),
        row_filter=RowFilter.parse(topic=("orders",)),
    )
    assert [r.value for r in found] == ["y"]


def test_wrong_unreadable_and_cut_messages() -> None:
    """The broker cuts the last message of a response; that is no problem."""
    a, b = old.message(b"a"), old.message(b"b")
    for messages, expected in (
        (a[:-1] + b"X", [("X", False, None)]),
        (
            a + old.message(b"no gzip", codec=1),
            [("a", True, None), (None, True, "bad_compression")],
        ),
        ((a * 2)[:-1], [("a", True, None)]),
        (a + b[:-1], [("a", True, None)]),
        (a[:-1], []),
    ):
        found = rows_of(talk().client(old.fetch(0)).broker(old.fetched(messages)))
        assert [(row.value, row.crc_ok, row.problem) for row in found] == expected


@pytest.mark.parametrize("sender", [CLIENT, BROKER])
def test_bytes_that_are_missing_are_reported(sender: int) -> None:
    data = old.produce() if sender == CLIENT else old.fetched(old.message())
    spoken = talk().client(old.fetch(0)).says(sender, data, snap=20).close()
    assert [r.problem for r in rows_of(spoken)] == ["missing_bytes"]


def test_offsets_and_unanswered_requests_have_no_records() -> None:
    spoken = talk().client(old.offsets()).broker(old.offsets_answer(5)).client(old.fetch(0))
    assert rows_of(spoken.close()) == []
    assert [exchange.response and exchange.response.data for exchange in spoken.exchanges] == [
        None,
        None,
    ]
