from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.headers import HeaderReader, read_headers, shard_of, shards_of
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import (
    COLUMN_NAMES,
    SegmentColumns,
    Shard,
    column_bytes,
    columns_in,
)
from tests.support.packets import make_batch, segment, timed

HALVES = st.sampled_from([0, 1, 5, 2**32 - 1, 2**63, 2**64 - 1])
ENDS = st.tuples(HALVES, HALVES, st.sampled_from([0, 9092, 65535]))


def test_the_shard_of_a_connection_is_always_the_same():
    """Compiled, uncompiled and in older versions: Spark joins the parts of one archive."""
    four = [shard_of(0, 0x0A000001 + i, 50000, 0, 0x0A000002, 9092, 7) for i in range(8)]
    six = [shard_of(1 << 63 | i, 5, 1, 2**64 - 1, 7, 9092, 7) for i in range(8)]
    assert (four, six) == ([1, 2, 3, 1, 0, 4, 5, 1], [4, 2, 4, 6, 6, 2, 3, 1])


@given(ENDS, ENDS, st.integers(1, 300))
def test_both_directions_are_of_one_shard(one, other, count):
    shard = shard_of(*one, *other, count)
    assert shard == shard_of(*other, *one, count)
    assert 0 <= shard < count


def test_the_segments_of_all_shards_are_all_segments():
    packets = [
        segment(client=(f"10.0.0.{i}", 5000), to_broker=bool(i % 2), payload=b"x" * i)
        for i in range(1, 50)
    ]
    batch = make_batch(timed(packets))
    whole = read_headers(batch, LayerStats())
    shards = shards_of(whole, 4).tolist()
    for index in range(4):
        stats = LayerStats()
        own = HeaderReader(stats).read(batch, Shard(index, 4))
        expected = [n for n, shard in zip(whole.number, shards, strict=True) if shard == index]
        assert own.number.tolist() == expected
        assert len(own.window) == len(expected)
        assert stats.counters.tcp_segments == len(packets)


@given(st.integers(1, 5))
def test_dealt_segments_are_those_of_each_shard(count):
    packets = [
        segment(client=(f"10.0.0.{i}", 5000), to_broker=bool(i % 2), payload=bytes([i]) * (i % 7))
        for i in range(49)
    ]
    batch = make_batch(timed(packets))
    stats = LayerStats()
    memories = [memoryview(bytearray(column_bytes(len(batch)))) for _ in range(count)]
    counts, buffer = HeaderReader(stats).deal(batch, memories)
    assert sum(counts) == stats.counters.tcp_segments == len(packets)
    for index, (memory, segments) in enumerate(zip(memories, counts, strict=True)):
        expected = HeaderReader(LayerStats()).read(batch, Shard(index, count))
        found = SegmentColumns(buffer, **columns_in(memory, len(batch), segments))
        assert len(found) == len(expected)
        for name in COLUMN_NAMES:
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()
        assert _payloads(found) == _payloads(expected)


def _payloads(segments):
    places = zip(segments.payload_start, segments.captured_bytes, strict=True)
    return [bytes(segments.buffer[start : start + size]) for start, size in places]


@given(st.lists(st.integers(0, 40), min_size=2, max_size=6))
def test_batches_of_any_sizes_are_read_into_the_same_memory(sizes):
    reader, number = HeaderReader(LayerStats()), 1
    for size in sizes:
        packets = [
            segment(client=(f"10.0.{number % 7}.{i}", 5000 + i), payload=b"y" * (i % 5))
            for i in range(size)
        ]
        batch = make_batch(timed(packets), number)
        number += size
        found, expected = reader.read(batch), read_headers(batch, LayerStats())
        for name in COLUMN_NAMES:
            assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
