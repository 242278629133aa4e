"""One direction of a connection, part by part; as a whole it is tested with the reassembler."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.common.saved import load, save
from kanalyze.model.streams import Chunk, Segments
from kanalyze.model.tcp import Endpoint, RoundTripHistory, TcpConnection
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.half_stream import (
    PAST_WINDOW_BYTES,
    HalfStream,
    PathTimer,
    ReorderBuffer,
    SequenceSpace,
    StreamWriter,
    distance,
)
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.segment_iterator import new_segment
from tests.support.cases import for_each
from tests.support.packets import ACK, FIN, RST


def new_space(sequence: int = 1000, *, has_syn: bool = True) -> SequenceSpace:
    connection = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, 0, 0, 0)
    space = SequenceSpace(connection, 0)
    space.start(sequence, has_syn=has_syn)
    return space


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_the_distance_is_the_shorter_way_around(sequence, step):
    assert distance((sequence + step) % 2**32, sequence) == step


def test_a_sequence_number_has_the_offset_nearest_to_the_next_byte():
    space = new_space(5)
    assert space.offset_of(0xFFFFFFFF) == -6
    space.stream_offset, space.next_sequence = 2**40, 0xFFFFFFF0
    assert space.offset_of(16) == 2**40 + 32


@pytest.mark.parametrize(
    ("stream_offset", "is_out_of_window"),
    [(2**30, False), (2**30 + 1, True), (-1, False), (-2, True)],
)
def test_offsets_beyond_any_window_are_out_of_window(stream_offset, is_out_of_window):
    assert new_space().is_out_of_window(stream_offset, stream_offset + 10) is is_out_of_window


def test_without_a_syn_bytes_shortly_before_the_first_are_not_out_of_window():
    space = new_space(has_syn=False)
    assert not space.is_out_of_window(-PAST_WINDOW_BYTES, 0)
    assert space.is_out_of_window(-PAST_WINDOW_BYTES - 1, 0)


def test_after_a_fin_nothing_belongs_to_the_stream():
    space = new_space()
    space.fin_offset = 10
    assert not space.is_out_of_window(0, 10)
    assert space.is_out_of_window(0, 11)


def test_bytes_delivered_move_both_numbers_and_sequence_numbers_wrap():
    space = new_space(0xFFFFFFFE)
    space.advance(5)
    assert (space.stream_offset, space.next_sequence, space.first_sequence) == (5, 3, 0xFFFFFFFE)


def test_a_late_syn_shows_whether_the_start_was_seen():
    for sequence, is_start in ((1000, True), (999, False)):
        space = new_space(has_syn=False)
        space.note_syn(sequence)
        assert space.connection.start_seen[0] is is_start


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


def test_long_runs_are_chunks_over_the_shared_segments_and_short_ones_a_selection():
    shared = Segments(memoryview(bytes(40)), [*range(40)], *([of] * 40 for of in (1, 1, 0, 5)))
    writer = StreamWriter([], shared)
    for offset, rank in enumerate([*range(21), *range(22, 40)], 100):
        writer.whole(offset, rank)
    writer.flush()
    assert writer.items == [Chunk(100, shared, 0, 21), Chunk(121, shared, 22, 40)]
    ranks = [0, 1, 2, 5, 6, 7]
    for offset, rank in enumerate(ranks, 139):
        writer.whole(offset, rank)
    writer.flush()
    chunk = writer.items[-1]
    assert (chunk.stream_offset, chunk.last) == (139, 6)
    assert chunk.segments.start.tolist() == ranks


def test_a_buffer_is_loaded_and_one_with_segments_that_overlap_is_refused():
    state = (0, 0, 0, 0, ((10, 4, b"abcd", 0, 1), (20, 4, b"efgh", 0, 2)))
    buffer = ReorderBuffer(ReassemblyLimits())
    load(buffer, state)
    assert (save(buffer), buffer.payload_bytes) == (state, 8)
    with pytest.raises(ValueError, match="overlap"):
        load(ReorderBuffer(ReassemblyLimits()), (*state[:-1], 2 * state[-1]))


UNKNOWN = -1
MS = 1_000_000
LAST = 99


def path_timer() -> PathTimer:
    return PathTimer(RoundTripHistory())


def least_after(one: PathTimer, ack_ns: int, *, newly: int = 10, has_payload: bool = False) -> int:
    """The least round trip after an acknowledgment of everything sent."""
    one.acknowledge(one.end, newly, has_payload, ack_ns, 7)
    return one.history.least_at(LAST)


@pytest.mark.parametrize("origin", [0, 2**32 - 50])
def test_an_early_acknowledgment_without_data_is_a_round_trip(origin):
    one = path_timer()
    one.begin(origin + 100, 5 * MS)
    one.acknowledge((origin + 99) % 2**32, 10, False, 6 * MS, 6)
    assert one.is_timed
    assert least_after(one, 25 * MS) == 20 * MS
    assert not one.is_timed


def test_an_acknowledgment_with_data_is_only_a_bound():
    one = path_timer()
    one.begin(100, 0)
    assert least_after(one, 2 * MS, has_payload=True) == UNKNOWN
    one.begin(200, 10 * MS)
    assert least_after(one, 15 * MS) == 2 * MS


@for_each(
    "case",
    [
        (0, 40 * MS, 10, UNKNOWN),  # it may have been delayed
        (0, 80 * MS, 17_920, 80 * MS),  # it cannot have been, however late it comes
        (5 * MS, 4 * MS, 10, UNKNOWN),
    ],
)
def test_an_acknowledgment_is_a_round_trip_if_it_cannot_be_delayed(case):
    sent_ns, ack_ns, newly, expected_ns = case
    one = path_timer()
    one.begin(100, sent_ns)
    assert least_after(one, ack_ns, newly=newly) == expected_ns


def test_a_syn_is_timed_however_late_its_answer_comes_unless_it_was_sent_again():
    one = path_timer()
    one.begin_syn(100, 0)
    one.begin_syn(100, 1 * MS)  # captured twice
    assert least_after(one, 150 * MS) == 150 * MS
    again = path_timer()
    again.begin_syn(100, 0)
    again.begin_syn(100, 1000 * MS)
    assert not again.is_timed


def new_half_stream(sequence: int = 1000, *, has_syn: bool = True) -> HalfStream:
    connection = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, 0, 0, 0)
    half = HalfStream(connection, 0, ReassemblyLimits(), LayerStats())
    half.start(sequence, has_syn=has_syn)
    return half


def test_a_second_fin_at_another_offset_is_ignored():
    half = new_half_stream()
    half.finish_at(10)
    half.finish_at(20)
    assert half.fin_offset == 10
    assert not half.is_in_order()


@pytest.mark.parametrize(
    ("stream_offset", "length", "flags", "is_probe"),
    [
        (-1, 0, ACK, True),
        (-1, 1, ACK, True),
        (-1, 2, ACK, False),
        (0, 0, ACK, False),
        (-2, 1, ACK, False),
        (-1, 0, ACK | RST, False),
        (-1, 0, ACK | FIN, False),
    ],
)
def test_a_probe_has_at_most_one_byte_just_before_the_next_byte(
    stream_offset, length, flags, is_probe
):
    piece = new_segment(0, 0, flags, 0, length, length, 0, 1, 0, 0)
    assert new_half_stream().is_probe(piece, stream_offset) is is_probe
