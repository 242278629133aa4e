"""Linux netfilter's log (LINKTYPE_NFLOG): a packet as one of several tagged values.

In: a cursor at such a header. Out: the kind of the packet in it, the cursor there.

Layout: https://www.tcpdump.org/linktypes/LINKTYPE_NFLOG.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.header_kinds import FAMILY, IPV4, IPV6
from kanalyze.net.link.ethernet import BEFORE_IP

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["read_nflog", "value_head"]

_HEADER_BYTES: Final = 4
_TAG_BYTES: Final = 4
_PAYLOAD: Final = 9
_MAX_VALUES: Final = 32
"""The kernel has about twenty kinds of values; each is in a packet at most once."""
_FAMILIES: Final = {2: IPV4, 10: IPV6}


def read_nflog(cursor: HeaderCursor) -> int:
    """Step over the values in front of the one that is the packet."""
    if not cursor.fits(_HEADER_BYTES):
        return cursor.cut(BEFORE_IP)
    family = cursor.u8(cursor.at)
    cursor.at += _HEADER_BYTES
    if family not in _FAMILIES:
        return FAMILY | family
    for _ in range(_MAX_VALUES):
        if not cursor.fits(_TAG_BYTES):
            return cursor.cut(BEFORE_IP)
        tag, size = value_head(cursor.rest(_TAG_BYTES))
        if size < _TAG_BYTES:
            break
        if tag == _PAYLOAD:
            cursor.at += _TAG_BYTES
            return _FAMILIES[family]
        cursor.at += (size + 3) & ~3
    return FAMILY | family


def value_head(head: bytes) -> tuple[int, int]:
    """Return the kind of a value and its length, which includes these 4 bytes.

    Both are in the byte order of the machine that wrote them. Kinds are small numbers, so the
    smaller reading of a kind is the right one.
    """
    tag, swapped = int.from_bytes(head[2:], "little"), int.from_bytes(head[2:], "big")
    return min(tag, swapped), int.from_bytes(head[:2], "little" if tag <= swapped else "big")
