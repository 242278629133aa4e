"""Packets without addresses and contents: headers are read, and written anew.

In: packets, and who knows the payload of TCP. Out: bytes of the same length. This module must not
know Kafka, nor how streams are put together.

Everything is blank that is not written on purpose. Headers are those that :mod:`kanalyze.net`
reads, one in another, tunnels too; TCP, UDP and ICMP. All else keeps its length alone: other
protocols, fragments of IP, options of IP and of Geneve, options of TCP but those of RFC 9293, 7323
and 2018, link layers that say more than addresses (802.11, the log of netfilter, PKTAP).

Ports, times, lengths, sequence numbers, flags and the numbers of tunnels stay. Checksums of IP,
TCP, UDP, ICMP and GRE are right where they were, and wrong where they were wrong; where the
sender's network card had still to complete one, it is as incomplete as it was. One that nobody can
verify, because bytes are missing, has a stand-in: it is a sum of what was there.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import DROPPED, ETHERNET, IPV4, IPV6, LLC_FRAME, TCP
from kanalyze.net.ip.ip_headers import read_ipv4, read_ipv6
from kanalyze.net.ip.tunnels import read_in_ip
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.layers import read_other
from kanalyze.net.link.linktypes import read_link

if TYPE_CHECKING:
    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.model.packets import PacketBatch

__all__ = ["PacketAnonymizer", "Payloads"]

_ETHERNET_LINK, _COOKED, _COOKED_2 = 1, 113, 276
_COPIED_LINKS: Final = frozenset((0, 9, 12, 14, 50, 51, 101, 104, 108, 228, 229))
"""BSD's loopback, PPP and HDLC, PPPoE, raw IP: link types without addresses of their own."""
_MOST_HEADERS: Final = 24
_LLC_BYTES: Final = 3
_ICMP, _TCP, _UDP, _GRE, _ICMP_6 = 1, 6, 17, 47, 58
_IPV4_BYTES: Final = 20
_FRAGMENT, _AUTHENTICATION = 44, 51
_PROTOCOL: Final = 0xFF
_FRAGMENT_BITS: Final = 0x3FFF
_FRAGMENT_OFFSET_AND_MORE: Final = 0xFFF9
_GENEVE_PORT: Final = (6081).to_bytes(2)
_GRE_CHECKSUM: Final = 0x8000
_ERSPAN_3: Final = 0x22EB
_MOST_ERSPAN_BYTES: Final = 20
"""GRE with a sequence number, and ERSPAN without what a platform adds."""
_SYN: Final = 2
_KEPT_OPTIONS: Final = frozenset((2, 3, 4, 5, 8))
"""Segment size, window scale, selective acknowledgments, timestamps."""
_NO_OPTION: Final = b"\x01"
_TIMESTAMPS: Final = b"\x01\x01\x08\x0a"
_TIMESTAMPS_BYTES: Final = 12
"""What most packets have: two of no meaning, and timestamps."""
_ONES: Final = 0xFFFF
_MOST_KNOWN: Final = 1 << 16
"""Pairs of addresses that are remembered."""

_u16 = Struct(">H").unpack_from
_put16 = Struct(">H").pack_into
_two_u16 = Struct(">HH").unpack_from
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
        self._data = b""
        """The packet, and what it becomes."""
        self._made = bytearray()
        self._begin = 0
        """Index of the packet where the cursor's are of the batch."""
        self._sums: list[_Sum] = []
        self._known: dict[bytes, _Addresses] = {}
        self._known_macs: dict[bytes, bytes] = {}

    def begin(self, batch: PacketBatch) -> None:
        """Go to the packets of a batch."""
        self._buffer = batch.buffer
        self._cursor = HeaderCursor(batch, LayerStats())

    def packet(self, row: int) -> bytearray:
        """Return a packet of the batch without addresses and contents; raises nothing."""
        cursor = self._cursor
        link_type = cursor.begin(row)
        begin = self._begin = cursor.at
        self._data = bytes(self._buffer[begin : cursor.limit])
        self._made = bytearray(len(self._data))
        self._sums.clear()
        self.payload_at = -1
        kind = read_link(cursor, link_type)
        if not self._link(link_type, cursor.at - begin):
            return self._made
        for _ in range(_MOST_HEADERS):
            if kind < 0:
                break
            kind = self._header(kind)
        for each in reversed(self._sums):  # that of a tunnel is over all that is inside
            self._write_sum(each)
        return self._made

    # -- link layers ------------------------------------------------------------------------------

    def _link(self, link_type: int, behind: int) -> bool:
        """Write the link-layer header, which ends at ``behind``; tell whether it is a known one."""
        if link_type == _ETHERNET_LINK:
            self._ethernet(0, behind)
        elif link_type == _COOKED:
            self._copy(0, behind)
            self._cooked_address(6, 14, behind, is_mac=self._data[4:6] == b"\0\6")
        elif link_type == _COOKED_2:
            self._copy(0, behind)
            self._cooked_address(12, 20, behind, is_mac=self._data[11:12] == b"\6")
        elif link_type in _COPIED_LINKS:
            self._copy(0, behind)
        else:
            return False
        return True

    def _copy(self, begin: int, end: int) -> None:
        if begin < end:
            end = min(end, len(self._data))
            self._made[begin:end] = self._data[begin:end]

    def _ethernet(self, at: int, behind: int) -> None:
        if behind < at + 14:
            return
        self._copy(at + 12, behind)
        both = self._data[at : at + 12]
        stand_ins = self._known_macs.get(both)
        if stand_ins is None:
            if len(self._known_macs) >= _MOST_KNOWN:
                self._known_macs.clear()
            stand_ins = self._stand_ins.mac(both[:6]) + self._stand_ins.mac(both[6:])
            self._known_macs[both] = stand_ins
        self._made[at : at + 12] = stand_ins

    def _cooked_address(self, at: int, end: int, behind: int, *, is_mac: bool) -> None:
        if behind < end:
            return
        self._made[at:end] = bytes(end - at)
        if is_mac:
            self._made[at : at + 6] = self._stand_ins.mac(self._data[at : at + 6])

    def _header(self, kind: int) -> int:
        """Write a header; return the kind of the next one, or one below 0."""
        if kind == IPV4:
            return self._ipv4()
        if kind == IPV6:
            return self._ipv6()
        cursor = self._cursor
        at = cursor.at - self._begin
        following = read_other(cursor, kind)
        if kind == ETHERNET:
            self._ethernet(at, cursor.at - self._begin)
        else:
            self._copy(at, max(cursor.at - self._begin, at + _LLC_BYTES * (kind == LLC_FRAME)))
        return following

    # -- IP ---------------------------------------------------------------------------------------

    def _ipv4(self) -> int:
        cursor, data, made = self._cursor, self._data, self._made
        at = cursor.at - self._begin
        kind = read_ipv4(cursor)
        if kind < 0:
            return kind
        behind = cursor.at - self._begin
        made[at : at + 10] = data[at : at + 10]
        addresses = self._addresses(at + 12, 4)
        was = _u16(data, at + 10)[0]
        if was and behind == at + _IPV4_BYTES:
            # Only the addresses are others (RFC 1624).
            _put16(made, at + 10, _right(addresses.new_sum - addresses.sum - was, was))
        else:
            self._add_sum(at, behind, 10, None, 0)
        if _u16(data, at + 6)[0] & _FRAGMENT_BITS:
            return DROPPED
        return self._inside(kind, addresses)

    def _ipv6(self) -> int:
        cursor, data, made = self._cursor, self._data, self._made
        at = cursor.at - self._begin
        protocol, next_at = data[at + 6] if at + 40 <= len(data) else -1, at + 40
        kind = read_ipv6(cursor)
        if protocol < 0 or data[at] >> 4 != 6:
            return kind
        made[at] = data[at]
        made[at + 1] = data[at + 1] & 0xF0  # the flow label is made of the addresses
        made[at + 4 : at + 8] = data[at + 4 : at + 8]
        addresses = self._addresses(at + 8, 16)
        behind = min(cursor.at - self._begin, len(data))
        while next_at + 8 <= behind:
            is_fragment = protocol == _FRAGMENT
            self._copy(next_at, next_at + (8 if is_fragment else 2))
            if is_fragment and _u16(data, next_at + 2)[0] & _FRAGMENT_OFFSET_AND_MORE:
                return DROPPED
            size = data[next_at + 1]
            size = 4 * size + 8 if protocol == _AUTHENTICATION else 8 * size + 8
            protocol, next_at = data[next_at], next_at + (8 if is_fragment else size)
        return self._inside(kind, addresses) if kind >= 0 else kind

    def _addresses(self, at: int, size: int) -> _Addresses:
        """Write the two addresses of a size at a place."""
        both = self._data[at : at + 2 * size]
        addresses = self._known.get(both)
        if addresses is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            addresses = self._known[both] = _Addresses(both, self._stand_ins)
        self._made[at : at + 2 * size] = addresses.new
        return addresses

    def _inside(self, kind: int, addresses: _Addresses) -> int:
        """Write what IP carries; return the kind of what a tunnel carries."""
        cursor, data = self._cursor, self._data
        at = cursor.at - self._begin
        end = cursor.ip_end - self._begin
        protocol = kind & _PROTOCOL
        if kind == TCP:
            if end >= at:
                self._tcp(at, end, addresses)
            return DROPPED
        if protocol in (_ICMP, _ICMP_6):
            if at + 4 <= len(data):
                self._copy(at, at + 2)
                self._add_sum(at, end, 2, addresses if protocol == _ICMP_6 else None, protocol)
            return DROPPED
        if protocol == _UDP and at + 8 <= len(data):
            self._copy(at, at + 6)
            self._add_sum(at, end, 6, addresses, _UDP)
        following = read_in_ip(cursor, kind)
        behind = cursor.at - self._begin
        if protocol == _UDP:
            is_geneve = data[at + 2 : at + 4] == _GENEVE_PORT
            self._copy(at + 8, min(behind, at + 16) if is_geneve else behind)
        elif protocol == _GRE:
            self._gre(at, min(behind, end), end)
        else:
            self._copy(at, behind)
        return DROPPED if following == kind else following

    def _gre(self, at: int, behind: int, end: int) -> None:
        """Write a header of GRE and, behind it, that of ERSPAN."""
        data = self._data
        if at + 4 > min(behind, len(data)):
            return
        flags, kind = _two_u16(data, at)
        self._copy(at, min(behind, at + _MOST_ERSPAN_BYTES) if kind == _ERSPAN_3 else behind)
        if flags & _GRE_CHECKSUM and at + 8 <= min(behind, len(data)):
            self._made[at + 4 : at + 6] = bytes(2)
            self._add_sum(at, end, 4, None, 0)

    # -- transport --------------------------------------------------------------------------------

    def _tcp(self, at: int, end: int, addresses: _Addresses) -> None:
        data, made = self._data, self._made
        if at + 20 > len(data):
            return
        payload_at = at + (data[at + 12] >> 4) * 4
        made[at : at + 16] = data[at : at + 16]
        made[at + 18 : at + 20] = data[at + 18 : at + 20]
        self._add_sum(at, end, 16, addresses, _TCP)
        length = end - payload_at
        if payload_at < at + 20 or length < 0 or payload_at > len(data):
            return
        if payload_at > at + 20:
            made[at + 20 : payload_at] = _options(data[at + 20 : payload_at])
        if length:
            self.payload_at = payload_at
            sequence: int = _ports_and_sequence(data, at)[2]
            if data[at + 13] & _SYN:
                sequence += 1
            ports = data[at : at + 4]
            payload = self._payloads.payload(*addresses.ends, ports, sequence, length)
            if payload is not None:
                last = min(payload_at + length, len(data))
                made[payload_at:last] = payload[: last - payload_at]

    # -- checksums --------------------------------------------------------------------------------

    def _add_sum(
        self, at: int, end: int, checksum_at: int, pseudo: _Addresses | None, protocol: int
    ) -> None:
        """Write a checksum, once all that it is over is written.

        Args:
            at: begin of what it is over.
            end: the end of that.
            checksum_at: where the checksum is, from the begin on.
            pseudo: the addresses, if it is over a pseudo-header too.
            protocol: that in the pseudo-header.
        """
        self._sums.append((at, end, checksum_at, pseudo, protocol))

    def _write_sum(self, checksum: _Sum) -> None:
        at, end, checksum_at, pseudo, protocol = checksum
        data, made = self._data, self._made
        was = _u16(data, at + checksum_at)[0]
        if not was and (protocol == _UDP or end > len(data)):
            return  # there is none
        if end > len(data):
            _put16(made, at + checksum_at, self._stand_ins.checksums[was])
            return
        partial = new_partial = 0
        if pseudo is not None:
            more = protocol + end - at
            partial, new_partial = (pseudo.sum + more) % _ONES, (pseudo.new_sum + more) % _ONES
            if was and was % _ONES == partial:
                _put16(made, at + checksum_at, new_partial or _ONES)
                return
        old, new = partial + _sum(data[at:end]), new_partial + _sum(made[at:end])
        if not was and old % _ONES:
            return  # left out, or as wrong as any
        value = _checksum(was, old, new)
        _put16(made, at + checksum_at, value or (_ONES if protocol == _UDP else 0))


class _Addresses:
    """The two addresses of a packet, what stands in their place, and the sums of both."""

    __slots__ = ("ends", "new", "new_sum", "sum")

    def __init__(self, both: bytes, stand_ins: StandIns) -> None:
        half = len(both) // 2
        self.ends = both[:half], both[half:]
        self.new = b"".join(map(stand_ins.address, self.ends))
        self.sum = _sum(both)
        self.new_sum = _sum(self.new)


def _sum(data: bytes | bytearray) -> int:
    """Return the sum of the 16-bit words, as ones' complement has it: below 65535, 0 for either."""
    if len(data) & 1:
        data = data + b"\0"
    return int.from_bytes(data) % _ONES


def _checksum(was: int, old: int, new: int) -> int:
    """Return the new checksum.

    Args:
        was: the old one.
        old: the sum of all old bytes, the checksum included: 0 if it was right.
        new: the sum of all new bytes, without the checksum.
    """
    right = _right(new, was)
    return right if old % _ONES == 0 else right ^ 0x5555


def _right(total: int, was: int) -> int:
    """Return the checksum of bytes of a sum; of the two forms of none, that which it had."""
    right = _ONES - total % _ONES
    return 0 if right == _ONES and was != _ONES else right


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


_Sum: TypeAlias = "tuple[int, int, int, _Addresses | None, int]"
"""See :meth:`PacketAnonymizer._add_sum`."""
