"""Tunnels that are protocols of IP: IP in IP, GRE, MPLS in IP, EtherIP; and those in UDP.

In: a cursor at the payload of IP. Out: the kind of the tunnel's content, the cursor there.

IP in IP: RFC 2003, 2473, 4213. MPLS in IP: RFC 4023. GRE: RFC 2784, 2890; with Ethernet inside:
RFC 7637; version 1, PPTP's: RFC 2637. ERSPAN: draft-foschiano-erspan. EtherIP: RFC 3378.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.header_kinds import (
    ANY_IP,
    ETHERNET,
    GRE,
    IP_PROTOCOL,
    IPV4,
    IPV6,
    MPLS,
    MPLS_MULTICAST,
    PPP,
)
from kanalyze.net.header_names import tunnel_bit
from kanalyze.net.ip.udp_tunnels import read_udp
from kanalyze.net.link.mpls import read_mpls

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["READERS", "read_gre", "read_in_ip"]

_GRE_BYTES: Final = 4
_CHECKSUM: Final = 0x8000
_ROUTING: Final = 0x4000
_KEY: Final = 0x2000
_SEQUENCE: Final = 0x1000
_VERSION: Final = 0x0007
_PPTP_BYTES: Final = 8
_PPTP_ACKNOWLEDGMENT: Final = 0x0080
_CARRIED: Final = (IPV4, IPV6, ETHERNET, MPLS, MPLS_MULTICAST)
_ERSPAN: Final = 0x88BE
"""Type I has no sequence number, and nothing in front of the frame; type II has both."""
_ERSPAN_2_BYTES: Final = 8
_ERSPAN_3: Final = 0x22EB
_ERSPAN_3_BYTES: Final = 12
_ERSPAN_3_MORE_BYTES: Final = 8
"""Of the platform-specific part, which a flag announces."""
_ERSPAN_3_FRAMES: Final = {0: ETHERNET, 2: ANY_IP}
_WITHIN_GRE: Final = "within the GRE header"
_ETHERIP_VERSION: Final = 3
_ETHERIP_BYTES: Final = 2


def read_in_ip(cursor: HeaderCursor, kind: int) -> int:
    """Step into a tunnel inside IP; a packet without one keeps its kind."""
    read = READERS.get(kind)
    return kind if read is None else read(cursor)


def _read_etherip(cursor: HeaderCursor) -> int:
    """Step over the header of EtherIP; a packet without one keeps its kind."""
    if cursor.peek16(0) >> 12 != _ETHERIP_VERSION:
        return IP_PROTOCOL | 97
    cursor.enter(tunnel_bit("EtherIP"))
    cursor.at += _ETHERIP_BYTES
    return ETHERNET


def read_gre(cursor: HeaderCursor) -> int:
    """Step over a GRE header without routing; for another one, return ``GRE | protocol``."""
    if not cursor.fits(_GRE_BYTES):
        return cursor.cut(_WITHIN_GRE)
    flags, protocol = cursor.u16(cursor.at), cursor.u16(cursor.at + 2)
    # PPTP's: version 1 with a key, without checksum and routing.
    if flags & (_CHECKSUM | _ROUTING | _KEY | _VERSION) == _KEY | 1 and protocol == PPP:
        return _read_pptp(cursor, flags)
    cursor.at += _GRE_BYTES + 4 * sum(bool(flags & f) for f in (_CHECKSUM, _KEY, _SEQUENCE))
    if flags & (_ROUTING | _VERSION):
        return GRE | protocol
    if protocol in (_ERSPAN, _ERSPAN_3):
        return _read_erspan(cursor, protocol, has_sequence=flags & _SEQUENCE != 0)
    if protocol not in _CARRIED:
        return GRE | protocol
    cursor.enter(tunnel_bit("GRE"))
    return protocol


def _read_pptp(cursor: HeaderCursor, flags: int) -> int:
    """Step over GRE version 1: its key is the length of what it carries, and a call."""
    if not cursor.fits(_PPTP_BYTES):
        return cursor.cut(_WITHIN_GRE)
    if cursor.u16(cursor.at + _GRE_BYTES) == 0:
        return GRE | PPP
    cursor.at += _PPTP_BYTES + 4 * sum(bool(flags & f) for f in (_SEQUENCE, _PPTP_ACKNOWLEDGMENT))
    cursor.enter(tunnel_bit("GRE"))
    return PPP


def _read_erspan(cursor: HeaderCursor, protocol: int, *, has_sequence: bool) -> int:
    version = cursor.peek8(0) >> 4
    kind, size = None, 0
    if protocol == _ERSPAN_3:
        last = cursor.peek16(10)
        if version == 2 and last >= 0:
            kind = _ERSPAN_3_FRAMES.get(last >> 10 & 0x1F)
            size = _ERSPAN_3_BYTES + (_ERSPAN_3_MORE_BYTES if last & 1 else 0)
    elif not has_sequence:
        kind = ETHERNET
    elif version == 1:
        kind, size = ETHERNET, _ERSPAN_2_BYTES
    if kind is None:
        return GRE | protocol
    cursor.enter(tunnel_bit("ERSPAN"))
    cursor.at += size
    return kind


def _read_ip_in_ip(kind: int) -> Callable[[HeaderCursor], int]:
    def read(cursor: HeaderCursor) -> int:
        cursor.enter(tunnel_bit("IP in IP"))
        return kind

    return read


READERS: Final[dict[int, Callable[[HeaderCursor], int]]] = {
    IP_PROTOCOL | 4: _read_ip_in_ip(IPV4),
    IP_PROTOCOL | 17: read_udp,
    IP_PROTOCOL | 41: _read_ip_in_ip(IPV6),
    IP_PROTOCOL | 47: read_gre,
    IP_PROTOCOL | 97: _read_etherip,
    IP_PROTOCOL | 137: read_mpls,
}
"""What reads each of :data:`kanalyze.net.ip.ip_headers.TUNNEL_PROTOCOLS`."""
