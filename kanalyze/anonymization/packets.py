"""Packets without addresses and contents: headers are read, and written anew.

In: a packet, and who knows the payload of TCP. Out: bytes of the same length. This module must not
know Kafka, nor how streams are put together.

Everything is blank that is not written on purpose. Ethernet, its VLAN tags, Linux's cooked headers,
BSD's loopback and raw IP are read; IPv4, IPv6 and IP in IP; TCP, UDP, ICMP. All else keeps its
length alone: other protocols, fragments of IP, options of IP, options of TCP but those of RFC 9293,
7323 and 2018.

Ports, times, lengths, sequence numbers and flags stay. Checksums of IP, TCP, UDP and ICMP are right
where they were, and wrong where they were wrong; where the sender's network card had still to
complete one, it is as incomplete as it was. One that nobody can verify, because bytes are missing,
has a stand-in: it is a sum of what was there.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kanalyze.anonymization.stand_ins import StandIns

__all__ = ["PacketAnonymizer", "Payloads"]

_IPV4, _IPV6 = 0x0800, 0x86DD
_TAGS: Final = frozenset((0x8100, 0x88A8, 0x9100, 0x9200))
_LEAST_ETHERTYPE: Final = 0x600
_MOST_HEADERS: Final = 16
_ICMP, _IP_IN_IP, _TCP, _UDP, _IPV6_IN_IP, _ICMP_6 = 1, 4, 6, 17, 41, 58
_FRAGMENT: Final = 44
_OPTION_HEADERS: Final = frozenset((0, 43, 60))
_FRAGMENT_BITS: Final = 0x3FFF
_SYN: Final = 2
_KEPT_OPTIONS: Final = frozenset((2, 3, 4, 5, 8))
"""Segment size, window scale, selective acknowledgments, timestamps."""
_NO_OPTION: Final = b"\x01"
_TIMESTAMPS: Final = b"\x01\x01\x08\x0a"
_TIMESTAMPS_BYTES: Final = 12
"""What most packets have: two of no meaning, and timestamps."""
_ONES: Final = 0xFFFF

_u16 = Struct(">H").unpack_from
_put16 = Struct(">H").pack_into
_ports_and_sequence = Struct(">HHI").unpack_from


class Payloads(Protocol):
    """Knows what stands in place of the payload of TCP."""

    def payload(
        self, source: bytes, destination: bytes, ports: bytes, sequence: int, length: int
    ) -> bytes | None:
        """Return so many bytes of what one end sent, without contents; None for all blank.

        Args:
            source: the address of the sender, as in the packet.
            destination: that of the receiver.
            ports: of the sender, then of the receiver, as in the packet.
            sequence: number of the first byte.
            length: 1 or more.
        """
        ...


class PacketAnonymizer:
    """Makes packets anonymous, one at a time."""

    def __init__(self, stand_ins: StandIns, payloads: Payloads) -> None:
        self._stand_ins = stand_ins
        self._payloads = payloads
        self.payload_at = -1
        """Where the payload of TCP begins in the packet that was made last; -1 without one."""

    def packet(self, link_type: int, data: bytes, wire_bytes: int) -> bytearray:
        """Return a packet without addresses and contents; raises nothing."""
        made = bytearray(len(data))
        self.payload_at = -1
        if link_type == 1:
            self._ethernet(data, made, wire_bytes)
        elif link_type == 113:
            self._cooked(data, made, wire_bytes)
        elif link_type == 276:
            self._cooked_2(data, made, wire_bytes)
        elif link_type in (0, 108):
            made[:4] = data[:4]
            self._ip(data, made, 4, wire_bytes)
        elif link_type in (12, 14, 101, 228, 229):
            self._ip(data, made, 0, wire_bytes)
        return made

    # -- link layers ------------------------------------------------------------------------------

    def _ethernet(self, data: bytes, made: bytearray, end: int) -> None:
        if len(data) < 14:
            return
        made[:6] = self._stand_ins.mac(data[:6])
        made[6:12] = self._stand_ins.mac(data[6:12])
        self._ethertype(data, made, 12, end)

    def _cooked(self, data: bytes, made: bytearray, end: int) -> None:
        if len(data) < 16:
            return
        made[:6] = data[:6]
        if data[4:6] == b"\0\6":
            made[6:12] = self._stand_ins.mac(data[6:12])
        self._ethertype(data, made, 14, end)

    def _cooked_2(self, data: bytes, made: bytearray, end: int) -> None:
        if len(data) < 20:
            return
        made[:2] = data[:2]
        made[4:12] = data[4:12]
        if data[11] == 6:
            made[12:18] = self._stand_ins.mac(data[12:18])
        kind = _u16(data, 0)[0]
        if kind in (_IPV4, _IPV6):
            self._ip(data, made, 20, end)

    def _ethertype(self, data: bytes, made: bytearray, at: int, end: int) -> None:
        """Copy a type and the tags behind it; go on with IP."""
        for _ in range(_MOST_HEADERS):
            if at + 2 > len(data):
                return
            kind = _u16(data, at)[0]
            if kind >= _LEAST_ETHERTYPE:
                made[at : at + 2] = data[at : at + 2]
            if kind in _TAGS and at + 6 <= len(data):
                made[at + 2 : at + 4] = data[at + 2 : at + 4]
                at += 4
                continue
            if kind in (_IPV4, _IPV6):
                self._ip(data, made, at + 2, end)
            return

    # -- IP ---------------------------------------------------------------------------------------

    def _ip(self, data: bytes, made: bytearray, at: int, end: int, depth: int = 0) -> None:
        if at >= len(data) or depth > _MOST_HEADERS:
            return
        version = data[at] >> 4
        if version == 4:
            self._ipv4(data, made, at, end, depth)
        elif version == 6:
            self._ipv6(data, made, at, end, depth)

    def _ipv4(self, data: bytes, made: bytearray, at: int, end: int, depth: int) -> None:
        behind = at + (data[at] & 15) * 4
        if behind < at + 20 or behind > len(data):
            return
        total = _u16(data, at + 2)[0]
        end = at + total if total else end
        made[at : at + 10] = data[at : at + 10]
        source, destination = data[at + 12 : at + 16], data[at + 16 : at + 20]
        new = self._stand_ins.address(source) + self._stand_ins.address(destination)
        made[at + 12 : at + 20] = new
        was = _u16(data, at + 10)[0]
        _put16(
            made, at + 10, _checksum(was, _sum(data[at:behind]), _sum(made[at:behind]), was == 0)
        )
        if end >= behind and not _u16(data, at + 6)[0] & _FRAGMENT_BITS:
            addresses = _Addresses(source, destination, _sum(source + destination), _sum(new))
            self._inside(data, made, behind, end, data[at + 9], addresses, depth)

    def _ipv6(self, data: bytes, made: bytearray, at: int, end: int, depth: int) -> None:
        behind = at + 40
        if behind > len(data):
            return
        total = _u16(data, at + 4)[0]
        end = behind + total if total else end
        made[at] = data[at]
        made[at + 1] = data[at + 1] & 0xF0  # the flow label is made of the addresses
        made[at + 4 : at + 8] = data[at + 4 : at + 8]
        source, destination = data[at + 8 : at + 24], data[at + 24 : at + 40]
        new = self._stand_ins.address(source) + self._stand_ins.address(destination)
        made[at + 8 : at + 40] = new
        addresses = _Addresses(source, destination, _sum(source + destination), _sum(new))
        protocol = data[at + 6]
        for _ in range(_MOST_HEADERS):
            if protocol not in _OPTION_HEADERS or behind + 8 > len(data):
                break
            made[behind : behind + 2] = data[behind : behind + 2]
            protocol, behind = data[behind], behind + 8 * (data[behind + 1] + 1)
        if protocol == _FRAGMENT and behind + 8 <= len(data):
            made[behind : behind + 8] = data[behind : behind + 8]
        elif behind <= min(end, len(data)):
            self._inside(data, made, behind, end, protocol, addresses, depth)

    def _inside(
        self,
        data: bytes,
        made: bytearray,
        at: int,
        end: int,
        protocol: int,
        addresses: _Addresses,
        depth: int,
    ) -> None:
        if protocol == _TCP:
            self._tcp(data, made, at, end, addresses)
        elif protocol == _UDP:
            if at + 8 <= len(data):
                made[at : at + 6] = data[at : at + 6]
                self._transport_sum(data, made, at, end, 6, addresses.with_protocol(_UDP))
        elif protocol in (_ICMP, _ICMP_6):
            if at + 4 <= len(data):
                made[at : at + 2] = data[at : at + 2]
                sums = addresses.with_protocol(_ICMP_6) if protocol == _ICMP_6 else (0, 0, 0)
                self._transport_sum(data, made, at, end, 2, sums)
        elif protocol in (_IP_IN_IP, _IPV6_IN_IP):
            self._ip(data, made, at, end, depth + 1)

    # -- transport --------------------------------------------------------------------------------

    def _tcp(self, data: bytes, made: bytearray, at: int, end: int, addresses: _Addresses) -> None:
        if at + 20 > len(data):
            return
        payload_at = at + (data[at + 12] >> 4) * 4
        made[at : at + 16] = data[at : at + 16]
        made[at + 18 : at + 20] = data[at + 18 : at + 20]
        length = end - payload_at
        if payload_at < at + 20 or length < 0 or payload_at > len(data):
            self._transport_sum(data, made, at, end, 16, addresses.with_protocol(_TCP))
            return
        if payload_at > at + 20:
            made[at + 20 : payload_at] = _options(data[at + 20 : payload_at])
        if length:
            self.payload_at = payload_at
            sequence: int = _ports_and_sequence(data, at)[2]
            if data[at + 13] & _SYN:
                sequence += 1
            ports = data[at : at + 4]
            found = self._payloads.payload(*addresses.ends, ports, sequence, length)
            if found is not None:
                last = min(payload_at + length, len(data))
                made[payload_at:last] = found[: last - payload_at]
        self._transport_sum(data, made, at, end, 16, addresses.with_protocol(_TCP))

    def _transport_sum(
        self,
        data: bytes,
        made: bytearray,
        at: int,
        end: int,
        place: int,
        pseudo: tuple[int, int, int],
    ) -> None:
        """Write a checksum over the bytes up to ``end``, and over a pseudo-header."""
        was = _u16(data, at + place)[0]
        if end > len(data):
            _put16(made, at + place, self._stand_ins.checksums[was])
            return
        source, target, protocol = pseudo
        more = protocol + (end - at if protocol else 0)
        partial = (source + more) % _ONES
        new_partial = (target + more) % _ONES
        if protocol and was and was % _ONES == partial:
            _put16(made, at + place, new_partial or _ONES)
            return
        old = partial + _sum(data[at:end])
        new = new_partial + _sum(made[at:end])
        is_none = was == 0 and protocol in (_TCP, _UDP)
        value = _checksum(was, old, new, is_none)
        _put16(made, at + place, value or (_ONES if protocol == _UDP and not is_none else 0))


class _Addresses:
    """The addresses of a packet, and the sums of the old and of the new ones."""

    __slots__ = ("ends", "new", "old")

    def __init__(self, source: bytes, destination: bytes, old: int, new: int) -> None:
        self.ends = source, destination
        self.old = old
        self.new = new

    def with_protocol(self, protocol: int) -> tuple[int, int, int]:
        """Return the sums of the pseudo-headers, old and new, and the protocol."""
        return self.old, self.new, protocol


def _sum(data: bytes | bytearray) -> int:
    """Return the sum of the 16-bit words, as ones' complement has it: below 65535, 0 for either."""
    if len(data) & 1:
        data = data + b"\0"
    return int.from_bytes(data) % _ONES


def _checksum(was: int, old: int, new: int, is_none: bool) -> int:
    """Return the new checksum.

    Args:
        was: the old one.
        old: the sum of all old bytes, the checksum included: 0 if it was right.
        new: the sum of all new bytes, without the checksum.
        is_none: there was no checksum at all.
    """
    if is_none:
        return 0
    right = _ONES - new % _ONES
    if right == _ONES and was != _ONES:
        right = 0
    return right if old % _ONES == 0 else right ^ 0x5555


def _options(options: bytes) -> bytes:
    """Return the options of TCP that only say how it is spoken; the others become none."""
    if len(options) == _TIMESTAMPS_BYTES and options.startswith(_TIMESTAMPS):
        return options
    made = bytearray(_NO_OPTION * len(options))
    at = 0
    while at < len(options):
        kind = options[at]
        if kind <= 1:
            made[at] = kind
            if not kind:
                made[at:] = bytes(len(options) - at)
                break
            at += 1
            continue
        size = options[at + 1] if at + 1 < len(options) else 0
        if size < 2 or at + size > len(options):
            break
        if kind in _KEPT_OPTIONS:
            made[at : at + size] = options[at : at + size]
        at += size
    return bytes(made)
