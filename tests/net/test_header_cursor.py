from __future__ import annotations

import pytest

from kanalyze.net.header_cursor import (
    TUNNEL_PROTOCOLS,
    HeaderCursor,
    read_llc,
)
from kanalyze.net.header_kinds import IP_PROTOCOL, IPV4, IPV6, LLC
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tunnels import READERS
from tests.support.cases import for_each
from tests.support.packets import Packet, make_batch


def opened(*data: bytes, wire_bytes: int | None = None) -> HeaderCursor:
    batch = make_batch([Packet(one, wire_bytes=wire_bytes) for one in data])
    cursor = HeaderCursor(batch, LayerStats())
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


@for_each("at", [-(1 << 62), 10, 1 << 62])
def test_no_index_outside_of_the_data_is_read(at):
    cursor = opened(b"abc")
    for read in (cursor.u8, cursor.u16, cursor.u32, cursor.u64):
        with pytest.raises(IndexError):
            read(at)
    # Uncompiled, this index would be that of the last byte.
    cursor.at -= 100
    assert not cursor.rest(3)


def test_an_outer_header_shortens_what_is_read():
    cursor = opened(b"12345678", wire_bytes=20)
    at = cursor.at
    assert (cursor.end - at, cursor.limit - at) == (20, 8)
    cursor.shorten(at + 30)
    assert (cursor.end - at, cursor.limit - at) == (30, 8)
    cursor.shorten(at + 5)
    assert (cursor.end - at, cursor.limit - at) == (5, 5)


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


@pytest.mark.parametrize(
    ("header", "kind", "size"),
    [
        (b"\xaa\xaa\x03\0\0\0\x08\0", IPV4, 8),
        (b"\xaa\xaa\x03\0\0\xf8\x86\xdd", IPV6, 8),
        (b"\xaa\xaa\x03\0\0\0\x81\0\0\x05\x08\0", IPV4, 12),
        (b"\x06\x06\x03", IPV4, 3),
        (b"\xaa\xaa\x03\0\0\x0c\x20\0", LLC | 0xAA, 0),
        (b"\xaa\xaa\x03\0\0", LLC | 0xAA, 0),
        (b"\x42\x42\x03", LLC | 0x42, 0),
    ],
)
def test_an_ethertype_in_snap_is_read_like_one_of_ethernet(header, kind, size):
    cursor = opened(header)
    begin = cursor.at
    assert read_llc(cursor) == kind
    assert cursor.at - begin == size


def test_every_protocol_that_may_hold_tcp_has_a_reader():
    assert [IP_PROTOCOL | protocol for protocol in TUNNEL_PROTOCOLS] == list(READERS)
