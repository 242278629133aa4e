"""Every field of the messages of Kafka 0.7."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.render.tree import TreeText
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler
from tests.support import kafka07 as old
from tests.support.building import rows_of_exchanges
from tests.support.decoding import CATALOG, READER, json_of
from tests.support.talk import Talk

if TYPE_CHECKING:
    from kanalyze.kafka.session.message_bodies import KeepsBytes

EXTRACTORS = Extractors(CATALOG)


def talk(keep: KeepsBytes = lambda _: True, **options: Any) -> Talk:
    reader = MessageReader(CATALOG, Decoders(CATALOG), EXTRACTORS.needed_fields)
    return Talk(tracker=ConnectionTracker(reader, CATALOG, keep=keep), **options)


def made(spoken: Talk) -> list[dict[str, Any]]:
    builder = RowAssembler(CATALOG, EXTRACTORS, lambda number: ("x.pcap", number))
    rows = rows_of_exchanges(builder, spoken.exchanges)
    return [json.loads(json_of(e, row)) for e, row in zip(spoken.exchanges, rows, strict=True)]


def shown(spoken: Talk, *, everything: bool = False) -> list[str]:
    builder = RowAssembler(CATALOG, EXTRACTORS, lambda number: ("x.pcap", number))
    tree = TreeText(READER, everything=everything)
    rows = rows_of_exchanges(builder, spoken.exchanges)
    return [
        line.strip()
        for e, row in zip(spoken.exchanges, rows, strict=True)
        for line in tree.lines(e, row, READER.exchange(e))
    ]


SEVERAL = old.request(old.MULTIFETCH, old.fetch_part(1), old.fetch_part(2, "t", 7))
MANY = old.request(old.MULTIPRODUCE, old.produce_part(old.message()))
SIZE = len(old.message())
PARTS = [
    {"topic": "orders", "partition": 0, "offset": 1, "maxSize": 65536},
    {"topic": "t", "partition": 7, "offset": 2, "maxSize": 65536},
]


def test_a_fetch_has_all_its_fields() -> None:
    (found,) = made(talk().client(old.fetch(9)).broker(old.fetched(old.message(), 1)))
    assert found["request"] == {
        "requestType": 1,
        "topic": "orders",
        "partition": 0,
        "offset": 9,
        "maxSize": 65536,
    }
    assert found["response"] == {"errorCode": 1, "messagesSizeInBytes": SIZE}
    assert found["requestHeader"]["requestApiKeyName"] == "FETCH"
    assert (found["wire"], found["requestHeader"]["correlationId"]) == ("kafka-0.7", None)
    assert not {"requestProblem", "responseProblem"} & set(found)


def test_a_produce_and_a_multiproduce_have_sizes_of_messages() -> None:
    one, many = made(talk().client(old.produce(), MANY))
    part = {"topic": "orders", "partition": 0, "messagesSizeInBytes": SIZE}
    assert one["request"] == {"requestType": 0, **part}
    assert many["request"] == {"requestType": 3, "count": 1, "parts": [part]}
    assert one["response"] == many["response"] == ""


@pytest.mark.parametrize("top_code", [b"\0\0", b""])
def test_a_multifetch_has_a_response_a_part(top_code: bytes) -> None:
    answer = old.sized(top_code + old.fetched(error_code=1) + old.fetched(old.message()))
    (found,) = made(talk().client(SEVERAL).broker(answer))
    assert found["request"] == {"requestType": 2, "count": 2, "parts": PARTS}
    responses = [
        {"errorCode": 1, "messagesSizeInBytes": 0},
        {"errorCode": 0, "messagesSizeInBytes": SIZE},
    ]
    top = {"errorCode": 0} if top_code else {}
    assert found["response"] == {**top, "responses": responses}


def test_offsets_have_a_time_and_a_number() -> None:
    spoken = talk().client(old.offsets(-2, 3), old.offsets(), SEVERAL)
    spoken.broker(old.offsets_answer(90, 40), old.sized(b"\0\1"), old.sized(b"\0\2"))
    first, second, third = made(spoken)
    assert first["request"] == {
        "requestType": 4,
        "topic": "orders",
        "partition": 0,
        "time": -2,
        "maxNumber": 3,
    }
    assert first["response"] == {"errorCode": 0, "number": 2, "offsets": [90, 40]}
    assert second["response"] == {"errorCode": 1}
    assert third["response"] == {"errorCode": 2}


def test_text_shows_the_position_of_every_field() -> None:
    answer = old.sized(b"\0\0" + old.fetched(error_code=3) + old.fetched(old.message()))
    lines = shown(talk().client(SEVERAL).broker(answer))
    assert lines[0].startswith("MultiFetch v0 error")
    assert lines[3:9] == [
        "0..4    size: int32 = 47",
        "4..6    requestType: int16 = 2",
        "6..8    count: int16 = 2",
        "8..51    parts: []part = 2 elements",
        "8..32      [0]",
        '8..16        topic: string = "orders"',
    ]
    assert lines[-9:-3] == [
        "6..33    responses: []response = 2 elements",
        "6..12      [0]",
        "6..10        size: int32 = 2",
        "10..12        errorCode: int16 = 3 WRONG_PARTITION",
        "12..12        messages: messages = 0 bytes",
        "12..33      [1]",
    ]


def test_a_long_list_is_cut_unless_all_is_requested() -> None:
    spoken = talk().client(old.offsets(number=30)).broker(old.offsets_answer(*range(30)))
    assert "... 10 more" in shown(spoken)
    lines = shown(spoken, everything=True)
    assert "... 10 more" not in lines
    assert any("[29]: int64 = 29" in line for line in lines)


def test_an_unreadable_message_has_a_reason_and_is_not_read_as_a_later_api() -> None:
    spoken = talk().client(old.offsets()).broker(old.fetched(b"\x7f" * 20)).close()
    (found,) = made(spoken)
    assert (found["response"], found["responseProblem"]["kind"]) == (None, "malformed_body")
    (orphan, _) = made(talk(opened_by=None).broker(old.fetched()).client(old.offsets()).close())
    assert orphan["responseProblem"]["kind"] == "orphan_response"
    assert orphan["responseProblem"]["frameOffset"] == 4
    entries = made(talk().client(old.offsets()).client(old.produce(), snap=20).close())
    kinds = [entry["requestProblem"]["kind"] for entry in entries if "requestProblem" in entry]
    assert kinds == ["missing_bytes"]


def test_bytes_that_are_not_a_request_are_malformed() -> None:
    spoken = talk().client(old.fetch(0), old.sized(b"\0\1" + b"\0" * 20)).close()
    kinds = [entry.get("requestProblem", {}).get("kind") for entry in made(spoken)]
    assert kinds == [None, "malformed_body"]


@pytest.mark.parametrize(
    ("wanted", "kept"), [(0, {0, 3}), (1, {1, 2}), (2, {2, 4}), (3, {3}), (4, {4}), (12, set())]
)
def test_bytes_are_kept_by_request_type_and_by_the_corresponding_api_key(
    wanted: int, kept: set[int]
) -> None:
    spoken = talk(lambda key: key == wanted)
    spoken.client(old.produce(), old.fetch(0)).broker(old.fetched())
    spoken.client(SEVERAL, old.offsets(), MANY).close()
    assert {e.api_key for e in spoken.exchanges if e.request and e.request.data} == kept
