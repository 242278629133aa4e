"""Limits of decompression, and what the headers of batches say of a records field."""

from __future__ import annotations

import struct
import time
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kanalyze.kafka.records.types import (
    DecompressionLimits,
    RecordsSummary,
)
from kanalyze.kafka.wire import Truncated
from tests.support.batches import batch, message
from tests.support.effort import took_soon
from tests.support.records_summary import peek_pieces, peek_records


@pytest.mark.parametrize(
    ("compressed", "allowed"),
    [(0, 1 << 20), (1, 1 << 20), (1024, 1 << 20), (2048, 2 << 20), (1 << 20, 64 << 20)],
)
def test_the_allowed_bytes_depend_on_the_compressed_bytes(compressed: int, allowed: int) -> None:
    assert DecompressionLimits().allowed(compressed) == allowed


def test_most_bytes_bounds_what_the_ratio_and_the_free_bytes_allow() -> None:
    assert DecompressionLimits(most_bytes=100).allowed(10) == 100
    assert DecompressionLimits(1000, most_ratio=3, free_bytes=5).allowed(10) == 30
    assert DecompressionLimits(1000, most_ratio=3, free_bytes=50).allowed(10) == 50


def peek(records: bytes) -> RecordsSummary:
    """Summarise records that are between other bytes."""
    return peek_records(b"before" + records + b"after", 6, len(records))


def test_one_plain_batch_is_summarised() -> None:
    records = batch(7, base_offset=42, payload=200, times=(1000, 2000))
    assert peek(records) == RecordsSummary(
        record_bytes=len(records),
        record_count=7,
        base_offset=42,
        codec="none",
        batch_count=1,
        first_timestamp_ms=1000,
        max_timestamp_ms=2000,
        has_control=False,
        truncated=False,
        malformed=False,
        missing=False,
    )


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))
@example(2**63 - 1, 2**15 - 1, 2**31 - 1)
def test_the_producer_is_that_of_the_first_batch(number: int, epoch: int, sequence: int) -> None:
    written = (number, epoch, sequence)
    for records in (
        batch(3, producer=written),
        batch(3, producer=written) + batch(2, producer=(1, 2, 3)),
        # One that is cut off is none.
        batch(3, producer=written) + batch(2)[:-1],
    ):
        assert peek(records)[-3:] == written
    for one in range(3):
        lacking = tuple(-1 if at == one else value for at, value in enumerate(written))
        expected = tuple(None if at == one else value for at, value in enumerate(written))
        assert peek(batch(producer=lacking) + batch(producer=written))[-3:] == expected
    assert peek(message(1) + batch(producer=written))[-3:] == (None, None, None)
    assert peek(batch(producer=written)[:-1])[-3:] == (None, None, None)


def test_a_summary_adds_up_several_batches() -> None:
    records = batch(3, base_offset=10, times=(500, 600)) + batch(4, times=(100, 900))
    summary = peek(records + batch(1, times=(200, 300)))
    assert (summary.record_count, summary.batch_count, summary.base_offset) == (8, 3, 10)
    assert (summary.first_timestamp_ms, summary.max_timestamp_ms) == (500, 900)
    assert summary.codec == "none"


@pytest.mark.parametrize(
    ("attributes", "codec"),
    [(0, "none"), (1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd"), (5, "unknown"), (9, "gzip")],
)
def test_the_codec_is_in_the_low_bits(attributes: int, codec: str) -> None:
    assert peek(batch(attributes=attributes)).codec == codec


def test_different_codecs_are_mixed() -> None:
    assert peek(batch(attributes=1) + batch(attributes=1)).codec == "gzip"
    assert peek(batch(attributes=1) + batch()).codec == "mixed"


def test_the_last_batch_may_be_cut_anywhere() -> None:
    whole, last = batch(3, base_offset=5), batch(50, attributes=1, times=(0, 9_000_000_000_000))
    expected = peek(whole)
    for cut in range(1, len(last)):
        summary = peek(whole + last[:cut])
        assert summary == expected._replace(record_bytes=len(whole) + cut, truncated=True)


def test_control_batches_hold_no_user_records() -> None:
    summary = peek(batch(5, attributes=0x10) + batch(1, attributes=0x30))
    assert (summary.record_count, summary.batch_count, summary.has_control) == (5, 2, True)
    assert peek(batch(1, attributes=0x20)).record_count == 0


def test_a_batch_without_timestamps_has_none() -> None:
    summary = peek(batch(times=(-1, -1)))
    assert (summary.first_timestamp_ms, summary.max_timestamp_ms) == (None, None)


@pytest.mark.parametrize("count", [-1, -(2**31), 15, 2**31 - 1])
def test_an_impossible_number_of_records_is_not_counted(count: int) -> None:
    # 100 bytes have room for 14 records, each of which takes at least 7 bytes.
    summary = peek(batch(count, payload=100) + batch(2))
    assert summary.malformed
    assert (summary.record_count, summary.batch_count) == (2, 2)


def test_a_compressed_batch_may_hold_more_records_than_bytes() -> None:
    summary = peek(batch(5000, payload=100, attributes=4))
    assert (summary.record_count, summary.malformed) == (5000, False)


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_a_batch_too_short_for_its_header_ends_the_walk(length: int) -> None:
    summary = peek(batch(3) + batch(3, length=length))
    assert summary.malformed
    assert (summary.record_count, summary.batch_count) == (3, 1)


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_an_unknown_magic_ends_the_walk(magic: int) -> None:
    summary = peek(batch(3) + batch(3, magic=magic))
    assert summary.malformed
    assert summary.record_count == 3


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_hides_the_first_offset(magic: int) -> None:
    compressed = message(magic, offset=7, attributes=1)
    for records in (compressed, compressed + message(magic, offset=8)):
        summary = peek(records)
        assert (summary.base_offset, summary.last_offset) == (None, 7)
        assert summary.codec == ("gzip" if records is compressed else "mixed")
    summary = peek(message(magic, offset=6) + compressed)
    assert (summary.base_offset, summary.last_offset) == (6, None)
    # A message that is cut off has no offsets in the summary.
    summary = peek(compressed[:-1])
    assert (summary.base_offset, summary.last_offset, summary.truncated) == (None, None, True)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_counted_one_by_one(magic: int) -> None:
    records = message(magic, offset=7, time=100) + message(magic, value=b"") + message(magic)
    summary = peek(records)
    assert (summary.record_count, summary.batch_count, summary.base_offset) == (3, 3, 7)
    assert summary.codec == "none"
    assert summary.first_timestamp_ms == (100 if magic else None)
    assert summary.max_timestamp_ms == (1000 if magic else None)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_set_hides_its_number_of_records(magic: int) -> None:
    summary = peek(message(magic, attributes=2))
    assert (summary.record_count, summary.codec, summary.batch_count) == (None, "snappy", 1)
    assert not summary.malformed


@pytest.mark.parametrize(("magic", "size"), [(0, 13), (1, 21), (0, 0), (1, -1)])
def test_a_message_too_short_for_its_fields_ends_the_walk(magic: int, size: int) -> None:
    short = bytearray(message(magic, value=b"x" * 60))
    struct.pack_into(">i", short, 8, size)
    summary = peek(message(magic) + bytes(short))
    assert (summary.record_count, summary.malformed) == (1, True)


def test_the_number_of_records_is_unknown_if_a_header_is_missing() -> None:
    records = batch(3, base_offset=9) + batch(4) + batch(5)
    summary = peek_pieces(records, len(records), (0, 100), (322, len(records)))
    assert (summary.record_count, summary.missing, summary.malformed) == (None, True, False)
    assert (summary.batch_count, summary.base_offset) == (1, 9)
    assert summary.record_bytes == len(records)


def test_records_past_the_end_of_the_frame_are_truncated() -> None:
    with pytest.raises(Truncated):
        peek_pieces(batch(3), 10_000, (0, 80))


@given(st.binary(max_size=300))
def test_any_bytes_have_a_summary(records: bytes) -> None:
    summary = peek(records)
    assert summary.record_bytes == len(records)
    assert summary.record_count is None or summary.record_count >= 0


@given(st.integers(0, 2**64))
def test_the_shortcuts_give_the_summary_of_the_slow_walk(seed: int) -> None:
    random = Random(seed)
    records = bytearray()
    for _ in range(random.randint(1, 5)):
        records += random.choice(
            (
                batch(random.randint(-2, 20), attributes=random.choice((0, 1, 4, 5, 32, 48))),
                batch(random.randint(1, 9), base_offset=random.getrandbits(60), times=(-1, 5)),
                message(random.randint(0, 1), attributes=random.choice((0, 0, 1))),
            )
        )
    for _ in range(random.choice((0, 0, 1))):
        records[random.randrange(len(records))] = random.randrange(256)
    del records[len(records) - random.choice((0, 0, random.randrange(len(records)))) :]
    # Each header is in two pieces or more, where no shortcut is taken.
    pieces = [(at, min(at + 9, len(records))) for at in range(0, len(records), 9)]
    assert peek(bytes(records)) == peek_pieces(bytes(records), len(records), *pieces)


def test_many_small_messages_take_time_in_proportion() -> None:
    records = message(0, value=b"") * 20_000
    start = time.process_time()
    summary = peek(records)
    assert summary.record_count == 20_000
    assert took_soon(time.process_time() - start, 2)


def test_no_bytes_hold_no_batch() -> None:
    summary = peek(b"")
    assert (summary.record_bytes, summary.record_count, summary.batch_count) == (0, 0, 0)
    assert (summary.base_offset, summary.codec, summary.max_timestamp_ms) == (None, None, None)
    assert (summary.truncated, summary.malformed, summary.missing) == (False, False, False)


def test_records_of_a_transaction_are_counted_like_others() -> None:
    # Whether it commits or aborts is not known here, and changes nothing on the wire.
    plain, transactional = bytearray(batch(4)), bytearray(batch(4))
    transactional[22] |= 0x10
    assert peek(bytes(transactional)) == peek(bytes(plain))
    assert peek(bytes(transactional)).record_count == 4
