"""Blocks of many captures as one stream: by time, each capture in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.spark.archive.packed_segments import as_arrays, no_holes, pack, prune
from kanalyze.spark.archive.shuffle_reader import ShuffledBlock, ShuffleReader
from tests.support.packets import Packet, make_batch, segment

if TYPE_CHECKING:
    import random

    import pytest

STEADY = settings(deadline=None, max_examples=80)


def block(capture: str, first: int, times: list[int], before: int = 0) -> ShuffledBlock:
    """Segments of a capture, the packets from number ``first`` on."""
    packets = [
        Packet(segment(seq=100 * number, payload=b"%s %d" % (capture.encode(), number)), time)
        for number, time in enumerate(times, first)
    ]
    segments = as_arrays(read_headers(make_batch(packets, first), LayerStats()))
    data = pack(prune(segments, segments.time_ns, no_holes()))
    return ShuffledBlock(times[0], 0, capture, first, before, data)


def stream(*blocks: ShuffledBlock, state: str | None = None) -> ShuffleReader:
    return ShuffleReader(iter(sorted(blocks)), state)


def told(source: ShuffleReader) -> list[tuple[int, str, int | None, bytes]]:
    """Of each segment: its time, its capture, its number there, its payload."""
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
    source = stream(block("b", 1, [30, 40]), block("a", 1, [10, 20]), block("c", 1, [50]))
    assert told(source) == [
        (10, "a", 1, b"a 1"),
        (20, "a", 2, b"a 2"),
        (30, "b", 1, b"b 1"),
        (40, "b", 2, b"b 2"),
        (50, "c", 1, b"c 1"),
    ]
    assert source.names == ["a", "b", "c"]


def test_captures_that_overlap_are_merged_by_time() -> None:
    source = stream(block("a", 1, [10, 20, 30]), block("b", 1, [15, 20, 25]))
    assert [(time, name) for time, name, *_ in told(source)] == [
        (10, "a"),
        (15, "b"),
        (20, "a"),
        (20, "b"),
        (25, "b"),
        (30, "a"),
    ]


def test_numbers_are_as_far_apart_as_in_the_capture() -> None:
    source = stream(block("a", 7, [10, 11]), block("a", 90, [12]), block("b", 4, [13]))
    (segments,) = source.batches()
    assert np.diff(segments.number).tolist() == [1, 82, 1]
    places = [source.locate(number) for number in segments.number.tolist()]
    assert places == [("a", 7), ("a", 8), ("a", 90), ("b", 4)]


def test_parts_of_a_capture_have_the_numbers_of_the_capture() -> None:
    source = stream(block("a", 1, [10, 11]), block("a", 1, [12], before=2))
    assert [(name, within) for _, name, within, _ in told(source)] == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
    ]


@STEADY
@given(st.randoms(use_true_random=False), st.integers(1, 5))
def test_whatever_comes_is_in_the_order_of_time(dice: random.Random, captures: int) -> None:
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
            expected += [(each, name, number + at) for at, each in enumerate(times)]
            number += len(times)
    found = [(time, name, within) for time, name, within, _ in told(stream(*blocks))]
    assert found == sorted(expected)


def test_much_is_given_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kanalyze.spark.archive.shuffle_reader._MOST_BYTES", 40)
    blocks = [block("a", 1 + 5 * i, [10 + 50 * i + j for j in range(5)]) for i in range(6)]
    blocks += [block("b", 1 + 5 * i, [12 + 50 * i + j for j in range(5)]) for i in range(6)]
    source = stream(*blocks)
    assert [time for time, *_ in told(source)] == sorted(
        time + j for i in range(6) for time in (10 + 50 * i, 12 + 50 * i) for j in range(5)
    )
    again = [len(segments) for segments in stream(*blocks).batches()]
    assert len(again) > 5
    assert sum(again) == 60


def test_blocks_are_asked_for_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kanalyze.spark.archive.shuffle_reader._MOST_BYTES", 64)
    asked = 0

    def blocks() -> object:
        nonlocal asked
        for index in range(100):
            asked += 1
            yield block("a", 1 + index * 9, [100 * index + j for j in range(9)])

    batches = ShuffleReader(blocks()).batches()  # type: ignore[arg-type]
    next(batches)
    assert asked < 10


def test_another_run_goes_on_with_the_numbers() -> None:
    first = stream(block("a", 1, [10, 20]), block("b", 5, [30]))
    before = told(first)
    second = stream(block("c", 1, [40]), block("b", 6, [35]), state=first.save_state())
    numbers = [number for segments in second.batches() for number in segments.number.tolist()]
    assert [second.locate(number) for number in numbers] == [("b", 6), ("c", 1)]
    # Packets of the first run are known by the numbers that they had.
    assert [second.locate(number) for number in (1, 2, 3)] == [
        (name, within) for _, name, within, _ in before
    ]
