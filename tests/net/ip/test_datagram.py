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
def test_overlapping_pieces_cover_the_union_of_their_bytes(parts):
    one = datagram(*parts)
    offsets = {offset for start, stop in parts for offset in range(start, stop)}
    one.total = len(offsets)
    assert one.covered == len(offsets)
    assert one.is_complete
    assert not one.contradicts
    first = next(offset for offset in range(65) if offset not in offsets)
    assert one.data() == BYTES[:first]
    assert one.stop == max(offsets, default=-1) + 1


@given(
    st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=20)), max_size=12),
)
def test_the_first_byte_of_an_offset_stays(parts):
    one = Datagram(1, 2)
    expected: dict[int, int] = {}
    contradicts = False
    for start, data in parts:
        for offset, byte in enumerate(data, start):
            contradicts |= expected.setdefault(offset, byte) != byte
        one.add(start, start + len(data), data)
    first = next(offset for offset in range(100) if offset not in expected)
    assert one.data() == bytes(expected[offset] for offset in range(first))
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


def test_fragments_stay_known_after_their_bytes_are_dropped():
    one = datagram((0, 16))
    buffered_bytes_before = one.buffered_bytes
    one.let_go()
    assert one.has(0, 16, BYTES[:16])
    assert not one.has(0, 16, BYTES[1:17])
    assert one.data() == b""
    assert 0 < one.buffered_bytes < buffered_bytes_before
