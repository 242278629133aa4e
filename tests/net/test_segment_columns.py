from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.headers import HeaderReader, read_headers, shard_of, shards_of
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import PackedSegments, SegmentColumns, Shard, unpacked
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


@pytest.mark.parametrize("has_payload", [True, False])
@given(st.lists(st.booleans(), min_size=49, max_size=49))
def test_packed_segments_are_the_same_elsewhere(has_payload, chosen):
    packets = [
        segment(client=(f"10.0.0.{i}", 5000), to_broker=bool(i % 2), payload=bytes([i]) * (i % 7))
        for i in range(49)
    ]
    segments = read_headers(make_batch(timed(packets)), LayerStats())
    rows = array("q", [row for row, is_chosen in enumerate(chosen) if is_chosen])
    packed = PackedSegments(segments, rows, has_payload=has_payload)
    data = bytearray(packed.size)
    packed.write(memoryview(data))
    found = unpacked(memoryview(data), len(packed), None if has_payload else segments.buffer)
    assert len(packed) == len(found) == len(rows)
    for name in SegmentColumns.__slots__:
        if name not in ("buffer", "payload_start"):
            expected = [getattr(segments, name)[row] for row in rows]
            assert getattr(found, name).tolist() == expected
    assert _payloads(found) == [_payloads(segments)[row] for row in rows]


def _payloads(segments):
    places = zip(segments.payload_start, segments.captured_bytes, strict=True)
    return [bytes(segments.buffer[start : start + size]) for start, size in places]
