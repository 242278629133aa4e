"""Anonymizes packets: headers are parsed and rewritten, payloads are replaced.

In: packets, and a source of anonymized TCP payload. Out: bytes of the same length.

Every byte is blank unless it is written on purpose. Written are all headers that
:mod:`kanalyze.net` reads, those inside tunnels too, and TCP, UDP and ICMP. Everything else keeps
only its length: other protocols, IP fragments, options of IP and Geneve, TCP options except those
of RFC 9293, 7323 and 2018, and what link layers have besides addresses:
how and where a packet was received, and names of interfaces and processes.

Ports, times, lengths, sequence numbers, flags and tunnel ids stay. A checksum of IP, TCP, UDP, ICMP
or GRE that was right is right again, and one that was wrong is wrong again. A partial checksum,
which the sender's network card had still to complete, stays partial. A checksum over bytes that
were not captured cannot be calculated again: it becomes a stand-in, because the old value depends
on the original bytes.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kanalyze.common.caches import remember
from kanalyze.net.capture_headers import DATA_PAD, prism_bytes, radiotap_flags, value_head
from kanalyze.net.header_cursor import HeaderCursor, read_ipv4, read_ipv6
from kanalyze.net.header_kinds import DROPPED, ETHERNET, IPV4, IPV6, LLC_FRAME, TCP
from kanalyze.net.headers import read_link, read_other
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tunnels import read_in_ip

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.model.packets import PacketBatch

__all__ = ["PacketAnonymizer", "Payloads"]


_ETHERNET_LINK, _COOKED, _COOKED_2 = 1, 113, 276
_COPIED_LINKS: Final = frozenset((0, 9, 12, 14, 50, 51, 101, 104, 108, 228, 229))
"""Link types without addresses of their own: BSD loopback, PPP and HDLC, PPPoE, raw IP."""
_MAX_HEADERS: Final = 24
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
_MAX_ERSPAN_BYTES: Final = 20
"""GRE with a sequence number, and ERSPAN without what a platform adds."""
_SYN: Final = 2
_KEPT_OPTIONS: Final = frozenset((2, 3, 4, 5, 8))
"""Segment size, window scale, selective acknowledgments, timestamps."""
_NO_OPTION: Final = b"\x01"
_TIMESTAMPS: Final = b"\x01\x01\x08\x0a"
_TIMESTAMPS_BYTES: Final = 12
"""The options of most packets: two NOPs and timestamps."""
_ONES: Final = 0xFFFF
_MAX_KNOWN: Final = 1 << 16
"""Number of address pairs that are cached."""

_CLEAR_ALERT: Final = re.compile(rb"\x15\x03[\0-\x04]\0\x02[\1\2].", re.DOTALL)
"""A TLS record with an alert that is not encrypted: its level and its description."""

_u16 = Struct(">H").unpack_from
_put16 = Struct(">H").pack_into
_two_u16 = Struct(">HH").unpack_from
_ports_and_sequence = Struct(">HHI").unpack_from


class Payloads(Protocol):
    """A source of anonymized TCP payload."""

    def payload(
        self, source: bytes, destination: bytes, ports: bytes, sequence: int, length: int
    ) -> bytes | None:
        """Return ``length`` anonymized bytes of a stream; None if all of them are blank.

        Args:
            source: the sender's address, as in the packet.
            destination: the receiver's address.
            ports: the sender's and then the receiver's port, as in the packet.
            sequence: sequence number of the first byte.
            length: number of bytes, 1 or more.
        """
        ...


class PacketAnonymizer:
    """Makes packets anonymous, one at a time."""

    def __init__(self, stand_ins: StandIns, payloads: Payloads) -> None:
        self._stand_ins = stand_ins
        self._payloads = payloads
        self.payload_at = -1
        """Position of the TCP payload in the packet returned last; -1 if it has none."""
        self._data = b""
        """The original packet; ``_out`` is the anonymized one."""
        self._out = bytearray()
        self._begin = 0
        """Position of the packet in the batch's buffer. Cursor positions are in the buffer."""
        self._sums: list[_Sum] = []
        self._known: dict[bytes, _Addresses] = {}
        self._known_macs: dict[bytes, bytes] = {}

    def begin(self, batch: PacketBatch) -> None:
        """Make this the batch that :meth:`packet` reads."""
        self._buffer = batch.buffer
        self._cursor = HeaderCursor(batch, LayerStats())

    def packet(self, row: int) -> bytearray:
        """Return a packet of the batch, anonymized; raises nothing."""
        cursor = self._cursor
        link_type = cursor.begin(row)
        begin = self._begin = cursor.at
        self._data = bytes(self._buffer[begin : cursor.limit])
        self._out = bytearray(len(self._data))
        self._sums.clear()
        self.payload_at = -1
        kind = read_link(cursor, link_type)
        if not self._link(link_type, cursor.at - begin, is_read=kind >= 0):
            return self._out
        for _ in range(_MAX_HEADERS):
            if kind < 0:
                break
            kind = self._header(kind)
        for checksum in reversed(self._sums):  # a tunnel's checksum covers the packet inside
            self._write_sum(checksum)
        return self._out

    # -- link layers ------------------------------------------------------------------------------

    def _link(self, link_type: int, header_end: int, *, is_read: bool) -> bool:
        """Write the link-layer header, which ends at ``header_end`` if it could be read.

        Returns false if the link type is unknown.
        """
        at = 0
        carrier = _carrier_header(self._data, link_type)
        if carrier is not None:
            header, link_type = carrier
            at = len(header)
            self._out[:at] = header
        if link_type == _ETHERNET_LINK:
            self._ethernet(at, header_end)
        elif link_type == _COOKED:
            self._copy(at, header_end)
            is_mac = self._data[at + 4 : at + 6] == b"\0\6"
            self._cooked_address(at + 6, at + 14, header_end, is_mac=is_mac)
        elif link_type == _COOKED_2:
            self._copy(at, header_end)
            is_mac = self._data[at + 11 : at + 12] == b"\6"
            self._cooked_address(at + 12, at + 20, header_end, is_mac=is_mac)
        elif link_type in _COPIED_LINKS:
            self._copy(at, header_end)
        elif link_type == _DOT11:
            header = _dot11_header(self._data[at:], self._stand_ins.mac)
            self._out[at : at + len(header)] = header
        elif link_type == _NETFILTER_LOG and is_read:
            header = _netfilter_log_header(self._data[at:], header_end - at)
            self._out[at : at + len(header)] = header
        else:
            return False
        return True

    def _copy(self, begin: int, end: int) -> None:
        if begin < end:
            end = min(end, len(self._data))
            self._out[begin:end] = self._data[begin:end]

    def _ethernet(self, at: int, header_end: int) -> None:
        if header_end < at + 14:
            return
        self._copy(at + 12, header_end)
        both = self._data[at : at + 12]
        stand_ins = self._known_macs.get(both)
        if stand_ins is None:
            stand_ins = self._stand_ins.mac(both[:6]) + self._stand_ins.mac(both[6:])
            remember(self._known_macs, both, stand_ins, _MAX_KNOWN)
        self._out[at : at + 12] = stand_ins

    def _cooked_address(self, at: int, end: int, header_end: int, *, is_mac: bool) -> None:
        if header_end < end:
            return
        self._out[at:end] = bytes(end - at)
        if is_mac:
            self._out[at : at + 6] = self._stand_ins.mac(self._data[at : at + 6])

    def _header(self, kind: int) -> int:
        """Write a header; return the kind of the next one, below 0 if none is to be written."""
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
        cursor, data, out = self._cursor, self._data, self._out
        at = cursor.at - self._begin
        kind = read_ipv4(cursor)
        if kind < 0:
            return kind
        header_end = cursor.at - self._begin
        out[at : at + 10] = data[at : at + 10]
        addresses = self._addresses(at + 12, 4)
        old_checksum = _u16(data, at + 10)[0]
        if old_checksum and header_end == at + _IPV4_BYTES:
            # Only the addresses differ: update the checksum by the difference (RFC 1624).
            difference = addresses.new_sum - addresses.sum
            _put16(out, at + 10, _right(difference - old_checksum, old_checksum))
        else:
            self._add_sum(at, header_end, 10, None, 0)
        if _u16(data, at + 6)[0] & _FRAGMENT_BITS:
            return DROPPED
        return self._inside(kind, addresses)

    def _ipv6(self) -> int:
        cursor, data, out = self._cursor, self._data, self._out
        at = cursor.at - self._begin
        protocol, next_at = data[at + 6] if at + 40 <= len(data) else -1, at + 40
        kind = read_ipv6(cursor)
        if protocol < 0 or data[at] >> 4 != 6:
            return kind
        out[at] = data[at]
        # The flow label, which may be a hash of the addresses, is left out.
        out[at + 1] = data[at + 1] & 0xF0
        out[at + 4 : at + 8] = data[at + 4 : at + 8]
        addresses = self._addresses(at + 8, 16)
        header_end = min(cursor.at - self._begin, len(data))
        while next_at + 8 <= header_end:
            is_fragment = protocol == _FRAGMENT
            self._copy(next_at, next_at + (8 if is_fragment else 2))
            if is_fragment and _u16(data, next_at + 2)[0] & _FRAGMENT_OFFSET_AND_MORE:
                return DROPPED
            size = data[next_at + 1]
            size = 4 * size + 8 if protocol == _AUTHENTICATION else 8 * size + 8
            protocol, next_at = data[next_at], next_at + (8 if is_fragment else size)
        return self._inside(kind, addresses) if kind >= 0 else kind

    def _addresses(self, at: int, size: int) -> _Addresses:
        """Write the stand-ins of the two addresses at ``at``, each of ``size`` bytes."""
        both = self._data[at : at + 2 * size]
        addresses = self._known.get(both)
        if addresses is None:
            addresses = _Addresses(both, self._stand_ins)
            remember(self._known, both, addresses, _MAX_KNOWN)
        self._out[at : at + 2 * size] = addresses.new
        return addresses

    def _inside(self, kind: int, addresses: _Addresses) -> int:
        """Write the header inside IP; return the kind of the header inside a tunnel.

        Returns ``DROPPED`` if it is no tunnel.
        """
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
        header_end = cursor.at - self._begin
        if protocol == _UDP:
            is_geneve = data[at + 2 : at + 4] == _GENEVE_PORT
            self._copy(at + 8, min(header_end, at + 16) if is_geneve else header_end)
        elif protocol == _GRE:
            self._gre(at, min(header_end, end), end)
        else:
            self._copy(at, header_end)
        return DROPPED if following == kind else following

    def _gre(self, at: int, header_end: int, end: int) -> None:
        """Write a GRE header and the ERSPAN header after it."""
        data = self._data
        if at + 4 > min(header_end, len(data)):
            return
        flags, kind = _two_u16(data, at)
        self._copy(at, min(header_end, at + _MAX_ERSPAN_BYTES) if kind == _ERSPAN_3 else header_end)
        if flags & _GRE_CHECKSUM and at + 8 <= min(header_end, len(data)):
            self._out[at + 4 : at + 6] = bytes(2)
            self._add_sum(at, end, 4, None, 0)

    # -- transport --------------------------------------------------------------------------------

    def _tcp(self, at: int, end: int, addresses: _Addresses) -> None:
        data, out = self._data, self._out
        if at + 20 > len(data):
            return
        payload_at = at + (data[at + 12] >> 4) * 4
        out[at : at + 16] = data[at : at + 16]
        out[at + 18 : at + 20] = data[at + 18 : at + 20]
        self._add_sum(at, end, 16, addresses, _TCP)
        length = end - payload_at
        if payload_at < at + 20 or length < 0 or payload_at > len(data):
            return
        if payload_at > at + 20:
            out[at + 20 : payload_at] = _options(data[at + 20 : payload_at])
        if length:
            self.payload_at = payload_at
            sequence: int = _ports_and_sequence(data, at)[2]
            if data[at + 13] & _SYN:
                sequence += 1
            ports = data[at : at + 4]
            payload = self._payloads.payload(*addresses.ends, ports, sequence, length)
            last = min(payload_at + length, len(data))
            if payload is not None:
                out[payload_at:last] = payload[: last - payload_at]
            elif _CLEAR_ALERT.fullmatch(data, payload_at, last):
                out[payload_at:last] = data[payload_at:last]

    # -- checksums --------------------------------------------------------------------------------

    def _add_sum(
        self, at: int, end: int, checksum_at: int, pseudo: _Addresses | None, protocol: int
    ) -> None:
        """Note a checksum, to be written when all bytes that it covers are written.

        Args:
            at: position of the first covered byte.
            end: end of the covered bytes.
            checksum_at: position of the checksum, counted from ``at``.
            pseudo: the addresses of the pseudo-header; None if the checksum covers none.
            protocol: the protocol in the pseudo-header.
        """
        self._sums.append((at, end, checksum_at, pseudo, protocol))

    def _write_sum(self, checksum: _Sum) -> None:
        at, end, checksum_at, pseudo, protocol = checksum
        data, out = self._data, self._out
        old_checksum = _u16(data, at + checksum_at)[0]
        if not old_checksum and (protocol == _UDP or end > len(data)):
            return  # the packet has no checksum
        if end > len(data):
            _put16(out, at + checksum_at, self._stand_ins.checksums[old_checksum])
            return
        partial = new_partial = 0
        if pseudo is not None:
            more = protocol + end - at
            partial, new_partial = (pseudo.sum + more) % _ONES, (pseudo.new_sum + more) % _ONES
            if old_checksum and old_checksum % _ONES == partial:
                _put16(out, at + checksum_at, new_partial or _ONES)
                return
        old, new = partial + _sum(data[at:end]), new_partial + _sum(out[at:end])
        if not old_checksum and old % _ONES:
            return  # a checksum of 0 that does not match: the sender left it out
        value = _checksum(old_checksum, old, new)
        _put16(out, at + checksum_at, value or (_ONES if protocol == _UDP else 0))


class _Addresses:
    """The two addresses of a packet, their stand-ins, and the checksum sums of both pairs."""

    __slots__ = ("ends", "new", "new_sum", "sum")

    def __init__(self, both: bytes, stand_ins: StandIns) -> None:
        half = len(both) // 2
        self.ends = both[:half], both[half:]
        self.new = b"".join(map(stand_ins.address, self.ends))
        self.sum = _sum(both)
        self.new_sum = _sum(self.new)


def _sum(data: bytes | bytearray) -> int:
    """Return the ones' complement sum of the 16-bit words; 0, not 65535, for both forms of zero."""
    if len(data) & 1:
        data = data + b"\0"
    return int.from_bytes(data) % _ONES


def _checksum(old_checksum: int, old: int, new: int) -> int:
    """Return the new checksum: right if the old one was right, else wrong.

    Args:
        old_checksum: the checksum in the original packet.
        old: the sum of all old bytes, the checksum included: 0 if it was right.
        new: the sum of all new bytes, without the checksum.
    """
    right = _right(new, old_checksum)
    return right if old % _ONES == 0 else right ^ 0x5555


def _right(total: int, old_checksum: int) -> int:
    """Return the right checksum for a sum; zero is 0xFFFF if the old checksum was, else 0."""
    right = _ONES - total % _ONES
    return 0 if right == _ONES and old_checksum != _ONES else right


def _options(options: bytes) -> bytes:
    """Return TCP options; those not in :data:`_KEPT_OPTIONS` are replaced by NOPs."""
    if len(options) == _TIMESTAMPS_BYTES and options.startswith(_TIMESTAMPS):
        return options
    out = bytearray(_NO_OPTION * len(options))
    at = 0
    while at < len(options):
        kind = options[at]
        if kind <= 1:
            out[at] = kind
            if not kind:
                out[at:] = bytes(len(options) - at)
                break
            at += 1
            continue
        size = options[at + 1] if at + 1 < len(options) else 0
        if size < 2 or at + size > len(options):
            break
        if kind in _KEPT_OPTIONS:
            out[at : at + size] = options[at : at + size]
        at += size
    return bytes(out)


_Sum: TypeAlias = "tuple[int, int, int, _Addresses | None, int]"
"""The arguments of :meth:`PacketAnonymizer._add_sum`."""


_DOT11: Final = 105
_NETFILTER_LOG: Final = 239
_PRISM, _RADIOTAP, _AVS, _PPI, _PKTAP = 119, 127, 163, 192, 258
_RADIOTAP_BYTES: Final = 8
_HAS_FLAGS: Final = 2
_TYPE_OF_DATA, _TYPE = 0x08, 0x0C
_QOS: Final = 0x80
_QOS_BYTES: Final = 2
_BETWEEN_STATIONS: Final = 0x03
_DOT11_BYTES: Final = 24
_ADDRESSES: Final = (4, 10, 16)
_MAC_BYTES: Final = 6
_LOG_HEADER_BYTES: Final = 4
_VALUE_HEAD_BYTES: Final = 4


def _carrier_header(data: bytes, link_type: int) -> tuple[bytes, int] | None:
    """Return the header that is before a packet, anonymized, and the link type of that packet.

    None if the link type has no such header, or if it is not all there.
    """
    if link_type == _RADIOTAP:
        size, following = int.from_bytes(data[2:4], "little"), _DOT11
        kept = _radiotap(data[:size]) if size >= _RADIOTAP_BYTES else b""
    elif link_type in (_PRISM, _AVS):
        size, following, kept = prism_bytes(data[:8]), _DOT11, data[:8]
    elif link_type == _PPI:
        size, following = int.from_bytes(data[2:4], "little"), int.from_bytes(data[4:8], "little")
        kept = data[:8]
    elif link_type == _PKTAP:
        size, following = int.from_bytes(data[:4], "little"), int.from_bytes(data[8:12], "little")
        kept = data[:12]
    else:
        return None
    if not 0 < len(kept) <= size <= len(data):
        return None
    return kept + bytes(size - len(kept)), following


def _radiotap(header: bytes) -> bytes:
    """Return a radiotap header without fields, but for the flag of padding."""
    flags = (radiotap_flags(header) or 0) & DATA_PAD
    present = (_HAS_FLAGS if flags else 0).to_bytes(4, "little")
    return header[:4] + present + (bytes((flags,)) if flags else b"")


def _dot11_header(data: bytes, mac: Callable[[bytes], bytes]) -> bytes:
    """Return the 802.11 header at the beginning of ``data``, without what is after QoS control.

    Of frames that are not data, only the kind and the flags stay. ``mac`` returns the stand-in of
    an address.
    """
    if len(data) < _DOT11_BYTES or data[0] & _TYPE != _TYPE_OF_DATA:
        return data[:2]
    addresses = [mac(data[at : at + _MAC_BYTES]) for at in _ADDRESSES]
    header = data[:4] + b"".join(addresses) + data[_DOT11_BYTES - 2 : _DOT11_BYTES]
    if data[1] & _BETWEEN_STATIONS == _BETWEEN_STATIONS:
        fourth = data[_DOT11_BYTES : _DOT11_BYTES + _MAC_BYTES]
        if len(fourth) < _MAC_BYTES:
            return header
        header += mac(fourth)
    at = len(header)
    return header + data[at : at + _QOS_BYTES] if data[0] & _QOS else header


def _netfilter_log_header(data: bytes, end: int) -> bytes:
    """Return kinds and lengths of netfilter's log before the packet in it, which is at ``end``."""
    end = min(end, len(data))
    header = bytearray(end)
    header[:2] = data[:2]
    at = _LOG_HEADER_BYTES
    while at + _VALUE_HEAD_BYTES <= end:
        head = data[at : at + _VALUE_HEAD_BYTES]
        header[at : at + _VALUE_HEAD_BYTES] = head
        size = value_head(head)[1]
        if size < _VALUE_HEAD_BYTES:
            break
        at += (size + 3) & ~3
    return bytes(header[:end])
