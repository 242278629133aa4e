"""A shard reader gives the segments of one bucket of all captures, in order of time.

A block reader merges the blocks of many captures in order of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.batch.archive.packed_segments import BlockError, as_arrays, no_holes, pack, prune
from kanalyze.batch.archive.segment_readers import (
    BlockReader,
    ShardReader,
    StoredBlock,
    dump_locations,
    load_locations,
)
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.merge import PacketIndex
from kanalyze.errors import CaptureError
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import Shard
from tests.support.packets import Packet, make_batch, pcap_file, segment

if TYPE_CHECKING:
    import random
    from pathlib import Path


@given(
    runs=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(1, 5)), max_size=30)
)
def test_all_packets_are_located_after_loading(runs: list[tuple[int, int, int]]) -> None:
    index = PacketIndex()
    for capture, within, count in runs:
        index.add(capture, within, count)
    names = ["a.pcap", "b.pcap", "c.pcap", "d.pcap"]
    loaded, used = load_locations(dump_locations(index, names))
    assert (loaded.packets, loaded.runs) == (index.packets, index.runs)
    assert used == sorted({names[capture] for capture, _, _ in runs})
    for number in range(1, index.packets + 1):
        expected = index.locate(number, names, is_alone=False)
        assert loaded.locate(number, used, is_alone=False) == expected
    loaded.add(0, 77, 1)
    assert loaded.locate(index.packets + 1, ["x", *used], is_alone=False) == ("x", 77)


def test_packets_of_two_capture_points_are_located_after_loading() -> None:
    """Their packets take turns, so each of them is a run."""
    index = PacketIndex()
    for number in range(1, 50_001):
        index.add(0, number, 1)
        index.add(1, number, 1)
    text = dump_locations(index, ["a.pcap", "b.pcap"])
    assert len(text) < 40_000
    loaded, used = load_locations(text)
    assert loaded.locate(1, used, is_alone=False) == ("a.pcap", 1)
    assert loaded.locate(100_000, used, is_alone=False) == ("b.pcap", 50_000)


def test_locations_of_earlier_versions_are_loaded() -> None:
    text = '{"names": ["a", "b"], "end": 9, "runs": [[4, 0, 1], [6, 1, 3]]}'
    loaded, used = load_locations(text)
    assert [loaded.locate(number, used, is_alone=False) for number in (3, 5, 8)] == [
        ("(unknown)", None),
        ("a", 2),
        ("b", 5),
    ]
    empty, _ = load_locations('{"names": [], "end": 9, "runs": []}')
    assert (empty.packets, empty.runs) == (8, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"names": [], "end": 4, "runs": [[1, 0, 1]]}',
        '{"names": ["a"], "end": 4, "runs": [[1]]}',
        '{"names": 3, "end": 4, "runs": []}',
        '{"names": ["a"], "end": 4, "count": 1, "columns": "?"}',
        '{"names": ["a"], "end": 4, "count": 1, "columns": "eJwDAAAAAAE="}',
        '{"names": ["a"], "end": 4, "count": 99999999999, "columns": "eJwDAAAAAAE="}',
    ],
)
def test_a_damaged_text_is_an_error(text: str) -> None:
    with pytest.raises(BlockError, match="damaged"):
        load_locations(text)


@pytest.fixture
def capture(tmp_path: Path):
    """Return a function that writes segments at given times, each from its own port, to a file."""

    def write(name: str, times: list[int]) -> FoundCapture:
        packets = [
            Packet(
                segment(
                    client=("10.0.0.1", 1000 + number), payload=b"%s %d" % (name.encode(), number)
                ),
                time,
            )
            for number, time in enumerate(times, 1)
        ]
        file = tmp_path / f"{name}.pcap"
        file.write_bytes(pcap_file(packets))
        return FoundCapture(str(file), True, times[0], most_packets=len(times))

    return write


def shard_reader(
    *captures: FoundCapture, shard: Shard | None = None, state: str | None = None
) -> ShardReader:
    return ShardReader(captures, shard or Shard(0, 1), Stores(), state)


def shard_segments_in(source: ShardReader) -> list[tuple[str, int | None, bytes]]:
    """Return the capture, the packet number and the payload of each segment."""
    segments_found = []
    for segments in source.batches():
        assert len(segments)
        rows = zip(segments.number, segments.payload_start, segments.captured_bytes, strict=True)
        for number, start, size in rows:
            name, within = source.locate(number)
            payload = bytes(segments.buffer[start : start + size])
            segments_found.append((name.rpartition("/")[2], within, payload))
    return segments_found


def test_captures_that_overlap_are_read_by_time(capture) -> None:
    source = shard_reader(capture("a", [10_000, 30_000]), capture("b", [20_000]))
    assert [payload for _, _, payload in shard_segments_in(source)] == [b"a 1", b"b 1", b"a 2"]


def test_each_segment_is_in_exactly_one_bucket(capture) -> None:
    one = capture("a", [1000 * number for number in range(1, 50)])
    whole = shard_segments_in(shard_reader(one))
    buckets = [shard_segments_in(shard_reader(one, shard=Shard(index, 3))) for index in range(3)]
    assert all(buckets)
    assert sorted(segment for bucket in buckets for segment in bucket) == sorted(whole)


def test_packets_of_earlier_captures_are_located_from_a_saved_state(capture) -> None:
    first = shard_reader(capture("a", [10_000, 20_000]))
    shard_segments_in(first)

    second = shard_reader(capture("b", [30_000]), state=first.save_state())

    assert shard_segments_in(second) == [("b.pcap", 1, b"b 1")]
    assert [second.locate(number)[1] for number in (1, 2, 3)] == [1, 2, 1]
    assert [second.locate(number)[0][-6:] for number in (1, 2, 3)] == ["a.pcap", "a.pcap", "b.pcap"]


def test_packets_written_after_the_count_was_taken_are_left_out(capture) -> None:
    grown = capture("a", [10_000, 20_000, 30_000])._replace(most_packets=2)
    assert shard_segments_in(shard_reader(grown)) == [("a.pcap", 1, b"a 1"), ("a.pcap", 2, b"a 2")]
    assert shard_segments_in(shard_reader(grown._replace(most_packets=0))) == []


def test_missing_packets_are_an_error(capture) -> None:
    cut = capture("a", [10_000])._replace(most_packets=2)
    with pytest.raises(CaptureError, match="a capture was changed while it was read: run again"):
        shard_segments_in(shard_reader(cut))


def test_captures_keep_the_names_they_were_given(capture, tmp_path: Path) -> None:
    one = capture("a", [10_000])
    source = ShardReader(
        [one._replace(path="./a.pcap")], Shard(0, 1), Stores(), None, str(tmp_path)
    )
    assert shard_segments_in(source) == [("a.pcap", 1, b"a 1")]
    assert source.names == ["./a.pcap"]
    assert source.locate(1) == ("./a.pcap", 1)
    assert "./a.pcap" in source.save_state()


STEADY = settings(deadline=None, max_examples=80)


def block(capture: str, first: int, times: list[int], before: int = 0) -> StoredBlock:
    """A block of segments of a capture, whose packets are numbered from ``first``."""
    packets = [
        Packet(segment(seq=100 * number, payload=b"%s %d" % (capture.encode(), number)), time)
        for number, time in enumerate(times, first)
    ]
    segments = as_arrays(read_headers(make_batch(packets, first), LayerStats()))
    data = pack(prune(segments, segments.time_ns, no_holes()))
    return StoredBlock(times[0], 0, capture, first, before, data)


def block_reader(*blocks: StoredBlock, state: str | None = None) -> BlockReader:
    return BlockReader(iter(sorted(blocks)), state)


def segments_in(source: BlockReader) -> list[tuple[int, str, int | None, bytes]]:
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
    source = block_reader(block("b", 1, [30, 40]), block("a", 1, [10, 20]), block("c", 1, [50]))
    assert segments_in(source) == [
        (10, "a", 1, b"a 1"),
        (20, "a", 2, b"a 2"),
        (30, "b", 1, b"b 1"),
        (40, "b", 2, b"b 2"),
        (50, "c", 1, b"c 1"),
    ]
    assert source.names == ["a", "b", "c"]


def test_gaps_between_packet_numbers_are_kept() -> None:
    source = block_reader(block("a", 7, [10, 11]), block("a", 90, [12]), block("b", 4, [13]))
    (segments,) = source.batches()
    assert np.diff(segments.number).tolist() == [1, 82, 1]
    places = [source.locate(number) for number in segments.number.tolist()]
    assert places == [("a", 7), ("a", 8), ("a", 90), ("b", 4)]


def test_packet_numbers_of_parts_count_within_the_capture() -> None:
    source = block_reader(block("a", 1, [10, 11]), block("a", 1, [12], before=2))
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
    found = [(time, name, within) for time, name, within, _ in segments_in(block_reader(*blocks))]
    assert found == sorted(expected)


def test_large_batches_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kanalyze.batch.archive.segment_readers._MAX_BYTES", 40)
    blocks = [block("a", 1 + 5 * i, [10 + 50 * i + j for j in range(5)]) for i in range(6)]
    blocks += [block("b", 1 + 5 * i, [12 + 50 * i + j for j in range(5)]) for i in range(6)]
    source = block_reader(*blocks)
    assert [time for time, *_ in segments_in(source)] == sorted(
        time + j for i in range(6) for time in (10 + 50 * i, 12 + 50 * i) for j in range(5)
    )
    sizes = [len(segments) for segments in block_reader(*blocks).batches()]
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

    batches = BlockReader(blocks()).batches()  # type: ignore[arg-type]
    next(batches)
    assert read_count < 10


def test_another_run_continues_the_packet_numbers() -> None:
    first = block_reader(block("a", 1, [10, 20]), block("b", 5, [30]))
    before = segments_in(first)
    second = block_reader(block("c", 1, [40]), block("b", 6, [35]), state=first.save_state())
    numbers = [number for segments in second.batches() for number in segments.number.tolist()]
    assert [second.locate(number) for number in numbers] == [("b", 6), ("c", 1)]
    # Packets of the first run keep their numbers.
    assert [second.locate(number) for number in (1, 2, 3)] == [
        (name, within) for _, name, within, _ in before
    ]
