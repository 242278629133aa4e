"""The wire of Kafka 0.7."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.v07.messages import (
    FetchPart07,
    OffsetsPart07,
    RequestType,
    error_name_07,
    fits_request,
    may_fit,
    parse_messages,
    parse_request,
    parse_response,
)
from kanalyze.kafka.wire import Truncated, WireError
from tests.support import kafka07 as old

REQUESTS = {
    "produce": old.produce(old.message(b"a") + old.message(b"bc", magic=0)),
    "fetch": old.fetch(1234),
    "multifetch": old.request(old.MULTIFETCH, old.fetch_part(1), old.fetch_part(2, "t", 7)),
    "multiproduce": old.request(
        old.MULTIPRODUCE, old.produce_part(old.message()), old.produce_part(b"", "t", 3)
    ),
    "offsets": old.offsets(-2, 10),
}


def test_a_fetch_has_a_topic_a_partition_an_offset_and_a_size() -> None:
    found = parse_request(old.fetch(1234, topic="clicks", partition=3, max_size=99))
    assert found.type is RequestType.FETCH
    (part,) = found.parts
    assert (part.topic, part.partition, part.offset, part.max_size) == ("clicks", 3, 1234, 99)


def test_a_produce_has_messages_of_both_magics_and_may_leave_the_partition_to_the_broker() -> None:
    messages = old.message(b"a", magic=0) + old.message(b"bc", magic=1)
    (part,) = parse_request(old.produce(messages, partition=-1)).parts
    assert part.partition == -1
    assert part.messages is not None
    assert part.messages[:4] == (len(messages), 2, "none", len(messages))


def test_parts_are_read_in_their_order() -> None:
    fetches = parse_request(REQUESTS["multifetch"])
    assert [(part.topic, part.partition, part.offset) for part in fetches.parts] == [
        ("orders", 0, 1),
        ("t", 7, 2),
    ]
    produces = parse_request(REQUESTS["multiproduce"])
    assert [part.messages.record_count for part in produces.parts if part.messages] == [1, 0]


def test_offsets_are_requested_by_time_and_number() -> None:
    (part,) = parse_request(REQUESTS["offsets"]).parts
    assert (part.time_ms, part.max_number, part.offset, part.messages) == (-2, 10, None, None)


@pytest.mark.parametrize("name", REQUESTS)
def test_every_prefix_of_a_request_is_truncated_and_one_more_byte_is_refused(name: str) -> None:
    frame = REQUESTS[name]
    size = len(frame) - 4
    assert fits_request(frame, size) is True
    for end in range(len(frame)):
        with pytest.raises(Truncated):
            parse_request(frame[:end])
        assert fits_request(frame[:end], size) is None
    with pytest.raises(WireError):
        parse_request(frame + b"\0")


@pytest.mark.parametrize("name", REQUESTS)
def test_every_single_byte_mutation_gives_a_value_or_a_wire_error(name: str) -> None:
    frame = REQUESTS[name]
    for at in range(4, len(frame)):
        for byte in (0, 1, 0x7F, 0x80, 0xFF):
            mutated = frame[:at] + bytes([byte]) + frame[at + 1 :]
            try:
                assert parse_request(mutated).parts
            except WireError:
                assert fits_request(mutated, len(mutated) - 4) is False


@pytest.mark.parametrize("topic_bytes", [0x8000, 0xFFFF, 0, 256])
def test_a_frame_whose_topic_has_an_impossible_length_does_not_fit(
    topic_bytes: int,
) -> None:
    for frame in (old.fetch(1234), old.produce()):
        head = frame[:6] + topic_bytes.to_bytes(2, "big") + frame[8:]
        assert may_fit(frame, len(frame) - 4)
        assert not may_fit(head, len(head) - 4)


@given(st.binary(max_size=200))
def test_random_bytes_give_a_value_or_a_wire_error(data: bytes) -> None:
    request = parse_request(REQUESTS["multifetch"])
    for read in (parse_request, parse_messages, lambda raw: parse_response(raw, request)):
        with suppress(WireError):
            assert read(data)


def test_the_last_message_of_a_response_may_be_cut() -> None:
    whole, cut = old.message(b"abc"), old.message(b"defgh")[:-2]
    (answer,) = parse_response(old.fetched(whole + cut), parse_request(old.fetch(0)))
    assert isinstance(answer, FetchPart07)
    assert (answer.messages.record_count, answer.messages.whole_bytes) == (1, len(whole))
    assert answer.messages.is_cut


def test_compressed_messages_hide_their_number() -> None:
    for codec, name in ((1, "gzip"), (2, "snappy")):
        found = parse_messages(old.message(b"\x1f\x8b...", codec=codec))
        assert (found.record_count, found.codec) == (None, name)
    mixed = parse_messages(old.message(codec=1) + old.message())
    assert (mixed.record_count, mixed.codec) == (None, "mixed")


def test_a_payload_with_another_checksum_is_counted() -> None:
    good = old.message(b"payload")
    assert parse_messages(good).bad_checksums == 0
    assert parse_messages(good[:-1] + b"X").bad_checksums == 1
    assert fits_request(old.produce(good[:-1] + b"X"), len(old.produce(good)) - 4) is False


def test_offsets_of_a_response_come_newest_first_and_fill_the_frame() -> None:
    request = parse_request(old.offsets())
    assert parse_response(old.offsets_answer(90, 40), request) == OffsetsPart07(0, (90, 40))
    with pytest.raises(WireError):
        parse_response(old.offsets_answer(90, 40) + b"\0", request)


@pytest.mark.parametrize("top_error_code", [b"", b"\0\0"])
def test_a_multifetch_response_has_one_fetch_response_per_part(top_error_code: bytes) -> None:
    request = parse_request(REQUESTS["multifetch"])
    frame = old.sized(top_error_code + old.fetched(old.message()) + old.fetched(b"", error_code=1))
    answers = parse_response(frame, request)
    assert [(a.error_code, a.messages.record_count) for a in answers] == [(0, 1), (1, 0)]  # type: ignore[union-attr]


def test_a_response_may_be_an_error_alone() -> None:
    for name in ("fetch", "multifetch", "offsets"):
        answer = parse_response(old.fetched(error_code=3), parse_request(REQUESTS[name]))
        first = answer if isinstance(answer, OffsetsPart07) else answer[0]
        assert first.error_code == 3
    with pytest.raises(WireError):
        parse_response(old.fetched(), parse_request(REQUESTS["produce"]))


def test_a_count_too_large_for_the_frame_is_refused() -> None:
    frame = bytearray(REQUESTS["multifetch"])
    frame[6:8] = b"\x7f\xff"
    with pytest.raises(WireError):
        parse_request(bytes(frame))


def test_error_codes_have_the_names_of_that_time() -> None:
    assert [error_name_07(code) for code in (-1, 0, 1, 2, 3, 4)] == [
        "UNKNOWN",
        "NONE",
        "OFFSET_OUT_OF_RANGE",
        "INVALID_MESSAGE",
        "WRONG_PARTITION",
        "INVALID_FETCH_SIZE",
    ]
    assert error_name_07(55) == "UNKNOWN_CODE_55"
