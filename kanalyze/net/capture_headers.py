"""What a capturing driver writes in front of a packet: radiotap, Prism, AVS, PPI, netfilter's log.

In: a cursor at such a header, or at one of 802.11. Out: the kind of what it carries, the cursor
there.

A frame of 802.11 without a packet in the clear (beacons, acknowledgments, what is encrypted) is
counted by what it is. So are parts of a packet, and frames that hold several (A-MSDU).

802.11: IEEE 802.11-2020, 9.2. Radiotap: https://www.radiotap.org. Prism, AVS, PPI and Linux
netfilter's log (LINKTYPE_NFLOG: a packet as one of several tagged values):
https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.header_cursor import BEFORE_IP
from kanalyze.net.header_kinds import DROPPED, FAMILY, IPV4, IPV6, LLC_FRAME

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

_CUT: Final = "802.11 cut short"
_TYPES: Final = ("802.11 management", "802.11 control", "", "802.11 extension")
_DATA: Final = 2
_NO_DATA: Final = 0x40
"""Bit of a data frame's first byte: it carries no data."""
_QOS: Final = 0x80
"""Bit of a data frame's first byte: it has a QoS control field."""
_BETWEEN_STATIONS: Final = 0x03
"""To and from a distribution system: the frame has a fourth address."""
_MORE_FRAGMENTS, _PROTECTED, _HT_CONTROL = 0x04, 0x40, 0x80
_FRAGMENT_NUMBER: Final = 0x0F
_AGGREGATE: Final = 0x80
"""Flag of the QoS control field: several packets, each with a header of its own (A-MSDU)."""
_DOT11_BYTES: Final = 24
_SEQUENCE_AT: Final = 22
_ADDRESS_BYTES: Final = 6
_QOS_BYTES: Final = 2
_HT_CONTROL_BYTES: Final = 4
_RADIOTAP_BYTES: Final = 8
_PRESENT_AT: Final = 4
_MORE_PRESENT: Final = 1 << 31
"""Flag of a word of radiotap's presence bits: another one follows."""
_HAS_TIME, _HAS_FLAGS = 1, 2
_TIME_BYTES: Final = 8
DATA_PAD: Final = 0x20
"""Flag of radiotap: the header of 802.11 is filled up to a multiple of 4 bytes."""
_BAD_CHECKSUM: Final = 0x40
"""Flag of radiotap: bits of the frame are wrong."""
_PRISM_CODES: Final = (0x41, 0x44)
_PRISM_LEAST_BYTES: Final = 24
_AVS: Final = 0x80211
"""The upper 20 bits of an AVS header; the lower ones are its version."""
_AVS_LEAST_BYTES: Final = 12
_PPI_BYTES: Final = 8


def read_radiotap(cursor: HeaderCursor) -> int:
    """Step over radiotap and 802.11 headers."""
    size = int.from_bytes(cursor.rest(_PRESENT_AT)[2:], "little")
    flags = radiotap_flags(cursor.rest(size)) if size >= _RADIOTAP_BYTES else None
    if flags is None or not cursor.fits(size + 1):
        return _count(cursor, _CUT)
    cursor.at += size
    if flags & _BAD_CHECKSUM:
        return _count(cursor, "802.11 with a wrong checksum")
    return _read_frame(cursor, is_padded=flags & DATA_PAD != 0)


def radiotap_flags(head: bytes) -> int | None:
    """Return the field Flags of a radiotap header, 0 without one; None if the header is cut."""
    present = int.from_bytes(head[_PRESENT_AT:_RADIOTAP_BYTES], "little")
    # Fields follow the last word of presence bits.
    at, word = _RADIOTAP_BYTES, present
    while word & _MORE_PRESENT:
        word = int.from_bytes(head[at : at + 4], "little")
        at += 4
    if present & _HAS_TIME:
        at = (at + _TIME_BYTES - 1) // _TIME_BYTES * _TIME_BYTES + _TIME_BYTES
    if not present & _HAS_FLAGS:
        return 0 if at <= len(head) else None
    return head[at] if at < len(head) else None


def read_prism(cursor: HeaderCursor) -> int:
    """Step over a Prism or AVS header, which have one link type with some drivers, and 802.11."""
    size = prism_bytes(cursor.rest(8))
    if not size or not cursor.fits(size + 1):
        return _count(cursor, _CUT)
    cursor.at += size
    return read_dot11(cursor)


def prism_bytes(head: bytes) -> int:
    """Return the length of a Prism or AVS header; 0 for anything else."""
    if len(head) < 8:
        return 0
    if int.from_bytes(head[:4]) >> 12 == _AVS:
        size = int.from_bytes(head[4:])
        return size if size >= _AVS_LEAST_BYTES else 0
    # Of Prism's header, the byte order is that of the machine.
    for order in ("little", "big"):
        code, size = int.from_bytes(head[:4], order), int.from_bytes(head[4:], order)
        if code in _PRISM_CODES and size >= _PRISM_LEAST_BYTES:
            return size
    return 0


def ppi_link(cursor: HeaderCursor) -> int:
    """Step over a PPI header; return the link type of the packet after it, -1 if it is cut."""
    head = cursor.rest(_PPI_BYTES)
    size = int.from_bytes(head[2:4], "little")
    if size < _PPI_BYTES or not cursor.fits(size + 1):
        return -1
    cursor.at += size
    return int.from_bytes(head[4:], "little")


def read_dot11(cursor: HeaderCursor) -> int:
    """Step over an 802.11 header."""
    return _read_frame(cursor, is_padded=False)


def _read_frame(cursor: HeaderCursor, *, is_padded: bool) -> int:
    first, flags = cursor.peek8(0), cursor.peek8(1)
    name = _without_packet(first, flags)
    if name is not None:
        return _count(cursor, name)
    if not cursor.fits(_DOT11_BYTES + 1):
        return _count(cursor, _CUT)
    if flags & _MORE_FRAGMENTS or cursor.peek8(_SEQUENCE_AT) & _FRAGMENT_NUMBER:
        return _count(cursor, "802.11 fragment")
    size = _DOT11_BYTES
    if flags & _BETWEEN_STATIONS == _BETWEEN_STATIONS:
        size += _ADDRESS_BYTES
    if first & _QOS:
        if cursor.peek8(size) & _AGGREGATE and cursor.fits(size + 1):
            return _count(cursor, "802.11 aggregate")
        size += _QOS_BYTES + (_HT_CONTROL_BYTES if flags & _HT_CONTROL else 0)
    if is_padded:
        size += -size % 4
    if not cursor.fits(size + 1):
        return _count(cursor, _CUT)
    cursor.at += size
    return LLC_FRAME


def _without_packet(first: int, flags: int) -> str | None:
    """Return what a frame is that has no packet in the clear, by its first two bytes."""
    if first < 0 or flags < 0:
        return _CUT
    if first & 3:
        return f"802.11 version {first & 3}"
    if first >> 2 & 3 != _DATA:
        return _TYPES[first >> 2 & 3]
    if first & _NO_DATA:
        return "802.11 without data"
    return "802.11 encrypted" if flags & _PROTECTED else None


def _count(cursor: HeaderCursor, name: str) -> int:
    """Count a packet that is not read further, by what it is."""
    cursor.stats.counters.count_other(name, 1)
    cursor.stats.counters.not_ip += 1
    return DROPPED


_NFLOG_BYTES: Final = 4
_TAG_BYTES: Final = 4
_PAYLOAD: Final = 9
_MAX_VALUES: Final = 32
"""The kernel has about twenty kinds of values; each is in a packet at most once."""
_FAMILIES: Final = {2: IPV4, 10: IPV6}


def read_nflog(cursor: HeaderCursor) -> int:
    """Step over the values in front of the one that is the packet."""
    if not cursor.fits(_NFLOG_BYTES):
        return cursor.cut(BEFORE_IP)
    family = cursor.u8(cursor.at)
    cursor.at += _NFLOG_BYTES
    if family not in _FAMILIES:
        return FAMILY | family
    for _ in range(_MAX_VALUES):
        if not cursor.fits(_TAG_BYTES):
            return cursor.cut(BEFORE_IP)
        tag, size = value_head(cursor.rest(_TAG_BYTES))
        if size < _TAG_BYTES:
            break
        if tag == _PAYLOAD:
            cursor.at += _TAG_BYTES
            return _FAMILIES[family]
        cursor.at += (size + 3) & ~3
    return FAMILY | family


def value_head(head: bytes) -> tuple[int, int]:
    """Return the kind of a value and its length, which includes these 4 bytes.

    Both are in the byte order of the machine that wrote them. Kinds are small numbers, so the
    smaller reading of a kind is the right one.
    """
    tag, swapped = int.from_bytes(head[2:], "little"), int.from_bytes(head[2:], "big")
    return min(tag, swapped), int.from_bytes(head[:2], "little" if tag <= swapped else "big")
