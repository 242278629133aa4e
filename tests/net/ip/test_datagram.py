from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.ip.datagram import Datagram

BYTES = bytes(range(64))


def datagram(*parts: tuple[int, int]) -> Datagram:
    one = Datagram(1, 2)
    one.header = b"header"
    for start, stop in parts:
        one.add(start, stop, BYTES[start:stop])
    return one


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted).map(tuple)))
def test_pieces_of_the_same_bytes_cover_what_a_set_of_places_covers(parts):
    one = datagram(*parts)
    places = {place for start, stop in parts for place in range(start, stop)}
    one.total = len(places)
    assert one.covered == len(places)
    assert one.is_complete
    assert not one.contradicts
    first = next(place for place in range(65) if place not in places)
    assert one.data() == BYTES[:first]
    assert one.stop == max(places, default=-1) + 1


@given(
    st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=20)), max_size=12),
)
def test_what_came_first_for_a_place_stays(parts):
    one = Datagram(1, 2)
    expected: dict[int, int] = {}
    contradicts = False
    for start, data in parts:
        for place, byte in enumerate(data, start):
            contradicts |= expected.setdefault(place, byte) != byte
        one.add(start, start + len(data), data)
    first = next(place for place in range(100) if place not in expected)
    assert one.data() == bytes(expected[place] for place in range(first))
    assert one.contradicts == contradicts


def test_the_same_fragment_again_is_no_overlap():
    one = datagram((0, 16), (24, 32))
    assert not one.add(0, 16, BYTES[:16])
    assert one.add(8, 24, BYTES[8:24])
    assert one.fragments == 3


def test_the_longer_of_two_captures_of_a_fragment_counts():
    one = Datagram(1, 2)
    assert not one.add(0, 16, BYTES[:4])
    assert one.data() == BYTES[:4]
    assert not one.add(0, 16, BYTES[:10])
    assert not one.add(0, 16, BYTES[:7])
    assert one.data() == BYTES[:10]
    assert one.covered == 16


def test_what_was_seen_stays_known_without_the_bytes():
    one = datagram((0, 16))
    held = one.buffered_bytes
    one.let_go()
    assert one.has(0, 16, BYTES[:16])
    assert not one.has(0, 16, BYTES[1:17])
    assert one.data() == b""
    assert 0 < one.buffered_bytes < held
