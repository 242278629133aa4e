from __future__ import annotations

import pytest

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import DROPPED
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, make_batch


def opened(*data: bytes, wire_bytes: int | None = None) -> HeaderCursor:
    cursor = HeaderCursor(
        make_batch([Packet(one, wire_bytes=wire_bytes) for one in data]), LayerStats()
    )
    cursor.begin(0)
    return cursor


def test_numbers_are_read_only_within_their_packet():
    cursor = opened(b"\x01\x02\x03", b"\x04", b"")
    assert (cursor.peek8(0), cursor.peek16(1), cursor.peek32(0)) == (1, 0x0203, -1)
    assert cursor.rest(9) == b"\x01\x02\x03"
    cursor.begin(1)
    assert (cursor.peek8(0), cursor.peek8(1), cursor.peek16(0)) == (4, -1, -1)
    cursor.begin(2)
    assert (cursor.peek8(0), cursor.rest(9)) == (-1, b"")


def test_numbers_are_in_network_order():
    cursor = opened(bytes(range(0xF8, 0x100)))
    at = cursor.at
    assert (cursor.u8(at), cursor.u16(at), cursor.u32(at)) == (0xF8, 0xF8F9, 0xF8F9FAFB)
    assert cursor.u64(at) == 0xF8F9FAFB_FCFDFEFF


@pytest.mark.parametrize("at", [-1, -(1 << 62), 10, 1 << 62])
def test_no_index_outside_of_the_data_is_read(at):
    cursor = HeaderCursor(make_batch([Packet(b"abc")]), LayerStats())
    if at == -1:
        # Uncompiled, this index would be that of the last byte.
        cursor.begin(0)
        cursor.at -= 100
        assert not cursor.rest(3)
        return
    for read in (cursor.u8, cursor.u16, cursor.u32, cursor.u64):
        with pytest.raises(IndexError):
            read(at)


def test_packets_that_are_too_short_are_counted_once():
    cursor = opened(b"abc", b"a", b"ab")
    fits = []
    for row in range(3):
        cursor.begin(row)
        fits.append(cursor.fits(2))
        if not fits[-1]:
            assert cursor.cut("somewhere") == DROPPED
    assert fits == [True, False, True]
    assert cursor.stats.counters.cut_headers == 1
    assert [(one.packet, one.detail) for one in cursor.stats.drain_anomalies()] == [
        (2, "cut somewhere")
    ]


def test_an_outer_header_shortens_what_is_read():
    cursor = opened(b"12345678", wire_bytes=20)
    at = cursor.at
    assert (cursor.end - at, cursor.limit - at) == (20, 8)
    cursor.shorten(at + 30)
    assert (cursor.end - at, cursor.limit - at) == (30, 8)
    cursor.shorten(at + 5)
    assert (cursor.end - at, cursor.limit - at) == (5, 5)


def test_tunnels_add_up_by_packet():
    cursor = opened(b"a", b"b")
    cursor.enter(4)
    cursor.enter(1)
    assert cursor.tunnels == 5
    cursor.begin(1)
    assert cursor.tunnels == 0


def test_reassembled_datagrams_are_appended_to_the_buffer():
    cursor = opened(b"abc", b"de")
    whole = cursor.buffer
    assert whole is cursor.batch.buffer
    cursor.enter_joined(b"first", 9)
    assert (cursor.rest(99), cursor.end) == (b"first", 9)
    cursor.enter_joined(b"second", 6)
    place = cursor.base + cursor.at
    cursor.begin(1)
    assert cursor.rest(99) == b"de"
    assert (cursor.base, bytes(cursor.buffer)) == (0, bytes(whole) + b"firstsecond")
    assert bytes(cursor.buffer[place:]) == b"second"
