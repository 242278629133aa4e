"""Builders of packets and capture files, and a collector of streams that checks its updates."""

from __future__ import annotations

import ipaddress
import struct
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kanalyze.model.packets import PacketBatch
from kanalyze.model.streams import Chunk, Gap
from kanalyze.net.tcp.reassembly import Reassembler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import StreamUpdate
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.tcp.limits import ReassemblyLimits

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
CLIENT = ("10.0.0.1", 50000)
BROKER = ("10.0.0.2", 9092)
LARGE_GAP_BYTES = 1 << 16
START_NS = 1_700_000_000_000_000_000


def tcp(
    source_port: int = 50000,
    destination_port: int = 9092,
    seq: int = 0,
    ack: int = 0,
    flags: int = ACK,
    payload: bytes = b"",
    options: bytes = b"",
) -> bytes:
    words = 5 + (len(options) + 3) // 4
    return (
        struct.pack(
            ">HHIIBBHHH",
            source_port,
            destination_port,
            seq & 0xFFFFFFFF,
            ack & 0xFFFFFFFF,
            words << 4,
            flags,
            65000,
            0,
            0,
        )
        + options.ljust(4 * (words - 5), b"\0")
        + payload
    )


def ipv4(
    payload: bytes,
    source: str = CLIENT[0],
    destination: str = BROKER[0],
    *,
    protocol: int = 6,
    options: bytes = b"",
    fragment: int = 0,
    total_bytes: int | None = None,
) -> bytes:
    words = 5 + (len(options) + 3) // 4
    total = 4 * words + len(payload) if total_bytes is None else total_bytes
    return (
        struct.pack(
            ">BBHHHBBH4s4s",
            0x40 | words,
            0,
            total,
            1,
            fragment,
            64,
            protocol,
            0,
            ipaddress.IPv4Address(source).packed,
            ipaddress.IPv4Address(destination).packed,
        )
        + options.ljust(4 * (words - 5), b"\0")
        + payload
    )


def ipv6(
    payload: bytes,
    source: str = "2001:db8::1",
    destination: str = "2001:db8::2",
    *,
    next_header: int = 6,
    payload_bytes: int | None = None,
) -> bytes:
    size = len(payload) if payload_bytes is None else payload_bytes
    return (
        struct.pack(">IHBB", 6 << 28, size, next_header, 64)
        + ipaddress.IPv6Address(source).packed
        + ipaddress.IPv6Address(destination).packed
        + payload
    )


def ethernet(payload: bytes, ethertype: int = 0x0800, tags: Sequence[int] = ()) -> bytes:
    """``tags`` are the ethertypes of VLAN tags, from the outside in."""
    kinds = [*tags, ethertype]
    header = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + struct.pack(">H", kinds[0])
    for kind in kinds[1:]:
        header += struct.pack(">HH", 0x0FFE, kind)
    return header + payload


def segment(
    *,
    to_broker: bool = True,
    seq: int = 0,
    ack: int = 0,
    flags: int = ACK,
    payload: bytes = b"",
    client: tuple[str, int] = CLIENT,
    broker: tuple[str, int] = BROKER,
) -> bytes:
    """An Ethernet packet between client and broker, IPv4 or IPv6 by their addresses."""
    source, destination = (client, broker) if to_broker else (broker, client)
    inner = tcp(source[1], destination[1], seq, ack, flags, payload)
    if ":" in source[0]:
        return ethernet(ipv6(inner, source[0], destination[0]), 0x86DD)
    return ethernet(ipv4(inner, source[0], destination[0]))


@dataclass
class Packet:
    data: bytes
    time_ns: int = START_NS
    wire_bytes: int | None = None
    link_type: int = 1

    @property
    def wire(self) -> int:
        return len(self.data) if self.wire_bytes is None else self.wire_bytes


def timed(packets: Iterable[bytes], step_ns: int = 1000) -> list[Packet]:
    return [Packet(data, START_NS + i * step_ns) for i, data in enumerate(packets)]


class HasBatches(Protocol):
    """A reader of captures."""

    def batches(self) -> Iterator[PacketBatch]: ...


def packets_in(reader: HasBatches) -> list[Packet]:
    """The packets that a reader yields; no batch is empty, and packets are numbered from 1."""
    packets: list[Packet] = []
    for batch in reader.batches():
        numbers = list(batch.number)
        assert numbers
        assert numbers == list(range(len(packets) + 1, len(packets) + len(batch) + 1))
        columns = (batch.time_ns, batch.wire_bytes, batch.link_type)
        places = zip(batch.offset, batch.captured_bytes, *columns, strict=True)
        for start, size, *rest in places:
            assert 0 <= start <= start + size <= len(batch.buffer)
            data = bytes(batch.buffer[int(start) : int(start + size)])
            packets.append(Packet(data, *map(int, rest)))
    return packets


def make_batch(
    packets: Sequence[Packet], first_number: int = 1, buffer: bytearray | None = None
) -> PacketBatch:
    """Lay packets one after another, with arbitrary bytes between them."""
    data = bytearray()
    offsets = []
    for packet in packets:
        data += b"\xee" * 3
        offsets.append(len(data))
        data += packet.data
    if buffer is None:
        buffer = data
    else:
        buffer[: len(data)] = data
    return PacketBatch(
        buffer=memoryview(buffer),
        number=array("q", range(first_number, first_number + len(packets))),
        time_ns=array("q", [packet.time_ns for packet in packets]),
        offset=array("q", offsets),
        captured_bytes=array("q", [len(packet.data) for packet in packets]),
        wire_bytes=array("q", [packet.wire for packet in packets]),
        link_type=array("i", [packet.link_type for packet in packets]),
    )


def pcap_file(
    packets: Iterable[Packet],
    *,
    order: str = "<",
    nanoseconds: bool = True,
    link_type: int = 1,
    snap_bytes: int = 262144,
    version: int = 2,
) -> bytes:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, version, 4, 0, 0, snap_bytes, link_type)]
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, 1_000_000_000)
        fraction = rest if nanoseconds else rest // 1000
        parts.append(struct.pack(f"{order}IIII", seconds, fraction, len(packet.data), packet.wire))
        parts.append(packet.data)
    return b"".join(parts)


class Blocks:
    """Builds pcapng blocks in one byte order."""

    def __init__(self, order: str = "<") -> None:
        self.order = order

    def pack(self, layout: str, *values: int | bytes) -> bytes:
        return struct.pack(self.order + layout, *values)

    def block(self, kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = len(body) + 12
        return self.pack("II", kind, size) + body + self.pack("I", size)

    def option(self, code: int, value: bytes) -> bytes:
        return self.pack("HH", code, len(value)) + value + bytes(-len(value) % 4)

    def section(self, version: int = 1) -> bytes:
        return self.block(0x0A0D0D0A, self.pack("IHHq", 0x1A2B3C4D, version, 0, -1))

    def interface(self, link_type: int = 1, snap_bytes: int = 0, options: bytes = b"") -> bytes:
        return self.block(1, self.pack("HHI", link_type, 0, snap_bytes) + options)

    def enhanced(self, packet: Packet, ticks: int, interface: int = 0) -> bytes:
        fields = (interface, ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.wire)
        padding = bytes(-len(packet.data) % 4)
        return self.block(6, self.pack("IIIII", *fields) + packet.data + padding)

    def obsolete(self, packet: Packet, ticks: int, interface: int = 0) -> bytes:
        fields = (interface, 7, ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.wire)
        return self.block(2, self.pack("HHIIII", *fields) + packet.data)

    def simple(self, packet: Packet) -> bytes:
        return self.block(3, self.pack("I", packet.wire) + packet.data)

    def statistics(self, interface: int, options: bytes) -> bytes:
        return self.block(5, self.pack("III", interface, 0, 0) + options)


def pcapng_file(packets: Iterable[Packet], order: str = "<") -> bytes:
    """One section, an interface for each link type, times in nanoseconds."""
    blocks = Blocks(order)
    parts = [blocks.section()]
    interfaces: dict[int, int] = {}
    for packet in packets:
        if packet.link_type not in interfaces:
            interfaces[packet.link_type] = len(interfaces)
            parts.append(blocks.interface(packet.link_type, options=blocks.option(9, b"\x09")))
        parts.append(blocks.enhanced(packet, packet.time_ns, interfaces[packet.link_type]))
    return b"".join(parts)


@dataclass
class Stream:
    """One direction as it was delivered."""

    data: bytearray = field(default_factory=bytearray)
    """Gaps (the beginning of large ones) and snapped bytes are shown as ``?``."""
    position: int = 0
    gaps: list[Gap] = field(default_factory=list)
    packets: list[tuple[int, int, int]] = field(default_factory=list)
    """Packet number, stream offset and time of each piece."""


class StreamCollector:
    """Copies the bytes that updates deliver, and checks the rules for every update."""

    def __init__(self) -> None:
        self.streams: dict[TcpConnection, tuple[Stream, Stream]] = {}
        self.closed: list[TcpConnection] = []

    def take(self, updates: list[StreamUpdate]) -> None:
        serials = [update.connection.serial for update in updates]
        assert serials == sorted(set(serials))
        for update in updates:
            assert update.connection not in self.closed
            streams = self.streams.setdefault(update.connection, (Stream(), Stream()))
            for stream, items in zip(streams, update.items, strict=True):
                for item in items:
                    assert item.stream_offset == stream.position
                    if isinstance(item, Chunk):
                        self._take_chunk(stream, item)
                    else:
                        assert item.length > 0
                        stream.gaps.append(item)
                        stream.data += b"?" * min(item.length, LARGE_GAP_BYTES)
                        stream.position += item.length
            if update.closed:
                self.closed.append(update.connection)

    def _take_chunk(self, stream: Stream, chunk: Chunk) -> None:
        segments = chunk.segments
        assert chunk.first < chunk.last <= len(segments.start)
        for i in range(chunk.first, chunk.last):
            start, captured = segments.start[i], segments.captured[i]
            assert 0 <= captured <= segments.length[i] > 0
            data = bytes(segments.buffer[start : start + captured])
            assert len(data) == captured
            stream.packets.append((segments.packet[i], stream.position, segments.time_ns[i]))
            stream.position += segments.length[i]
            stream.data += data.ljust(segments.length[i], b"?")

    @property
    def connections(self) -> list[TcpConnection]:
        return sorted(self.streams, key=lambda connection: connection.serial)


@dataclass
class Reassembled:
    """The result of a reassembler for some packets."""

    collector: StreamCollector
    reassembler: Reassembler
    anomalies: list[Anomaly]

    @property
    def connections(self) -> list[TcpConnection]:
        return self.collector.connections

    def stream(self, number: int = 0, direction: int = 0) -> Stream:
        return self.collector.streams[self.connections[number]][direction]

    def data(self, number: int = 0, direction: int = 0) -> bytes:
        return bytes(self.stream(number, direction).data)


def reassemble(
    packets: Sequence[Packet],
    batch_packets: int = 0,
    limits: ReassemblyLimits | None = None,
    *,
    finish: bool = True,
) -> Reassembled:
    """Feed packets in batches of some size (0: all at once), over one buffer that is used again.

    After each batch the buffer is overwritten: bytes to keep must have been copied.
    """
    reassembler = Reassembler(limits)
    collector = StreamCollector()
    anomalies: list[Anomaly] = []
    size = batch_packets or max(len(packets), 1)
    buffer = bytearray(sum(len(p.data) + 3 for p in packets) + 64)
    for first in range(0, len(packets), size):
        batch = make_batch(packets[first : first + size], first + 1, buffer)
        updates, found = reassembler.feed(batch)
        collector.take(updates)
        anomalies += found
        buffer[:] = b"\xa5" * len(buffer)
    if finish:
        updates, found = reassembler.finish()
        collector.take(updates)
        anomalies += found
    return Reassembled(collector, reassembler, anomalies)


def variant_pcap_file(
    packets: Iterable[Packet],
    magic: int,
    *,
    order: str = "<",
    version: tuple[int, int] = (2, 4),
    link_type: int = 1,
    nanoseconds: bool = False,
    file_header_rest: bytes = b"",
    record_header_rest: bytes = b"",
    lengths_swapped: bool = False,
) -> bytes:
    """A pcap file that differs from the standard: in its magic number, headers, or field order."""
    header = struct.pack(f"{order}IHHiIII", magic, *version, 0, 0, 262144, link_type)
    parts = [header, file_header_rest]
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, 1_000_000_000)
        fraction = rest if nanoseconds else rest // 1000
        lengths = [len(packet.data), packet.wire]
        if lengths_swapped:
            lengths.reverse()
        parts.append(struct.pack(f"{order}IIII", seconds, fraction, *lengths))
        parts += [record_header_rest, packet.data]
    return b"".join(parts)


def modified_pcap_file(packets: Iterable[Packet], order: str = "<") -> bytes:
    """The variant with an interface index, a protocol and a kind of packet in each record."""
    rest = struct.pack(f"{order}IHBx", 2, 0x0800, 4)
    return variant_pcap_file(packets, 0xA1B2CD34, order=order, record_header_rest=rest)


def lcap_file(packets: Iterable[Packet], order: str = "<", *, nanoseconds: bool = True) -> bytes:
    """Ixia's variant, with the size of all records at the end of the file header."""
    packets = list(packets)
    size = sum(16 + len(packet.data) for packet in packets)
    return variant_pcap_file(
        packets,
        0x1C0001AC if nanoseconds else 0x1C0001AB,
        order=order,
        nanoseconds=nanoseconds,
        file_header_rest=struct.pack(f"{order}I", size),
    )


def enhanced_with_options(
    blocks: Blocks, packet: Packet, ticks: int, options: bytes, interface: int = 0
) -> bytes:
    """An enhanced packet block with options after the packet."""
    fields = (interface, ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.wire)
    padding = bytes(-len(packet.data) % 4)
    return blocks.block(6, blocks.pack("IIIII", *fields) + packet.data + padding + options)


def section_with_options(blocks: Blocks, options: bytes) -> bytes:
    """A section header with options."""
    return blocks.block(0x0A0D0D0A, blocks.pack("IHHq", 0x1A2B3C4D, 1, 0, -1) + options)


def names_block(blocks: Blocks, names: Iterable[tuple[str, Sequence[str]]]) -> bytes:
    """A name resolution block: addresses and their names."""
    body = b""
    for address, of_one in names:
        packed = ipaddress.ip_address(address).packed
        value = packed + b"".join(name.encode() + b"\0" for name in of_one)
        body += blocks.option(1 if len(packed) == 4 else 2, value)
    return blocks.block(4, body + blocks.option(0, b""))


def secrets_block(blocks: Blocks, data: bytes, kind: int = 0x544C534B) -> bytes:
    """A decryption secrets block; by default a TLS key log."""
    return blocks.block(10, blocks.pack("II", kind, len(data)) + data)
