from __future__ import annotations

from array import array

from kanalyze.model.streams import Chunk, Gap
from tests.fuzz.turns import LOST, SNAP, items_of, turns_in, turns_of

CUTS = b"\x01\x02\x00\x01"


def test_written_turns_are_read_again() -> None:
    data = turns_of([(0, b"ask"), (1, b"answer"), (LOST, b"gone"), (SNAP | 1, b"cut")], CUTS)
    found = [(turn.side, turn.data, turn.is_lost, turn.is_snapped) for turn in turns_in(data)]
    assert found == [
        (0, b"ask", False, False),
        (1, b"answer", False, False),
        (0, b"gone", True, False),
        (1, b"cut", False, True),
    ]


def test_a_long_turn_becomes_several() -> None:
    turns = turns_in(turns_of([(0, bytes(200_000))]))
    assert sum(len(turn.data) for turn in turns) == 200_000
    assert len(turns) == 4


def test_items_tile_each_direction() -> None:
    data = turns_of([(0, b"a" * 50), (LOST, b"b" * 7), (0, b"c" * 5), (1, b"d" * 9)], CUTS)
    items = items_of(turns_in(data), CUTS)
    assert [(side, item.stream_offset) for side, item in items] == [
        (0, 0),
        (0, 50),
        (0, 57),
        (1, 0),
    ]
    first, gap, *_ = [item for _, item in items]
    assert isinstance(first, Chunk)
    assert sum(first.segments.length) == 50
    assert set(first.segments.length[:-1]) <= {8, 16}
    assert isinstance(gap, Gap)
    assert gap.length == 7


def test_a_snapped_turn_has_fewer_bytes_than_its_length() -> None:
    data = turns_of([(SNAP, b"a" * 100)], b"\xff" * 4)
    ((_, item),) = items_of(turns_in(data), b"\xff")
    assert isinstance(item, Chunk)
    assert (item.segments.length, item.segments.captured) == (array("q", [100]), array("q", [48]))


def test_any_bytes_are_turns() -> None:
    for data in (b"", b"abc", b"\0\0\0\0\0\xff\xffrest", bytes(99)):
        assert sum(len(turn.data) for turn in turns_in(data)) <= len(data)
