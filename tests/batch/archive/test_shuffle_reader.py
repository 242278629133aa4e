"""A shuffle reader merges the blocks of many captures in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.batch.archive.packed_segments import as_arrays, no_holes, pack, prune
from kanalyze.batch.archive.segment_readers import ShuffledBlock, ShuffleReader
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, make_batch, segment

if TYPE_CHECKING:
    import random

    import pytest

STEADY = settings(deadline=None, max_examples=80)


def block(capture: str, first: int, times: list[int], before: int = 0) -> ShuffledBlock:
    """A block of segments of a capture, whose packets are numbered from ``first``."""
    packets = [
        Packet(segment(seq=100 * number, payload=b"%s %d" % (capture.encode(), number)), time)
        for number, time in enumerate(times, first)
    ]
    segments = as_arrays(read_headers(make_batch(packets, first), LayerStats()))
    data = pack(prune(segments, segments.time_ns, no_holes()))
    return ShuffledBlock(times[0], 0, capture, first, before, data)


def shuffle_reader(*blocks: ShuffledBlock, state: str | None = None) -> ShuffleReader:
    return ShuffleReader(iter(sorted(blocks)), state)


def segments_in(source: ShuffleReader) -> list[tuple[int, str, int | None, bytes]]:
    """Return the time, the capture, the packet number and the payload of each segment."""
    found = []
    last = 0
    for segments in source.batches():
        assert len(segments)
        assert (np.diff(segments.number, prepend=last) > 0).all()
        last = int(segments.number[-1])
        rows = zip(
            segments.time_ns.tolist(),
            segments.number.tolist(),
            segments.payload_start.tolist(),
            segments.captured_bytes.tolist(),
            strict=True,
        )
        for time_ns, number, start, size in rows:
            capture, within = source.locate(number)
            found.append((time_ns, capture, within, bytes(segments.buffer[start : start + size])))
    return found


def test_rotated_captures_follow_one_another() -> None:
    source = shuffle_reader(block("b", 1, [30, 40]), block("a", 1, [10, 20]), block("c", 1, [50]))
    assert segments_in(source) == [
        (10, "a", 1, b"a 1"),
        (20, "a", 2, b"a 2"),
        (30, "b", 1, b"b 1"),
        (40, "b", 2, b"b 2"),
        (50, "c", 1, b"c 1"),
    ]
    assert source.names == ["a", "b", "c"]


def test_captures_that_overlap_are_merged_by_time() -> None:
    source = shuffle_reader(block("a", 1, [10, 20, 30]), block("b", 1, [15, 20, 25]))
    assert [(time, name) for time, name, *_ in segments_in(source)] == [
        (10, "a"),
        (15, "b"),
        (20, "a"),
        (20, "b"),
        (25, "b"),
        (30, "a"),
    ]


def test_gaps_between_packet_numbers_are_kept() -> None:
    source = shuffle_reader(block("a", 7, [10, 11]), block("a", 90, [12]), block("b", 4, [13]))
    (segments,) = source.batches()
    assert np.diff(segments.number).tolist() == [1, 82, 1]
    places = [source.locate(number) for number in segments.number.tolist()]
    assert places == [("a", 7), ("a", 8), ("a", 90), ("b", 4)]


def test_packet_numbers_of_parts_count_within_the_capture() -> None:
    source = shuffle_reader(block("a", 1, [10, 11]), block("a", 1, [12], before=2))
    assert [(name, within) for _, name, within, _ in segments_in(source)] == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
    ]


@STEADY
@given(st.randoms(use_true_random=False), st.integers(1, 5))
def test_any_blocks_are_merged_in_order_of_time(dice: random.Random, captures: int) -> None:
    blocks, expected = [], []
    for index in range(captures):
        name, number = f"c{index}", 1
        time = dice.randrange(50)
        for _ in range(dice.randint(1, 6)):
            times = []
            for _ in range(dice.randint(1, 5)):
                time += dice.choice([0, 0, 1, 5, 40])
                times.append(time)
            blocks.append(block(name, number, times))
            expected += [(segment_time, name, number + at) for at, segment_time in enumerate(times)]
            number += len(times)
    found = [(time, name, within) for time, name, within, _ in segments_in(shuffle_reader(*blocks))]
    assert found == sorted(expected)


def test_large_batches_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kanalyze.batch.archive.segment_readers._MAX_BYTES", 40)
    blocks = [block("a", 1 + 5 * i, [10 + 50 * i + j for j in range(5)]) for i in range(6)]
    blocks += [block("b", 1 + 5 * i, [12 + 50 * i + j for j in range(5)]) for i in range(6)]
    source = shuffle_reader(*blocks)
    assert [time for time, *_ in segments_in(source)] == sorted(
        time + j for i in range(6) for time in (10 + 50 * i, 12 + 50 * i) for j in range(5)
    )
    sizes = [len(segments) for segments in shuffle_reader(*blocks).batches()]
    assert len(sizes) > 5
    assert sum(sizes) == 60


def test_blocks_are_read_only_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kanalyze.batch.archive.segment_readers._MAX_BYTES", 64)
    read_count = 0

    def blocks() -> object:
        nonlocal read_count
        for index in range(100):
            read_count += 1
            yield block("a", 1 + index * 9, [100 * index + j for j in range(9)])

    batches = ShuffleReader(blocks()).batches()  # type: ignore[arg-type]
    next(batches)
    assert read_count < 10


def test_another_run_continues_the_packet_numbers() -> None:
    first = shuffle_reader(block("a", 1, [10, 20]), block("b", 5, [30]))
    before = segments_in(first)
    second = shuffle_reader(block("c", 1, [40]), block("b", 6, [35]), state=first.save_state())
    numbers = [number for segments in second.batches() for number in segments.number.tolist()]
    assert [second.locate(number) for number in numbers] == [("b", 6), ("c", 1)]
    # Packets of the first run keep their numbers.
    assert [second.locate(number) for number in (1, 2, 3)] == [
        (name, within) for _, name, within, _ in before
    ]
