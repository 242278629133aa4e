"""Link-layer headers: where the IP header begins, for every packet of a batch at once.

In: a packet batch. Out: places of IPv4 and of IPv6 headers. Must not know: what IP holds.

Layouts: https://www.tcpdump.org/linktypes.html; tags: IEEE 802.1Q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from kanalyze.gathers import overlapping
from kanalyze.model import AnomalyKind
from kanalyze.net.columns import Places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch
    from kanalyze.net.notes import Notes

__all__ = ["find_ip_headers"]

_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_TAGS: Final = (0x8100, 0x88A8, 0x9100, 0x9200)
"""802.1Q, 802.1ad, and what came before 802.1ad."""
_MAX_TAGS: Final = 8
_OTHER: Final = 0
_CUT: Final = -1
"""In place of an ethertype: cut within a tag, and counted."""

_ETHERTYPE_LINKS: Final = {1: (12, 14), 113: (14, 16), 276: (0, 20)}
"""Ethernet, Linux cooked v1 and v2: where the ethertype stands, and the header's size."""
_FAMILY_LINKS: Final = (0, 108)
"""BSD loopback: a 4-byte address family, in either byte order; and OpenBSD's, in network order."""
_FAMILY_BYTES: Final = 4
_FAMILY_IPV4: Final = 2
_FAMILIES_IPV6: Final = (10, 23, 24, 28, 30)
"""Linux; Windows; NetBSD and OpenBSD; FreeBSD; macOS."""
_RAW_LINKS: Final = {12: 0, 14: 0, 101: 0, 228: _IPV4, 229: _IPV6}
"""IP with nothing before it: the version within tells which, or the link type."""

_Found: TypeAlias = tuple[Places, "NDArray[np.int64]"]
"""Places of network headers, and the ethertype of each."""


def find_ip_headers(batch: PacketBatch, notes: Notes) -> tuple[Places, Places]:
    """Return the places of the IPv4 headers and of the IPv6 headers in a batch.

    What has neither is counted in ``notes``: link types that are not known, packets cut within
    the link-layer header, other network protocols.
    """
    limit = batch.offset + batch.captured_bytes
    packets = Places(np.arange(len(batch)), batch.offset, limit)
    links = _distinct(batch.link_type)
    if len(links) == 1:
        places, ethertype = _network_headers(batch, packets, links[0], notes)
    else:
        found = [
            _network_headers(batch, packets.pick(batch.link_type == link), link, notes)
            for link in links
        ]
        places, ethertype = _in_order(found)
    is_ipv4 = ethertype == _IPV4
    is_ipv6 = ethertype == _IPV6
    notes.counters.not_ip += int((~is_ipv4 & ~is_ipv6 & (ethertype != _CUT)).sum())
    return places.pick(is_ipv4), places.pick(is_ipv6)


def _distinct(link_type: NDArray[np.int32]) -> list[int]:
    if not len(link_type) or (link_type == link_type[0]).all():
        return [int(link) for link in link_type[:1]]
    return [int(link) for link in np.unique(link_type)]


def _in_order(found: list[_Found]) -> _Found:
    """Put what was found by link type back into the order of the packets."""
    none = np.empty(0, np.int64)
    row = np.concatenate([none, *(places.row for places, _ in found)])
    order = np.argsort(row)
    at = np.concatenate([none, *(places.at for places, _ in found)])
    limit = np.concatenate([none, *(places.limit for places, _ in found)])
    ethertype = np.concatenate([none, *(kind for _, kind in found)])
    return Places(row[order], at[order], limit[order]), ethertype[order]


def _network_headers(batch: PacketBatch, packets: Places, link: int, notes: Notes) -> _Found:
    """Step over the link-layer header of packets of one link type."""
    if link in _ETHERTYPE_LINKS:
        type_at, header_bytes = _ETHERTYPE_LINKS[link]
        packets = _long_enough(batch, packets, header_bytes, notes)
        ethertype = _u16(batch, packets.at + type_at)
        inner = Places(packets.row, packets.at + header_bytes, packets.limit)
        return _without_tags(batch, inner, ethertype, notes)
    if link in _FAMILY_LINKS:
        packets = _long_enough(batch, packets, _FAMILY_BYTES, notes)
        inner = Places(packets.row, packets.at + _FAMILY_BYTES, packets.limit)
        return inner, _ethertype_of_family(batch, packets.at)
    if link in _RAW_LINKS:
        packets = _long_enough(batch, packets, 1, notes)
        fixed = _RAW_LINKS[link]
        if fixed:
            return packets, np.full(len(packets), fixed, np.int64)
        return packets, _ethertype_of_version(batch, packets.at)
    counts = notes.counters.unknown_link_type
    counts[link] = counts.get(link, 0) + len(packets)
    notes.add_packets(AnomalyKind.UNKNOWN_LINK_TYPE, batch, packets.row, f"link type {link}")
    none = np.empty(0, np.int64)
    return Places(none, none, none), none


def _long_enough(batch: PacketBatch, packets: Places, size: int, notes: Notes) -> Places:
    """Drop and count the packets that were cut within their first ``size`` bytes."""
    fits = packets.at + size <= packets.limit
    if not fits.all():
        _note_cut(batch, packets.row[~fits], notes)
    return packets.pick(fits)


def _note_cut(batch: PacketBatch, rows: NDArray[np.int64], notes: Notes) -> None:
    notes.counters.cut_headers += len(rows)
    notes.add_packets(AnomalyKind.BAD_IP_HEADER, batch, rows, "cut before the IP header")


def _u16(batch: PacketBatch, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return overlapping(batch.buffer, ">u2")[at].astype(np.int64) if len(at) else at


def _without_tags(
    batch: PacketBatch, inner: Places, ethertype: NDArray[np.int64], notes: Notes
) -> _Found:
    """Step over VLAN tags: 2 bytes of tag, then the ethertype of what follows."""
    for _ in range(_MAX_TAGS):
        if (ethertype == _IPV4).all():
            break
        tagged = np.flatnonzero(np.isin(ethertype, _TAGS))
        if not len(tagged):
            break
        at = inner.at.copy()
        ethertype = ethertype.copy()
        fits = at[tagged] + 4 <= inner.limit[tagged]
        if not fits.all():
            _note_cut(batch, inner.row[tagged[~fits]], notes)
            ethertype[tagged[~fits]] = _CUT
        tagged = tagged[fits]
        ethertype[tagged] = _u16(batch, at[tagged] + 2)
        at[tagged] += 4
        inner = Places(inner.row, at, inner.limit)
    return inner, ethertype


def _ethertype_of_family(batch: PacketBatch, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn an address family into an ethertype; small numbers tell the byte order."""
    if not len(at):
        return at
    family = overlapping(batch.buffer, ">u4")[at].astype(np.int64)
    swapped = family > 0xFFFF
    family[swapped] = overlapping(batch.buffer, "<u4")[at[swapped]]
    ethertype = np.full(len(at), _OTHER, np.int64)
    ethertype[family == _FAMILY_IPV4] = _IPV4
    ethertype[np.isin(family, _FAMILIES_IPV6)] = _IPV6
    return ethertype


def _ethertype_of_version(batch: PacketBatch, at: NDArray[np.int64]) -> NDArray[np.int64]:
    version = overlapping(batch.buffer, "u1")[at] >> 4 if len(at) else at
    ethertype = np.full(len(at), _OTHER, np.int64)
    ethertype[version == 4] = _IPV4
    ethertype[version == 6] = _IPV6
    return ethertype
