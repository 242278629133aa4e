"""Ethernet frames: tags, IEEE 802.2, and what a frame must look like to be believed.

In: places of Ethernet headers. Out: places of what they carry. Must not know: what is around.

Ethernet and its tags: IEEE 802.3, 802.1Q; SNAP: RFC 1042.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.net.columns import Headers, Places
from kanalyze.net.kinds import ARP, IPV4, IPV6, LLC, LLC_FRAME, MPLS, PPPOE, TAGS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.net.columns import Packets

__all__ = [
    "BEFORE_IP",
    "looks_like_ethernet",
    "looks_like_ip",
    "read_ethernet",
    "read_llc",
    "without_tags",
]

BEFORE_IP: Final = "before the IP header"
_ETHERNET_BYTES: Final = 14
_TYPE_AT: Final = 12
_MAX_TAGS: Final = 8
_CUT: Final = -1
_MAX_LENGTH: Final = 1500
"""Up to here the two bytes of the ethertype are the length of an 802.3 frame."""
_SNAP: Final = 0xAAAA03
_SNAP_BYTES: Final = 8
_SNAP_ORGANIZATIONS: Final = (0x000000, 0x0000F8)
"""An ethertype follows: RFC 1042, and IEEE 802.1H."""
_LLC_IP: Final = 0x060603
"""IP in LLC without SNAP."""
_LLC_BYTES: Final = 3
_SEEN_INSIDE: Final = (*TAGS, ARP, MPLS, PPPOE, 0x88CC)


def read_ethernet(packets: Packets, places: Places) -> Headers:
    """Step over Ethernet headers and the tags behind."""
    places = packets.long_enough(places, _ETHERNET_BYTES, BEFORE_IP)
    kind = packets.u16(places.at + _TYPE_AT)
    headers = without_tags(packets, Headers(places.after(_ETHERNET_BYTES), kind))
    kind = headers.kind
    if len(kind) and kind.min() <= _MAX_LENGTH:
        kind = np.where(kind <= _MAX_LENGTH, LLC_FRAME, kind)
    return Headers(headers.places, kind)


def without_tags(packets: Packets, headers: Headers) -> Headers:
    """Step over VLAN tags: 2 bytes of tag, then the ethertype of what follows."""
    places, kind = headers.places, headers.kind
    for _ in range(_MAX_TAGS):
        if (kind == IPV4).all():
            break
        tagged = np.flatnonzero(np.isin(kind, TAGS))
        if not len(tagged):
            break
        at = places.at.copy()
        kind = kind.copy()
        fits = at[tagged] + 4 <= places.limit[tagged]
        packets.note_cut(places.row[tagged[~fits]], BEFORE_IP)
        kind[tagged[~fits]] = _CUT
        tagged = tagged[fits]
        kind[tagged] = packets.u16(at[tagged] + 2)
        at[tagged] += 4
        places = Places(places.row, at, places.limit)
    return Headers(places, kind).pick(kind != _CUT)


def read_llc(packets: Packets, places: Places) -> Headers:
    """Step over IEEE 802.2 headers, with SNAP or without."""
    places = packets.long_enough(places, _LLC_BYTES, BEFORE_IP)
    start = packets.u16(places.at) << 8 | packets.u8(places.at + 2)
    kind = LLC | (start >> 16)
    size = np.zeros(len(places), np.int64)
    kind[start == _LLC_IP] = IPV4
    size[start == _LLC_IP] = _LLC_BYTES
    organization = packets.peek(places, 2, ">u4") & 0xFFFFFF
    ethertype = packets.peek(places, 6, ">u2")
    snap = (start == _SNAP) & np.isin(organization, _SNAP_ORGANIZATIONS) & (ethertype >= 0)
    kind[snap] = ethertype[snap]
    size[snap] = _SNAP_BYTES
    return without_tags(packets, Headers(places.after(size), kind))


def looks_like_ip(packets: Packets, places: Places, kind: int) -> NDArray[np.bool_]:
    """Tell where an IP header may begin: the version is right, and IPv4 has sane lengths."""
    first = packets.peek(places, 0, "u1")
    looks: NDArray[np.bool_] = first >> 4 == (6 if kind == IPV6 else 4)
    if kind == IPV6:
        return looks
    total_bytes = packets.peek(places, 2, ">u2")
    header_bytes = (first & 15) * 4
    unknown = total_bytes <= 0
    looks &= (header_bytes >= 20) & (unknown | (total_bytes >= header_bytes))
    return looks


def looks_like_ethernet(packets: Packets, places: Places) -> NDArray[np.bool_]:
    """Tell where an Ethernet header may begin, by what its ethertype promises.

    False where the packet ends before what has to be seen.
    """
    ethertype = packets.peek(places, _TYPE_AT, ">u2")
    inner = places.after(_ETHERNET_BYTES)
    looks = np.isin(ethertype, _SEEN_INSIDE)
    looks |= (ethertype == IPV4) & looks_like_ip(packets, inner, IPV4)
    looks |= (ethertype == IPV6) & looks_like_ip(packets, inner, IPV6)
    return looks
