"""Tunnels: what lies between a link layer and IP, or between IP and IP.

In: a cursor at such a header. Out: the kind of what the tunnel carries, the cursor there.

- In IP: IP in IP (RFC 2003, 2473, 4213), MPLS in IP (RFC 4023), GRE (RFC 2784, 2890; with Ethernet
  inside: RFC 7637; version 1, PPTP's: RFC 2637), ERSPAN (draft-foschiano-erspan), EtherIP
  (RFC 3378).
- In UDP, recognized by port and by content: VXLAN (RFC 7348; its group policy extension:
  draft-smith-vxlan-group-policy; VXLAN-GPE: draft-ietf-nvo3-vxlan-gpe), Geneve (RFC 8926), GTP-U
  (3GPP TS 29.281). Mirrored traffic of Amazon's clouds is VXLAN. A port alone proves nothing. A
  packet counts as a tunnel only if the reserved bits are 0 and the content looks like what the
  header says; otherwise it stays UDP.
- Behind the link layer: PPP (RFC 1661; in HDLC-like framing: RFC 1662; over Ethernet: RFC 2516),
  Cisco's HDLC (https://www.tcpdump.org/linktypes.html), MPLS, 802.1ah (IEEE 802.1Q, 9.7).
- MPLS labels (RFC 3032): no field says what follows the last one. The first half byte of an IP
  packet is 4 or 6, that of a control word 0 or 1 (RFC 4385); Ethernet comes with a control word or
  without (RFC 4448).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.net.header_cursor import BEFORE_IP, looks_like_ethernet, looks_like_ip
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
    PPP_PROTOCOL,
    UNREADABLE_MPLS,
    tunnel_bit,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.header_cursor import HeaderCursor

# -- in IP: IP, GRE, EtherIP ----------------------------------------------------------------------

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


# -- in UDP: VXLAN, Geneve, GTP-U ------------------------------------------------------------------


_UDP: Final = IP_PROTOCOL | 17
_UDP_BYTES: Final = 8
_BASE_BYTES: Final = 8
"""Of a VXLAN or Geneve header, without options."""
_FRAME_BYTES: Final = 15
"""Of an Ethernet header, and the first byte of its content."""
_GTP_1: Final = 3
"""Upper half of the first byte: version 1, and GTP, not GTP'."""
_GTP_DATA: Final = 255
_GTP_OPTIONAL: Final = 7
"""Flags for an extension, a sequence number and an N-PDU number; any of them adds room for all."""
_GTP_EXTENSION: Final = 4
_GTP_OPTIONAL_BYTES: Final = 4
_MAX_EXTENSIONS: Final = 8
_INSIDE: Final = "within a tunnel's header"


class _TunnelHeader(NamedTuple):
    """The values of a tunnel's header; plausible values if it was cut."""

    size: int
    kind: int
    """ETHERNET, IPV4 or IPV6; 0 where something else is carried."""


def read_udp(cursor: HeaderCursor) -> int:
    """Step over UDP and tunnel headers; a packet without a tunnel keeps the kind of UDP."""
    tunnel = _BY_PORT.get(cursor.peek16(2))
    if tunnel is None:
        return _UDP
    name, read = tunnel
    at = cursor.at
    cursor.at += _UDP_BYTES
    header = read(cursor)
    if header is not None:
        cursor.at += header.size
        if _looks_like(cursor, header.kind):
            cursor.enter(tunnel_bit(name))
            return header.kind
        # Too little was captured to decide: count it as cut, not as other UDP traffic.
        needed = _FRAME_BYTES if header.kind == ETHERNET else _BASE_BYTES
        is_short = cursor.at + needed > cursor.limit
        if header.kind and is_short and cursor.limit < cursor.end:
            return cursor.cut(_INSIDE)
    cursor.at = at
    return _UDP


def _looks_like(cursor: HeaderCursor, kind: int) -> bool:
    """Return true if the content looks like the kind that the tunnel's header says."""
    if kind == ETHERNET:
        return looks_like_ethernet(cursor, 0)
    return kind in (IPV4, IPV6) and looks_like_ip(cursor, 0, kind)


def _read_vxlan(cursor: HeaderCursor) -> _TunnelHeader | None:
    word, last = cursor.peek32(0), cursor.peek8(7)
    # The flag for a network identifier is set; a group policy may be there, with its two flags and
    # a group of 16 bits.
    good = word < 0 or word == 0x0800_0000 or word & 0xFFB7_0000 == 0x8800_0000
    return _TunnelHeader(_BASE_BYTES, ETHERNET) if good and last <= 0 else None


def _read_vxlan_gpe(cursor: HeaderCursor) -> _TunnelHeader | None:
    word, last = cursor.peek32(0), cursor.peek8(7)
    if last > 0:
        return None
    if word < 0:
        return _TunnelHeader(_BASE_BYTES, ETHERNET)
    # Version 0, with a network identifier, no maintenance packet. The last byte is the protocol of
    # the content; without the flag for that field, the content is Ethernet.
    if word & 0xF9FF_FF00 != 0x0800_0000:
        return None
    number = word & 0xFF if word & 0x0400_0000 else 3
    return _TunnelHeader(_BASE_BYTES, {1: IPV4, 2: IPV6, 3: ETHERNET}.get(number, 0))


def _read_geneve(cursor: HeaderCursor) -> _TunnelHeader | None:
    word, last = cursor.peek32(0), cursor.peek8(7)
    if last > 0:
        return None
    if word < 0:
        return _TunnelHeader(_BASE_BYTES, ETHERNET)
    # Version 0, any length of options, no control packet; critical options are allowed.
    if word & 0xC0BF_0000:
        return None
    kind = word & 0xFFFF
    options = (word >> 24 & 0x3F) * 4
    return _TunnelHeader(_BASE_BYTES + options, kind if kind in (ETHERNET, IPV4, IPV6) else 0)


def _read_gtp(cursor: HeaderCursor) -> _TunnelHeader | None:
    # Version 1 of GTP, a user's data packet.
    if cursor.peek8(0) >> 4 != _GTP_1 or cursor.peek8(1) != _GTP_DATA:
        return None
    size = _gtp_bytes(cursor)
    if size is None:
        return None
    # Where the header was cut, the content is taken for IP, so that the packet counts as cut.
    version = cursor.peek8(size) >> 4
    return _TunnelHeader(size, {4: IPV4, 6: IPV6, -1: IPV4}.get(version, 0))


def _gtp_bytes(cursor: HeaderCursor) -> int | None:
    """Return the length of a GTP header with its extensions; None if they have no end."""
    flags, size = cursor.peek8(0), _BASE_BYTES
    if flags & _GTP_OPTIONAL:
        size += _GTP_OPTIONAL_BYTES
    if not flags & _GTP_EXTENSION:
        return size
    for _ in range(_MAX_EXTENSIONS + 1):
        if cursor.peek8(size - 1) <= 0:
            return size
        # An extension: its length in units of four bytes, the content, the type of the next one.
        words = cursor.peek8(size)
        if words == 0:
            return None
        size += 4 * max(words, 1)
    return None


_BY_PORT: Final[dict[int, tuple[str, Callable[[HeaderCursor], _TunnelHeader | None]]]] = {
    4789: ("VXLAN", _read_vxlan),
    8472: ("VXLAN", _read_vxlan),
    4790: ("VXLAN", _read_vxlan_gpe),
    6081: ("Geneve", _read_geneve),
    2152: ("GTP-U", _read_gtp),
}
"""Ports of IANA, and 8472, which Linux used before VXLAN had one."""
UDP_TUNNEL_PORTS: Final = tuple(_BY_PORT)


# -- MPLS and 802.1ah ------------------------------------------------------------------------------


_LABEL_BYTES: Final = 4
_CONTROL_WORD_BYTES: Final = 4
_IPV6_BYTES: Final = 40
_CHECK_BYTES: Final = 4
_SHORT_FRAME_BYTES: Final = 64


def read_mpls(cursor: HeaderCursor) -> int:
    """Step over one label; after the last of a stack, return the kind of the content."""
    if not cursor.fits(_LABEL_BYTES):
        return cursor.cut(BEFORE_IP)
    is_last = cursor.u8(cursor.at + 2) & 1
    cursor.at += _LABEL_BYTES
    cursor.enter(tunnel_bit("MPLS"))
    return _behind_labels(cursor) if is_last else MPLS


def _behind_labels(cursor: HeaderCursor) -> int:
    if not cursor.fits(1):
        return cursor.cut(BEFORE_IP)
    # First the check whether an IP packet fills the rest exactly, then what the bytes look like:
    # an IP address may look like an ethertype, and an Ethernet address may begin with a 4 or a 6,
    # or with the 0 of a control word.
    for kind in (IPV6, IPV4):
        if _fills(cursor, kind):
            return kind
    half = cursor.u8(cursor.at) >> 4
    if half == 0 and looks_like_ethernet(cursor, _CONTROL_WORD_BYTES):
        cursor.at += _CONTROL_WORD_BYTES
        return ETHERNET
    if looks_like_ethernet(cursor, 0):
        return ETHERNET
    return {4: IPV4, 6: IPV6}.get(half, UNREADABLE_MPLS)


def _fills(cursor: HeaderCursor, kind: int) -> bool:
    """Return true if an IP header begins here whose length is exactly what is left of the packet.

    After that length the frame check sequence may follow, and in the shortest frames padding.
    """
    length = cursor.peek16(2) if kind == IPV4 else cursor.peek16(4) + _IPV6_BYTES
    behind = cursor.end - cursor.at - length
    is_short = cursor.wire_bytes <= _SHORT_FRAME_BYTES
    fits = behind in (0, _CHECK_BYTES) or (is_short and behind > 0)
    return fits and looks_like_ip(cursor, 0, kind)


_PBB_TAG_BYTES: Final = 4
"""Priority and flags, and the identifier of the service; the customer's addresses follow."""


def read_pbb(cursor: HeaderCursor) -> int:
    """Step over the tag of 802.1ah: the customer's Ethernet frame follows it."""
    if not cursor.fits(_PBB_TAG_BYTES + 1):
        return cursor.cut(BEFORE_IP)
    cursor.at += _PBB_TAG_BYTES
    cursor.enter(tunnel_bit("802.1ah"))
    return ETHERNET


# -- PPP and Cisco's HDLC --------------------------------------------------------------------------


_ADDRESS_AND_CONTROL: Final = 0xFF03
_PROTOCOLS: Final = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS, 0x0283: MPLS_MULTICAST}
_CISCO_ADDRESSES: Final = (0x0F, 0x8F)
"""Unicast and multicast."""
_CISCO_BYTES: Final = 4
_PPPOE_BYTES: Final = 6
_SESSION: Final = 0x1100
"""Version 1, type 1, code 0."""
_DISCOVERY: Final = 0x8863


def read_ppp(cursor: HeaderCursor) -> int:
    """Step over a PPP header; address and control may be left out, the protocol be one byte."""
    if cursor.peek16(0) == _ADDRESS_AND_CONTROL:
        cursor.at += 2
    if not cursor.fits(1):
        return cursor.cut(BEFORE_IP)
    protocol, size = cursor.u8(cursor.at), 1
    # The last byte of a protocol number is odd, those before it are even.
    if not protocol & 1:
        if not cursor.fits(2):
            return cursor.cut(BEFORE_IP)
        protocol, size = cursor.u16(cursor.at), 2
    cursor.at += size
    return _PROTOCOLS.get(protocol, PPP_PROTOCOL | protocol)


def read_cisco_hdlc(cursor: HeaderCursor) -> int:
    """Step over Cisco's HDLC header: address, control, an ethertype."""
    if not cursor.fits(_CISCO_BYTES):
        return cursor.cut(BEFORE_IP)
    cursor.at += _CISCO_BYTES
    return cursor.u16(cursor.at - 2)


def read_hdlc(cursor: HeaderCursor) -> int:
    """Step over an HDLC header of PPP or of Cisco; the address field says which."""
    is_cisco = cursor.peek8(0) in _CISCO_ADDRESSES
    return read_cisco_hdlc(cursor) if is_cisco else read_ppp(cursor)


def read_pppoe(cursor: HeaderCursor) -> int:
    """Step over the PPPoE header of a session; another one is counted as PPPoE discovery."""
    if not cursor.fits(_PPPOE_BYTES):
        return cursor.cut(BEFORE_IP)
    at = cursor.at
    if cursor.u16(at) != _SESSION:
        return _DISCOVERY
    cursor.shorten(min(at + _PPPOE_BYTES + cursor.u16(at + 4), cursor.end))
    cursor.enter(tunnel_bit("PPPoE"))
    cursor.at += _PPPOE_BYTES
    return PPP


READERS: Final[dict[int, Callable[[HeaderCursor], int]]] = {
    IP_PROTOCOL | 4: _read_ip_in_ip(IPV4),
    IP_PROTOCOL | 17: read_udp,
    IP_PROTOCOL | 41: _read_ip_in_ip(IPV6),
    IP_PROTOCOL | 47: read_gre,
    IP_PROTOCOL | 97: _read_etherip,
    IP_PROTOCOL | 137: read_mpls,
}
"""What reads each of :data:`kanalyze.net.header_cursor.TUNNEL_PROTOCOLS`."""
