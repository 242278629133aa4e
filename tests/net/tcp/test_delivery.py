from __future__ import annotations

from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap
from kanalyze.net.tcp.delivery import BufferedSegment, Segment, StreamWriter

DATA = b"abcdefghij"
SHARED = Segments(
    memoryview(DATA), [0, 2, 4, 6], [2, 2, 2, 4], [2, 2, 2, 3], [10, 20, 30, 40], [1, 2, 3, 4]
)


def pieces(chunk):
    s = chunk.segments
    return [
        (bytes(s.buffer[s.start[i] : s.start[i] + s.captured[i]]), s.length[i], s.packet[i])
        for i in range(chunk.first, chunk.last)
    ]


def test_neighbours_become_one_chunk_over_the_shared_segments():
    writer = StreamWriter([], SHARED)
    writer.whole(100, 1)
    writer.whole(102, 2)
    assert writer.items == []
    writer.flush()
    assert writer.items == [Chunk(100, SHARED, 1, 3)]
    writer.flush()
    assert len(writer.items) == 1


def test_every_other_segment_becomes_one_chunk_over_a_selection():
    writer = StreamWriter([], SHARED)
    writer.whole(7, 1)
    writer.whole(9, 3)
    writer.flush()
    (chunk,) = writer.items
    assert chunk.stream_offset == 7
    assert pieces(chunk) == [(b"cd", 2, 2), (b"ghi", 4, 4)]
    assert chunk.segments.time_ns.tolist() == [20, 40]


def test_parts_gaps_and_buffered_bytes_come_in_the_order_they_were_written():
    writer = StreamWriter([], SHARED)
    buffered_segments = [BufferedSegment(30, 3, b"xyz", 5, 6), BufferedSegment(33, 2, b"u", 7, 8)]
    writer.whole(20, 0)
    writer.trimmed(22, Segment(0, 0, 0, 6, 4, 3, 40, 4, 3, 0), 1)
    writer.gap(25, 5, buffered_segments[0])
    writer.buffered(buffered_segments)
    writer.whole(35, 1)
    writer.flush()
    first, part, gap, late, last = writer.items
    assert pieces(first) == [(b"ab", 2, 1)]
    assert (part.stream_offset, pieces(part)) == (22, [(b"hi", 3, 4)])
    assert gap == Gap(25, 5, 5, 6)
    assert (late.stream_offset, pieces(late)) == (30, [(b"xyz", 3, 6), (b"u", 2, 8)])
    assert last == Chunk(35, SHARED, 1, 2)


def test_long_runs_are_chunks_over_the_shared_segments_and_short_ones_a_selection():
    count = 40
    shared = Segments(
        memoryview(bytes(count)),
        [*range(count)],
        [1] * count,
        [1] * count,
        [0] * count,
        [5] * count,
    )
    writer = StreamWriter([], shared)
    writer.whole_segments(100, 0, 20)
    writer.whole(120, 20)
    writer.whole_segments(121, 22, 40)
    writer.flush()
    assert writer.items == [Chunk(100, shared, 0, 21), Chunk(121, shared, 22, 40)]
    writer.whole_segments(139, 0, 3)
    writer.whole_segments(142, 5, 8)
    writer.flush()
    chunk = writer.items[-1]
    assert (chunk.stream_offset, chunk.last, chunk.segments.start.tolist()) == (
        139,
        6,
        [0, 1, 2, 5, 6, 7],
    )
