"""Packets in tunnels: all nested headers are read, and all their addresses are stand-ins."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import pytest

from kanalyze.anonymization.packets import PacketAnonymizer
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.anonymization.test_anonymize import fields
from tests.anonymization.test_packets import STAND_INS, Fixed, batch_of
from tests.support.cases import for_each
from tests.support.packets import Packet, pcap_file
from tests.support.wrapped import (
    INNER,
    INNER_V6,
    OUTER,
    OUTER_V6,
    PAYLOAD,
    Wrapped,
    wrapped,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.net.segment_columns import SegmentColumns

WRAPPED = wrapped()
GUESSED = "Ethernet in MPLS"
"""tshark guesses what is inside from the first 4 bits of an address, which the stand-in changes."""
BLANK_LINKS = (105, 127, 239, 258)
READ = [name for name, each in WRAPPED.items() if each.link_type not in BLANK_LINKS]
NOT_THERE = (*(ipaddress.ip_address(each).packed for each in (*INNER_V6, *OUTER, *OUTER_V6)),)


def made(each: Wrapped) -> bytes:
    packets = PacketAnonymizer(STAND_INS, Fixed(b"x" * len(PAYLOAD)))
    packets.begin(batch_of(each.data, each.link_type))
    found = bytes(packets.packet(0))
    assert len(found) == len(each.data)
    return found


def read(data: bytes, link_type: int) -> tuple[SegmentColumns, LayerStats]:
    stats = LayerStats()
    return read_headers(batch_of(data, link_type), stats), stats


def words(address: str) -> tuple[int, int]:
    number = int.from_bytes(STAND_INS.address(ipaddress.ip_address(address).packed))
    return number >> 64, number & (1 << 64) - 1


@for_each("name", READ)
def test_the_segment_is_read_as_before(name: str) -> None:
    each = WRAPPED[name]
    data = made(each)
    (was, of_was), (found, of_found) = (read(one, each.link_type) for one in (each.data, data))
    assert of_found.counters.tunnels == of_was.counters.tunnels == dict.fromkeys(each.tunnels, 1)
    for column in ("source_port", "destination_port", "sequence", "flags", "payload_start"):
        assert list(getattr(found, column)) == list(getattr(was, column))
    ends = INNER_V6 if each.is_ipv6 else INNER
    assert (found.source_high[0], found.source_low[0]) == words(ends[0])
    assert (found.destination_high[0], found.destination_low[0]) == words(ends[1])
    assert [address for address in NOT_THERE if address in data] == []
    assert data.count(b"x" * len(PAYLOAD)) == 1
    assert PAYLOAD not in data


@pytest.mark.parametrize("name", [name for name in WRAPPED if name not in READ])
def test_link_layers_with_more_than_addresses_are_blank(name: str) -> None:
    assert set(made(WRAPPED[name])) == {0}


def checksums(capture: Path) -> list[str]:
    """Return tshark's checksum status of all headers of each packet: 1 is right, 0 is wrong."""
    names = "ip.checksum.status", "tcp.checksum.status", "udp.checksum.status"
    more = "gre.checksum.status", "tcp.seq_raw"
    return fields(capture, *names, *more)


def test_tshark_finds_the_same_checksums_right(tmp_path: Path) -> None:
    on_ethernet = [
        each for name, each in WRAPPED.items() if each.link_type == 1 and GUESSED not in name
    ]
    files = tmp_path / "before.pcap", tmp_path / "after.pcap"
    for file, packets in zip(
        files, ([each.data for each in on_ethernet], map(made, on_ethernet)), strict=True
    ):
        file.write_bytes(pcap_file(map(Packet, packets)))
    before, after = map(checksums, files)
    assert len(before) == len(on_ethernet)
    assert sum(line.count("1") for line in before) > 2 * len(on_ethernet)
    assert after == before


@pytest.mark.parametrize("name", ["IPv4 in VXLAN", "IPv6 in ERSPAN III with more"])
def test_truncated_packets_raise_nothing(name: str) -> None:
    whole = WRAPPED[name].data
    for cut in range(len(whole)):
        packets = PacketAnonymizer(STAND_INS, Fixed(None))
        packets.begin(batch_of(whole[:cut], wire=len(whole)))
        assert len(packets.packet(0)) == cut


def test_an_unset_checksum_stays_unset() -> None:
    name = "IPv4 in VXLAN"
    whole = bytearray(WRAPPED[name].data)
    assert made(WRAPPED[name])[40:42] != bytes(2)
    whole[40:42] = bytes(2)
    assert made(WRAPPED[name]._replace(data=bytes(whole)))[40:42] == bytes(2)


def test_geneve_options_are_blank() -> None:
    assert b"12345678" in WRAPPED["IPv4 in Geneve with options"].data
    assert b"12345678" not in made(WRAPPED["IPv4 in Geneve with options"])
