"""Packets written in every format of capture files, and in several files.

In: packets. Out: bytes of files.

Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng; the modified pcap of Kuznetzov's
libpcap patches (magic 0xA1B2CD34) has 8 bytes more in each record.
"""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import lz4.frame
import zstandard

from tests.support.disorder.links import cooked_1, ethernet, raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tests.support.disorder.packet import Packet

Write: TypeAlias = "Callable[[list[Packet], Random], bytes]"
_NS = 1_000_000_000
_WINDOW_BYTES = 262_144


def pcap(
    packets: Sequence[Packet],
    *,
    order: str = "<",
    nanoseconds: bool = True,
    modified: bool = False,
    snap_bytes: int = _WINDOW_BYTES,
) -> bytes:
    """A pcap file; all packets are of one link type. Microseconds are rounded down."""
    links = {packet.link_type for packet in packets} or {1}
    if len(links) > 1:
        raise ValueError("a pcap file has one link type")
    magic = 0xA1B2CD34 if modified else 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap_bytes, *links)]
    unit_ns = 1 if nanoseconds and not modified else 1000
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, _NS)
        sizes = len(packet.data), packet.wire_bytes
        parts.append(struct.pack(f"{order}IIII", seconds, rest // unit_ns, *sizes))
        if modified:  # Index of the interface, protocol, packet type, padding.
            parts.append(struct.pack(f"{order}IHBB", 1, 0x0800, 0, 0))
        parts.append(packet.data)
    return b"".join(parts)


def in_microseconds(packets: list[Packet], _: Random) -> list[Packet]:
    """The packets with times rounded down, as files of microseconds hold them."""
    return [packet._replace(time_ns=packet.time_ns // 1000 * 1000) for packet in packets]


class Interface(NamedTuple):
    """The clock of an interface of a pcapng file: its options if_tsresol, if_tsoffset."""

    resolution: int
    """A tick is 10^-n seconds; with the highest bit set, 2^-n, n being the other bits."""
    offset_s: int = 0

    def ticks(self, time_ns: int) -> int:
        """The smallest number of ticks that is no earlier."""
        since_ns = time_ns - self.offset_s * _NS
        exponent = self.resolution & 0x7F
        per_second: int = (2 if self.resolution & 0x80 else 10) ** exponent
        return -(-since_ns * per_second // _NS)


NANOSECONDS = Interface(9)


def one_interface(_: Sequence[Packet]) -> tuple[Interface, ...]:
    """One interface with nanoseconds."""
    return (NANOSECONDS,)


def fine_interfaces(packets: Sequence[Packet]) -> tuple[Interface, ...]:
    """Interfaces that hold the packets' times exactly, each in another way.

    Ticks are no longer than a nanosecond; the first one that is no earlier than a time is used.
    """
    first_s = min(packet.time_ns for packet in packets) // _NS
    return (
        NANOSECONDS,
        Interface(9, first_s),
        Interface(9, -3600),
        Interface(12, first_s - 60),
        Interface(0x80 | 32),
    )


@dataclass
class Pcapng:
    """A writer of pcapng files in one byte order."""

    order: str = "<"
    interfaces: Callable[[Sequence[Packet]], Sequence[Interface]] = one_interface
    """The interfaces of each link type; each packet is of one of them at random."""
    sections: int = 1
    obsolete: bool = False
    """Whether to write Packet Blocks, which Enhanced Packet Blocks replaced."""
    chatty: bool = False
    """Whether to write options, statistics, and unknown blocks."""

    def write(self, packets: Sequence[Packet], noise: Random) -> bytes:
        """Spread the packets over sections of equal size and interfaces at random."""
        size = max(-(-len(packets) // self.sections), 1)
        firsts = range(0, max(len(packets), 1), size)
        return b"".join(self._section(packets[f : f + size], noise) for f in firsts)

    def _section(self, packets: Sequence[Packet], noise: Random) -> bytes:
        links = sorted({packet.link_type for packet in packets}) or [1]
        parts = [self._block(0x0A0D0D0A, self._pack("IHHq", 0x1A2B3C4D, 1, 0, -1))]
        numbers: dict[int, list[tuple[int, Interface]]] = {}
        count = 0
        for interface in self.interfaces(packets):
            for link in links:
                parts.append(self._interface(link, interface))
                numbers.setdefault(link, []).append((count, interface))
                count += 1
        for packet in packets:
            number, interface = noise.choice(numbers[packet.link_type])
            parts.append(self._packet(packet, number, interface.ticks(packet.time_ns)))
            if self.chatty and noise.random() < 0.05:
                parts.append(self._block(0x0BAD, noise.randbytes(noise.randrange(40))))
                parts.append(self._block(5, self._pack("III", 0, 0, 0)))
        return b"".join(parts)

    def _pack(self, layout: str, *values: int | bytes) -> bytes:
        return struct.pack(self.order + layout, *values)

    def _block(self, kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = len(body) + 12
        return self._pack("II", kind, size) + body + self._pack("I", size)

    def _option(self, code: int, value: bytes) -> bytes:
        return self._pack("HH", code, len(value)) + value + bytes(-len(value) % 4)

    def _interface(self, link: int, interface: Interface) -> bytes:
        options = self._option(2, b"eth0") if self.chatty else b""
        options += self._option(9, bytes([interface.resolution]))
        if interface.offset_s:
            options += self._option(14, self._pack("q", interface.offset_s))
        options += self._option(0, b"")
        return self._block(1, self._pack("HHI", link, 0, 0) + options)

    def _packet(self, packet: Packet, number: int, ticks: int) -> bytes:
        fields = ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.wire_bytes
        data = packet.data + bytes(-len(packet.data) % 4)
        if self.obsolete:
            return self._block(2, self._pack("HHIIII", number, 0xFFFF, *fields) + data)
        options = self._option(1, b"seen") + self._option(0, b"") if self.chatty else b""
        return self._block(6, self._pack("IIIII", number, *fields) + data + options)


def on_several_links(packets: list[Packet], noise: Random) -> list[Packet]:
    """Each packet on Ethernet, in Linux cooked mode or with nothing before IP, at random."""
    found = []
    for packet in packets:
        kind = noise.randrange(3)
        if kind == 0:
            found.append(ethernet(packet))
        else:
            found.append((raw if kind == 1 else cooked_1)(packet, noise))
    return found


def gzip_of_members(data: bytes) -> bytes:
    """gzip in several members, one of them empty."""
    third = len(data) // 3 + 1
    parts = [data[at : at + third] for at in range(0, len(data), third)]
    return b"".join(gzip.compress(part, 6, mtime=0) for part in [parts[0], b"", *parts[1:]])


def zstandard_of_frames(data: bytes) -> bytes:
    """Zstandard in two frames, with a skippable one between them (RFC 8878, section 3.1.2)."""
    half = len(data) // 2
    skipped = struct.pack("<II", 0x184D2A50, 5) + b"hello"
    compress = zstandard.ZstdCompressor().compress
    return compress(data[:half]) + skipped + compress(data[half:])


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
    "gzip in members": gzip_of_members,
    "zstd": zstandard.ZstdCompressor().compress,
    "zstd in frames": zstandard_of_frames,
    "lz4": lz4.frame.compress,
    "bzip2": bz2.compress,
    "bzip2 in streams": lambda data: bz2.compress(data[:1000]) + bz2.compress(data[1000:]),
    "xz": lzma.compress,
    "xz in streams": lambda data: lzma.compress(data[:1000]) + lzma.compress(data[1000:]),
}


def rotated(packets: list[Packet], noise: Random, count: int) -> list[list[Packet]]:
    """The packets of up to ``count`` consecutive files, cut at random, none empty."""
    cuts = sorted(noise.sample(range(1, len(packets)), min(count, len(packets)) - 1))
    edges = [0, *cuts, len(packets)]
    return [packets[b:e] for b, e in itertools.pairwise(edges)]


def dealt(packets: list[Packet], noise: Random, count: int) -> list[list[Packet]]:
    """The packets dealt to ``count`` files at random, as capture points that each saw some."""
    files: list[list[Packet]] = [[] for _ in range(count)]
    for packet in packets:
        noise.choice(files).append(packet)
    return [file for file in files if file]
