"""Link-layer headers, for every packet of a batch at once.

In: a packet batch. Out: places of network headers. Must not know: what these hold.

Layouts: https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.gathers import each_value, overlapping
from kanalyze.model import AnomalyKind
from kanalyze.net.columns import Headers, Places
from kanalyze.net.ethernet import BEFORE_IP, read_ethernet, without_tags
from kanalyze.net.kinds import (
    FAMILY,
    IP_VERSION,
    IPV4,
    IPV6,
    LLC_FRAME,
    PPPOE,
)
from kanalyze.net.names import link_name
from kanalyze.net.nflog import read_nflog
from kanalyze.net.ppp import read_cisco_hdlc, read_hdlc, read_ppp
from kanalyze.net.rare_layers import can_read, note_missing, read_wireless

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.columns import Packets

__all__ = ["read_link_headers", "read_version"]

_COOKED_LLC: Final = 4
"""In place of an ethertype in Linux cooked headers: an IEEE 802.2 header follows."""
_PKTAP: Final = 258
_PKTAP_LEAST_BYTES: Final = 12
_PKTAP_PACKET: Final = 1
_PKTAP_LINKS: Final = {12: 101, 14: 101}
"""What it says in numbers of macOS's own, as LINKTYPE_ values: raw IP."""
_FAMILY_BYTES: Final = 4
_FAMILY_IPV4: Final = 2
_FAMILIES_IPV6: Final = (10, 23, 24, 28, 30)
"""Linux; Windows; NetBSD and OpenBSD; FreeBSD; macOS."""


def read_link_headers(packets: Packets) -> Headers:
    """Return the places of what the packets of a batch carry.

    What has no such place is counted in the notes: link types that are not known, packets cut
    within the link-layer header.
    """
    batch = packets.batch
    limit = batch.offset + batch.captured_bytes
    return Headers.joined(
        [
            _read_link(packets, Places(which, batch.offset[which], limit[which]), link)
            for link, which in each_value(batch.link_type)
        ]
    )


def read_version(packets: Packets, places: Places) -> Headers:
    """Tell IPv4 from IPv6 by the version that the header says."""
    places = packets.long_enough(places, 1, BEFORE_IP)
    version = packets.u8(places.at) >> 4
    kind = IP_VERSION | version
    kind[version == 4] = IPV4
    kind[version == 6] = IPV6
    return Headers(places, kind)


def _read_link(packets: Packets, places: Places, link: int) -> Headers:
    """Step over the link-layer header of packets of one link type."""
    wireless = _WIRELESS.get(link)
    if wireless is not None and can_read():
        return read_wireless(packets, places, wireless)
    reader = _READERS.get(link)
    if reader is not None:
        return reader(packets, places)
    fixed = _FIXED.get(link)
    if fixed is not None:
        places = packets.long_enough(places, 1, BEFORE_IP)
        return Headers.of(places, fixed)
    return _count_unknown(packets, places, link)


def _count_unknown(packets: Packets, places: Places, link: int) -> Headers:
    notes, name = packets.notes, link_name(link)
    counts = notes.counters.unknown_link_type
    counts[link] = counts.get(link, 0) + len(places)
    notes.counters.count_other(name, len(places))
    if link in _WIRELESS:
        note_missing(packets, places.row, name)
    else:
        notes.add_packets(AnomalyKind.UNKNOWN_LINK_TYPE, packets.batch, places.row, name)
    none = np.empty(0, np.int64)
    return Headers(Places(none, none, none), none)


def _read_pktap(packets: Packets, places: Places) -> Headers:
    """Step over macOS's headers: length, what follows (1: a packet), its kind of link layer."""
    places = packets.long_enough(places, _PKTAP_LEAST_BYTES, BEFORE_IP)
    size = packets.peek(places, 0, "<u4")
    link = packets.peek(places, 8, "<u4")
    good = (size >= _PKTAP_LEAST_BYTES) & (packets.peek(places, 4, "<u4") == _PKTAP_PACKET)
    good &= link != _PKTAP
    parts = []
    if not good.all():
        parts.append(_count_unknown(packets, places.pick(~good), _PKTAP))
    inner, link = places.after(size).pick(good), link[good]
    for number, which in each_value(link):
        own = Places(inner.row[which], inner.at[which], inner.limit[which])
        parts.append(_read_link(packets, own, _PKTAP_LINKS.get(number, number)))
    return Headers.joined(parts)


def _read_cooked(packets: Packets, places: Places) -> Headers:
    return _read_ethertype(packets, places, 14, 16)


def _read_cooked_v2(packets: Packets, places: Places) -> Headers:
    return _read_ethertype(packets, places, 0, 20)


def _read_ethertype(packets: Packets, places: Places, type_at: int, header_bytes: int) -> Headers:
    places = packets.long_enough(places, header_bytes, BEFORE_IP)
    kind = packets.u16(places.at + type_at)
    headers = without_tags(packets, Headers(places.after(header_bytes), kind))
    is_llc = headers.kind == _COOKED_LLC
    if is_llc.any():
        return Headers(headers.places, np.where(is_llc, LLC_FRAME, headers.kind))
    return headers


def _read_family(packets: Packets, places: Places) -> Headers:
    """BSD loopback: an address family in either byte order; small numbers tell which."""
    places = packets.long_enough(places, _FAMILY_BYTES, BEFORE_IP)
    family = overlapping(packets.buffer, ">u4")[places.at].astype(np.int64)
    swapped = family > 0xFFFF
    family[swapped] = overlapping(packets.buffer, "<u4")[places.at[swapped]]
    kind = FAMILY | (family & 0xFFFF)
    kind[family == _FAMILY_IPV4] = IPV4
    kind[np.isin(family, _FAMILIES_IPV6)] = IPV6
    return Headers(places.after(_FAMILY_BYTES), kind)


_READERS: Final[dict[int, Callable[[Packets, Places], Headers]]] = {
    0: _read_family,
    1: read_ethernet,
    9: read_ppp,
    12: read_version,
    14: read_version,
    50: read_hdlc,
    101: read_version,
    104: read_cisco_hdlc,
    108: _read_family,
    113: _read_cooked,
    239: read_nflog,
    258: _read_pktap,
    276: _read_cooked_v2,
}
"""BSD loopback; Ethernet; PPP; raw IP as BSD and as OpenBSD number it; PPP or Cisco in HDLC; raw
IP; Cisco's HDLC; OpenBSD's loopback; Linux cooked; Linux netfilter's log; macOS's PKTAP; Linux
cooked v2."""
_WIRELESS: Final = {105: "read_dot11", 127: "read_radiotap"}
"""802.11, alone and with radiotap before it, by what reads them (see
:mod:`kanalyze.net.rare_layers`)."""
_FIXED: Final = {51: PPPOE, 228: IPV4, 229: IPV6}
"""Nothing stands before the header: PPPoE, raw IPv4, raw IPv6."""
