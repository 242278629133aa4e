"""Tunnels that IP carries as protocols of its own: IP in IP, GRE, MPLS in IP; and those in UDP.

In: places of what IP headers carry. Out: places of what is inside. Must not know: IP.

IP in IP: RFC 2003, 2473, 4213. MPLS in IP: RFC 4023. GRE: RFC 2784, 2890; with Ethernet inside:
RFC 7637. ERSPAN: draft-foschiano-erspan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.net.columns import Headers
from kanalyze.net.kinds import (
    ANY_IP,
    ETHERNET,
    GRE,
    IP_PROTOCOL,
    IPV4,
    IPV6,
    MPLS,
    MPLS_MULTICAST,
    PPP,
)
from kanalyze.net.mpls import read_mpls
from kanalyze.net.names import tunnel_bit
from kanalyze.net.rare_layers import can_read, find_inside, note_missing
from kanalyze.net.udp_tunnels import read_udp

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.columns import Packets, Places

__all__ = ["TUNNEL_PROTOCOLS", "read_gre", "read_in_ip"]

_GRE_BYTES: Final = 4
_CHECKSUM: Final = 0x8000
_ROUTING: Final = 0x4000
_KEY: Final = 0x2000
_SEQUENCE: Final = 0x1000
_VERSION: Final = 0x0007
_CARRIED: Final = (IPV4, IPV6, ETHERNET, MPLS, MPLS_MULTICAST)
_ERSPAN: Final = 0x88BE
"""Type I without a sequence number, with nothing before the frame; type II with one."""
_ERSPAN_2_BYTES: Final = 8
_ERSPAN_3: Final = 0x22EB
_ERSPAN_3_BYTES: Final = 12
_ERSPAN_3_MORE_BYTES: Final = 8
"""Of what one platform or another adds, where a flag says so."""
_ERSPAN_3_FRAMES: Final = {0: ETHERNET, 2: ANY_IP}
_WITHIN_GRE: Final = "within the GRE header"


def read_in_ip(packets: Packets, headers: Headers) -> Headers:
    """Step into the tunnels among what IP headers carry; the others stay as they are."""
    parts = []
    rest = np.ones(len(headers), np.bool_)
    for kind, read in _READERS.items():
        wanted = headers.kind == kind
        if wanted.any():
            parts.append(read(packets, headers.places.pick(wanted)))
            rest &= ~wanted
    return Headers.joined([*parts, headers.pick(rest)])


def _read_etherip(packets: Packets, places: Places) -> Headers:
    """Step over EtherIP headers; what is none keeps its kind."""
    kind = Headers.of(places, IP_PROTOCOL | 97).kind
    if not can_read():
        note_missing(packets, places.row, "EtherIP")
        return Headers(places, kind)
    found = find_inside(packets, places, "read_etherip")
    packets.enter(places.row[found.is_read], tunnel_bit("EtherIP"))
    return Headers(places.after(found.size), np.where(found.is_read, found.kind, kind))


def _read_gre_1(packets: Packets, headers: Headers) -> Headers:
    """Step over GRE headers of version 1, of which the places are given; others keep their kind."""
    places = headers.places
    if not can_read():
        note_missing(packets, places.row, "GRE version 1")
        return headers
    found = find_inside(packets, places, "read_gre_1")
    packets.enter(places.row[found.is_read], tunnel_bit("GRE"))
    return Headers(places.after(found.size), np.where(found.is_read, found.kind, headers.kind))


def read_gre(packets: Packets, places: Places) -> Headers:
    """Step over GRE headers without routing; others keep a kind of their own."""
    places = packets.long_enough(places, _GRE_BYTES, _WITHIN_GRE)
    flags, protocol = packets.u16(places.at), packets.u16(places.at + 2)
    size = np.full(len(places), _GRE_BYTES, np.int64)
    for flag in (_CHECKSUM, _KEY, _SEQUENCE):
        size += np.where(flags & flag != 0, 4, 0)
    good = flags & (_ROUTING | _VERSION) == 0
    kind = np.where(good & np.isin(protocol, _CARRIED), protocol, GRE | protocol)
    packets.enter(places.row[kind < GRE], tunnel_bit("GRE"))
    headers = Headers(places.after(size), kind)
    # PPTP's: with a key, without checksum and routing.
    is_1 = flags & (_CHECKSUM | _ROUTING | _KEY | _VERSION) == _KEY | 1
    is_1 &= protocol == PPP
    if is_1.any():
        of_1 = _read_gre_1(packets, Headers(places, kind).pick(is_1))
        rest = read_gre(packets, places.pick(~is_1))
        return Headers.joined([of_1, rest])
    is_mirror = good & np.isin(protocol, (_ERSPAN, _ERSPAN_3))
    if not is_mirror.any():
        return headers
    has_sequence = flags[is_mirror] & _SEQUENCE != 0
    mirrors = _read_erspan(packets, headers.pick(is_mirror), has_sequence)
    return Headers.joined([headers.pick(~is_mirror), mirrors])


def _read_erspan(packets: Packets, headers: Headers, has_sequence: np.ndarray) -> Headers:
    places, kind = headers.places, headers.kind.copy()
    size = np.zeros(len(places), np.int64)
    version = packets.peek(places, 0, "u1") >> 4
    is_3 = kind == GRE | _ERSPAN_3
    kind[~is_3 & ~has_sequence] = ETHERNET
    is_2 = ~is_3 & has_sequence & (version == 1)
    kind[is_2] = ETHERNET
    size[is_2] = _ERSPAN_2_BYTES
    last = packets.peek(places, 10, ">u2")
    is_3 &= (version == 2) & (last >= 0)
    for frame, inner in _ERSPAN_3_FRAMES.items():
        kind[is_3 & (last >> 10 & 0x1F == frame)] = inner
    size[is_3] = _ERSPAN_3_BYTES + np.where(last[is_3] & 1 == 1, _ERSPAN_3_MORE_BYTES, 0)
    packets.enter(places.row[kind != headers.kind], tunnel_bit("ERSPAN"))
    return Headers(places.after(size), kind)


def _read_ipv4_in_ip(packets: Packets, places: Places) -> Headers:
    packets.enter(places.row, tunnel_bit("IP in IP"))
    return Headers.of(places, IPV4)


def _read_ipv6_in_ip(packets: Packets, places: Places) -> Headers:
    packets.enter(places.row, tunnel_bit("IP in IP"))
    return Headers.of(places, IPV6)


_READERS: Final[dict[int, Callable[[Packets, Places], Headers]]] = {
    IP_PROTOCOL | 4: _read_ipv4_in_ip,
    IP_PROTOCOL | 17: read_udp,
    IP_PROTOCOL | 41: _read_ipv6_in_ip,
    IP_PROTOCOL | 47: read_gre,
    IP_PROTOCOL | 97: _read_etherip,
    IP_PROTOCOL | 137: read_mpls,
}
TUNNEL_PROTOCOLS: Final = tuple(kind - IP_PROTOCOL for kind in _READERS)
