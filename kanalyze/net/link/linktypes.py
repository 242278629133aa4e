"""Link-layer headers.

In: a cursor at the beginning of a packet. Out: the kind of the network header, the cursor there.

Layouts: https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.header_kinds import PPPOE
from kanalyze.net.header_names import link_name
from kanalyze.net.link.nflog import read_nflog
from kanalyze.net.link.ppp import read_cisco_hdlc, read_hdlc, read_ppp
from kanalyze.net.link.wireless import ppi_link, read_dot11, read_prism, read_radiotap

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_kinds import DROPPED, FAMILY, IP_VERSION, IPV4, IPV6, LLC_FRAME
    from kanalyze.net.link.ethernet import read_ethernet, without_tags

    BSD_LOOPBACK, LINK_ETHERNET, RAW_BSD, RAW_OPENBSD, RAW, OPENBSD_LOOPBACK = (
        0,
        1,
        12,
        14,
        101,
        108,
    )
    COOKED, COOKED_2 = 113, 276  # Linux
    COOKED_LLC = 4  # in place of an ethertype: an IEEE 802.2 header follows
    FAMILY_BYTES = 4
    FAMILY_IPV4 = 2

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["read_link", "read_version"]

_BEFORE_IP: Final = "before the IP header"
_FAMILIES_IPV6: Final = (10, 23, 24, 28, 30)
"""Linux; Windows; NetBSD and OpenBSD; FreeBSD; macOS."""
_PPI: Final = 192
_PKTAP: Final = 258
_CARRIERS: Final = (_PPI, _PKTAP)
"""Link types whose header says another one; none of them is read inside another."""
_PKTAP_LEAST_BYTES: Final = 12
_PKTAP_PACKET: Final = 1
_PKTAP_LINKS: Final = {12: 101, 14: 101}
"""Numbers that only macOS uses, as LINKTYPE_ values: raw IP."""


def read_link(cursor: HeaderCursor, link: int) -> int:
    """Step over the link-layer header of a packet of a link type."""
    if link == LINK_ETHERNET:
        return read_ethernet(cursor)
    if link == COOKED:
        return read_ethertype(cursor, 14, 16)
    if link == COOKED_2:
        return read_ethertype(cursor, 0, 20)
    if link in (RAW, RAW_BSD, RAW_OPENBSD):
        return read_version(cursor)
    if link in (BSD_LOOPBACK, OPENBSD_LOOPBACK):
        return read_family(cursor)
    return read_rare(cursor, link)


def read_version(cursor: HeaderCursor) -> int:
    """Tell IPv4 from IPv6 by the version that the header says."""
    if not cursor.fits(1):
        return cursor.cut(_BEFORE_IP)
    version = cursor.u8(cursor.at) >> 4
    if version == 4:
        return IPV4
    return IPV6 if version == 6 else IP_VERSION | version


def read_ethertype(cursor: HeaderCursor, type_at: int, header_bytes: int) -> int:
    """Step over a header of fixed size with an ethertype in it, and the VLAN tags after it."""
    if not cursor.fits(header_bytes):
        return cursor.cut(_BEFORE_IP)
    kind = cursor.u16(cursor.at + type_at)
    cursor.at += header_bytes
    kind = without_tags(cursor, kind)
    return LLC_FRAME if kind == COOKED_LLC else kind


def read_family(cursor: HeaderCursor) -> int:
    """Step over BSD's loopback header: an address family in either byte order.

    Families are small numbers, so the smaller reading is the right one.
    """
    if not cursor.fits(FAMILY_BYTES):
        return cursor.cut(_BEFORE_IP)
    at = cursor.at
    cursor.at += FAMILY_BYTES
    family = cursor.u16(at + 2)
    if cursor.u16(at):
        family = cursor.u8(at + 1) << 8 | cursor.u8(at)
        if cursor.u16(at + 2):
            # More than 16 bits either way.
            return FAMILY | family
    if family == FAMILY_IPV4:
        return IPV4
    return IPV6 if family in _FAMILIES_IPV6 else FAMILY | family


def read_rare(cursor: HeaderCursor, link: int) -> int:
    """Step over the header of a rare link type; count a packet of an unknown one."""
    reader = _READERS.get(link)
    if reader is not None:
        return reader(cursor)
    fixed = _FIXED.get(link)
    if fixed is None:
        return count_unknown(cursor, link)
    return fixed if cursor.fits(1) else cursor.cut(_BEFORE_IP)


def count_unknown(cursor: HeaderCursor, link: int) -> int:
    """Count a packet of a link type that is not read."""
    stats, name = cursor.stats, link_name(link)
    counts = stats.counters.unknown_link_type
    counts[link] = counts.get(link, 0) + 1
    stats.counters.count_other(name, 1)
    cursor.note(AnomalyKind.UNKNOWN_LINK_TYPE, name)
    return DROPPED


def _read_pktap(cursor: HeaderCursor) -> int:
    """Step over macOS's PKTAP header: its length, what follows (1: a packet), the link type."""
    if not cursor.fits(_PKTAP_LEAST_BYTES):
        return cursor.cut(_BEFORE_IP)
    head = cursor.rest(_PKTAP_LEAST_BYTES)
    size, following, link = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 8))
    if size < _PKTAP_LEAST_BYTES or following != _PKTAP_PACKET or link in _CARRIERS:
        return count_unknown(cursor, _PKTAP)
    cursor.at += size
    return read_link(cursor, _PKTAP_LINKS.get(link, link))


def _read_ppi(cursor: HeaderCursor) -> int:
    """Step over a PPI header, which says the link type of what follows it: usually 802.11."""
    link = ppi_link(cursor)
    if link < 0:
        return cursor.cut(_BEFORE_IP)
    if link in _CARRIERS:
        return count_unknown(cursor, _PPI)
    return read_link(cursor, link)


_READERS: Final[dict[int, Callable[[HeaderCursor], int]]] = {
    9: read_ppp,
    50: read_hdlc,
    104: read_cisco_hdlc,
    105: read_dot11,
    119: read_prism,
    127: read_radiotap,
    163: read_prism,
    _PPI: _read_ppi,
    239: read_nflog,
    _PKTAP: _read_pktap,
}
"""PPP; PPP or Cisco in HDLC; Cisco's HDLC; 802.11, alone, with Prism, radiotap, AVS, or PPI; Linux
netfilter's log; macOS's PKTAP."""
_FIXED: Final = {51: PPPOE, 228: IPV4, 229: IPV6}
"""Nothing stands before the header: PPPoE, raw IPv4, raw IPv6."""
