"""Messages of magic 0 and 1, alone and inside of compressed ones."""

from __future__ import annotations

import gzip
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.kafka.records.types import DecompressionLimits, RecordProblem
from tests.support.effort import took_soon
from tests.support.record_sets import (
    CODECS,
    ITEMS,
    TIME_MS,
    AioMessages,
    LegacyRecordBatchBuilder,
    messages_of,
    read,
    records_in,
    wrapped,
)
from tests.support.work import calls_of

STEADY = settings(deadline=None)  # the first example loads a codec
BUILDERS = {"kafka-python": LegacyRecordBatchBuilder, "aiokafka": AioMessages}
# aiokafka does not write lz4 for magic 0, because its brokers expect a wrong checksum.
WRITTEN = [
    (builder, magic, codec)
    for builder in BUILDERS
    for magic in (0, 1)
    for codec in range(4)
    if (builder, magic, codec) != ("aiokafka", 0, 3)
]
GZIP, APPEND = 1, 0x08


@pytest.mark.parametrize(("builder", "magic", "codec"), WRITTEN)
def test_messages_by_another_encoder_are_read_back(builder: str, magic: int, codec: int) -> None:
    data = messages_of(magic, codec=codec, builder=BUILDERS[builder])
    found = [(record.offset, record.timestamp_ms, *record[2:4]) for record in records_in(data)]
    assert found == [
        (offset, time if magic else None, key, value) for offset, time, key, value, _ in ITEMS
    ]
    batches, _ = read(data)
    assert {(batch.magic, batch.codec) for batch, _ in batches} == {(magic, CODECS[codec])}
    assert len(batches) == (1 if codec else len(ITEMS))


@pytest.mark.parametrize("builder", BUILDERS)
@STEADY
@given(
    records=st.lists(
        st.tuples(st.integers(0, 2**41), *[st.none() | st.binary(max_size=40)] * 2),
        min_size=1,
        max_size=6,
    ),
    magic=st.integers(0, 1),
    codec=st.integers(0, 2),
)
def test_any_messages_by_another_encoder_are_read_back(builder, records, magic, codec) -> None:
    items = [(offset, *record, []) for offset, record in enumerate(records)]
    found = records_in(messages_of(magic, items, codec, builder=BUILDERS[builder]))
    assert [(record.offset, record.key, record.value) for record in found] == [
        (offset, key, value) for offset, _, key, value, _ in items
    ]


def test_a_wrapper_of_magic_1_carries_the_absolute_offset_of_the_last_inside() -> None:
    inner = messages_of(1)
    found = records_in(wrapped(1, GZIP, gzip.compress(inner), offset=1004))
    assert [record.offset for record in found] == [1000, 1001, 1002, 1003, 1004]


def test_relative_offsets_may_have_holes_as_compaction_leaves_them() -> None:
    items = [(offset, *ITEMS[0][1:]) for offset in (2, 3, 7)]
    found = records_in(wrapped(1, GZIP, gzip.compress(messages_of(1, items)), offset=1007))
    assert [record.offset for record in found] == [1002, 1003, 1007]


def test_offsets_count_from_0_in_the_wrapper_of_a_producer() -> None:
    found = records_in(wrapped(1, GZIP, gzip.compress(messages_of(1)), offset=0))
    assert [record.offset for record in found] == [0, 1, 2, 3, 4]


def test_offsets_inside_a_wrapper_of_magic_0_are_absolute() -> None:
    items = [(offset, *ITEMS[0][1:]) for offset in (70, 71, 72)]
    inner = messages_of(0, items)
    found = records_in(wrapped(0, GZIP, gzip.compress(inner), offset=72))
    assert [record.offset for record in found] == [70, 71, 72]


def test_the_append_time_of_a_wrapper_is_that_of_all_messages_inside() -> None:
    packed = gzip.compress(messages_of(1))
    data = wrapped(1, GZIP, packed, time=TIME_MS + 77, flags=APPEND)
    ((batch, records),) = read(data)[0]
    assert batch.timestamp_type == "append"
    assert {record.timestamp_ms for record in records} == {TIME_MS + 77}
    ((batch, records),) = read(wrapped(1, GZIP, packed, time=TIME_MS + 77))[0]
    assert batch.timestamp_type == "create"
    assert records[1].timestamp_ms == TIME_MS + 5


def test_magic_0_has_no_times_and_minus_one_is_none() -> None:
    ((batch, (record,)),) = read(messages_of(0, ITEMS[:1]))[0]
    assert (batch.timestamp_type, record.timestamp_ms) == (None, None)
    (record,) = records_in(wrapped(1, 0, b"x", time=-1))
    assert record.timestamp_ms is None


def test_checksums_are_verified_outside_and_inside() -> None:
    data = bytearray(messages_of(1, ITEMS[:1]))
    data[-1] ^= 1
    ((batch, _),), problems = read(bytes(data))
    assert (batch.crc_ok, problems) == (False, [])
    ((batch, records),) = read(wrapped(1, GZIP, gzip.compress(bytes(data) + messages_of(1))))[0]
    assert batch.crc_ok
    assert [record.crc_ok for record in records] == [False, *[True] * 5]


def nested(depth: int, magic: int = 1) -> bytes:
    data = messages_of(magic)
    for _ in range(depth):
        data = wrapped(magic, GZIP, gzip.compress(data), offset=0)
    return data


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("magic", [0, 1])
def test_sets_within_sets_are_read(depth: int, magic: int) -> None:
    assert [record.key for record in records_in(nested(depth, magic))] == [
        item[2] for item in ITEMS
    ]


def test_sets_nested_too_deep_are_not_read() -> None:
    batches, problems = read(nested(4))
    assert [len(records) for _, records in batches] == [0]
    assert problems == [RecordProblem.NESTED_TOO_DEEP]
    assert read(nested(50))[1] == [RecordProblem.NESTED_TOO_DEEP]


def test_nested_bombs_share_one_limit() -> None:
    bomb = wrapped(1, GZIP, gzip.compress(bytes(900_000)))
    data = wrapped(1, GZIP, gzip.compress(bomb * 500))
    began = time.process_time()
    batches, problems = read(data, DecompressionLimits(most_bytes=2 << 20))
    assert batches[0][1] == []
    assert RecordProblem.DECOMPRESSED_TOO_LARGE in problems
    assert len(problems) <= 3
    assert took_soon(time.process_time() - began, 2)


def resized(message: bytes, cut: int) -> bytes:
    """A whole message whose size is right and whose parts are cut."""
    data = bytearray(message[:-cut])
    struct.pack_into(">i", data, 8, len(data) - 12)
    return bytes(data)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("cut", [1, 5, 7, 8])
def test_a_message_whose_parts_do_not_fit_is_malformed(magic: int, cut: int) -> None:
    batches, problems = read(resized(messages_of(magic, ITEMS[:1]), cut) + messages_of(magic))
    assert [len(records) for _, records in batches] == [0, 1, 1, 1, 1, 1]
    assert problems == [RecordProblem.MALFORMED_RECORD]


def test_a_message_longer_than_its_parts_is_malformed() -> None:
    data = bytearray(messages_of(1, ITEMS[:1]) + b"more")
    struct.pack_into(">i", data, 8, len(data) - 12)
    assert read(bytes(data))[1] == [RecordProblem.MALFORMED_RECORD]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [13, -1, 0])
def test_an_impossible_size_ends_the_walk(magic: int, size: int) -> None:
    data = bytearray(messages_of(magic, ITEMS[:1]))
    struct.pack_into(">i", data, 8, size)
    assert read(bytes(data)) == ([], [RecordProblem.MALFORMED_BATCH])


def test_a_compressed_message_without_a_value_is_malformed() -> None:
    data = wrapped(1, 0, b"")
    content = data[16:-4] + struct.pack(">i", -1)
    content = content[:1] + bytes([GZIP]) + content[2:]
    batches, problems = read(data[:16] + content)
    assert len(batches) == 1
    assert problems == [RecordProblem.MALFORMED_RECORD]


@pytest.mark.parametrize("junk", [b"junk", bytes(40), b"\xff" * 40, messages_of(1)[:-3]])
def test_decompressed_bytes_that_are_no_message_set_are_malformed(junk: bytes) -> None:
    good = messages_of(1, ITEMS[:2])
    batches, problems = read(wrapped(1, GZIP, gzip.compress(good + junk), offset=1))
    assert len(batches[0][1]) >= 2
    assert problems == [RecordProblem.MALFORMED_RECORD]


def test_failed_decompression_gives_the_messages_before_it_and_one_problem() -> None:
    packed = gzip.compress(messages_of(1) + messages_of(1, [(5, 0, bytes(range(256)), b"", [])]))
    batches, problems = read(wrapped(1, GZIP, packed[:-100]))
    assert len(batches[0][1]) == 5
    assert problems == [RecordProblem.BAD_COMPRESSION]


@pytest.mark.parametrize("codec", [5, 7])
def test_an_unknown_codec_is_a_problem(codec: int) -> None:
    batches, problems = read(wrapped(1, codec, b"abc"))
    assert (batches[0][0].codec, batches[0][1]) == ("unknown", [])
    assert problems == [RecordProblem.UNKNOWN_CODEC]


@pytest.mark.parametrize("magic", [0, 1])
def test_the_number_of_messages_is_bounded_by_the_compressed_size(magic: int) -> None:
    message = messages_of(magic, [(0, 0, None, None, [])])
    data = wrapped(magic, GZIP, gzip.compress(message * 20_000))
    allowed = DecompressionLimits().allowed_records(len(data))
    ((_, records),), problems = read(data)
    assert len(records) == allowed < 20_000
    assert problems == [RecordProblem.TOO_MANY_RECORDS]
    ((_, records),), problems = read(data, DecompressionLimits(most_records=20_000))
    assert (len(records), problems) == (20_000, [])
    _, problems = read(data, DecompressionLimits(most_records=19_999))
    assert problems == [RecordProblem.TOO_MANY_RECORDS]


def test_messages_without_records_count_for_the_limit_too() -> None:
    """Each of them has to be decompressed."""
    hollow = wrapped(1, GZIP, gzip.compress(b"")) * 20_000
    data = wrapped(1, GZIP, gzip.compress(hollow))
    allowed = DecompressionLimits().allowed_records(len(data))
    assert allowed < 20_000
    ((_, records),), problems = read(data)
    assert (records, problems) == ([], [RecordProblem.TOO_MANY_RECORDS])
    assert calls_of(lambda: read(data)) < 100 * allowed
