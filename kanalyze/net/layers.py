"""Reads header after header, from the link layer to TCP.

In: a cursor at the beginning of a packet. Out: the cursor at the TCP header, where there is one.

Headers of most packets (Ethernet, IP) are read by compiled code; rarer ones by Python, called from
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.header_kinds import MPLS, MPLS_MULTICAST, PBB, PPP, PPPOE
from kanalyze.net.header_names import kind_name
from kanalyze.net.ip.tunnels import read_in_ip
from kanalyze.net.link.mpls import read_mpls
from kanalyze.net.link.pbb import read_pbb
from kanalyze.net.link.ppp import read_ppp, read_pppoe

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_kinds import (
        ANY_IP,
        DROPPED,
        ETHERNET,
        FRAGMENT,
        IPV4,
        IPV6,
        LLC_FRAME,
        TCP,
        TOO_DEEP,
        TRANSPORT,
    )
    from kanalyze.net.ip.ip_headers import read_ipv4, read_ipv6
    from kanalyze.net.link.ethernet import read_ethernet, read_llc
    from kanalyze.net.link.linktypes import read_link, read_version

    MAX_ROUNDS = 24  # headers: eight nested tunnels, each of IP, UDP or GRE, and Ethernet

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["find_tcp", "read_other"]

_READERS: Final[dict[int, Callable[[HeaderCursor], int]]] = {
    MPLS: read_mpls,
    MPLS_MULTICAST: read_mpls,
    PBB: read_pbb,
    PPP: read_ppp,
    PPPOE: read_pppoe,
}


def find_tcp(cursor: HeaderCursor, link: int, reassemble: Callable[[HeaderCursor], int]) -> bool:
    """Move to the TCP header of a packet; return false if there is none.

    A packet without a TCP header is counted by its reason. ``reassemble`` takes a fragment; if that
    completes a datagram, it moves the cursor to it and returns the kind of its header, otherwise
    :data:`~kanalyze.net.header_kinds.DROPPED`.
    """
    kind = read_link(cursor, link)
    for _i in range(MAX_ROUNDS):
        if kind < 0:
            return False
        cursor.kind = kind
        cursor.kind_at = cursor.at
        cursor.kind_limit = cursor.limit
        if kind == IPV4:
            kind = read_ipv4(cursor)
        elif kind == IPV6:
            kind = read_ipv6(cursor)
        else:
            kind = read_other(cursor, kind)
            continue
        if kind == TCP:
            return True
        kind = reassemble(cursor) if kind == FRAGMENT else inside_ip(cursor, kind)
    if kind >= 0:
        count_other(cursor, TOO_DEEP)
    return False


def inside_ip(cursor: HeaderCursor, kind: int) -> int:
    """Step into a tunnel inside IP; count a packet that has no tunnel."""
    if kind < 0:
        return kind
    kind = read_in_ip(cursor, kind)
    if kind >= TRANSPORT and not is_read(kind):
        return count_other(cursor, kind)
    return kind


def is_read(kind: int) -> bool:
    """Return true if :func:`read_other` reads a kind of header."""
    return kind in (ETHERNET, LLC_FRAME, ANY_IP) or kind in _READERS


def read_other(cursor: HeaderCursor, kind: int) -> int:
    """Step over a header other than IP; count a packet whose header cannot be read."""
    if kind == ETHERNET:
        return read_ethernet(cursor)
    if kind == LLC_FRAME:
        return read_llc(cursor)
    if kind == ANY_IP:
        return read_version(cursor)
    read = _READERS.get(kind)
    return count_other(cursor, kind) if read is None else read(cursor)


def count_other(cursor: HeaderCursor, kind: int) -> int:
    """Count a packet without TCP, by the name of its protocol."""
    counters = cursor.stats.counters
    counters.count_other(kind_name(kind), 1)
    if kind >= TRANSPORT:
        counters.not_tcp += 1
    else:
        counters.not_ip += 1
    return DROPPED
