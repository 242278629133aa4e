"""The wire of Kafka 0.7, with its messages inside of messages."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest

from kanalyze.kafka.records.types import DecompressionLimits, RecordProblem
from kanalyze.kafka.v07.messages import (
    COUNTING_LIMITS,
    FetchPart07,
    MessageSet07Records,
    OffsetsPart07,
    error_name_07,
    fits_request,
    may_fit,
    parse_messages,
    parse_request,
    parse_response,
)
from kanalyze.kafka.wire import Truncated, WireError
from tests.support import kafka07 as old
from tests.support.work import calls_of

INNER_MESSAGES = old.message(b"a") + old.message(b"b", magic=0)
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def snappy(data: bytes) -> bytes:
    packed = bytes(cramjam.snappy.compress_raw(data))
    return XERIAL + struct.pack(">i", len(packed)) + packed


PACKED = {1: gzip.compress(INNER_MESSAGES), 2: snappy(INNER_MESSAGES)}


def count_of(*messages: bytes) -> int | None:
    return parse_messages(b"".join(messages), COUNTING_LIMITS).record_count


def nested(depth: int) -> bytes:
    message = old.message(b"a")
    for _ in range(depth):
        message = old.message(gzip.compress(message), codec=1)
    return message


def records_of(data: bytes, first_offset: int = 0, **limits: int):
    found = MessageSet07Records(data, first_offset, DecompressionLimits(**limits))
    records = [
        (batch.codec, batch.magic, record.offset, record.value, batch.crc_ok and record.crc_ok)
        for batch in found
        for record in batch.records()
    ]
    problems = []
    for batch in found:
        list(batch.records())
        problems += [problem.value for problem in batch.problems]
    return records, problems + [problem.value for problem in found.problems]


@pytest.mark.parametrize("codec", PACKED)
def test_messages_inside_a_compressed_one_are_counted(codec: int) -> None:
    message = old.message(PACKED[codec], codec=codec)
    assert count_of(message) == 2
    assert count_of(old.message(), message, message) == 5
    assert parse_messages(message).record_count is None


def test_raw_snappy_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(INNER_MESSAGES))
    assert count_of(old.message(raw, codec=2)) == 2


def test_nested_compressed_messages_are_counted_to_a_depth() -> None:
    assert [count_of(nested(depth)) for depth in range(6)] == [1, 1, 1, 1, None, None]


def test_messages_that_cannot_be_read_to_their_end_are_not_counted() -> None:
    assert count_of(old.message(PACKED[1][:-9], codec=1)) is None
    assert count_of(old.message(gzip.compress(INNER_MESSAGES[:-1]), codec=1)) is None
    assert count_of(old.message(gzip.compress(b"\0\0\0\x09\7" + INNER_MESSAGES), codec=1)) is None
    assert count_of(old.message(gzip.compress(b"\0\0\0\1\0"), codec=1)) is None
    assert count_of(old.message(b"no snappy", codec=2), old.message(PACKED[1], codec=1)) is None
    assert count_of(old.message(PACKED[1], codec=3)) is None


def test_a_compressed_message_that_is_cut_is_not_decompressed() -> None:
    message = old.message(PACKED[1], codec=1)
    assert count_of(message, message[:-1]) == 2
    assert count_of(message[:-1]) == 0


def test_the_limit_of_decompressed_bytes_applies_to_the_whole_field() -> None:
    half = old.message(bytes(COUNTING_LIMITS.free_bytes * 5 // 8))
    bomb = old.message(gzip.compress(half), codec=1)
    assert count_of(bomb) == 1
    assert count_of(bomb, bomb) is None
    # If the messages are nested, too.
    assert count_of(old.message(gzip.compress(bomb + bomb), codec=1)) is None


def test_records_have_the_offsets_of_their_messages_in_the_log() -> None:
    first = old.message(b"one", magic=0)
    packed = old.message(PACKED[1], codec=1)
    records, problems = records_of(first + packed + old.message(b"two"), 1000)
    at = 1000 + len(first)
    assert records == [
        ("none", 0, 1000, b"one", True),
        ("gzip", 1, at, b"a", True),
        ("gzip", 1, at, b"b", True),
        ("none", 1, at + len(packed), b"two", True),
    ]
    assert problems == []


def test_checksums_are_those_of_the_payloads_outside_and_inside() -> None:
    bad = old.message(b"payload")[:-1] + b"X"
    assert records_of(bad)[0] == [("none", 1, 0, b"payloaX", False)]
    (inside,), problems = records_of(old.message(gzip.compress(bad), codec=1))
    assert (inside[4], problems) == (False, [])


@pytest.mark.parametrize(
    ("data", "count", "problem"),
    [
        (old.message()[:-1], 0, "cut_batch"),
        (old.message() + b"\0\0\0", 1, "cut_batch"),
        (old.message() + b"\0\0\0\x20\2", 1, "unknown_magic"),
        (old.message() + b"\0\0\0\4\0", 1, "malformed_batch"),
        (old.message(PACKED[2], codec=3), 0, "unknown_codec"),
        (
            old.message(gzip.compress(INNER_MESSAGES, mtime=0)[:-9], codec=1),
            None,
            "bad_compression",
        ),
        (old.message(gzip.compress(INNER_MESSAGES[:-1], mtime=0), codec=1), 1, "malformed_record"),
        (nested(4), 0, "nested_too_deep"),
    ],
)
def test_messages_that_cannot_be_read_are_reported_as_problems(
    data: bytes, count: int | None, problem: str
) -> None:
    records, problems = records_of(data)
    assert count in (None, len(records))
    assert set(problems) == {problem}


def test_limits_apply_to_the_reading_of_records() -> None:
    data = old.message(PACKED[1], codec=1)
    records, problems = records_of(data, most_bytes=len(old.message(b"a")))
    assert ([record[3] for record in records], problems) == ([b"a"], ["decompressed_too_large"])


def test_reading_and_counting_are_bounded_by_the_compressed_size() -> None:
    data = old.message(gzip.compress(old.message(b"") * 50_000), codec=1)
    allowed = DecompressionLimits().allowed_records(len(data))
    assert count_of(data) is None
    (batch,) = MessageSet07Records(data)
    assert sum(1 for _ in batch.records()) < 50_000
    assert batch.problems == [RecordProblem.TOO_MANY_RECORDS]
    assert count_of(old.message(gzip.compress(old.message(b"") * 900), codec=1)) == 900
    calls = calls_of(lambda: count_of(data))
    assert calls < 40 * allowed


def test_a_requested_limit_of_records_applies() -> None:
    data = old.message(gzip.compress(old.message(b"") * 20), codec=1)
    assert len(records_of(data)[0]) == 20
    records, problems = records_of(data, most_records=7)
    assert (len(records), problems) == (7, ["too_many_records"])


REQUESTS = {
    "produce": old.produce(old.message(b"a") + old.message(b"bc", magic=0)),
    "fetch": old.fetch(1234),
    "multifetch": old.request(old.MULTIFETCH, old.fetch_part(1), old.fetch_part(2, "t", 7)),
    "multiproduce": old.request(
        old.MULTIPRODUCE, old.produce_part(old.message()), old.produce_part(b"", "t", 3)
    ),
    "offsets": old.offsets(-2, 10),
}


def test_a_produce_has_messages_of_both_magics_and_may_leave_the_partition_to_the_broker() -> None:
    messages = old.message(b"a", magic=0) + old.message(b"bc", magic=1)
    (part,) = parse_request(old.produce(messages, partition=-1)).parts
    assert part.partition == -1
    assert part.messages is not None
    assert part.messages[:4] == (len(messages), 2, "none", len(messages))


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


@pytest.mark.parametrize("topic_bytes", [0x8000, 0xFFFF, 0, 256])
def test_a_frame_whose_topic_has_an_impossible_length_does_not_fit(
    topic_bytes: int,
) -> None:
    for frame in (old.fetch(1234), old.produce()):
        head = frame[:6] + topic_bytes.to_bytes(2, "big") + frame[8:]
        assert may_fit(frame, len(frame) - 4)
        assert not may_fit(head, len(head) - 4)


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
