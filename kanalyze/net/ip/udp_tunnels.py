"""Tunnels in UDP: VXLAN, Geneve and GTP-U, recognized by port and by content.

In: a cursor at a UDP header. Out: the kind of what the tunnel carries, the cursor there.

VXLAN: RFC 7348; its group policy extension: draft-smith-vxlan-group-policy; VXLAN-GPE:
draft-ietf-nvo3-vxlan-gpe. Geneve: RFC 8926. Mirrored traffic of Amazon's clouds is VXLAN. GTP-U:
3GPP TS 29.281.

A port alone proves nothing. A packet counts as a tunnel only if the reserved bits are 0 and the
content looks like what the header says; otherwise it stays UDP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.net.header_kinds import ETHERNET, IP_PROTOCOL, IPV4, IPV6
from kanalyze.net.header_names import tunnel_bit
from kanalyze.net.link.ethernet import looks_like_ethernet, looks_like_ip

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["UDP_TUNNEL_PORTS", "read_udp"]

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
