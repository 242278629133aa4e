"""Packets of captures are numbered after those of earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.archive.continued_captures import (
    ContinuedCaptures,
    dump_locations,
    load_locations,
)
from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.merge import PacketIndex
from tests.support.packets import Packet, pcap_file, segment

if TYPE_CHECKING:
    from pathlib import Path


class Numbered(ContinuedCaptures):
    def numbers(self) -> list[int]:
        """Read all packets; return their numbers."""
        return [number for batch in self._merged.batches() for number in batch.number]


def captured(path: Path, count: int) -> FoundCapture:
    packets = [Packet(segment(payload=b"x"), 1000 * number) for number in range(1, count + 1)]
    path.write_bytes(pcap_file(packets))
    return FoundCapture(str(path), True, 1000)


def test_packets_are_numbered_after_those_of_the_saved_state(tmp_path: Path) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    first = Numbered([captured(paths[0], 2)], Stores(), None)
    assert first.numbers() == [1, 2]
    assert first.names == [str(paths[0])]

    second = Numbered([captured(paths[1], 3)], Stores(), first.save_state())
    assert second.numbers() == [3, 4, 5]
    assert second.names == [str(path) for path in paths]
    assert [second.locate(number) for number in (2, 3)] == [(str(paths[0]), 2), (str(paths[1]), 1)]


def test_a_damaged_state_is_an_error() -> None:
    with pytest.raises(BlockError, match="the state of a bucket is damaged"):
        ContinuedCaptures([], Stores(), "{}")


def test_the_latest_packets_are_located_after_loading() -> None:
    index = PacketIndex()
    for capture in range(10_005):
        index.add(capture, 1, 2)
    names = [f"{capture}.pcap" for capture in range(10_005)]

    loaded, used = load_locations(dump_locations(index, names))

    assert loaded.packets == index.packets == 20_010
    assert len(used) == loaded.runs == 10_000
    assert loaded.locate(20_010, used, is_alone=False) == ("10004.pcap", 2)
    assert loaded.locate(11, used, is_alone=False) == ("5.pcap", 1)
    assert loaded.locate(10, used, is_alone=False) == ("(unknown)", None)


def test_without_saved_locations_there_are_no_packets() -> None:
    index, names = load_locations(None)
    assert (index.packets, names) == (0, [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"names": [], "end": 4, "runs": [[1, 0, 1]]}',
        '{"names": ["a"], "end": 4, "runs": [[1]]}',
        '{"names": 3, "end": 4, "runs": []}',
    ],
)
def test_a_damaged_text_is_an_error(text: str) -> None:
    with pytest.raises(BlockError, match="damaged"):
        load_locations(text)
