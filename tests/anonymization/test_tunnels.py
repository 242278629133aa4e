"""Packets in tunnels: all nested headers are read, and all their addresses are stand-ins."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import kanalyze
from kanalyze.anonymization.packets import PacketAnonymizer
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.anonymization.test_anonymize import fields
from tests.anonymization.test_packets import STAND_INS, Fixed, batch_of
from tests.support.captures import path
from tests.support.cases import for_each
from tests.support.disorder import packets_of
from tests.support.packets import Packet, pcap_file
from tests.support.wrapped import (
    INNER,
    INNER_V6,
    OUTER,
    OUTER_V6,
    PAYLOAD,
    Wrapped,
    segment,
    wrapped,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.net.segment_columns import SegmentColumns

WRAPPED = wrapped()
GUESSED = "Ethernet in MPLS"
"""tshark guesses what is inside from the first 4 bits of an address, which the stand-in changes."""
NOT_THERE = (
    *(ipaddress.ip_address(each).packed for each in (*INNER_V6, *OUTER, *OUTER_V6)),
    *(bytes((2, 0, 0, 0, 0, last)) for last in range(1, 5)),
    *(b"wlan0", b"en0", b"in\0\0"),
)
"""Addresses, names of interfaces, and the prefix of a log."""
LINKS_WITH_MORE = (105, 119, 127, 163, 192, 239, 258)
WITH_MORE = [name for name, each in WRAPPED.items() if each.link_type in LINKS_WITH_MORE]
OTHERS_WITH_MORE = ("Ethernet", "PKTAP", "log")
WIRELESS = [name for name in WITH_MORE if not any(each in name for each in OTHERS_WITH_MORE)]


def made(each: Wrapped) -> bytes:
    packets = PacketAnonymizer(STAND_INS, Fixed(b"x" * len(PAYLOAD)))
    found = bytes(packets.batch(batch_of(each.data, each.link_type)).buffer)
    assert len(found) == len(each.data)
    return found


def read(data: bytes, link_type: int) -> tuple[SegmentColumns, LayerStats]:
    stats = LayerStats()
    return read_headers(batch_of(data, link_type), stats), stats


def words(address: str) -> tuple[int, int]:
    number = int.from_bytes(STAND_INS.address(ipaddress.ip_address(address).packed))
    return number >> 64, number & (1 << 64) - 1


@for_each("name", WRAPPED)
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


@for_each("name", WIRELESS)
def test_frames_that_are_not_read_are_counted_as_before_and_are_blank(name: str) -> None:
    """Management, control, encrypted, fragments, aggregates: the first byte, flags, QoS control."""
    each = WRAPPED[name]
    at = each.data.index(b"\x02\0\0\0\0\1") - 4
    for first, flags in ((0x80, 0), (0xB4, 0), (0x08, 0x41), (0x88, 0x45), (0x48, 1), (0x09, 1)):
        data = bytearray(each.data)
        data[at : at + 2] = bytes((first, flags))
        packet = each._replace(data=bytes(data))
        found = made(packet)
        (_, of_was), (_, of_found) = (read(one, each.link_type) for one in (packet.data, found))
        assert of_found.counters.other_packets == of_was.counters.other_packets
        assert PAYLOAD not in found
        assert [address for address in NOT_THERE if address in found] == []


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


@for_each("name", ["IPv4 in VXLAN", "IPv6 in ERSPAN III with more", *WITH_MORE])
def test_truncated_packets_raise_nothing(name: str) -> None:
    whole = WRAPPED[name].data
    for cut in range(len(whole)):
        packets = PacketAnonymizer(STAND_INS, Fixed(None))
        assert len(packets.batch(batch_of(whole[:cut], wire=len(whole))).buffer) == cut


def test_an_unset_checksum_stays_unset() -> None:
    name = "IPv4 in VXLAN"
    whole = bytearray(WRAPPED[name].data)
    assert made(WRAPPED[name])[40:42] != bytes(2)
    whole[40:42] = bytes(2)
    assert made(WRAPPED[name]._replace(data=bytes(whole)))[40:42] == bytes(2)


def test_geneve_options_are_blank() -> None:
    assert b"12345678" in WRAPPED["IPv4 in Geneve with options"].data
    assert b"12345678" not in made(WRAPPED["IPv4 in Geneve with options"])


LINKS = sorted({each.link_type for name, each in WRAPPED.items() if each.link_type != 1})


@for_each("link_type", LINKS)
def test_a_capture_of_any_link_type_has_the_same_rows(link_type: int, tmp_path: Path) -> None:
    """The headers of that link type are put before the packets of a real capture."""
    each = next(each for each in WRAPPED.values() if each.link_type == link_type)
    header = each.data[: each.data.index(bytes(segment())[:2])]
    assert header or link_type == 101
    packets = [
        Packet(header + packet.data[14:], packet.time_ns) for packet in packets_of("old-0-8-2-2")
    ]
    before, after = tmp_path / f"{link_type}.pcap", tmp_path / f"{link_type}.pcapng"
    before.write_bytes(pcap_file(packets, link_type=link_type))
    # A fixed key: stand-ins of names would end in the bytes of the prefix "in" now and then.
    done = kanalyze.anonymize(before, output=after, key="k", force=True)
    assert done.differences == ()
    assert (
        done.messages
        == kanalyze.anonymize(
            path("old-0-8-2-2"), output=tmp_path / "expected.pcapng", force=True
        ).messages
    )
    assert [address for address in NOT_THERE if address in after.read_bytes()] == []
