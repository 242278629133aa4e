"""Other numbers in the headers: sequence numbers, ports, addresses.

In: packets. Out: packets, and rows with addresses changed alike.
"""

from __future__ import annotations

import ipaddress
import random
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.disorder.flows import with_payload
from tests.support.disorder.packet import (
    ACK,
    RST,
    TCP,
    Direction,
    dissect,
    dissect_all,
    ipv4_header,
    ipv6_header,
    rebuild,
    tcp_checksum,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tests.support.disorder.packet import Packet, Segment

_WORD = 1 << 32
_PREFIX = ipaddress.IPv6Address("2001:db8::").packed[:12]
"""A prefix for documentation (RFC 3849); an IPv4 address follows it."""
_FIRST_IPV4 = int(ipaddress.IPv4Address("198.18.0.0"))
"""The first address for tests of network devices (RFC 2544)."""
_PORTS = list(range(1, 65_536))
random.Random(20).shuffle(_PORTS)

RowT = TypeVar("RowT", bound=Any)


def sequences_wrap(packets: list[Packet], _: Random) -> list[Packet]:
    """Every direction's sequence numbers pass through 0 in the middle of its bytes."""
    seen: dict[Direction, list[tuple[int, int]]] = {}
    for _index, segment in with_payload(packets):
        seen.setdefault(segment.direction, []).append((segment.sequence, segment.length))
    shifts = {}
    for direction, parts in seen.items():
        sequence, length = parts[len(parts) // 2]
        shifts[direction] = -(sequence + length // 2)
    return _shifted(packets, shifts)


def sequences_at_random(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every direction's sequence numbers begin anywhere."""
    directions = {s.direction: None for s in dissect_all(packets) if s is not None}
    return _shifted(packets, {direction: noise.randrange(_WORD) for direction in directions})


def _shifted(packets: Sequence[Packet], shifts: dict[Direction, int]) -> list[Packet]:
    found = []
    for packet in packets:
        segment = dissect(packet)
        if segment is None:
            found.append(packet)
            continue
        back = (*segment.direction[2:], *segment.direction[:2])
        sequence, acknowledgment = segment.sequence, segment.acknowledgment
        # A RST from an end without the connection has the number 0, or the one it was acknowledged.
        if sequence or not segment.flags & RST:
            sequence += shifts.get(segment.direction, 0)
        if segment.flags & ACK:
            acknowledgment += shifts.get(back, 0)
        found.append(rebuild(segment, sequence=sequence, acknowledgment=acknowledgment))
    return found


def ports_renumbered(packets: list[Packet], _: Random) -> list[Packet]:
    """Every port number is another one."""
    return _with_ports(packets, lambda s: (new_port(s.source_port), new_port(s.destination_port)))


def ports_exchanged(packets: list[Packet], _: Random) -> list[Packet]:
    """The two ends of every connection exchange their ports: clients have the broker's."""
    return _with_ports(packets, lambda s: (s.destination_port, s.source_port))


def _with_ports(
    packets: Sequence[Packet], ports: Callable[[Segment], tuple[int, int]]
) -> list[Packet]:
    segments = [(packet, dissect(packet)) for packet in packets]
    return [packet if s is None else rebuild(s, ports=ports(s)) for packet, s in segments]


def new_port(port: int) -> int:
    return _PORTS[port - 1]


def addresses_of_the_other_version(packets: list[Packet], _: Random) -> list[Packet]:
    """IPv4 becomes IPv6, and the other way round."""
    return [_other_version(packet) for packet in packets]


def _other_version(packet: Packet) -> Packet:
    segment = dissect(packet)
    if segment is None:
        return packet
    source, destination = new_address(segment.source), new_address(segment.destination)
    tcp = bytearray(packet.data[segment.tcp_at : segment.payload_at])
    if segment.is_whole:
        tcp[16:18] = b"\0\0"
        sum_of_all = tcp_checksum(source + destination, tcp, segment.payload)
        tcp[16:18] = sum_of_all.to_bytes(2, "big")
    size = len(tcp) + segment.length
    if segment.is_ipv6:
        ip, kind = ipv4_header(source, destination, TCP, size, segment.sequence & 0xFFFF), 0x0800
    else:
        ip, kind = ipv6_header(source, destination, TCP, size), 0x86DD
    link = bytearray(packet.data[: segment.network_at])
    place = 12 if packet.link_type == 1 else 0
    link[place : place + 2] = kind.to_bytes(2, "big")
    wire = len(link) + len(ip) + size
    return packet._replace(data=bytes(link + ip + tcp) + segment.payload, wire_bytes=wire)


def new_address(address: bytes) -> bytes:
    if len(address) == 4:
        return _PREFIX + address
    number = int.from_bytes(address, "big") & 0x1FFFF
    return (_FIRST_IPV4 + number).to_bytes(4, "big")


def row_with_new_ports(row: RowT) -> RowT:
    return _row(
        row, row.client_ip, new_port(row.client_port), row.broker_ip, new_port(row.broker_port)
    )


def row_with_exchanged_ports(row: RowT) -> RowT:
    return _row(row, row.client_ip, row.broker_port, row.broker_ip, row.client_port)


def row_with_other_addresses(row: RowT) -> RowT:
    client, broker = (
        str(ipaddress.ip_address(new_address(ipaddress.ip_address(ip).packed)))
        for ip in (row.client_ip, row.broker_ip)
    )
    return _row(row, client, row.client_port, broker, row.broker_port)


def _row(row: RowT, client_ip: str, client_port: int, broker_ip: str, broker_port: int) -> RowT:
    ends = [
        f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        for ip, port in ((client_ip, client_port), (broker_ip, broker_port))
    ]
    changed: RowT = row._replace(
        connection=">".join(ends),
        client_ip=client_ip,
        client_port=client_port,
        broker_ip=broker_ip,
        broker_port=broker_port,
    )
    return changed
