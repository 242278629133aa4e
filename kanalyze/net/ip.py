"""IPv4 and IPv6 headers, for many packets at once.

In: places of IP headers. Out: places of TCP headers, and the addresses. Must not know: what lies
around IP.

IPv4: RFC 791. IPv6 and its extension headers: RFC 8200, RFC 4302 (AH). Lengths are those of the
IP header: what a link layer added behind (Ethernet pads to 60 bytes) is no payload. A length of 0
is written where segmentation is left to the network card: then the packet's size tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.gathers import gather, overlapping
from kanalyze.model import AnomalyKind
from kanalyze.net.columns import Places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch
    from kanalyze.net.notes import Notes

__all__ = ["TcpInIp", "read_ipv4", "read_ipv6"]

_TCP: Final = 6
_FRAGMENT_BITS: Final = 0x3FFF
"""More fragments, or not at offset 0."""
_IPV4_HEADER: Final = np.dtype(
    [
        ("version", "u1"),
        ("service", "u1"),
        ("total_bytes", ">u2"),
        ("identification", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("destination", ">u4"),
    ]
)
_IPV6_HEADER: Final = np.dtype(
    [
        ("version", "u1"),
        ("flow", "V3"),
        ("payload_bytes", ">u2"),
        ("next", "u1"),
        ("hops", "u1"),
        ("source_high", ">u8"),
        ("source_low", ">u8"),
        ("destination_high", ">u8"),
        ("destination_low", ">u8"),
    ]
)
_FRAGMENT_HEADER: Final = 44
_AUTHENTICATION: Final = 51
_EXTENSIONS: Final = (0, 43, 60, 135, _AUTHENTICATION, _FRAGMENT_HEADER)
"""Hop-by-hop, routing and destination options, mobility: 8 bytes and 8 for each that they say."""
_MAX_EXTENSIONS: Final = 16


@dataclass(frozen=True, slots=True)
class TcpInIp:
    """Places of TCP headers, and what the IP headers before them say. IPv4 has ``high`` 0."""

    places: Places
    end: NDArray[np.int64]
    """Index in the buffer of the end of the IP packet, captured or not."""
    source_high: NDArray[np.uint64]
    source_low: NDArray[np.uint64]
    destination_high: NDArray[np.uint64]
    destination_low: NDArray[np.uint64]
    is_ipv6: NDArray[np.bool_]
    identification: NDArray[np.int32]
    """Of the IPv4 header; -1 for IPv6."""


def read_ipv4(batch: PacketBatch, places: Places, notes: Notes) -> TcpInIp:
    """Read IPv4 headers; what is bad, no TCP or a fragment is counted and left out."""
    places = _whole_headers(batch, places, _IPV4_HEADER.itemsize, notes)
    header = gather(batch.buffer, _IPV4_HEADER, places.at)
    header_bytes = (header["version"] & 15).astype(np.int64) * 4
    total_bytes = header["total_bytes"].astype(np.int64)
    total_bytes = _or_wire_size(batch, places, total_bytes, total_bytes)
    good = header["version"] >> 4 == 4
    good &= (header_bytes >= _IPV4_HEADER.itemsize) & (total_bytes >= header_bytes)
    _note_bad(batch, places, good, notes)
    wanted = good & (header["protocol"] == _TCP)
    notes.counters.not_tcp += int(good.sum()) - int(wanted.sum())
    fragment = wanted & (header["fragment"] & _FRAGMENT_BITS != 0)
    _note_fragments(batch, places.row[fragment], notes)
    wanted &= ~fragment
    end = places.at + total_bytes
    inner = Places(places.row, places.at + header_bytes, places.limit)
    if not wanted.all():
        inner, end, header = inner.pick(wanted), end[wanted], header[wanted]
    none = np.zeros(len(inner), np.uint64)
    return TcpInIp(
        places=inner,
        end=end,
        source_high=none,
        source_low=header["source"].astype(np.uint64),
        destination_high=none,
        destination_low=header["destination"].astype(np.uint64),
        is_ipv6=np.zeros(len(inner), np.bool_),
        identification=header["identification"].astype(np.int32),
    )


def read_ipv6(batch: PacketBatch, places: Places, notes: Notes) -> TcpInIp:
    """Read IPv6 headers; what is bad, no TCP or a fragment is counted and left out."""
    places = _whole_headers(batch, places, _IPV6_HEADER.itemsize, notes)
    header = gather(batch.buffer, _IPV6_HEADER, places.at)
    good = header["version"] >> 4 == 6
    _note_bad(batch, places, good, notes)
    total_bytes = header["payload_bytes"].astype(np.int64)
    total_bytes = _or_wire_size(batch, places, total_bytes, total_bytes + _IPV6_HEADER.itemsize)
    protocol = np.where(good, header["next"].astype(np.int64), -1)
    inner = Places(places.row, places.at + _IPV6_HEADER.itemsize, places.limit)
    if (protocol != _TCP).any():
        inner, protocol = _without_extensions(batch, inner, protocol, notes)
    wanted = protocol == _TCP
    notes.counters.not_tcp += int((protocol > 0).sum()) - int(wanted.sum())
    end = places.at + total_bytes
    if not wanted.all():
        inner, end, header = inner.pick(wanted), end[wanted], header[wanted]
    return TcpInIp(
        places=inner,
        end=end,
        source_high=header["source_high"].astype(np.uint64),
        source_low=header["source_low"].astype(np.uint64),
        destination_high=header["destination_high"].astype(np.uint64),
        destination_low=header["destination_low"].astype(np.uint64),
        is_ipv6=np.ones(len(inner), np.bool_),
        identification=np.full(len(inner), -1, np.int32),
    )


def _without_extensions(
    batch: PacketBatch, inner: Places, protocol: NDArray[np.int64], notes: Notes
) -> tuple[Places, NDArray[np.int64]]:
    """Step over extension headers; a protocol of -1 marks what was counted as bad or cut."""
    at, protocol = inner.at.copy(), protocol.copy()
    buffer_bytes = overlapping(batch.buffer, "u1")
    for _ in range(_MAX_EXTENSIONS):
        pending = np.flatnonzero(np.isin(protocol, _EXTENSIONS))
        if not len(pending):
            break
        fits = at[pending] + 8 <= inner.limit[pending]
        _note_cut(batch, inner.row[pending[~fits]], notes)
        protocol[pending[~fits]] = -1
        pending = pending[fits]
        kind = protocol[pending]
        start = at[pending]
        length = buffer_bytes[start + 1].astype(np.int64)
        size = np.where(kind == _AUTHENTICATION, (length + 2) * 4, (length + 1) * 8)
        size[kind == _FRAGMENT_HEADER] = 8
        protocol[pending] = buffer_bytes[start]
        at[pending] += size
        # The first fragment too: its TCP header would do, but its payload is not all there.
        place = buffer_bytes[start + 2].astype(np.int64) << 8 | buffer_bytes[start + 3]
        fragment = pending[(kind == _FRAGMENT_HEADER) & (place & 0xFFF9 != 0)]
        _note_fragments(batch, inner.row[fragment], notes)
        protocol[fragment] = -1
    return Places(inner.row, at, inner.limit), protocol


def _whole_headers(batch: PacketBatch, places: Places, size: int, notes: Notes) -> Places:
    fits = places.at + size <= places.limit
    if not fits.all():
        _note_cut(batch, places.row[~fits], notes)
    return places.pick(fits)


def _or_wire_size(
    batch: PacketBatch,
    places: Places,
    stated: NDArray[np.int64],
    total_bytes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Replace sizes where 0 is stated by what the packet had on the wire from IP on."""
    if stated.all():
        return total_bytes
    row = places.row
    on_wire = batch.offset[row] + batch.wire_bytes[row] - places.at
    return np.where(stated == 0, on_wire, total_bytes)


def _note_cut(batch: PacketBatch, rows: NDArray[np.int64], notes: Notes) -> None:
    if len(rows):
        notes.counters.cut_headers += len(rows)
        notes.add_packets(AnomalyKind.BAD_IP_HEADER, batch, rows, "cut within the IP header")


def _note_bad(batch: PacketBatch, places: Places, good: NDArray[np.bool_], notes: Notes) -> None:
    if not good.all():
        rows = places.row[~good]
        notes.counters.bad_ip_headers += len(rows)
        notes.add_packets(AnomalyKind.BAD_IP_HEADER, batch, rows, "wrong version or length")


def _note_fragments(batch: PacketBatch, rows: NDArray[np.int64], notes: Notes) -> None:
    if len(rows):
        notes.counters.ip_fragments += len(rows)
        notes.add_packets(AnomalyKind.IP_FRAGMENT, batch, rows, "IP fragment")
