"""Header after header, from the link layer to TCP.

In: a packet batch. Out: places of TCP headers. Must not know: TCP.

Each round takes one header off every packet that is not at its end; a packet with nothing around
IP takes part in the first round alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from kanalyze.net.columns import Headers
from kanalyze.net.ethernet import read_ethernet, read_llc
from kanalyze.net.ip import read_ipv4, read_ipv6
from kanalyze.net.kinds import (
    ANY_IP,
    ETHERNET,
    IPV4,
    IPV6,
    LLC_FRAME,
    MPLS,
    MPLS_MULTICAST,
    PBB,
    PPP,
    PPPOE,
    TOO_DEEP,
    TRANSPORT,
)
from kanalyze.net.link import read_link_headers, read_version
from kanalyze.net.mpls import read_mpls
from kanalyze.net.names import kind_name
from kanalyze.net.ppp import read_ppp, read_pppoe
from kanalyze.net.rare_layers import read_pbb
from kanalyze.net.tunnels import read_in_ip

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.columns import Packets, Places
    from kanalyze.net.ip import FragmentColumns, InIp, TcpInIp

__all__ = ["find_tcp"]

_MAX_ROUNDS: Final = 24
"""Eight tunnels of IP, UDP or GRE, and Ethernet in one another."""
_READERS: Final[dict[int, Callable[[Packets, Places], Headers]]] = {
    ANY_IP: read_version,
    ETHERNET: read_ethernet,
    LLC_FRAME: read_llc,
    MPLS: read_mpls,
    MPLS_MULTICAST: read_mpls,
    PBB: read_pbb,
    PPP: read_ppp,
    PPPOE: read_pppoe,
}

_PutTogether: TypeAlias = "Callable[[Packets, FragmentColumns], Headers]"


def find_tcp(
    packets: Packets,
    put_together: _PutTogether,
    notice: Callable[[Headers], object] | None = None,
) -> list[TcpInIp]:
    """Return the TCP segments in a batch, in parts, each in the order of the packets.

    What is none is counted in the notes by its reason. ``put_together`` takes fragments, and gives
    the headers of datagrams that are whole. ``notice`` is told of the headers of each round before
    they are read: what it hears last of a packet is its innermost one.
    """
    headers = read_link_headers(packets)
    found: list[TcpInIp] = []
    for _ in range(_MAX_ROUNDS):
        if notice is not None:
            notice(headers)
        headers = _one_round(packets, headers, put_together, found)
        if not len(headers):
            return found
    _count_other(packets, Headers.of(headers.places, TOO_DEEP))
    return found


def _one_round(
    packets: Packets, headers: Headers, put_together: _PutTogether, found: list[TcpInIp]
) -> Headers:
    """Read one header of each packet; return the headers after those that are not at the end."""
    places, kind = headers.places, headers.kind
    following: list[Headers] = []
    is_ipv4 = kind == IPV4
    if is_ipv4.any():
        _take(packets, read_ipv4(packets, places.pick(is_ipv4)), put_together, found, following)
    if is_ipv4.all():
        return Headers.joined(following)
    is_ipv6 = kind == IPV6
    if is_ipv6.any():
        _take(packets, read_ipv6(packets, places.pick(is_ipv6)), put_together, found, following)
    rest = ~(is_ipv4 | is_ipv6)
    if rest.any():
        following += _read_others(packets, headers.pick(rest))
    return Headers.joined(following)


def _take(
    packets: Packets,
    inside: InIp,
    put_together: _PutTogether,
    found: list[TcpInIp],
    following: list[Headers],
) -> None:
    found.append(inside.tcp)
    if inside.other is not None:
        following += _without_other(packets, read_in_ip(packets, inside.other))
    if inside.fragments is not None:
        following.append(put_together(packets, inside.fragments))


def _read_others(packets: Packets, headers: Headers) -> list[Headers]:
    """Take off what is no IP header; count what cannot be read."""
    parts = []
    rest = np.ones(len(headers), np.bool_)
    for kind, read in _READERS.items():
        wanted = headers.kind == kind
        if wanted.any():
            parts.append(read(packets, headers.places.pick(wanted)))
            rest &= ~wanted
    _count_other(packets, headers.pick(rest))
    return parts


def _without_other(packets: Packets, headers: Headers) -> list[Headers]:
    """Count what IP carries that is no tunnel; keep the rest."""
    is_other = headers.kind >= TRANSPORT
    is_other &= ~np.isin(headers.kind, list(_READERS))
    _count_other(packets, headers.pick(is_other))
    return [headers.pick(~is_other)]


def _count_other(packets: Packets, headers: Headers) -> None:
    """Count packets that are no TCP by the name of what they are."""
    if not len(headers):
        return
    counters = packets.notes.counters
    kinds, counts = np.unique(headers.kind, return_counts=True)
    for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        counters.count_other(kind_name(kind), count)
        if kind >= TRANSPORT:
            counters.not_tcp += count
        else:
            counters.not_ip += count
