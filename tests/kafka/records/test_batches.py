"""Records of batches, as other encoders wrote them, broken ones, and hostile ones."""

from __future__ import annotations

import functools
import struct
import time
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kanalyze.kafka.records import batches
from kanalyze.kafka.records.batches import RecordSet
from kanalyze.kafka.records.types import DecompressionLimits, Header, Record, RecordProblem
from tests.support.cases import examples
from tests.support.effort import took_soon
from tests.support.record_sets import (
    CODECS,
    ITEMS,
    TIME_MS,
    AioBatch,
    DefaultRecordBatchBuilder,
    as_item,
    batch_of,
    changed,
    compressed,
    messages_of,
    read,
    records_in,
    with_flags,
)
from tests.support.records_summary import peek_records
from tests.support.work import calls_of, peak_bytes_of

if TYPE_CHECKING:
    from types import ModuleType


STEADY = settings(deadline=None)  # the first example loads a codec
BUILDERS = {"kafka-python": DefaultRecordBatchBuilder, "aiokafka": AioBatch}
OPTIONAL_BYTES = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**41),
        OPTIONAL_BYTES,
        OPTIONAL_BYTES,
        st.lists(st.tuples(st.text(max_size=5), OPTIONAL_BYTES), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_batch_by_another_encoder_is_read_back(builder: str, codec: int) -> None:
    data = batch_of(codec=codec, builder=BUILDERS[builder])
    assert list(map(as_item, records_in(data))) == ITEMS
    ((batch, _),) = read(data)[0]
    assert (batch.codec, batch.magic, batch.batch_bytes) == (CODECS[codec], 2, len(data))
    assert (batch.record_count, batch.base_offset) == (len(ITEMS), 0)


@pytest.mark.parametrize("builder", BUILDERS)
@settings(STEADY, max_examples=examples(50))
@given(records=RECORDS, codec=st.integers(0, 4))
def test_any_records_by_another_encoder_are_read_back(builder, records, codec) -> None:
    items = [(offset, *rest) for offset, rest in enumerate(records)]
    data = batch_of(items, codec, builder=BUILDERS[builder])
    assert list(map(as_item, records_in(data))) == items


def test_the_header_of_a_batch_is_reported() -> None:
    data = batch_of(transactional=True, producer=(2**40, 7, 2**31 - 2))
    data = changed(changed(data, ">q", 0, 1000), ">i", 12, 5)
    ((batch, records),) = read(data)[0]
    assert batch.base_offset == 1000
    assert batch.partition_leader_epoch == 5
    assert (batch.producer_id, batch.producer_epoch) == (2**40, 7)
    assert batch.is_transactional
    assert not batch.is_control
    assert [record.offset for record in records] == [1000, 1001, 1002, 1003, 1004]
    sequences = [batch.sequence(record.offset) for record in records]
    assert sequences == [2**31 - 2, 2**31 - 1, 0, 1, 2]
    assert batch.delete_horizon_ms is None


def test_minus_one_is_read_as_none() -> None:
    ((batch, _),) = read(batch_of())[0]
    assert batch.producer_id is batch.producer_epoch is batch.base_sequence is None
    data = changed(changed(batch_of(ITEMS[:1]), ">q", 27, -1), ">q", 35, -1)
    assert records_in(data)[0].timestamp_ms is None


def test_append_time_is_the_time_of_every_record() -> None:
    ((batch, records),) = read(with_flags(batch_of(), 0x08))[0]
    assert batch.timestamp_type == "append"
    assert {record.timestamp_ms for record in records} == {TIME_MS + 99}
    assert read(batch_of())[0][0][0].timestamp_type == "create"


def test_a_control_batch_is_distinguished_from_records() -> None:
    marker = (0, TIME_MS, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 3), [])
    data = with_flags(batch_of([marker], transactional=True, producer=(9, 0, -1)), 0x20)
    ((batch, records),) = read(data)[0]
    assert batch.is_control
    assert batch.is_transactional
    assert records[0].key == b"\x00\x00\x00\x01"


def test_timestamps_are_relative_to_the_delete_horizon() -> None:
    ((batch, records),) = read(with_flags(batch_of(), 0x40))[0]
    assert batch.delete_horizon_ms == TIME_MS
    assert records[1].timestamp_ms == TIME_MS + 5


def test_offsets_and_times_beyond_64_bits_wrap_as_in_java() -> None:
    data = changed(changed(batch_of(), ">q", 0, 2**63 - 1), ">q", 27, -(2**63))
    records = records_in(data)
    assert records[1].offset == -(2**63)
    assert records[2].timestamp_ms == 2**63 - 70_000


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_a_wrong_checksum_is_reported_and_the_records_are_read_anyway(codec: int) -> None:
    data = bytearray(batch_of(codec=codec))
    data[17] ^= 1
    ((batch, records),), problems = read(bytes(data))
    assert not batch.crc_ok
    assert len(records) == len(ITEMS)
    assert problems == []


def test_every_bit_from_the_attributes_on_is_in_the_checksum() -> None:
    good = batch_of(ITEMS[:2])
    for at in range(21, len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x10
        assert [batch.crc_ok for batch in RecordSet(bytes(bad))] == [False]


def test_batches_of_all_formats_may_follow_each_other() -> None:
    data = batch_of(codec=1) + messages_of(1) + batch_of() + messages_of(0, codec=2)
    batches, problems = read(data)
    assert problems == []
    assert [batch.magic for batch, _ in batches] == [2, *[1] * 5, 2, 0]
    assert sum(batch.batch_bytes for batch, _ in batches) == len(data)


def test_a_set_can_be_read_again() -> None:
    record_set = RecordSet(batch_of() + b"cut")
    for _ in range(2):
        batches = list(record_set)
        assert [len(list(batch.records())) for batch in batches] == [5]
        assert [len(list(batch.records())) for batch in batches] == [5]
        assert record_set.problems == [RecordProblem.CUT_BATCH]


@pytest.mark.parametrize("codec", [0, 4])
def test_a_last_batch_that_is_cut_anywhere_is_left_out_and_reported(codec: int) -> None:
    whole, last = batch_of(), batch_of(codec=codec)
    for size in range(1, len(last)):
        batches, problems = read(whole + last[:size])
        assert [len(records) for _, records in batches] == [5]
        assert problems == [RecordProblem.CUT_BATCH]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (changed(batch_of(), ">b", 16, 3), RecordProblem.UNKNOWN_MAGIC),
        (changed(batch_of(), ">b", 16, -1), RecordProblem.UNKNOWN_MAGIC),
        (changed(batch_of(), ">i", 8, 48), RecordProblem.MALFORMED_BATCH),
        (changed(batch_of(), ">i", 8, -1), RecordProblem.MALFORMED_BATCH),
        (changed(batch_of(), ">i", 8, 2**31 - 1), RecordProblem.CUT_BATCH),
    ],
)
def test_an_impossible_header_ends_the_walk(data: bytes, problem: RecordProblem) -> None:
    batches, problems = read(batch_of() + data + batch_of())
    assert len(batches) == 1
    assert problems == [problem]


@pytest.mark.parametrize("count", [-1, -(2**31), 0, 4, 6, 2**31 - 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_a_wrong_number_of_records_is_reported(count: int, codec: int) -> None:
    batches, problems = read(changed(batch_of(codec=codec), ">i", 57, count) + batch_of())
    assert problems == [RecordProblem.WRONG_RECORD_COUNT]
    assert len(batches[0][1]) == max(0, min(count, 5))
    assert len(batches[1][1]) == 5


def zigzag(number: int) -> bytes:
    """A zigzag zigzag."""
    remaining, encoded = (number << 1) ^ (number >> 63), b""
    while remaining > 0x7F:
        encoded += bytes([remaining & 0x7F | 0x80])
        remaining >>= 7
    return encoded + bytes([remaining])


@functools.cache
def field(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def record_of(offset: int, time: int, key: bytes | None, value: bytes | None, headers=()) -> bytes:
    body = b"\0" + zigzag(time) + zigzag(offset) + field(key) + field(value)
    body += zigzag(len(headers)) + b"".join(field(name) + field(text) for name, text in headers)
    return zigzag(len(body)) + body


VALID_RECORD = record_of(0, 0, b"k", b"v")


def test_a_varint_with_needless_bytes_is_read() -> None:
    # No rule says that a varint must be as short as possible.
    record = b"\0" + b"\x80\x80\x00" + zigzag(0) + zigzag(-5) + zigzag(0) + zigzag(0)
    batches, problems = read(compressed(0, zigzag(len(record)) + record, count=1))
    assert problems == []
    assert (batches[0][1][0].key, batches[0][1][0].value) == (None, b"")


@pytest.mark.parametrize("codec", [0, 1])
def test_a_malformed_record_ends_its_batch(codec: int) -> None:
    records = VALID_RECORD + b"\xff" * 30
    packed = zlib.compress(records, wbits=31) if codec else records
    batches, problems = read(compressed(codec, packed, count=3) + batch_of())
    assert [len(found) for _, found in batches] == [1, 5]
    assert problems == [RecordProblem.MALFORMED_RECORD]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_hides_the_records_and_is_reported(codec: int) -> None:
    batches, problems = read(compressed(codec, b"abc", count=3) + batch_of())
    assert [(batch.codec, len(found)) for batch, found in batches] == [("unknown", 0), ("none", 5)]
    assert problems == [RecordProblem.UNKNOWN_CODEC]


def test_records_before_a_failure_of_the_decompression_are_returned() -> None:
    packed = zlib.compress(VALID_RECORD * 3 + bytes(range(256)) * 50, wbits=31)
    batches, problems = read(compressed(1, packed[: len(packed) // 2], count=3))
    assert len(batches[0][1]) == 3
    assert problems == [RecordProblem.BAD_COMPRESSION]


def test_a_bomb_is_bounded_in_bytes_and_in_ratio() -> None:
    record = record_of(0, 0, None, bytes(500))
    bomb = zstandard.ZstdCompressor().compress(record * (64 << 10))
    data = compressed(4, bomb, count=64 << 10)
    (batch,) = RecordSet(data)
    began = time.process_time()
    counts: list[int] = []
    peak = peak_bytes_of(lambda: counts.append(sum(1 for _ in batch.records())))
    seconds = time.process_time() - began
    assert batch.problems == [RecordProblem.DECOMPRESSED_TOO_LARGE]
    allowed = DecompressionLimits().allowed(len(bomb))
    assert counts[0] == allowed // len(record) < 64 << 10
    assert peak < 3 * allowed
    assert took_soon(seconds, 5)


def test_requested_limits_apply() -> None:
    data = compressed(4, zstandard.ZstdCompressor().compress(VALID_RECORD * 1000), count=1000)
    batches, problems = read(data, DecompressionLimits(most_bytes=len(VALID_RECORD) * 10))
    assert len(batches[0][1]) == 10
    assert problems == [RecordProblem.DECOMPRESSED_TOO_LARGE]


def test_a_false_number_of_records_allocates_little() -> None:
    data = changed(batch_of(), ">i", 57, 2**31 - 1)
    assert peak_bytes_of(lambda: read(data)) < 1 << 20


MIXED = [
    *(batch_of(codec=codec) for codec in range(5)),
    *(messages_of(magic, codec=codec) for magic in (0, 1) for codec in range(4)),
]
SMALL = DecompressionLimits(most_bytes=1 << 16)


@STEADY
@given(st.sampled_from(MIXED), st.data())
def test_any_change_to_records_gives_a_result(data: bytes, draw: st.DataObject) -> None:
    mutable = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        mutable[draw.draw(st.integers(0, len(mutable) - 1))] = draw.draw(st.integers(0, 255))
    batches, _ = read(bytes(mutable), SMALL)
    assert sum(len(found) for _, found in batches) <= (1 << 16) // 7
    for _, found in batches:
        assert all(-(2**63) <= record.offset < 2**63 for record in found)


@STEADY
@given(st.binary(max_size=200), st.integers(0, 2), st.integers(0, 7), st.booleans())
def test_any_bytes_give_a_result(junk: bytes, magic: int, codec: int, is_sized: bool) -> None:
    data = bytearray(bytes(61) + junk)
    data[16] = magic
    if is_sized:
        struct.pack_into(">i", data, 8, len(data) - 12)
    data[22 if magic == 2 else 17] = codec
    read(bytes(data), SMALL)


@STEADY
@given(st.lists(st.sampled_from(MIXED), max_size=4), st.integers(0, 100))
def test_the_summary_of_the_headers_agrees_with_the_records(sets: list[bytes], cut: int) -> None:
    data = b"".join(sets)
    data = data[: len(data) - cut]
    summary = peek_records(data, 0, len(data))
    batches, problems = read(data)
    assert summary.batch_count == len(batches)
    assert summary.truncated == (problems == [RecordProblem.CUT_BATCH])
    assert summary.record_count in (None, sum(len(found) for _, found in batches))
    first = summary.base_offset if summary.last_offset is None else summary.last_offset
    assert first == (batches[0][0].base_offset if batches else None)


def many_empty(count: int) -> bytes:
    """The smallest possible records, all of offset 0, which a codec packs into very few bytes."""
    packed = zstandard.ZstdCompressor().compress(record_of(0, 0, None, None) * count)
    return compressed(4, packed, count=count)


def test_the_number_of_records_is_bounded_by_the_compressed_size() -> None:
    """A few kB hold five million records, and their header has this true number."""
    data = many_empty(5_000_000)
    (batch,) = RecordSet(data, DecompressionLimits(most_ratio=1 << 20))
    assert batch.record_count == 5_000_000
    calls = calls_of(lambda: sum(1 for _ in batch.records()))
    allowed = DecompressionLimits().allowed_records(len(data))
    assert sum(1 for _ in batch.records()) == allowed < 10 * len(data)
    assert batch.problems == [RecordProblem.TOO_MANY_RECORDS]
    assert calls < 20 * allowed


@pytest.mark.parametrize("count", [1, 9, 10, 11, 1000])
def test_a_requested_limit_applies_to_every_batch(count: int) -> None:
    data = many_empty(count) + compressed(0, VALID_RECORD * count, count=count)
    batches, problems = read(data, DecompressionLimits(most_records=10))
    assert [len(found) for _, found in batches] == [min(count, 10)] * 2
    assert problems == [RecordProblem.TOO_MANY_RECORDS] * 2 * (count > 10)


@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_no_valid_batch_is_cut_by_the_limit_however_small_it_is_compressed(codec: int) -> None:
    """The records have consecutive offsets and nothing else."""
    items = [(offset, TIME_MS, None, None, []) for offset in range(10_000)]
    assert len(records_in(batch_of(items, codec))) == len(items)


def test_headers_of_a_record_are_bounded() -> None:
    def record(headers: int) -> bytes:
        body = bytes(3) + b"\1\1" + zigzag(headers) + b"\0\1" * headers
        return zigzag(len(body)) + body

    few, many = record(1 << 16), record((1 << 16) + 1)
    batches, problems = read(compressed(0, few + VALID_RECORD, count=2))
    assert [len(found.headers) for found in batches[0][1]] == [1 << 16, 0]
    assert problems == []
    batches, problems = read(compressed(0, VALID_RECORD + many + VALID_RECORD, count=3))
    assert [len(found.headers) for found in batches[0][1]] == [0]
    assert problems == [RecordProblem.TOO_MANY_HEADERS]
    huge = zstandard.ZstdCompressor().compress(record(10_000_000))
    data = compressed(4, huge, count=1)
    limits = DecompressionLimits(most_ratio=1 << 20)
    assert peak_bytes_of(lambda: read(data, limits)) < 100 << 20


LARGEST = 2**63 - 1


def read_with(batches: ModuleType, data: bytes, count: int = 1, **base: int | None):
    """The records, and the problem that ended them."""
    numbers = {"base_offset": 0, "base_timestamp": 0, "append_time": None} | base
    cursor = batches.RecordCursor(data, 0, len(data), count, *numbers.values())
    return list(cursor.records()), cursor.problem


def test_every_field_of_a_record_is_read(core):
    headers = [(b"a", b"1"), (b"b", None), (b"", b"")]
    data = record_of(3, 5, b"k", b"v" * 300, headers) + record_of(4, -6, None, None)
    records, problem = read_with(core.batches, data, 2, base_offset=100, base_timestamp=1000)
    assert problem is None
    assert records == [
        Record(103, 1005, b"k", b"v" * 300, tuple(Header(*each) for each in headers)),
        Record(104, 994, None, None),
    ]


def test_sums_beyond_64_bits_wrap_and_minus_one_is_no_time(core):
    ((made,), _) = read_with(
        core.batches, record_of(1, 0, None, None), base_offset=LARGEST, base_timestamp=-1
    )
    assert (made.offset, made.timestamp_ms) == (-LARGEST - 1, None)
    ((made,), _) = read_with(core.batches, record_of(-2, 0, None, None), base_offset=-LARGEST)
    assert made.offset == LARGEST
    ((made,), _) = read_with(core.batches, record_of(0, 7, None, None), append_time=99)
    assert made.timestamp_ms == 99


@pytest.mark.parametrize(
    ("data", "count", "problem"),
    [
        (record_of(0, 0, b"k", b"v"), 2, "wrong_record_count"),
        (record_of(0, 0, b"k", b"v") * 2, 1, "wrong_record_count"),
        (b"", -1, "wrong_record_count"),
        (record_of(0, 0, b"k", b"v")[:-1], 1, "malformed_record"),
        (zigzag(-1) + bytes(9), 1, "malformed_record"),
        (zigzag(LARGEST) + bytes(9), 1, "malformed_record"),
        (zigzag(0), 1, "malformed_record"),
        (b"\xff" * 11, 1, "malformed_record"),
        (zigzag(12) + b"\0\0\0" + b"\xff" * 8 + b"\x02", 1, "malformed_record"),
        (record_of(0, 0, None, None, [(None, b"")]), 1, "malformed_record"),
        (zigzag(5) + b"\0\0\0" + zigzag(5) + b"k", 1, "malformed_record"),
        (zigzag(9) + b"\0\0\0\1\1" + zigzag(2**25), 1, "malformed_record"),
        (zigzag(6) + b"\0\0\0\1\1" + zigzag(-1), 1, "malformed_record"),
        (zigzag(10) + b"\0\0\0\1\1\0more", 1, "malformed_record"),
        (zigzag(5) + b"\0\0\0\1\1", 1, "malformed_record"),
        (record_of(0, 0, None, None, [(b"", b"")] * 65_536), 1, None),
        (record_of(0, 0, None, None, [(b"", b"")] * 65_537), 1, "too_many_headers"),
    ],
)
def test_wrong_records_and_counts_are_reported_as_problems(core, data, count, problem):
    records, reported = read_with(core.batches, data, count)
    assert reported == (None if problem is None else RecordProblem(problem))
    assert len(records) == (0 if problem and problem != "wrong_record_count" else len(data) > 0)


@given(st.binary(max_size=40), st.integers(-1, 4))
@example(b"\x80" * 9 + b"\x01", 1)
@example(b"\x80" * 9 + b"\x02", 1)
@settings(max_examples=examples(300))
def test_any_bytes_give_the_same_result_compiled_and_uncompiled(core, data, count):
    whole = record_of(0, 1, b"k", b"v", [(b"h", b"")])
    for tried in (data, whole + data, whole[:-3] + data):
        assert read_with(core.batches, tried, count) == read_with(batches, tried, count)
