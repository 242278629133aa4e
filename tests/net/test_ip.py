from __future__ import annotations

import numpy as np

from kanalyze.gathers import PacketArrays
from kanalyze.net.columns import Packets, Places
from kanalyze.net.ip import read_ipv4, read_ipv6
from kanalyze.net.notes import Notes
from tests.support.packets import Packet, ipv4, ipv6, make_batch, tcp


def read_all(read, batch):
    """Read the IP headers with which the packets of a batch begin."""
    columns = PacketArrays.of(batch)
    limit = columns.offset + columns.captured_bytes
    return read(Packets(batch, Notes()), Places(np.arange(len(batch)), columns.offset, limit))


def test_tcp_begins_after_the_options_and_the_packet_ends_where_it_says():
    raw = ipv4(tcp(), options=b"\x01" * 8)
    batch = make_batch([Packet(raw + b"padding")])
    found = read_all(read_ipv4, batch).tcp
    assert found.places.at.tolist() == [batch.offset[0] + 28]
    assert found.end.tolist() == [batch.offset[0] + len(raw)]
    assert (found.source_high.tolist(), found.source_low.tolist()) == ([0], [0x0A000001])
    assert not found.is_ipv6.any()


def test_addresses_of_ipv6_are_read_in_halves():
    batch = make_batch([Packet(ipv6(tcp(), "1:2:3:4:5:6:7:8", "::9"))])
    found = read_all(read_ipv6, batch).tcp
    assert found.source_high.tolist() == [0x0001_0002_0003_0004]
    assert found.source_low.tolist() == [0x0005_0006_0007_0008]
    assert (found.destination_high.tolist(), found.destination_low.tolist()) == ([0], [9])
    assert found.is_ipv6.all()


def test_no_packets_are_no_headers():
    batch = make_batch([])
    for read in (read_ipv4, read_ipv6):
        assert len(read_all(read, batch).tcp.places) == 0
