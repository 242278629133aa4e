"""The locations of packets of earlier jobs are saved as text."""

from __future__ import annotations

import pytest

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.batch.archive.packet_locations import dump_locations, load_locations
from kanalyze.capture.packet_index import PacketIndex


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
