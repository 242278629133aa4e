"""Ethernet frames: tags, IEEE 802.2, and checks that bytes are such a frame.

In: a cursor at an Ethernet header. Out: the kind of what it carries, the cursor there.

Ethernet and its tags: IEEE 802.3, 802.1Q; SNAP: RFC 1042.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_kinds import ARP, IPV4, IPV6, LLC, LLC_FRAME, MPLS, PPPOE

    ETHERNET_BYTES = 14
    TYPE_AT = 12
    MAX_TAGS = 8
    MAX_LENGTH = 1500  # up to here the two bytes of the ethertype are the length of an 802.3 frame
    SNAP = 0xAAAA03
    SNAP_BYTES = 8
    LLC_IP = 0x060603  # IP in LLC without SNAP
    LLC_BYTES = 3
    LLDP = 0x88CC
    # 802.1Q, 802.1ad, and what came before 802.1ad.
    TAG_Q, TAG_AD, TAG_OLD, TAG_OLDER = 0x8100, 0x88A8, 0x9100, 0x9200

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

__all__ = [
    "BEFORE_IP",
    "looks_like_ethernet",
    "looks_like_ip",
    "read_ethernet",
    "read_llc",
    "without_tags",
]

BEFORE_IP: Final = "before the IP header"


def read_ethernet(cursor: HeaderCursor) -> int:
    """Step over an Ethernet header and its VLAN tags; return the kind of the next header."""
    if not cursor.fits(ETHERNET_BYTES):
        return cursor.cut(BEFORE_IP)
    kind = cursor.u16(cursor.at + TYPE_AT)
    cursor.at += ETHERNET_BYTES
    if kind == IPV4:
        return kind
    kind = without_tags(cursor, kind)
    return LLC_FRAME if 0 <= kind <= MAX_LENGTH else kind


def without_tags(cursor: HeaderCursor, kind: int) -> int:
    """Step over VLAN tags: 2 bytes of tag, then the next ethertype."""
    for _i in range(MAX_TAGS):
        if not is_tag(kind):
            break
        if not cursor.fits(4):
            return cursor.cut(BEFORE_IP)
        kind = cursor.u16(cursor.at + 2)
        cursor.at += 4
    return kind


def is_tag(kind: int) -> bool:
    """Return true if an ethertype is that of a VLAN tag."""
    return kind in (TAG_Q, TAG_AD, TAG_OLD, TAG_OLDER)


def read_llc(cursor: HeaderCursor) -> int:
    """Step over an IEEE 802.2 header, with SNAP or without."""
    if not cursor.fits(LLC_BYTES):
        return cursor.cut(BEFORE_IP)
    start = cursor.u16(cursor.at) << 8 | cursor.u8(cursor.at + 2)
    kind = LLC | (start >> 16)
    if start == LLC_IP:
        cursor.at += LLC_BYTES
        return IPV4
    if start == SNAP:
        # An ethertype follows: RFC 1042, and IEEE 802.1H.
        organization, ethertype = cursor.peek32(2) & 0xFFFFFF, cursor.peek16(6)
        if organization in (0x000000, 0x0000F8) and ethertype >= 0:
            cursor.at += SNAP_BYTES
            kind = ethertype
    return without_tags(cursor, kind)


def looks_like_ip(cursor: HeaderCursor, skip: int, kind: int) -> bool:
    """Return true if an IP header may begin ``skip`` bytes from here; ``kind`` is IPV4 or IPV6.

    The version has to be right; for IPv4, the lengths have to be possible, too.
    """
    first = cursor.peek8(skip)
    if kind == IPV6:
        return first >> 4 == 6
    total_bytes = cursor.peek16(skip + 2)
    header_bytes = (first & 15) * 4
    return (
        first >> 4 == 4 and header_bytes >= 20 and (total_bytes <= 0 or total_bytes >= header_bytes)
    )


def looks_like_ethernet(cursor: HeaderCursor, skip: int) -> bool:
    """Return true if an Ethernet header may begin ``skip`` bytes from here.

    Its ethertype has to be a known one, and IP has to follow where it says so. False if the packet
    ends before that.
    """
    ethertype = cursor.peek16(skip + TYPE_AT)
    if ethertype in (IPV4, IPV6):
        return looks_like_ip(cursor, skip + ETHERNET_BYTES, ethertype)
    return is_tag(ethertype) or ethertype in (ARP, MPLS, PPPOE, LLDP)
