"""Expressions select the same packets of captures as tcpdump."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kanalyze.live.feed import ExpressionFilter
from tests.support.disorder import TRANSFORMATIONS, packets_of
from tests.support.packets import Packet, make_batch, pcap_file
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.disorder.packet import Packet as CapturedPacket


CAPTURES = (
    "cluster",  # many ports
    "ipv6",
    "any",  # Linux cooked
    "snaplen",
    "foreign",  # other protocols than Kafka
)
EXPRESSIONS = (
    *("tcp", "not udp", "ip or ip6", "tcp and not ip6", "!ip&&!ip6 or port 9092"),
    *("port 9092", "not port 9092", "src port 9095", "dst port 9103 or 9113", "port not 9103"),
    *("tcp dst portrange 9092-9103", "src and dst port 9092 or 9095", "tcp port (9092 or 9095)"),
    *("host 127.0.0.1 or ::1", "net 127.1 or 127.0", "not (src net ::/64 or dst port 9092)"),
    *("less 66", "greater 66 and less 70", "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", "len > 200"),
    *("tcp[((tcp[12:1] & 0xf0) >> 2):4] > 100", "ip[8] < 64"),
)


def as_packets(captured: list[CapturedPacket]) -> list[Packet]:
    return [
        Packet(packet.data, packet.time_ns, packet.wire_bytes, packet.link_type)
        for packet in captured
    ]


@cache
def captured(name: str) -> list[Packet]:
    return as_packets(packets_of(name))


def tcpdump(capture: Path, text: str) -> bytes:
    # If root starts it, tcpdump switches to a user who may not read the files of root.
    as_root = ["-Z", "root"] if os.geteuid() == 0 else []
    program = shutil.which("tcpdump")
    assert program is not None
    return subprocess.run(
        [program, *as_root, "-r", str(capture), "-w", "-", text],
        check=True,
        capture_output=True,
        timeout=LONG_S,
    ).stdout


def selected(text: str, packets: list[Packet]) -> list[Packet]:
    return [packets[row] for row in ExpressionFilter(text).selected(make_batch(packets))]


def as_file(packets: list[Packet]) -> bytes:
    return pcap_file(packets, link_type=packets[0].link_type, nanoseconds=False)


def compare(text: str, packets: list[Packet], whole: Path) -> int:
    """Compare with tcpdump; return the number of selected packets."""
    whole.write_bytes(as_file(packets))
    packets_selected = selected(text, packets)
    filtered = tcpdump(whole, text)
    # tcpdump writes the file header even if no packet follows.
    assert as_file([*packets_selected, packets[0]]).startswith(filtered)
    assert len(as_file([*packets_selected, packets[0]])) == len(filtered) + 16 + len(
        packets[0].data
    )
    return len(packets_selected)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CAPTURES)
def test_packets_of_captures_are_selected_as_by_tcpdump(name, tmp_path: Path):
    packets = captured(name)
    counts = {compare(text, packets, tmp_path / "whole.pcap") for text in EXPRESSIONS}
    assert len(counts) > 3


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("VLAN", "port 9103"),
        ("VLAN", "vlan and port 9103"),
        ("VLAN in VLAN", "vlan and vlan and dst port 9103"),
        ("VXLAN", "port 9103"),
        ("VXLAN", "udp port 4789 and greater 200"),
    ],
)
def test_packets_in_vlans_and_tunnels_are_selected_as_by_tcpdump(label, text, tmp_path: Path):
    altered = TRANSFORMATIONS[label].alter(packets_of("cluster"), random.Random(label))
    count = compare(text, as_packets(altered), tmp_path / "whole.pcap")
    assert (count > 0) == (text != "port 9103")
