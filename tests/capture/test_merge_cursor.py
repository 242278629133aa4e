from __future__ import annotations

import io
from array import array

import pytest

from kanalyze.capture.merge import BatchMerger, OpenCapture, slice_of
from kanalyze.capture.reader import open_capture
from tests.support.packets import Packet, make_batch, pcap_file

pytestmark = pytest.mark.usefixtures("scan")


def opened(index: int, times: list[int], buffer_bytes: int = 1 << 16) -> OpenCapture:
    data = pcap_file([Packet(b"%d/%d" % (index, time), time) for time in times])
    reader = open_capture(io.BytesIO(data), buffer_bytes=buffer_bytes)
    each = OpenCapture(index, reader, reader.batches())
    assert each.read_on()
    return each


def contents(batch) -> list[bytes]:
    return [
        bytes(batch.buffer[at : at + size])
        for at, size in zip(batch.offset.tolist(), batch.captured_bytes.tolist(), strict=True)
    ]


def test_the_key_of_a_packet_is_the_earliest_time_from_it_on():
    each = opened(0, [5, 3, 9, 4])
    assert each.keys.tolist() == [3, 3, 4, 4]
    assert (each.next_key, each.last_key) == ((3, 0), (4, 0))


def test_one_time_far_in_the_future_delays_nothing():
    assert opened(0, [5, 1 << 40, 6, 7]).keys.tolist() == [5, 6, 6, 7]


def test_keys_depend_on_their_own_batch_alone():
    each = opened(0, [50, 10, 20], 64)
    keys = []
    while each.batch is not None:
        keys += [each.keys.tolist()]
        each.read_on()
    assert keys[-1][-1] == 20
    assert all(some == sorted(some) for some in keys)


def test_where_times_are_equal_the_earlier_capture_comes_first():
    first, second = opened(0, [1, 2, 2, 3]), opened(1, [1, 2, 2, 3])
    # Counts packets that come no later than the next packet of capture 1, at time 2.
    assert first.count_up_to((2, 1)) == 3
    assert second.count_up_to((2, 0)) == 1
    first.advance(2)
    assert first.count_up_to((2, 1)) == 1
    assert first.count_up_to((1, 1)) <= 0


def test_packets_of_several_captures_are_merged_by_time():
    parts = [(opened(0, [1, 4, 5, 9]), 3), (opened(3, [2, 4, 6]), 3)]
    merged = BatchMerger().merge(parts)
    assert contents(merged.batch) == [b"0/1", b"3/2", b"0/4", b"3/4", b"0/5", b"3/6"]
    assert merged.batch.time_ns.tolist() == [1, 2, 4, 4, 5, 6]
    runs = zip(
        merged.starts.tolist(), merged.captures.tolist(), merged.within.tolist(), strict=True
    )
    assert list(runs) == [(0, 0, 1), (1, 3, 1), (2, 0, 2), (3, 3, 2), (4, 0, 3), (5, 3, 3)]


def test_packets_that_were_taken_are_not_merged_again():
    first, second = opened(0, [1, 2, 3]), opened(1, [2, 3])
    merger = BatchMerger()
    merger.merge([(first, 2), (second, 1)])
    first.advance(2)
    second.advance(1)
    assert contents(merger.merge([(first, 1), (second, 1)]).batch) == [b"0/3", b"1/3"]


def test_the_buffer_is_used_again_and_grows_as_needed():
    merger = BatchMerger()
    small = merger.merge([(opened(0, [1]), 1), (opened(1, [2]), 1)]).batch.buffer
    again = merger.merge([(opened(0, [1]), 1), (opened(1, [2]), 1)]).batch.buffer
    assert small.obj is again.obj
    times = list(range(100))
    large = merger.merge([(opened(0, times), 100), (opened(1, times), 100)]).batch
    assert len(large) == 200
    assert len(set(contents(large))) == 200


def test_a_part_of_a_batch_is_over_the_same_buffer():
    batch = make_batch([Packet(b"a", 1), Packet(b"b", 2), Packet(b"c", 3)])
    part = slice_of(batch, slice(1, 3), array("q", [7, 8]))
    assert part.buffer is batch.buffer
    assert contents(part) == [b"b", b"c"]
    assert part.number.tolist() == [7, 8]
