"""The buffered bytes of one direction come out as they went in."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.replay_buffer import HEAD_BYTES, MAX_BUFFERED_BYTES, ReplayBuffer
from kanalyze.model.streams import Chunk, Gap, StreamItem
from tests.support.session import NO_LIMIT, buffered, rows_of
from tests.support.streams import TIME_NS, chunk


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


def test_the_first_bytes_are_kept_up_to_the_first_hole() -> None:
    cut = buffered(b"abccc", b"c" * 10, b"de", snap=5)
    assert cut.head == b"abcccccccc"
    assert (cut.runs.first_end, cut.runs.end_after(0), cut.runs.is_unbroken) == (10, 10, False)
    assert buffered(b"x" * 1000).head == b"x" * HEAD_BYTES


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
    begin, end = replay_buffer.begin, replay_buffer.end
    assert bytes(replay_buffer.read(begin, end)) == sent[begin:]
    assert rows_of(replay_buffer.items())[0][0] == begin
    assert replay_buffer.find(sent[-8:], 0) == len(sent) - 8 or size == 1


def test_segments_are_found_by_the_position_they_begin_at() -> None:
    replay_buffer = buffered(b"ab", b"cdefgh", snap=4)
    assert [replay_buffer.segment_at(position) for position in range(4)] == [2, 0, 6, 0]


def test_cleared_bytes_are_gone_but_counted() -> None:
    replay_buffer = buffered(b"abc")
    assert replay_buffer.clear() == 3
    assert (replay_buffer.buffered_bytes, replay_buffer.payload_bytes) == (0, 3)
    assert replay_buffer.head == b"abc"
