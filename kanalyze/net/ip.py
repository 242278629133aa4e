"""IPv4 and IPv6 headers, for many packets at once.

In: places of IP headers. Out: places of TCP headers, and the addresses; places of whatever else
is carried; fragments. Must not know: what lies around IP.

IPv4: RFC 791. IPv6 and its extension headers: RFC 8200, RFC 4302 (AH), RFC 7401 (HIP), RFC 5533
(shim6). Lengths are those of the IP header: what a link layer added behind (Ethernet pads to 60
bytes) is no payload. A length of 0 is written where segmentation is left to the network card, and
in jumbograms (RFC 2675): then the packet's size tells, or what is around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.gathers import gather, overlapping
from kanalyze.model import AnomalyKind
from kanalyze.net.columns import Headers, Places
from kanalyze.net.kinds import IP_PROTOCOL
from kanalyze.net.tunnels import TUNNEL_PROTOCOLS

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from kanalyze.net.columns import Packets

__all__ = ["FragmentColumns", "InIp", "TcpInIp", "read_ipv4", "read_ipv6"]

_TCP: Final = 6
_FRAGMENT_BITS: Final = 0x3FFF
"""More fragments, or not at offset 0."""
_MORE_FRAGMENTS: Final = 0x2000
_FRAGMENT_PLACE: Final = 0x1FFF
_WITHIN: Final = "within the IP header"
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
_FRAGMENT_HEADER_BYTES: Final = 8
_AUTHENTICATION: Final = 51
_OPTIONS: Final = (0, 43, 60, 135, 139, 140, _AUTHENTICATION)
_EXTENSIONS: Final = (*_OPTIONS, _FRAGMENT_HEADER)
"""Hop-by-hop, routing and destination options, mobility, HIP, shim6: 8 bytes and 8 for each that
they say; and two of other forms."""
_MAX_EXTENSIONS: Final = 16
_LARGEST_UNSTATED_BYTES: Final = 1 << 20
"""Linux joins segments up to 512 KiB before they leave or after they come (BIG TCP)."""
_DROPPED: Final = -1
"""In place of a protocol: counted as bad or cut."""
_JOINED: Final = (_TCP, *TUNNEL_PROTOCOLS)
"""Protocols whose fragments are put together: they hold TCP or may."""


class TcpInIp(NamedTuple):
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


class FragmentColumns(NamedTuple):
    """Fragments of IP packets, by the places of what they carry of the datagram."""

    places: Places
    is_ipv6: bool
    start: NDArray[np.int64]
    """Index in the buffer of the IP header."""
    end: NDArray[np.int64]
    """Index in the buffer of the end of the fragment, captured or not."""
    offset: NDArray[np.int64]
    """Place in the datagram, in bytes."""
    has_more: NDArray[np.bool_]
    """It is not the last one of its datagram."""
    protocol: NDArray[np.int64]
    """Of what the datagram carries, or the next extension header in it."""
    key: list[tuple[int, ...]]
    """The same for all fragments of a datagram, and for no other one at the time."""


class InIp(NamedTuple):
    """What is in the IP packets of a batch; each packet is at most in one of the three."""

    tcp: TcpInIp
    other: Headers | None = None
    """Kinds are ``IP_PROTOCOL | protocol``; the packets' ends are noted."""
    fragments: FragmentColumns | None = None


def read_ipv4(packets: Packets, places: Places) -> InIp:
    """Read IPv4 headers; what is bad or cut is counted and left out."""
    places = packets.long_enough(places, _IPV4_HEADER.itemsize, _WITHIN)
    header = gather(packets.buffer, _IPV4_HEADER, places.at)
    header_bytes = (header["version"] & 15).astype(np.int64) * 4
    total_bytes = header["total_bytes"].astype(np.int64)
    total_bytes = _or_wire_size(packets, places, total_bytes, total_bytes)
    good = header["version"] >> 4 == 4
    good &= (header_bytes >= _IPV4_HEADER.itemsize) & (total_bytes >= header_bytes)
    _note_bad(packets, places, good)
    is_fragment = header["fragment"] & _FRAGMENT_BITS != 0
    wanted = good & (header["protocol"] == _TCP) & ~is_fragment
    end = places.at + total_bytes
    inner = Places(places.row, places.at + header_bytes, places.limit)
    other, fragments = None, None
    if not wanted.all():
        rest = good & ~wanted
        if rest.any():
            start = places.at[rest]
            other, fragments = _rest_of_ipv4(
                packets, inner.pick(rest), start, end[rest], header[rest]
            )
        inner, end, header = inner.pick(wanted), end[wanted], header[wanted]
    none = np.zeros(len(inner), np.uint64)
    tcp = TcpInIp(
        places=inner,
        end=end,
        source_high=none,
        source_low=header["source"].astype(np.uint64),
        destination_high=none,
        destination_low=header["destination"].astype(np.uint64),
        is_ipv6=np.zeros(len(inner), np.bool_),
        identification=header["identification"].astype(np.int32),
    )
    return InIp(tcp, other, fragments)


def read_ipv6(packets: Packets, places: Places) -> InIp:
    """Read IPv6 headers and their extensions; what is bad or cut is counted and left out."""
    places = packets.long_enough(places, _IPV6_HEADER.itemsize, _WITHIN)
    header = gather(packets.buffer, _IPV6_HEADER, places.at)
    good = header["version"] >> 4 == 6
    _note_bad(packets, places, good)
    total_bytes = header["payload_bytes"].astype(np.int64)
    total_bytes = _or_wire_size(packets, places, total_bytes, total_bytes + _IPV6_HEADER.itemsize)
    protocol = np.where(good, header["next"].astype(np.int64), _DROPPED)
    inner = Places(places.row, places.at + _IPV6_HEADER.itemsize, places.limit)
    end = places.at + total_bytes
    other, fragments = None, None
    if (protocol != _TCP).any():
        inner, protocol, is_fragment = _without_extensions(packets, inner, protocol)
        wanted = (protocol == _TCP) & ~is_fragment
        rest = (protocol >= 0) & ~wanted & ~is_fragment
        other = _other(packets, inner, end, protocol, rest)
        fragments = _ipv6_fragments(packets, inner, places.at, end, header, is_fragment)
        inner, end, header = inner.pick(wanted), end[wanted], header[wanted]
    tcp = TcpInIp(
        places=inner,
        end=end,
        source_high=header["source_high"].astype(np.uint64),
        source_low=header["source_low"].astype(np.uint64),
        destination_high=header["destination_high"].astype(np.uint64),
        destination_low=header["destination_low"].astype(np.uint64),
        is_ipv6=np.ones(len(inner), np.bool_),
        identification=np.full(len(inner), -1, np.int32),
    )
    return InIp(tcp, other, fragments)


def _without_extensions(
    packets: Packets, inner: Places, protocol: NDArray[np.int64]
) -> tuple[Places, NDArray[np.int64], NDArray[np.bool_]]:
    """Step over extension headers, up to that of a fragment.

    Returns the places of what follows, its protocols, and which are in fragments.
    """
    at, protocol = inner.at.copy(), protocol.copy()
    is_fragment = np.zeros(len(at), np.bool_)
    buffer_bytes = overlapping(packets.buffer, "u1")
    for _ in range(_MAX_EXTENSIONS):
        pending = np.flatnonzero(np.isin(protocol, _EXTENSIONS) & ~is_fragment)
        if not len(pending):
            break
        fits = at[pending] + 8 <= inner.limit[pending]
        packets.note_cut(inner.row[pending[~fits]], _WITHIN)
        protocol[pending[~fits]] = _DROPPED
        pending = pending[fits]
        kind = protocol[pending]
        start = at[pending]
        length = buffer_bytes[start + 1].astype(np.int64)
        size = np.where(kind == _AUTHENTICATION, (length + 2) * 4, (length + 1) * 8)
        size[kind == _FRAGMENT_HEADER] = _FRAGMENT_HEADER_BYTES
        protocol[pending] = buffer_bytes[start]
        at[pending] += size
        # Offset 0 and no more to come: a fragment that is the whole datagram (RFC 6946).
        place = packets.u16(start + 2)
        in_parts = (kind == _FRAGMENT_HEADER) & (place & 0xFFF9 != 0)
        is_fragment[pending] = in_parts & np.isin(protocol[pending], (*_JOINED, *_OPTIONS))
        # Of other fragments nothing but the kind is told.
        ends_here = in_parts & ~is_fragment[pending] & (protocol[pending] == _FRAGMENT_HEADER)
        protocol[pending[ends_here]] = _DROPPED
        _note_bad(packets, Places(inner.row[pending], start, start), ~ends_here)
    return Places(inner.row, at, inner.limit), protocol, is_fragment


def _other(
    packets: Packets,
    inner: Places,
    end: NDArray[np.int64],
    protocol: NDArray[np.int64],
    wanted: NDArray[np.bool_],
) -> Headers | None:
    if not wanted.any():
        return None
    places = packets.shorten(inner.pick(wanted), end[wanted])
    return Headers(places, IP_PROTOCOL | protocol[wanted])


def _rest_of_ipv4(
    packets: Packets,
    inner: Places,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    header: NDArray[np.void],
) -> tuple[Headers | None, FragmentColumns | None]:
    """Part what is no whole TCP packet into fragments that may be one, and other packets."""
    protocol = header["protocol"].astype(np.int64)
    is_fragment = (header["fragment"] & _FRAGMENT_BITS != 0) & np.isin(protocol, _JOINED)
    other = _other(packets, inner, end, protocol, ~is_fragment)
    if not is_fragment.any():
        return other, None
    header, protocol = header[is_fragment], protocol[is_fragment]
    columns = (header["source"], header["destination"], header["identification"], protocol)
    fragments = FragmentColumns(
        places=inner.pick(is_fragment),
        is_ipv6=False,
        start=start[is_fragment],
        end=end[is_fragment],
        offset=(header["fragment"] & _FRAGMENT_PLACE).astype(np.int64) * 8,
        has_more=header["fragment"] & _MORE_FRAGMENTS != 0,
        protocol=protocol,
        key=_rows(columns),
    )
    return other, fragments


def _ipv6_fragments(
    packets: Packets,
    inner: Places,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    header: NDArray[np.void],
    wanted: NDArray[np.bool_],
) -> FragmentColumns | None:
    if not wanted.any():
        return None
    header, inner = header[wanted], inner.pick(wanted)
    extension = inner.at - _FRAGMENT_HEADER_BYTES
    place = packets.u16(extension + 2)
    identification = packets.u16(extension + 4) << 16 | packets.u16(extension + 6)
    names = ("source_high", "source_low", "destination_high", "destination_low")
    return FragmentColumns(
        places=inner,
        is_ipv6=True,
        start=start[wanted],
        end=end[wanted],
        offset=place & 0xFFF8,
        has_more=place & 1 != 0,
        protocol=packets.u8(extension),
        key=_rows((*(header[name] for name in names), identification)),
    )


def _rows(columns: tuple[NDArray[Any], ...]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _or_wire_size(
    packets: Packets,
    places: Places,
    stated: NDArray[np.int64],
    total_bytes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Replace sizes where 0 is stated by what the packet had on the wire from IP on.

    What the capture says of that is believed up to :data:`_LARGEST_UNSTATED_BYTES`; beyond, only
    the bytes that are there are.
    """
    if stated.all():
        return total_bytes
    on_wire = packets.end[places.row] - places.at
    believed = on_wire <= _LARGEST_UNSTATED_BYTES
    on_wire = np.where(believed, on_wire, places.limit - places.at)
    return np.where(stated == 0, on_wire, total_bytes)


def _note_bad(packets: Packets, places: Places, good: NDArray[np.bool_]) -> None:
    if not good.all():
        rows = places.row[~good]
        notes = packets.notes
        notes.counters.bad_ip_headers += len(rows)
        detail = "wrong version or length"
        notes.add_packets(AnomalyKind.BAD_IP_HEADER, packets.batch, rows, detail)
