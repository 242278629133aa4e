"""Our TCP segments in tunnels and fragments, compared with tshark's.

Without tshark this file is not collected (see conftest.py).
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from scapy.layers.inet import fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6

from tests.support.packets import Packet, ethernet, pcapng_file
from tests.support.read_segments import read
from tests.support.wrapped import segment, wrapped

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = ("ip.src", "ip.dst", "ipv6.src", "ipv6.dst")
FIELDS += ("tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.len")
FIELDS += ("tcp.window_size_value", "ip.id")


def tshark(path: Path, packets: list[Packet], order: str = "<") -> dict[int, tuple[object, ...]]:
    """Return tshark's fields of the innermost segment, by packet number."""
    path.write_bytes(pcapng_file(packets, order))
    shown = [part for name in ("frame.number", *FIELDS) for part in ("-e", name)]
    command = ["tshark", "-r", str(path), "-Y", "tcp", "-T", "fields", "-E", "occurrence=l"]
    command += ["-o", "ip.defragment:TRUE", "-o", "ipv6.defragment:TRUE", *shown]
    # Routers agree on what a label stands for: tshark has to be given it.
    command += ["-d", "mpls.label==18,pwethcw", "-d", "mpls.label==19,pwethnocw"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        number, *values = line.split("\t")
        source, destination, source_6, destination_6, *numbers, identification = values
        # If both versions occur, the inner addresses are those that the segment was built with.
        if source_6.startswith("2001:db8:a:"):
            source, destination, identification = source_6, destination_6, "-1"
        found[int(number)] = (source, destination, *map(int, numbers), int(identification, 0))
    return found


def ours(packets: list[Packet]) -> dict[int, tuple[object, ...]]:
    return {
        one.packet: (
            *(one.source[0], one.destination[0], one.source[1], one.destination[1]),
            *(one.sequence, one.acknowledgment, one.length, one.window, one.identification),
        )
        for one in read(*packets)[0]
    }


NETFILTER_LOG = 239


@pytest.mark.few(2)
@pytest.mark.parametrize("order", ["<", ">"])
def test_tshark_sees_the_same_segments_in_every_wrapping(order, tmp_path):
    # tshark assumes that netfilter's log has the byte order of the file.
    other_order = "of another machine"
    packets = [
        Packet(one.data, link_type=one.link_type)
        for name, one in wrapped().items()
        if one.link_type != NETFILTER_LOG or (other_order in name) == (order == ">")
    ]
    theirs = tshark(tmp_path / "wrapped.pcapng", packets, order)
    assert len(theirs) == len(packets) > 0
    assert ours(packets) == theirs


def test_tshark_reassembles_the_same_segments(tmp_path):
    packets = []
    for size in (1000, 3000, 9000):
        whole = segment(payload=bytes(size))
        whole.id = size
        packets += [Packet(ethernet(bytes(part))) for part in fragment(whole, 256)]
        tall = segment(is_ipv6=True, payload=bytes(size + 1500))
        tall = IPv6(src=tall.src, dst=tall.dst) / IPv6ExtHdrFragment(id=size) / tall.payload
        packets += [Packet(ethernet(bytes(part), 0x86DD)) for part in fragment6(tall, 1280)]
    packets = packets[::2] + packets[1::2]
    theirs = tshark(tmp_path / "fragments.pcapng", packets)
    assert len(theirs) == 6
    assert ours(packets) == theirs
