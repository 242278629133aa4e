"""MPLS: labels, and a guess at what follows them, because no field of a packet says it.

In: a cursor at an MPLS label. Out: the kind of what the labels carry, the cursor there.

Labels: RFC 3032. What may follow the last label: RFC 4385 (the first half byte of an IP packet is
4 or 6, that of a control word 0 or 1), RFC 4448 (Ethernet, with a control word or without).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.header_kinds import ETHERNET, IPV4, IPV6, MPLS, UNREADABLE_MPLS
from kanalyze.net.header_names import tunnel_bit
from kanalyze.net.link.ethernet import BEFORE_IP, looks_like_ethernet, looks_like_ip

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["read_mpls"]

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
