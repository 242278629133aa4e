"""Rare headers, read by scapy one at a time.

In: the bytes of a packet from a header on. Out: the kind and the place of its content, or the name
of an unread protocol. Must not know: where the bytes come from.

scapy would dissect a packet to its end, with whatever is on the wire. Here it gets one header, and
an error of scapy means that the bytes are no such header. Headers without a class in scapy (chains
of GTP-U's extension headers, the HT control field) are stepped over by their length.

802.11: IEEE 802.11-2020, 9.2; radiotap: https://www.radiotap.org. 802.1ah: IEEE 802.1Q, 9.7.
EtherIP: RFC 3378. GRE version 1: RFC 2637. GTP-U: 3GPP TS 29.281.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from scapy.contrib.etherip import EtherIP
from scapy.contrib.gtp import GTP_U_Header
from scapy.error import Scapy_Exception
from scapy.layers.dot11 import Dot11, Dot11QoS, RadioTap
from scapy.layers.l2 import GRE_PPTP, Dot1AH

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.net.header_kinds import ETHERNET, IPV4, IPV6, LLC_FRAME, PPP

if TYPE_CHECKING:
    from scapy.packet import Packet

__all__ = ["Inside", "read_dot11", "read_etherip", "read_gre_1", "read_gtp", "read_pbb"]
__all__ += ["read_radiotap"]

_ERRORS: Final = (
    Scapy_Exception,
    struct.error,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
)
"""What scapy's fields raise where bytes are cut or invalid."""

_MANAGEMENT, _CONTROL, _DATA = 0, 1, 2
_NO_DATA: Final = 4
"""Bit of a data frame's subtype: it carries no data."""
_QOS: Final = 8
"""Bit of a data frame's subtype: it has a QoS control field."""
_HT_CONTROL_BYTES: Final = 4
_RADIOTAP_LEAST_BYTES: Final = 8
_DATA_PAD: Final = 0x20
"""Flag of radiotap: the header of 802.11 is filled up to a multiple of 4 bytes."""
_ETHERIP_VERSION: Final = 3
_GTP_DATA: Final = 255
_MOST_EXTENSIONS: Final = 8
_VERSIONS: Final = {4: IPV4, 6: IPV6}


class Inside(NamedTuple):
    """What a header carries."""

    header_bytes: int
    kind: int


_Carried: TypeAlias = "Inside | str"
"""The kind of the content, or the name of an unread protocol."""


def read_radiotap(data: bytes) -> _Carried:
    """Step over radiotap and 802.11 headers."""
    size = int.from_bytes(data[2:4], "little")
    if not _RADIOTAP_LEAST_BYTES <= size < len(data):
        return "802.11 cut short"
    try:
        flags = RadioTap(data[:size]).Flags
        is_padded = flags is not None and bool(int(flags) & _DATA_PAD)
    except _ERRORS:
        return "802.11 cut short"
    inside = _dot11(data[size:], is_padded=is_padded)
    return inside if isinstance(inside, str) else Inside(size + inside.header_bytes, inside.kind)


def read_dot11(data: bytes) -> _Carried:
    """Step over an 802.11 header."""
    return _dot11(data, is_padded=False)


def _dot11(data: bytes, *, is_padded: bool) -> _Carried:
    head = _header(Dot11, data)
    if head is None:
        return "802.11 cut short"
    frame, size = head
    if frame.type != _DATA:
        return {_MANAGEMENT: "802.11 management", _CONTROL: "802.11 control"}.get(
            frame.type, "802.11 extension"
        )
    if frame.subtype & _NO_DATA:
        return "802.11 without data"
    flags = frame.FCfield
    if flags.protected:
        return "802.11 encrypted"
    if flags.MF or frame.SC & 0xF:
        return "802.11 fragment"
    if frame.subtype & _QOS:
        head = _header(Dot11QoS, data[size:])
        if head is None:
            return "802.11 cut short"
        if head[0].A_MSDU_Present:
            return "802.11 aggregate"
        size += head[1] + (_HT_CONTROL_BYTES if flags.order else 0)
    return Inside(size + (-size % 4 if is_padded else 0), LLC_FRAME)


def read_pbb(data: bytes) -> _Carried:
    """Step over the tag of 802.1ah: the customer's Ethernet frame follows it."""
    head = _header(Dot1AH, data)
    return "802.1ah" if head is None else Inside(head[1], ETHERNET)


def read_etherip(data: bytes) -> _Carried:
    """Step over the header of EtherIP."""
    head = _header(EtherIP, data)
    if head is None or head[0].version != _ETHERIP_VERSION:
        return "EtherIP"
    return Inside(head[1], ETHERNET)


def read_gre_1(data: bytes) -> _Carried:
    """Step over a header of GRE version 1, in which PPTP carries PPP."""
    head = _header(GRE_PPTP, data)
    if head is None or head[0].payload_len == 0:
        return "GRE version 1"
    return Inside(head[1], PPP)


def read_gtp(data: bytes) -> _Carried:
    """Step over a header of GTP-U and its extensions, where it carries IP."""
    head = _header(GTP_U_Header, data)
    if head is None:
        return "GTP-U"
    gtp, size = head
    if (gtp.version, gtp.PT, gtp.gtp_type) != (1, 1, _GTP_DATA):
        return "GTP-U"
    following = gtp.next_ex if gtp.E else 0
    for _ in range(_MOST_EXTENSIONS):
        if not following:
            break
        # A length in units of four bytes, the content, the type of the next one.
        end = size + 4 * data[size] if size < len(data) else size
        if end == size or end > len(data):
            return "GTP-U"
        following, size = data[end - 1], end
    kind = _VERSIONS.get(data[size] >> 4) if size < len(data) else None
    return "GTP-U" if following or kind is None else Inside(size, kind)


def _header(layer: type[Packet], data: bytes) -> tuple[Any, int] | None:
    """Let scapy read one header; return it and its size, None if it is incomplete."""
    header = layer()
    try:
        rest = header.do_dissect(data)
    except _ERRORS:
        return None
    # For data that is too short, scapy leaves fields at their defaults and raises no error.
    return (header, len(data) - len(rest)) if rest else None
