"""The items of a batch are taken in steps: before a loss, about it, and after it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.stream_items import BothItems, LossSteps, has_loss
from kanalyze.model.streams import Chunk, Gap, Segments, StreamItem

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
    assert not has_loss(([chunk(0, 1, 2)], []))
    assert has_loss(LOSSY)


def test_the_items_before_a_loss_are_a_step() -> None:
    steps = LossSteps(LOSSY)
    assert not steps.is_at_loss()
    assert packets_of(steps.to_loss()) == [[1, 3], [2, 4, 7]]
    assert steps.is_at_loss()
    assert packets_of(steps.to_loss()) == [["gap before 8", 8, 9, 10, 12], [11]]
    assert not steps.has_any()


@pytest.mark.parametrize(("segments", "packet"), [(1, 8), (2, 9), (3, 10), (9, 12)])
def test_the_step_about_a_loss_ends_so_many_segments_after_it(segments: int, packet: int) -> None:
    steps = LossSteps(LOSSY)
    steps.to_loss()
    ours, theirs = packets_of(steps.about(segments))
    assert ours[-1] == packet
    assert theirs == ([11] if packet > 11 else [])


def test_only_the_direction_with_the_loss_counts() -> None:
    steps = LossSteps(([chunk(0, 1, 8)], [gap(0, 1), chunk(10, 5, 6, 7)]))
    assert packets_of(steps.about(2)) == [[1], ["gap before 1", 5, 6]]


def test_without_a_loss_the_segments_of_both_directions_count() -> None:
    steps = LossSteps(([chunk(0, 1, 3, 9)], [chunk(0, 2, 6)]))
    assert packets_of(steps.about(2)) == [[1, 3], [2, 6]]


def test_a_step_ends_before_the_next_loss() -> None:
    steps = LossSteps(([gap(0, 2), chunk(10, 2, 3), gap(30, 6), chunk(40, 6, 7)], [chunk(0, 5, 9)]))
    assert packets_of(steps.about(100)) == [["gap before 2", 2, 3], []]
    assert packets_of(steps.about(100)) == [[], [5]]
    assert packets_of(steps.about(100)) == [["gap before 6", 6, 7], []]
    assert packets_of(steps.to_loss()) == [[], [9]]


def test_segments_after_a_later_packet_belong_to_the_next_step() -> None:
    # Packet 3 was captured early, or 9 was held back.
    steps = LossSteps(([chunk(0, 1, 9, 3)], [gap(0, 5)]))
    assert packets_of(steps.to_loss()) == [[1], []]
    assert packets_of(steps.about(9)) == [[], ["gap before 5"]]
    assert packets_of(steps.about(9)) == [[9, 3], []]


def test_both_parts_of_a_chunk_have_their_stream_offsets() -> None:
    steps = LossSteps(([chunk(100, 1, 2, 3)], [gap(0, 3)]))
    (before, _), (after, _) = steps.to_loss(), steps.to_loss()
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


def whole_packets_of(steps: list[BothItems]) -> list[list[object]]:
    return packets_of(
        ([item for one, _ in steps for item in one], [i for _, two in steps for i in two])
    )


@given(SIDES, SIDES, st.lists(st.integers(0, 5), min_size=1))
def test_the_steps_together_are_the_whole(one, other, sizes) -> None:
    """A size of 0 stands for everything before the next loss."""
    items = (side_of(one), side_of(other))
    steps, taken = LossSteps(items), []
    while steps.has_any():
        segments = sizes[len(taken) % len(sizes)]
        taken.append(steps.about(segments) if segments else steps.to_loss())
        assert any(taken[-1])
    assert whole_packets_of(taken) == packets_of(items)
    for side in (0, 1):
        pieces = [item for step in taken for item in step[side]]
        assert all(ends_of(a)[1] == ends_of(b)[0] for a, b in pairwise(pieces))
