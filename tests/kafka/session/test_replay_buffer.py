"""The buffered bytes of one direction come out as they went in."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.replay_buffer import HEAD_BYTES, MAX_BUFFERED_BYTES, ReplayBuffer
from kanalyze.model.streams import Chunk, Gap, StreamItem
from tests.support.streams import TIME_NS, chunk

NO_LIMIT = 1 << 30


def rows_of(items: list[StreamItem]) -> list[tuple[int, int, bytes | None, int]]:
    """(stream offset, bytes on the wire, captured bytes, packet) of every segment and gap."""
    found: list[tuple[int, int, bytes | None, int]] = []
    for item in items:
        if isinstance(item, Gap):
            found.append((item.stream_offset, item.length, None, item.packet))
            continue
        offset, segments = item.stream_offset, item.segments
        for index in range(item.first, item.last):
            start, length = segments.start[index], segments.length[index]
            captured_bytes = bytes(segments.buffer[start : start + segments.captured[index]])
            found.append((offset, length, captured_bytes, segments.packet[index]))
            offset += length
    return found


@given(st.lists(st.one_of(st.integers(1, 50), st.lists(st.binary(min_size=1, max_size=40)))))
def test_items_come_out_as_they_went_in(parts: list[int | list[bytes]]) -> None:
    replay_buffer, items, offset = ReplayBuffer(), [], 0
    for number, part in enumerate(parts):
        item: StreamItem
        if isinstance(part, int):
            item = Gap(offset, part, TIME_NS, number)
            offset += part
        else:
            item = chunk(part, stream_offset=offset, first_packet=number, snap=20)
            offset += sum(map(len, part))
        items.append(item)
        assert (
            replay_buffer.add(item, item.first if isinstance(item, Chunk) else -1, NO_LIMIT) == -1
        )
    assert rows_of(replay_buffer.items()) == rows_of(items)
    assert replay_buffer.payload_bytes == sum(t[1] for t in rows_of(items) if t[2] is not None)


def test_an_item_is_buffered_step_by_step() -> None:
    replay_buffer, item = ReplayBuffer(), chunk([b"a" * 500, b"b" * 500, b"c"])
    first, steps = 0, 0
    while first >= 0:
        first = replay_buffer.add(item, first, 100)
        steps += 1
    assert steps == 3
    assert bytes(replay_buffer.read(499, 501)) == b"ab"


def test_the_first_bytes_are_kept_up_to_the_first_hole() -> None:
    replay_buffer = ReplayBuffer()
    replay_buffer.add(chunk([b"ab", b"c" * 10], snap=5), 0, NO_LIMIT)
    replay_buffer.add(chunk([b"de"], stream_offset=12), 0, NO_LIMIT)
    assert replay_buffer.head == b"abccccc"
    assert (
        replay_buffer.runs.first_end,
        replay_buffer.runs.end_after(0),
        replay_buffer.runs.is_unbroken,
    ) == (7, 7, False)
    replay_buffer = ReplayBuffer()
    replay_buffer.add(chunk([b"x" * 1000]), 0, NO_LIMIT)
    assert replay_buffer.head == b"x" * HEAD_BYTES


@pytest.mark.parametrize("size", [1, 100, 1448])
def test_the_oldest_bytes_are_dropped_and_stream_offsets_stay(size: int) -> None:
    noise, replay_buffer, sent = random.Random(1), ReplayBuffer(), b""
    for number in range(700_000 // (size + 40)):
        part = noise.randbytes(size)
        replay_buffer.add(chunk([part], stream_offset=len(sent), first_packet=number), 0, NO_LIMIT)
        sent += part
        replay_buffer.bound()
        assert replay_buffer.buffered_bytes <= MAX_BUFFERED_BYTES
    assert not replay_buffer.is_whole
    assert (
        bytes(replay_buffer.read(replay_buffer.begin, replay_buffer.end))
        == sent[replay_buffer.begin :]
    )
    assert rows_of(replay_buffer.items())[0][0] == replay_buffer.begin
    assert replay_buffer.find(sent[-8:], 0) == len(sent) - 8 or size == 1


def test_segments_are_found_by_the_position_they_begin_at() -> None:
    replay_buffer = ReplayBuffer()
    replay_buffer.add(chunk([b"ab", b"cdefgh"], snap=4), 0, NO_LIMIT)
    assert [replay_buffer.segment_at(position) for position in range(4)] == [2, 0, 6, 0]


def test_cleared_bytes_are_gone_but_counted() -> None:
    replay_buffer = ReplayBuffer()
    replay_buffer.add(chunk([b"abc"]), 0, NO_LIMIT)
    assert replay_buffer.clear() == 3
    assert (replay_buffer.buffered_bytes, replay_buffer.payload_bytes, replay_buffer.head) == (
        0,
        3,
        b"abc",
    )
