"""BothItems are divided into parts: before a loss, about it, and after it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.stream_items import BothItems, divide, last_packet_about, loss_packet
from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap, StreamItem

SEGMENT_BYTES = 10


def chunk(offset: int, *packets: int) -> Chunk:
    """Segments of ten bytes, between two segments that belong to other chunks."""
    numbers = [0, *packets, 0]
    lengths = [SEGMENT_BYTES] * len(numbers)
    starts = [index * SEGMENT_BYTES for index in range(len(numbers))]
    buffer = memoryview(bytes(SEGMENT_BYTES * len(numbers)))
    segments = Segments(buffer, starts, lengths, lengths, [0] * len(numbers), numbers)
    return Chunk(offset, segments, 1, 1 + len(packets))


def gap(offset: int, packet: int) -> Gap:
    return Gap(offset, SEGMENT_BYTES, 0, packet)


def packets_of(items: BothItems) -> list[list[object]]:
    """Each direction as numbers of packets; a gap as a text with the packet after it."""
    return [
        [
            entry
            for item in side
            for entry in (
                [f"gap before {item.packet}"]
                if isinstance(item, Gap)
                else item.segments.packet[item.first : item.last]
            )
        ]
        for side in items
    ]


LOSSY: BothItems = (
    [chunk(0, 1, 3), gap(20, 8), chunk(30, 8, 9, 10, 12)],
    [chunk(0, 2, 4, 7, 11)],
)


def test_items_without_a_gap_have_no_loss() -> None:
    assert loss_packet(([chunk(0, 1, 2)], [])) is None


def test_a_loss_is_noticed_with_the_first_packet_after_it() -> None:
    assert loss_packet(LOSSY) == 8


def test_items_before_a_loss_are_divided_from_the_rest() -> None:
    before, after = divide(LOSSY, 7)
    assert packets_of(before) == [[1, 3], [2, 4, 7]]
    assert packets_of(after) == [["gap before 8", 8, 9, 10, 12], [11]]


def test_the_part_about_a_loss_ends_so_many_segments_after_it() -> None:
    assert [last_packet_about(LOSSY, segments) for segments in (1, 2, 3, 9)] == [8, 9, 10, 12]


def test_the_direction_without_a_loss_does_not_matter() -> None:
    quiet = ([chunk(0, 1)], [gap(0, 5), chunk(10, 5, 6, 7)])
    assert last_packet_about(quiet, 2) == 6


def test_without_a_loss_the_segments_are_counted_from_the_beginning() -> None:
    assert last_packet_about(([chunk(0, 1, 3, 9)], [chunk(0, 2, 6)]), 2) == 6


def test_segments_after_a_later_packet_belong_to_the_second_part() -> None:
    # Packet 3 was captured early, or 9 was held back.
    before, after = divide(([chunk(0, 1, 9, 3)], []), 5)
    assert packets_of(before) == [[1], []]
    assert packets_of(after) == [[9, 3], []]


def test_both_parts_of_a_chunk_have_their_stream_offsets() -> None:
    (before, _), (after, _) = divide(([chunk(100, 1, 2, 3)], []), 2)
    assert [item.stream_offset for item in (*before, *after)] == [100, 120]


SIDES = st.lists(
    st.one_of(
        st.lists(st.integers(1, 40), min_size=1, max_size=6),
        st.integers(1, 40),
    ),
    max_size=5,
)


def side_of(parts: list[list[int] | int]) -> list[StreamItem]:
    items: list[StreamItem] = []
    offset = 0
    for part in parts:
        if isinstance(part, int):
            items.append(gap(offset, part))
            offset += SEGMENT_BYTES
        else:
            items.append(chunk(offset, *part))
            offset += SEGMENT_BYTES * len(part)
    return items


def ends_of(item: StreamItem) -> tuple[int, int]:
    length = item.length if isinstance(item, Gap) else SEGMENT_BYTES * (item.last - item.first)
    return item.stream_offset, item.stream_offset + length


@given(SIDES, SIDES, st.integers(0, 41))
def test_the_parts_together_are_the_whole(one, other, packet) -> None:
    items = (side_of(one), side_of(other))
    before, after = divide(items, packet)
    joined = ([*before[0], *after[0]], [*before[1], *after[1]])
    assert packets_of(joined) == packets_of(items)
    for side in joined:
        assert all(ends_of(a)[1] == ends_of(b)[0] for a, b in pairwise(side))
    assert all(
        not isinstance(entry, int) or entry <= packet
        for side in packets_of(before)
        for entry in side
    )


@given(SIDES, SIDES, st.integers(1, 10))
def test_dividing_items_about_losses_comes_to_an_end(one, other, segments) -> None:
    items = (side_of(one), side_of(other))
    for _ in range(100):
        if not any(items):
            return
        piece, items = divide(items, last_packet_about(items, segments))
        assert any(piece)
    raise AssertionError("no end")
