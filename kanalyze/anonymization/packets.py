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

from struct import Struct
from typing import TYPE_CHECKING, Final

from kanalyze.anonymization.rewriting import PlainPackets
from kanalyze.net.capture_headers import DATA_PAD, prism_bytes, radiotap_flags, value_head
from kanalyze.net.header_kinds import DROPPED, ETHERNET, LLC_FRAME
from kanalyze.net.headers import read_other
from kanalyze.net.tunnels import read_in_ip

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.anonymization.rewriting import Addresses

_ETHERNET_LINK, _COOKED, _COOKED_2 = 1, 113, 276
_COPIED_LINKS: Final = frozenset((0, 9, 12, 14, 50, 51, 101, 104, 108, 228, 229))
"""Link types without addresses of their own: BSD loopback, PPP and HDLC, PPPoE, raw IP."""
_LLC_BYTES: Final = 3
_ICMP, _UDP, _GRE, _ICMP_6 = 1, 17, 47, 58
_PROTOCOL: Final = 0xFF
_GENEVE_PORT: Final = (6081).to_bytes(2)
_GRE_CHECKSUM: Final = 0x8000
_ERSPAN_3: Final = 0x22EB
_MAX_ERSPAN_BYTES: Final = 20
"""GRE with a sequence number, and ERSPAN without what a platform adds."""

_two_u16 = Struct(">HH").unpack_from


class PacketAnonymizer(PlainPackets):
    """Makes packets anonymous, one at a time."""

    # -- link layers ------------------------------------------------------------------------------

    def link(self, link_type: int, header_end: int, is_read: bool) -> bool:
        """Write a link-layer header other than Ethernet; see :meth:`.PlainPackets.link`."""
        at = 0
        data = self.data
        carrier = _carrier_header(data, link_type)
        if carrier is not None:
            header, link_type = carrier
            at = len(header)
            self.put(0, header)
        if link_type == _ETHERNET_LINK:
            self.ethernet(at, header_end)
        elif link_type == _COOKED:
            self.copy(at, header_end)
            is_mac = data[at + 4 : at + 6] == b"\0\6"
            self._cooked_address(at + 6, at + 14, header_end, is_mac=is_mac)
        elif link_type == _COOKED_2:
            self.copy(at, header_end)
            is_mac = data[at + 11 : at + 12] == b"\6"
            self._cooked_address(at + 12, at + 20, header_end, is_mac=is_mac)
        elif link_type in _COPIED_LINKS:
            self.copy(at, header_end)
        elif link_type == _DOT11:
            header = _dot11_header(data[at:], self.stand_ins.mac)
            self.put(at, header)
        elif link_type == _NETFILTER_LOG and is_read:
            header = _netfilter_log_header(data[at:], header_end - at)
            self.put(at, header)
        else:
            return False
        return True

    def _cooked_address(self, at: int, end: int, header_end: int, *, is_mac: bool) -> None:
        if header_end < end:
            return
        self.put(at, bytes(end - at))
        if is_mac:
            self.put(at, self.stand_ins.mac(self.data[at : at + 6]))

    def other_header(self, kind: int) -> int:
        """Write a header that is not IP; return the kind of the next one, below 0 for none."""
        cursor = self.cursor
        at = cursor.at - self.begin_at
        following = read_other(cursor, kind)
        if kind == ETHERNET:
            self.ethernet(at, cursor.at - self.begin_at)
        else:
            self.copy(at, max(cursor.at - self.begin_at, at + _LLC_BYTES * (kind == LLC_FRAME)))
        return following

    # -- inside IP --------------------------------------------------------------------------------

    def other_inside(self, kind: int, addresses: Addresses) -> int:
        """Write a header inside IP that is not TCP; return the kind of that inside a tunnel.

        Returns ``DROPPED`` if it is no tunnel.
        """
        cursor, data = self.cursor, self.data
        at = cursor.at - self.begin_at
        end = cursor.ip_end - self.begin_at
        protocol = kind & _PROTOCOL
        if protocol in (_ICMP, _ICMP_6):
            if at + 4 <= len(data):
                self.copy(at, at + 2)
                self.add_sum(at, end, 2, addresses if protocol == _ICMP_6 else None, protocol)
            return DROPPED
        if protocol == _UDP and at + 8 <= len(data):
            self.copy(at, at + 6)
            self.add_sum(at, end, 6, addresses, _UDP)
        following = read_in_ip(cursor, kind)
        header_end = cursor.at - self.begin_at
        if protocol == _UDP:
            is_geneve = data[at + 2 : at + 4] == _GENEVE_PORT
            self.copy(at + 8, min(header_end, at + 16) if is_geneve else header_end)
        elif protocol == _GRE:
            self._gre(at, min(header_end, end), end)
        else:
            self.copy(at, header_end)
        return DROPPED if following == kind else following

    def _gre(self, at: int, header_end: int, end: int) -> None:
        """Write a GRE header and the ERSPAN header after it."""
        data = self.data
        if at + 4 > min(header_end, len(data)):
            return
        flags, kind = _two_u16(data, at)
        self.copy(at, min(header_end, at + _MAX_ERSPAN_BYTES) if kind == _ERSPAN_3 else header_end)
        if flags & _GRE_CHECKSUM and at + 8 <= min(header_end, len(data)):
            self.put(at + 4, bytes(2))
            self.add_sum(at, end, 4, None, 0)


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
