"""What proxies put before a protocol, as bytes, and captures with it before their connections.

In: addresses, names, passwords; captures of the repository. Out: turns of both ends; captures.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING

from tests.support.disorder.formats import pcap
from tests.support.disorder.packet import ACK, PSH, SYN, dissect_all, rebuild
from tests.support.disorder.variants import packets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.disorder.packet import Direction, Packet

SENDER, OTHER = 0, 1
"""Sides of a turn: the end that opens the connection, and the other one."""
Turn = tuple[int, bytes]
CLIENT = ("203.0.113.7", 51234)
CLIENT_6 = ("2001:db8::7", 51234)
PASSWORD, USER = b"hunter2-secret", b"alice-of-accounts"
TARGET = "broker1.example.net"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def v1(client: tuple[str, int] = CLIENT, server: tuple[str, int] = ("10.0.0.2", 9092)) -> bytes:
    family = 6 if ":" in client[0] else 4
    return f"PROXY TCP{family} {client[0]} {server[0]} {client[1]} {server[1]}\r\n".encode()


def v2(client: tuple[str, int] | None = CLIENT, *, tlvs: bytes = b"", command: int = 0x21) -> bytes:
    """A header of version 2; ``client`` None for a family that is not specified."""
    family, addresses = 0, b""
    if client is not None:
        packed = ipaddress.ip_address(client[0]).packed
        family = 0x21 if len(packed) == 16 else 0x11
        addresses = 2 * packed + struct.pack(">HH", client[1], 9092)
    length = len(addresses) + len(tlvs)
    return SIGNATURE + struct.pack(">BBH", command, family, length) + addresses + tlvs


def local() -> bytes:
    return v2(None, command=0x20)


def connect(*headers: str, target: str = f"{TARGET}:9092") -> bytes:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *headers, "", ""]
    return "\r\n".join(lines).encode()


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 gate.corp.example\r\n\r\n"
REFUSED_BODY = b"<html>credentials, please</html>"
REFUSED = (
    b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="corp"\r\n'
    b"Content-Length: %d\r\n\r\n%b" % (len(REFUSED_BODY), REFUSED_BODY)
)
AUTHORIZATION = "Proxy-Authorization: Basic YWxpY2U6aHVudGVyMi1zZWNyZXQ="


def http_connect() -> list[Turn]:
    return [(SENDER, connect()), (OTHER, ESTABLISHED)]


def http_connect_with_login() -> list[Turn]:
    """A request that is refused for want of credentials, and again with them."""
    return [
        *((SENDER, connect()), (OTHER, REFUSED)),
        *((SENDER, connect(AUTHORIZATION)), (OTHER, ESTABLISHED)),
    ]


def _address(host: str) -> bytes:
    try:
        packed = ipaddress.ip_address(host).packed
    except ValueError:
        return bytes((3, len(host))) + host.encode()
    return bytes((1 if len(packed) == 4 else 4,)) + packed


def socks5(host: str = TARGET, *, password: bytes | None = None, reply: int = 0) -> list[Turn]:
    request = b"\5\1\0" + _address(host) + struct.pack(">H", 9092)
    answer = bytes((5, reply, 0)) + _address("10.7.7.7") + struct.pack(">H", 40000)
    if password is None:
        login = [(SENDER, b"\5\1\0"), (OTHER, b"\5\0")]
    else:
        words = b"\1" + bytes((len(USER),)) + USER + bytes((len(password),)) + password
        login = [(SENDER, b"\5\2\0\2"), (OTHER, b"\5\2"), (SENDER, words), (OTHER, b"\1\0")]
    return [*login, (SENDER, request), (OTHER, answer)]


def socks4(host: str = "10.0.0.2", *, reply: int = 0x5A) -> list[Turn]:
    try:
        packed, name = ipaddress.IPv4Address(host).packed, b""
    except ValueError:
        packed, name = b"\0\0\0\1", host.encode() + b"\0"
    request = b"\4\1" + struct.pack(">H", 9092) + packed + b"alice\0" + name
    return [(SENDER, request), (OTHER, bytes((0, reply)) + struct.pack(">H", 9092) + packed)]


PREFIXES: dict[str, list[Turn]] = {
    "PROXY v1": [(SENDER, v1())],
    "PROXY v1, IPv6": [(SENDER, v1(CLIENT_6, ("2001:db8::2", 9092)))],
    "PROXY v1, UNKNOWN": [(SENDER, b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n")],
    "PROXY v2": [(SENDER, v2(tlvs=b"\x04\0\x05corp1"))],
    "PROXY v2, IPv6": [(SENDER, v2(CLIENT_6))],
    "PROXY v2, LOCAL": [(SENDER, local())],
    "PROXY v2, long": [(SENDER, v2(tlvs=b"\x02\x20\0" + b"authority" * 910 + b"xx"))],
    "HTTP CONNECT": http_connect(),
    "HTTP CONNECT, login": http_connect_with_login(),
    "SOCKS5": socks5(),
    "SOCKS5, password": socks5("10.0.0.2", password=PASSWORD),
    "SOCKS5, IPv6": socks5("2001:db8::2"),
    "SOCKS4": socks4(),
    "SOCKS4a": socks4(TARGET),
    "PROXY v1, PROXY v2": [(SENDER, v1(("10.9.9.9", 1))), (SENDER, v2())],
    "SOCKS5, PROXY v1": [*socks5(), (SENDER, v1())],
}
"""By name, all that was agreed upon."""

KINDS = {
    "PROXY v1, PROXY v2": "proxy-v1+proxy-v2",
    "SOCKS5, PROXY v1": "socks5+proxy-v1",
}


def kind_of(name: str) -> str:
    """The value of the column ``proxy`` for a prefix."""
    plain = name.partition(",")[0].lower().replace(" ", "-")
    return KINDS.get(name) or plain.replace("socks4a", "socks4")


def sent(turns: Sequence[Turn], side: int) -> bytes:
    """All bytes of one side."""
    return b"".join(data for sender, data in turns if sender == side)


def behind(name: str, turns: Sequence[Turn]) -> bytes:
    """A capture of the repository, with turns before the first payload of each connection.

    Only of connections whose SYN is in the capture. Sequence numbers rise by what was put before.
    """
    return pcap(proxied_packets(packets_of(name), turns))


def proxied_packets(packets: Sequence[Packet], turns: Sequence[Turn]) -> list[Packet]:
    shifts: dict[Direction, int] = {}
    openers: set[Direction] = set()
    made: list[Packet] = []
    for packet, segment in zip(packets, dissect_all(packets), strict=True):
        if segment is None:
            made.append(packet)
            continue
        mine = segment.direction
        theirs = (*mine[2:], *mine[:2])
        if segment.flags & SYN:
            if not segment.flags & ACK:
                openers.add(mine)
            for direction in (mine, theirs):
                shifts.pop(direction, None)
            made.append(packet)
            continue
        if segment.length and mine not in shifts and openers & {mine, theirs}:
            opener = mine if mine in openers else theirs
            made += _spoken(segment, turns, is_openers=mine == opener)
            for side, direction in enumerate((opener, (*opener[2:], *opener[:2]))):
                shifts[direction] = len(sent(turns, side))
            openers.discard(opener)
        if mine not in shifts:
            made.append(packet)
            continue
        made.append(
            rebuild(
                segment,
                sequence=segment.sequence + shifts[mine],
                acknowledgment=segment.acknowledgment + shifts[theirs],
            )
        )
    return made


def _spoken(segment, turns: Sequence[Turn], *, is_openers: bool) -> list[Packet]:
    """The packets of turns, before a connection's first segment with payload."""
    numbers = [segment.sequence, segment.acknowledgment]
    if not is_openers:
        numbers.reverse()
    made = []
    for side, data in turns:
        ours, theirs = numbers[side], numbers[1 - side]
        flags = ACK | PSH
        made.append(_said(segment, data, ours, theirs, flags, is_own=(side == 0) == is_openers))
        numbers[side] += len(data)
    return made


def _said(segment, data: bytes, ours: int, theirs: int, flags: int, *, is_own: bool) -> Packet:
    """A packet of the same end as a segment, or of the other end."""
    if is_own:
        return rebuild(segment, payload=data, sequence=ours, acknowledgment=theirs, flags=flags)
    turned = _turned(segment)
    return rebuild(turned, payload=data, sequence=ours, acknowledgment=theirs, flags=flags)


def _turned(segment):
    """A segment with its ends exchanged."""
    packet = segment.packet
    size = len(segment.source)
    at = segment.network_at + (8 if segment.is_ipv6 else 12)
    data = bytearray(packet.data)
    data[at : at + 2 * size] = segment.destination + segment.source
    ports = struct.pack(">HH", segment.destination_port, segment.source_port)
    data[segment.tcp_at : segment.tcp_at + 4] = ports
    return segment._replace(
        packet=packet._replace(data=bytes(data)),
        source=segment.destination,
        destination=segment.source,
        source_port=segment.destination_port,
        destination_port=segment.source_port,
    )
