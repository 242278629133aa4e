"""Tunnels in UDP: VXLAN, Geneve and GTP-U, told from other UDP by port and by content.

In: places of UDP headers. Out: places of what the tunnels carry. Must not know: IP.

VXLAN: RFC 7348; its group policy extension: draft-smith-vxlan-group-policy; VXLAN-GPE:
draft-ietf-nvo3-vxlan-gpe. Geneve: RFC 8926. Mirrored traffic of Amazon's clouds is VXLAN.

A port alone proves nothing, and what is no tunnel stays UDP: the reserved bits are 0 and what is
carried looks like it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.net.columns import Headers
from kanalyze.net.ethernet import looks_like_ethernet, looks_like_ip
from kanalyze.net.kinds import ETHERNET, IP_PROTOCOL, IPV4, IPV6
from kanalyze.net.names import tunnel_bit
from kanalyze.net.rare_layers import can_read, find_inside, note_missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kanalyze.net.columns import Packets, Places

__all__ = ["UDP_TUNNEL_PORTS", "read_udp"]

_UDP: Final = IP_PROTOCOL | 17
_UDP_BYTES: Final = 8
_BASE_BYTES: Final = 8
"""Of a VXLAN or Geneve header, without options."""
_FRAME_BYTES: Final = 15
"""Of Ethernet, and the first of what it carries."""
_GTP_1: Final = 3
"""Upper half of the first byte: version 1, and GTP, not GTP'."""
_GTP_DATA: Final = 255
_INSIDE: Final = "within a tunnel's header"


class _Seen(NamedTuple):
    """What a tunnel's header says."""

    good: NDArray[np.bool_]
    """It is such a header, or it is cut and may be one."""
    inner: Places
    kind: NDArray[np.int64]
    """ETHERNET, IPV4 or IPV6; 0 where something else is carried."""


def read_udp(packets: Packets, places: Places) -> Headers:
    """Step over UDP and tunnel headers; the kind of what is no tunnel is that of UDP."""
    port = packets.peek(places, 2, ">u2")
    kind = np.full(len(places), _UDP, np.int64)
    parts = []
    for ports, name, read in _TUNNELS:
        known = np.isin(port, ports)
        if known.any():
            parts.append(_open(packets, places.pick(known), name, read))
    other = ~np.isin(port, UDP_TUNNEL_PORTS)
    parts.append(Headers(places, kind).pick(other))
    return Headers.joined(parts)


def _open(
    packets: Packets, places: Places, name: str, read: Callable[[Packets, Places], _Seen]
) -> Headers:
    good, inner, kind = read(packets, places.after(_UDP_BYTES))
    sane = (kind == ETHERNET) & looks_like_ethernet(packets, inner)
    for version in (IPV4, IPV6):
        sane |= (kind == version) & looks_like_ip(packets, inner, version)
    tunnel = good & sane
    # Too little was captured to tell: no segment, and not simply other traffic either.
    needed = np.where(kind == ETHERNET, _FRAME_BYTES, _BASE_BYTES)
    short = inner.at + needed > places.limit
    cut = good & ~sane & (kind != 0) & short & (places.limit < packets.end[places.row])
    packets.note_cut(places.row[cut], _INSIDE)
    packets.enter(places.row[tunnel], tunnel_bit(name))
    none = ~tunnel & ~cut
    return Headers.joined([Headers(inner, kind).pick(tunnel), Headers.of(places.pick(none), _UDP)])


def _read_vxlan(packets: Packets, places: Places) -> _Seen:
    word, last = packets.peek(places, 0, ">u4"), packets.peek(places, 7, "u1")
    # The network is given; a group policy may be, with its two flags and 16 bits of group.
    plain, policy = word == 0x0800_0000, word & 0xFFB7_0000 == 0x8800_0000
    good = (plain | policy | (word < 0)) & (last <= 0)
    kind = np.full(len(places), ETHERNET, np.int64)
    return _Seen(good, places.after(_BASE_BYTES), kind)


def _read_vxlan_gpe(packets: Packets, places: Places) -> _Seen:
    word, last = packets.peek(places, 0, ">u4"), packets.peek(places, 7, "u1")
    # Version 0, the network is given, no maintenance; the last byte says what is carried, or,
    # without the flag for that, it is Ethernet.
    says = word & 0x0400_0000 != 0
    number = np.where(says, word & 0xFF, 3)
    good = ((word & 0xF9FF_FF00 == 0x0800_0000) | (word < 0)) & (last <= 0)
    kind = np.zeros(len(places), np.int64)
    for value, inner in {1: IPV4, 2: IPV6, 3: ETHERNET}.items():
        kind[number == value] = inner
    kind[word < 0] = ETHERNET
    return _Seen(good, places.after(_BASE_BYTES), kind)


def _read_geneve(packets: Packets, places: Places) -> _Seen:
    word, last = packets.peek(places, 0, ">u4"), packets.peek(places, 7, "u1")
    # Version 0, a length of options, no control packet, critical options or none.
    good = ((word & 0xC0BF_0000 == 0) | (word < 0)) & (last <= 0)
    options = np.where(word < 0, 0, (word >> 24 & 0x3F) * 4)
    kind = word & 0xFFFF
    kind[word < 0] = ETHERNET
    kind[~np.isin(kind, (ETHERNET, IPV4, IPV6))] = 0
    return _Seen(good, places.after(_BASE_BYTES + options), kind)


def _read_gtp(packets: Packets, places: Places) -> _Seen:
    # Version 1 of GTP, a packet of a user.
    good = packets.peek(places, 0, "u1") >> 4 == _GTP_1
    good &= packets.peek(places, 1, "u1") == _GTP_DATA
    kind = np.zeros(len(places), np.int64)
    if not good.any():
        return _Seen(good, places, kind)
    if not can_read():
        note_missing(packets, places.row[good], "GTP-U")
        return _Seen(np.zeros(len(places), np.bool_), places, kind)
    size = np.zeros(len(places), np.int64)
    found = find_inside(packets, places.pick(good), "read_gtp")
    size[good], kind[good] = found.size, np.where(found.is_read, found.kind, 0)
    return _Seen(good, places.after(size), kind)


_TUNNELS: Final = (
    ((4789, 8472), "VXLAN", _read_vxlan),
    ((4790,), "VXLAN", _read_vxlan_gpe),
    ((6081,), "Geneve", _read_geneve),
    ((2152,), "GTP-U", _read_gtp),
)
"""Ports by IANA, and 8472, which Linux used before there was one."""
UDP_TUNNEL_PORTS: Final = tuple(port for ports, _, _ in _TUNNELS for port in ports)
