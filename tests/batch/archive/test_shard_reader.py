"""A shard reader gives the segments of one bucket of all captures, in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.batch.archive.shard_reader import ShardReader
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.errors import CaptureError
from kanalyze.net.shard import Shard
from tests.support.packets import Packet, pcap_file, segment

if TYPE_CHECKING:
    from pathlib import Path


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


def segments_in(source: ShardReader) -> list[tuple[str, int | None, bytes]]:
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


def test_rotated_captures_follow_one_another(capture) -> None:
    source = shard_reader(capture("a", [10_000, 20_000]), capture("b", [30_000]))
    assert segments_in(source) == [
        ("a.pcap", 1, b"a 1"),
        ("a.pcap", 2, b"a 2"),
        ("b.pcap", 1, b"b 1"),
    ]


def test_captures_that_overlap_are_merged_by_time(capture) -> None:
    source = shard_reader(capture("a", [10_000, 30_000]), capture("b", [20_000]))
    assert [payload for _, _, payload in segments_in(source)] == [b"a 1", b"b 1", b"a 2"]


def test_each_segment_is_in_exactly_one_bucket(capture) -> None:
    one = capture("a", [1000 * number for number in range(1, 50)])
    whole = segments_in(shard_reader(one))
    buckets = [segments_in(shard_reader(one, shard=Shard(index, 3))) for index in range(3)]
    assert all(buckets)
    assert sorted(segment for bucket in buckets for segment in bucket) == sorted(whole)


def test_packets_of_earlier_captures_are_located_from_a_saved_state(capture) -> None:
    first = shard_reader(capture("a", [10_000, 20_000]))
    segments_in(first)

    second = shard_reader(capture("b", [30_000]), state=first.save_state())

    assert segments_in(second) == [("b.pcap", 1, b"b 1")]
    assert [second.locate(number)[1] for number in (1, 2, 3)] == [1, 2, 1]
    assert [second.locate(number)[0][-6:] for number in (1, 2, 3)] == ["a.pcap", "a.pcap", "b.pcap"]


def test_packets_written_after_the_count_was_taken_are_left_out(capture) -> None:
    grown = capture("a", [10_000, 20_000, 30_000])._replace(most_packets=2)
    assert segments_in(shard_reader(grown)) == [("a.pcap", 1, b"a 1"), ("a.pcap", 2, b"a 2")]
    assert segments_in(shard_reader(grown._replace(most_packets=0))) == []


def test_missing_packets_are_an_error(capture) -> None:
    cut = capture("a", [10_000])._replace(most_packets=2)
    with pytest.raises(CaptureError, match="a capture was changed while it was read: run again"):
        segments_in(shard_reader(cut))


def test_a_damaged_state_is_an_error(capture) -> None:
    with pytest.raises(BlockError, match="the state of a bucket is damaged"):
        shard_reader(capture("a", [10_000]), state="{}")


def test_captures_keep_the_names_they_were_given(capture, tmp_path: Path) -> None:
    one = capture("a", [10_000])
    source = ShardReader(
        [one._replace(path="./a.pcap")], Shard(0, 1), Stores(), None, str(tmp_path)
    )
    assert segments_in(source) == [("a.pcap", 1, b"a 1")]
    assert source.names == ["./a.pcap"]
    assert source.locate(1) == ("./a.pcap", 1)
    assert "./a.pcap" in source.save_state()
