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
from tests.support.building import OneCapture, rows_of_exchanges
from tests.support.decoding import CATALOG, READER, json_of
from tests.support.talk import Talk

if TYPE_CHECKING:
    from kanalyze.kafka.session.message_reader import KeepsBytes


EXTRACTORS = Extractors(CATALOG)


def talk(keep: KeepsBytes = lambda _: True, **options: Any) -> Talk:
    reader = MessageReader(CATALOG, Decoders(CATALOG), EXTRACTORS.needed_fields)
    return Talk(tracker=ConnectionTracker(reader, CATALOG, keep=keep), **options)


def decoded(conversation: Talk) -> list[dict[str, Any]]:
    builder = RowAssembler(CATALOG, EXTRACTORS, OneCapture("x.pcap"))
    rows = rows_of_exchanges(builder, conversation.exchanges)
    return [
        json.loads(json_of(e, row)) for e, row in zip(conversation.exchanges, rows, strict=True)
    ]


def tree_lines(conversation: Talk, *, everything: bool = False) -> list[str]:
    builder = RowAssembler(CATALOG, EXTRACTORS, OneCapture("x.pcap"))
    tree = TreeText(READER, everything=everything)
    rows = rows_of_exchanges(builder, conversation.exchanges)
    return [
        line.strip()
        for e, row in zip(conversation.exchanges, rows, strict=True)
        for line in tree.lines(e, row, READER.exchange(e))
    ]


MULTIFETCH = old.request(old.MULTIFETCH, old.fetch_part(1), old.fetch_part(2, "t", 7))
MULTIPRODUCE = old.request(old.MULTIPRODUCE, old.produce_part(old.message()))
MESSAGE_BYTES = len(old.message())
PARTS = [
    {"topic": "orders", "partition": 0, "offset": 1, "maxSize": 65536},
    {"topic": "t", "partition": 7, "offset": 2, "maxSize": 65536},
]


def test_a_fetch_has_all_its_fields() -> None:
    (found,) = decoded(talk().client(old.fetch(9)).broker(old.fetched(old.message(), 1)))
    assert found["request"] == {
        "requestType": 1,
        "topic": "orders",
        "partition": 0,
        "offset": 9,
        "maxSize": 65536,
    }
    assert found["response"] == {"errorCode": 1, "messagesSizeInBytes": MESSAGE_BYTES}
    assert found["requestHeader"]["requestApiKeyName"] == "FETCH"
    assert (found["wire"], found["requestHeader"]["correlationId"]) == ("kafka-0.7", None)
    assert not {"requestProblem", "responseProblem"} & set(found)


def test_a_produce_and_a_multiproduce_have_sizes_of_messages() -> None:
    one, many = decoded(talk().client(old.produce(), MULTIPRODUCE))
    part = {"topic": "orders", "partition": 0, "messagesSizeInBytes": MESSAGE_BYTES}
    assert one["request"] == {"requestType": 0, **part}
    assert many["request"] == {"requestType": 3, "count": 1, "parts": [part]}
    assert one["response"] == many["response"] == ""


@pytest.mark.parametrize("top_error_code", [b"\0\0", b""])
def test_a_multifetch_has_a_response_for_each_part(top_error_code: bytes) -> None:
    response_frame = old.sized(
        top_error_code + old.fetched(error_code=1) + old.fetched(old.message())
    )
    (found,) = decoded(talk().client(MULTIFETCH).broker(response_frame))
    assert found["request"] == {"requestType": 2, "count": 2, "parts": PARTS}
    responses = [
        {"errorCode": 1, "messagesSizeInBytes": 0},
        {"errorCode": 0, "messagesSizeInBytes": MESSAGE_BYTES},
    ]
    top = {"errorCode": 0} if top_error_code else {}
    assert found["response"] == {**top, "responses": responses}


def test_an_offsets_request_has_a_time_and_a_number() -> None:
    conversation = talk().client(old.offsets(-2, 3), old.offsets(), MULTIFETCH)
    conversation.broker(old.offsets_answer(90, 40), old.sized(b"\0\1"), old.sized(b"\0\2"))
    first, second, third = decoded(conversation)
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
    response_frame = old.sized(b"\0\0" + old.fetched(error_code=3) + old.fetched(old.message()))
    lines = tree_lines(talk().client(MULTIFETCH).broker(response_frame))
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
    conversation = talk().client(old.offsets(number=30)).broker(old.offsets_answer(*range(30)))
    assert "... 10 more" in tree_lines(conversation)
    lines = tree_lines(conversation, everything=True)
    assert "... 10 more" not in lines
    assert any("[29]: int64 = 29" in line for line in lines)


def test_an_unreadable_message_has_a_reason_and_is_not_read_as_a_later_api() -> None:
    conversation = talk().client(old.offsets()).broker(old.fetched(b"\x7f" * 20)).close()
    (found,) = decoded(conversation)
    assert (found["response"], found["responseProblem"]["kind"]) == (None, "malformed_body")
    (orphan, _) = decoded(talk(opened_by=None).broker(old.fetched()).client(old.offsets()).close())
    assert orphan["responseProblem"]["kind"] == "orphan_response"
    assert orphan["responseProblem"]["frameOffset"] == 4
    entries = decoded(talk().client(old.offsets()).client(old.produce(), snap=20).close())
    kinds = [entry["requestProblem"]["kind"] for entry in entries if "requestProblem" in entry]
    assert kinds == ["missing_bytes"]


def test_bytes_that_are_not_a_request_are_malformed() -> None:
    conversation = talk().client(old.fetch(0), old.sized(b"\0\1" + b"\0" * 20)).close()
    kinds = [entry.get("requestProblem", {}).get("kind") for entry in decoded(conversation)]
    assert kinds == [None, "malformed_body"]


@pytest.mark.parametrize(
    ("selected_key", "kept_keys"),
    [(0, {0, 3}), (1, {1, 2}), (2, {2, 4}), (3, {3}), (4, {4}), (12, set())],
)
def test_bytes_are_kept_by_request_type_and_by_the_corresponding_api_key(
    selected_key: int, kept_keys: set[int]
) -> None:
    conversation = talk(lambda key: key == selected_key)
    conversation.client(old.produce(), old.fetch(0)).broker(old.fetched())
    conversation.client(MULTIFETCH, old.offsets(), MULTIPRODUCE).close()
    assert {e.api_key for e in conversation.exchanges if e.request and e.request.data} == kept_keys
