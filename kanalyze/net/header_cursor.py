"""The headers that nearly every packet has, Ethernet and IP, and the cursor that reads them.

In: a packet batch. Out: :class:`HeaderCursor`, a position among the headers of a packet, and the
values read so far; the kind of the header that follows (:mod:`kanalyze.net.header_kinds`).

Functions that step over a header check that enough bytes are there before they read a number;
besides, Python or Cython checks each index.

Ethernet and its tags: IEEE 802.3, 802.1Q; SNAP: RFC 1042. IPv4: RFC 791. IPv6 and its extension
headers: RFC 8200, RFC 4302 (AH), RFC 7401 (HIP), RFC 5533 (shim6). Lengths are those of the IP
header: bytes that a link layer adds after it (Ethernet pads to 60 bytes) are no payload. The length
is 0 where the network card does the segmentation, and in jumbograms (RFC 2675): then the size of
the packet, or of the outer header, is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.header_kinds import ARP, IP_PROTOCOL, LLC, MPLS, PPPOE

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_kinds import DROPPED, FRAGMENT, IPV4, IPV6, LLC_FRAME

ETHERNET_BYTES = 14
TYPE_AT = 12
MAX_TAGS = 8
MAX_LENGTH = 1500  # up to here the two bytes of the ethertype are the length of an 802.3 frame
SNAP = 0xAAAA03
SNAP_BYTES = 8
LLC_IP = 0x060603  # IP in LLC without SNAP
LLC_BYTES = 3
LLDP = 0x88CC
# 802.1Q, 802.1ad, and what came before 802.1ad.
TAG_Q, TAG_AD, TAG_OLD, TAG_OLDER = 0x8100, 0x88A8, 0x9100, 0x9200

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
    from kanalyze.model.packets import PacketBatch
    from kanalyze.net.layer_stats import LayerStats

BEFORE_IP: Final = "before the IP header"
TUNNEL_PROTOCOLS: Final = (4, 17, 41, 47, 97, 137)
"""Protocols that may hold TCP: IP in IP, UDP, GRE, EtherIP, MPLS in IP."""
_REASSEMBLED: Final = frozenset((6, *TUNNEL_PROTOCOLS))
"""Protocols whose fragments are reassembled."""
_WITHIN: Final = "within the IP header"


class HeaderCursor:
    """Stands at a header of a packet, and goes from packet to packet of a batch.

    Attributes:
        row: index of the packet in the batch.
        at: index in the data of the header's first byte.
        limit: index of the end of the captured bytes of the packet.
        end: index of the packet's end on the wire, according to outer headers.
        kind: kind (see :mod:`kanalyze.net.header_kinds`) of the last header that was begun; -1
            before the first.
        tunnels: bits of the tunnels that the packet came through.
        is_ipv6: version of the last IP header. The attributes below are of that header, too;
            addresses of IPv4 have ``high`` 0.
        identification: that of IPv4; -1 for IPv6.
        ip_at: index of the IP header.
        ip_end: index of the end of the IP packet, captured or not.
        datagram_protocol: protocol of a fragment's datagram.
        fragment_offset: offset in the datagram, in bytes.
        has_more: it is not the last fragment.
        datagram_key: the same for all fragments of a datagram, and for no other datagram at the
            time.
        base: what to add to an index to get an index in :attr:`buffer`.
    """

    def __init__(self, batch: PacketBatch, stats: LayerStats) -> None:
        """``stats`` counts the packets that cannot be read up to TCP."""
        self.batch = batch
        self.stats = stats
        self.data = batch.buffer
        self.base = 0
        self.row = self.at = self.limit = self.end = self.wire_bytes = 0
        self.kind = -1
        self.tunnels = 0
        self.is_ipv6 = False
        self.source_high = self.source_low = 0
        self.destination_high = self.destination_low = 0
        self.identification = self.ip_at = self.ip_end = 0
        self.datagram_protocol = self.fragment_offset = 0
        self.has_more = False
        self.datagram_key: tuple[int, ...] = ()
        self._offsets = memoryview(batch.offset)
        self._captured = memoryview(batch.captured_bytes)
        self._wires = memoryview(batch.wire_bytes)
        self._links = memoryview(batch.link_type)
        self._joined: list[bytes] = []
        self._joined_bytes = 0
        self._used_bytes = -1

    def begin(self, row: int) -> int:
        """Go to the beginning of a packet; return its link type."""
        if self.base:
            self.data = self.batch.buffer
            self.base = 0
        self.row = row
        self.at = self._offsets[row]
        self.limit = self.at + self._captured[row]
        self.wire_bytes = self._wires[row]
        self.end = self.at + self.wire_bytes
        self.kind = -1
        self.tunnels = 0
        return self._links[row]

    # -- numbers ----------------------------------------------------------------------------------

    def u8(self, at: int) -> int:
        """Read the byte at an index."""
        return self.data[at]

    def u16(self, at: int) -> int:
        """Read two bytes in network order at an index."""
        return self.data[at] << 8 | self.data[at + 1]

    def u32(self, at: int) -> int:
        """Read four bytes in network order at an index."""
        return self.u16(at) << 16 | self.u16(at + 2)

    def u64(self, at: int) -> int:
        """Read eight bytes in network order at an index."""
        high = self.u32(at)
        return high << 32 | self.u32(at + 4)

    def peek8(self, skip: int) -> int:
        """Read the byte ``skip`` bytes from here; -1 if the packet ends before."""
        at = self.at + skip
        return self.u8(at) if at + 1 <= self.limit else -1

    def peek16(self, skip: int) -> int:
        """Read two bytes, ``skip`` bytes from here; -1 if the packet ends before."""
        at = self.at + skip
        return self.u16(at) if at + 2 <= self.limit else -1

    def peek32(self, skip: int) -> int:
        """Read four bytes, ``skip`` bytes from here; -1 if the packet ends before."""
        at = self.at + skip
        return self.u32(at) if at + 4 <= self.limit else -1

    def rest(self, most: int) -> bytes:
        """Return the packet's bytes from here on, at most ``most``."""
        end = min(self.limit, self.at + most)
        return bytes(self.data[self.at : end]) if self.at < end else b""

    # -- bounds, tunnels and anomalies of the packet ----------------------------------------------

    def fits(self, size: int) -> bool:
        """Return true if the next ``size`` bytes were captured."""
        return self.at + size <= self.limit

    def cut(self, where: str) -> int:
        """Count a packet that the capture cut too early to know what is in it.

        Returns :data:`~kanalyze.net.header_kinds.DROPPED`.
        """
        self.stats.counters.cut_headers += 1
        self.note(AnomalyKind.BAD_IP_HEADER, f"cut {where}")
        return DROPPED

    def note(self, kind: AnomalyKind, detail: str) -> None:
        """Count an anomaly of the packet."""
        batch, row = self.batch, self.row
        self.stats.add_packet(kind, int(batch.time_ns[row]), int(batch.number[row]), detail)

    def enter(self, tunnel: int) -> None:
        """Note that the packet came through a tunnel, given as its bit."""
        self.tunnels |= tunnel

    def shorten(self, end: int) -> None:
        """Note where an outer header says that the packet ends; nothing is read past it."""
        self.end = end
        self.limit = min(self.limit, end)

    # -- datagrams of fragments -------------------------------------------------------------------

    def enter_joined(self, data: bytes, wire_bytes: int) -> None:
        """Move to the beginning of a reassembled datagram, of ``wire_bytes`` on the wire.

        In :attr:`buffer` it follows the packets of the batch.
        """
        if self._used_bytes < 0:
            self._used_bytes = self._find_used_bytes()
        self.base = self._used_bytes + self._joined_bytes
        self._joined.append(data)
        self._joined_bytes += len(data)
        self.data = memoryview(data)
        self.at = 0
        self.limit = len(data)
        self.end = wire_bytes

    @property
    def buffer(self) -> memoryview:
        """The batch's buffer, or a copy of it followed by the reassembled datagrams."""
        batch_buffer = self.batch.buffer
        if not self._joined:
            return batch_buffer
        return memoryview(b"".join([batch_buffer[: self._used_bytes], *self._joined]))

    def _find_used_bytes(self) -> int:
        """Return where the last packet ends; the buffer may be longer than that."""
        used = 0
        for row in range(len(self._offsets)):
            used = max(used, self._offsets[row] + self._captured[row])
        return used


def read_ethernet(cursor: HeaderCursor) -> int:
    """Step over an Ethernet header and its VLAN tags; return the kind of the next header."""
    if not cursor.fits(ETHERNET_BYTES):
        return cursor.cut(BEFORE_IP)
    kind = cursor.u16(cursor.at + TYPE_AT)
    cursor.at += ETHERNET_BYTES
    if kind == IPV4:
        return kind
    kind = without_tags(cursor, kind)
    return LLC_FRAME if 0 <= kind <= MAX_LENGTH else kind


def without_tags(cursor: HeaderCursor, kind: int) -> int:
    """Step over VLAN tags: 2 bytes of tag, then the next ethertype."""
    for _i in range(MAX_TAGS):
        if not is_tag(kind):
            break
        if not cursor.fits(4):
            return cursor.cut(BEFORE_IP)
        kind = cursor.u16(cursor.at + 2)
        cursor.at += 4
    return kind


def is_tag(kind: int) -> bool:
    """Return true if an ethertype is that of a VLAN tag."""
    return kind in (TAG_Q, TAG_AD, TAG_OLD, TAG_OLDER)


def read_llc(cursor: HeaderCursor) -> int:
    """Step over an IEEE 802.2 header, with SNAP or without."""
    if not cursor.fits(LLC_BYTES):
        return cursor.cut(BEFORE_IP)
    start = cursor.u16(cursor.at) << 8 | cursor.u8(cursor.at + 2)
    kind = LLC | (start >> 16)
    if start == LLC_IP:
        cursor.at += LLC_BYTES
        return IPV4
    if start == SNAP:
        # An ethertype follows: RFC 1042, and IEEE 802.1H.
        organization, ethertype = cursor.peek32(2) & 0xFFFFFF, cursor.peek16(6)
        if organization in (0x000000, 0x0000F8) and ethertype >= 0:
            cursor.at += SNAP_BYTES
            kind = ethertype
    return without_tags(cursor, kind)


def looks_like_ip(cursor: HeaderCursor, skip: int, kind: int) -> bool:
    """Return true if an IP header may begin ``skip`` bytes from here; ``kind`` is IPV4 or IPV6.

    The version has to be right; for IPv4, the lengths have to be possible, too.
    """
    first = cursor.peek8(skip)
    if kind == IPV6:
        return first >> 4 == 6
    total_bytes = cursor.peek16(skip + 2)
    header_bytes = (first & 15) * 4
    return (
        first >> 4 == 4 and header_bytes >= 20 and (total_bytes <= 0 or total_bytes >= header_bytes)
    )


def looks_like_ethernet(cursor: HeaderCursor, skip: int) -> bool:
    """Return true if an Ethernet header may begin ``skip`` bytes from here.

    Its ethertype has to be a known one, and IP has to follow where it says so. False if the packet
    ends before that.
    """
    ethertype = cursor.peek16(skip + TYPE_AT)
    if ethertype in (IPV4, IPV6):
        return looks_like_ip(cursor, skip + ETHERNET_BYTES, ethertype)
    return is_tag(ethertype) or ethertype in (ARP, MPLS, PPPOE, LLDP)


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
