from __future__ import annotations

import numpy as np

from kanalyze.gathers import PacketArrays
from kanalyze.net.columns import Headers, Packets, Places
from kanalyze.net.notes import Notes
from tests.support.packets import Packet, make_batch


def test_picking_keeps_what_is_wanted_and_is_free_for_all_of_it():
    places = Places(np.array([1, 2]), np.array([3, 4]), np.array([5, 6]))
    assert places.pick(np.array([True, True])) is places
    picked = places.pick(np.array([False, True]))
    assert (picked.row.tolist(), picked.at.tolist(), picked.limit.tolist()) == ([2], [4], [6])
    assert len(picked) == 1


def packets(*data: bytes, wire_bytes: int | None = None) -> Packets:
    return Packets(make_batch([Packet(one, wire_bytes=wire_bytes) for one in data]), Notes())


def starts(opened: Packets) -> Places:
    batch = opened.batch
    columns = PacketArrays.of(batch)
    return Places(np.arange(len(batch)), columns.offset, columns.offset + columns.captured_bytes)


def test_a_number_is_looked_at_only_within_its_packet():
    opened = packets(b"\x01\x02\x03", b"\x04", b"")
    assert opened.peek(starts(opened), 0, "u1").tolist() == [1, 4, -1]
    assert opened.peek(starts(opened), 1, ">u2").tolist() == [0x0203, -1, -1]
    assert opened.peek(starts(opened), 1, "<u2").tolist() == [0x0302, -1, -1]


def test_packets_that_are_too_short_are_dropped_and_counted_once():
    opened = packets(b"abc", b"a", b"ab")
    assert opened.long_enough(starts(opened), 2, "somewhere").row.tolist() == [0, 2]
    assert opened.notes.counters.cut_headers == 1
    assert [(one.packet, one.detail) for one in opened.notes.take()] == [(2, "cut somewhere")]


def test_an_outer_header_shortens_what_is_read():
    opened = packets(b"12345678", b"12345678", wire_bytes=20)
    places = starts(opened)
    assert (opened.end - places.at).tolist() == [20, 20]
    shorter = opened.shorten(places, places.at + np.array([5, 30]))
    assert (shorter.limit - places.at).tolist() == [5, 8]
    assert (opened.end - places.at).tolist() == [5, 30]


def test_headers_of_different_packets_come_together_in_their_order():
    opened = packets(b"a", b"b", b"c")
    places = starts(opened)
    odd = np.array([False, True, False])
    both = Headers.joined([Headers.of(places.pick(odd), 7), Headers.of(places.pick(~odd), 8)])
    assert both.places.row.tolist() == [0, 1, 2]
    assert both.kind.tolist() == [8, 7, 8]
    assert len(Headers.joined([])) == 0


def test_tunnels_add_up_by_packet():
    opened = packets(b"a", b"b")
    opened.enter(np.array([1]), 4)
    opened.enter(np.array([0, 1]), 1)
    assert opened.tunnels.tolist() == [1, 5]
