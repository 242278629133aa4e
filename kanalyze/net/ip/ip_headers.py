"""IPv4 and IPv6 headers.

In: a cursor at an IP header. Out: the kind of what the packet carries, the cursor there, with the
addresses; or the fields of a fragment.

IPv4: RFC 791. IPv6 and its extension headers: RFC 8200, RFC 4302 (AH), RFC 7401 (HIP), RFC 5533
(shim6). Lengths are those of the IP header: bytes that a link layer adds after it (Ethernet pads to
60 bytes) are no payload. The length is 0 where the network card does the segmentation, and in
jumbograms (RFC 2675): then the size of the packet, or of the outer header, is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_kinds import DROPPED, FRAGMENT, IP_PROTOCOL

    TCP_PROTOCOL = 6
    IPV4_BYTES = 20
    IPV6_BYTES = 40
    FRAGMENT_BITS = 0x3FFF  # more fragments, or not at offset 0
    MORE_FRAGMENTS = 0x2000
    FRAGMENT_OFFSET_MASK = 0x1FFF
    FRAGMENT_HEADER = 44
    FRAGMENT_HEADER_BYTES = 8
    AUTHENTICATION = 51
    MAX_EXTENSIONS = 16
    LARGEST_UNSTATED_BYTES = 1 << 20  # Linux joins segments up to 512 KiB (BIG TCP)

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["TUNNEL_PROTOCOLS", "read_ipv4", "read_ipv6"]

TUNNEL_PROTOCOLS: Final = (4, 17, 41, 47, 97, 137)
"""Protocols that may hold TCP: IP in IP, UDP, GRE, EtherIP, MPLS in IP."""
_REASSEMBLED: Final = frozenset((6, *TUNNEL_PROTOCOLS))
"""Protocols whose fragments are reassembled."""
_WITHIN: Final = "within the IP header"


def read_ipv4(cursor: HeaderCursor) -> int:
    """Step over an IPv4 header; return ``IP_PROTOCOL | protocol``, or ``FRAGMENT``."""
    if not cursor.fits(IPV4_BYTES):
        return cursor.cut(_WITHIN)
    at = cursor.at
    version = cursor.u8(at)
    header_bytes = (version & 15) * 4
    total_bytes = cursor.u16(at + 2)
    if not total_bytes:
        total_bytes = unstated_bytes(cursor)
    if version >> 4 != 4 or header_bytes < IPV4_BYTES or total_bytes < header_bytes:
        return drop_bad(cursor)
    fragment_field = cursor.u16(at + 6)
    protocol = cursor.u8(at + 9)
    cursor.ip_at = at
    cursor.ip_end = at + total_bytes
    cursor.at = at + header_bytes
    cursor.is_ipv6 = False
    cursor.source_high = cursor.destination_high = 0
    cursor.source_low = cursor.u32(at + 12)
    cursor.destination_low = cursor.u32(at + 16)
    cursor.identification = cursor.u16(at + 4)
    if fragment_field & FRAGMENT_BITS and protocol in _REASSEMBLED:
        ends = cursor.source_low, cursor.destination_low
        cursor.datagram_key = (*ends, cursor.identification, protocol)
        cursor.datagram_protocol = protocol
        cursor.fragment_offset = (fragment_field & FRAGMENT_OFFSET_MASK) * 8
        cursor.has_more = fragment_field & MORE_FRAGMENTS != 0
        return FRAGMENT
    if protocol != TCP_PROTOCOL:
        cursor.shorten(cursor.ip_end)
    return IP_PROTOCOL | protocol


def read_ipv6(cursor: HeaderCursor) -> int:
    """Step over an IPv6 header and its extensions; return as :func:`read_ipv4` does."""
    if not cursor.fits(IPV6_BYTES):
        return cursor.cut(_WITHIN)
    at = cursor.at
    if cursor.u8(at) >> 4 != 6:
        return drop_bad(cursor)
    total_bytes = cursor.u16(at + 4)
    total_bytes = total_bytes + IPV6_BYTES if total_bytes else unstated_bytes(cursor)
    cursor.ip_at = at
    cursor.ip_end = at + total_bytes
    cursor.is_ipv6 = True
    cursor.source_high = cursor.u64(at + 8)
    cursor.source_low = cursor.u64(at + 16)
    cursor.destination_high = cursor.u64(at + 24)
    cursor.destination_low = cursor.u64(at + 32)
    cursor.identification = -1
    protocol = cursor.u8(at + 6)
    cursor.at = at + IPV6_BYTES
    if protocol != TCP_PROTOCOL:
        return without_extensions(cursor, protocol)
    return IP_PROTOCOL | protocol


def without_extensions(cursor: HeaderCursor, protocol: int) -> int:
    """Step over extension headers, up to that of a fragment; return as :func:`read_ipv4` does."""
    for _i in range(MAX_EXTENSIONS):
        if not (protocol == FRAGMENT_HEADER or is_option(protocol)):
            break
        if not cursor.fits(8):
            return cursor.cut(_WITHIN)
        at = cursor.at
        following = cursor.u8(at)
        if protocol != FRAGMENT_HEADER:
            length = cursor.u8(at + 1)
            cursor.at += (length + 2) * 4 if protocol == AUTHENTICATION else (length + 1) * 8
            protocol = following
            continue
        cursor.at += FRAGMENT_HEADER_BYTES
        protocol = following
        # Offset 0 and no more fragments: this one is the whole datagram (RFC 6946).
        fragment_field = cursor.u16(at + 2)
        if fragment_field & 0xFFF9 == 0:
            continue
        if protocol in _REASSEMBLED or is_option(protocol):
            note_fragment(cursor, at, protocol)
            return FRAGMENT
        # Other fragments are not reassembled: only their protocol is returned.
        if protocol == FRAGMENT_HEADER:
            return drop_bad(cursor)
    if protocol != TCP_PROTOCOL:
        cursor.shorten(cursor.ip_end)
    return IP_PROTOCOL | protocol


def is_option(protocol: int) -> bool:
    """Return true if a protocol is an extension header that has a length field.

    Hop-by-hop, routing and destination options, mobility, HIP, shim6: the field counts units of 8
    bytes after the first 8. The authentication header counts differently.
    """
    return protocol in (0, 43, 60, 135, 139, 140, AUTHENTICATION)


def note_fragment(cursor: HeaderCursor, at: int, protocol: int) -> None:
    """Note the datagram and the range of a fragment, from the IPv6 fragment header at ``at``."""
    fragment_field = cursor.u16(at + 2)
    cursor.datagram_key = (
        *(cursor.source_high, cursor.source_low),
        *(cursor.destination_high, cursor.destination_low),
        cursor.u32(at + 4),
    )
    cursor.datagram_protocol = protocol
    cursor.fragment_offset = fragment_field & 0xFFF8
    cursor.has_more = fragment_field & 1 != 0


def unstated_bytes(cursor: HeaderCursor) -> int:
    """Return the bytes from the IP header on, for a header whose length is 0.

    That is the packet's size on the wire, by the capture. Above :data:`LARGEST_UNSTATED_BYTES` that
    is not believed, and the captured bytes are returned.
    """
    on_wire = cursor.end - cursor.at
    return on_wire if on_wire <= LARGEST_UNSTATED_BYTES else cursor.limit - cursor.at


def drop_bad(cursor: HeaderCursor) -> int:
    """Count a packet whose IP header contradicts itself."""
    cursor.stats.counters.bad_ip_headers += 1
    cursor.note(AnomalyKind.BAD_IP_HEADER, "wrong version or length")
    return DROPPED
