"""Packets to TCP segments: all headers of a batch, packet by packet, from the link layer to TCP.

In: a packet batch. Out: :class:`~kanalyze.net.segment_columns.SegmentColumns`; or the packets that
an :class:`EndpointFilter` selects, by the same headers.

Headers of most packets (Ethernet, Linux cooked, IP, TCP) are read by compiled code; rarer ones by
Python, called from here. No packet raises an exception: a packet that is not a complete TCP segment
in a known encapsulation is counted by its reason, with a few anomalies as examples.

Layouts of link layers: https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.saved import load, save
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.capture_headers import (
    ppi_link,
    read_dot11,
    read_nflog,
    read_prism,
    read_radiotap,
)
from kanalyze.net.header_cursor import BEFORE_IP, HeaderCursor
from kanalyze.net.header_kinds import (
    MPLS,
    MPLS_MULTICAST,
    PBB,
    PPP,
    PPPOE,
    TUNNELS,
    kind_name,
    link_name,
)
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import (
    ALL_CONNECTIONS,
    SegmentColumns,
    column_bytes,
    columns_in,
)
from kanalyze.net.tunnels import (
    read_cisco_hdlc,
    read_hdlc,
    read_in_ip,
    read_mpls,
    read_pbb,
    read_ppp,
    read_pppoe,
)

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_cursor import (
        read_ethernet,
        read_ipv4,
        read_ipv6,
        read_llc,
        without_tags,
    )
    from kanalyze.net.header_kinds import (
        ANY_IP,
        DROPPED,
        ETHERNET,
        FAMILY,
        FRAGMENT,
        IP_VERSION,
        IPV4,
        IPV6,
        LLC_FRAME,
        TCP,
        TOO_DEEP,
        TRANSPORT,
    )

BSD_LOOPBACK, LINK_ETHERNET, RAW_BSD, RAW_OPENBSD = 0, 1, 12, 14
RAW, OPENBSD_LOOPBACK = 101, 108
COOKED, COOKED_2 = 113, 276  # Linux
COOKED_LLC = 4  # in place of an ethertype: an IEEE 802.2 header follows
FAMILY_BYTES = 4
FAMILY_IPV4 = 2
MAX_ROUNDS = 24  # headers: eight nested tunnels, each of IP, UDP or GRE, and Ethernet
TCP_BYTES = 20
PORTS_BYTES = 4
NETWORK_NUMBERS = 5

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from kanalyze.common.plain_values import State
    from kanalyze.model.packets import PacketBatch
    from kanalyze.net.fragments import Datagram, FragmentLimits, FragmentReassembler
    from kanalyze.net.segment_columns import Shard

# Odd multipliers with irregular bits; which ones does not matter.
MIX_ADDRESS, MIX_PORT, MIX_BOTH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93
LOW_64_BITS = 0xFFFF_FFFF_FFFF_FFFF
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
_PORTS = 1 << 16
_LOW_64_BITS = (1 << 64) - 1


class HeaderReader:
    """Reads the headers of a capture, batch after batch, and reassembles IP fragments.

    A datagram that came in fragments is one segment, with the number and the time of the packet
    that completed it.
    """

    _NOT_SAVED = ("_limits", "_lose", "_memory", "_stats")

    def __init__(
        self,
        stats: LayerStats,
        limits: FragmentLimits | None = None,
        lose: Callable[[Datagram, str], None] | None = None,
    ) -> None:
        """Make one.

        Args:
            stats: where to count.
            limits: bounds for fragments; None for the defaults.
            lose: takes a datagram whose fragments are missing, and why; None to count it as lost.
        """
        self._stats = stats
        self._limits = limits
        self._lose = lose
        self._fragments: FragmentReassembler | None = None
        """None before the first one."""
        self._memory = memoryview(bytearray())
        """Has the columns of the last batch."""

    def state(self, _context: object) -> State | None:
        """Return what :meth:`load_state` takes."""
        return None if self._fragments is None else save(self._fragments)

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        if state is not None:
            self._fragments = self._new_fragments()
            load(self._fragments, state)

    def read(self, batch: PacketBatch, shard: Shard = ALL_CONNECTIONS) -> SegmentColumns:
        """Read the link, IP and TCP headers of a batch, and those of tunnels.

        The columns hold the segments of a shard's connections; all packets are counted. Their
        buffer is the batch's, or, after fragments were reassembled, a copy of it followed by the
        datagrams. Their memory is used again for the next batch.
        """
        room = len(batch)
        if column_bytes(room) > len(self._memory):
            self._memory = memoryview(bytearray(column_bytes(room)))
        builder = SegmentColumnsBuilder(self._memory, room)
        builders: list[SegmentColumnsBuilder | None] = [None] * shard.count
        builders[shard.index] = builder
        buffer = self._read_into(builders, batch)
        return SegmentColumns(buffer, **columns_in(self._memory, room, builder.count()))

    def deal(
        self, batch: PacketBatch, memories: Sequence[memoryview]
    ) -> tuple[list[int], memoryview]:
        """Read the headers of a batch that is not empty, and write the columns of each shard.

        Args:
            batch: the batch.
            memories: for each shard, room for the columns of all packets, as
                :func:`~kanalyze.net.segment_columns.columns_in` divides it.

        Returns:
            The number of segments of each shard, and the buffer of all.
        """
        builders = [SegmentColumnsBuilder(memory, len(batch)) for memory in memories]
        buffer = self._read_into(builders, batch)
        return [builder.count() for builder in builders], buffer

    def _read_into(
        self, builders: Sequence[SegmentColumnsBuilder | None], batch: PacketBatch
    ) -> memoryview:
        cursor = HeaderCursor(batch, self._stats)
        read_all(list(builders), cursor, self._reassemble)
        if self._fragments is not None and len(batch):
            self._fragments.expire(int(max(batch.time_ns)))
        buffer: memoryview = cursor.buffer
        return buffer

    @property
    def open_fragments(self) -> list[int]:
        """Numbers of the packets whose datagrams may still be completed."""
        return [] if self._fragments is None else list(self._fragments.open_packets)

    def finish(self) -> None:
        """End the capture: the incomplete datagrams are lost."""
        if self._fragments is not None:
            self._fragments.finish()

    def _reassemble(self, cursor: HeaderCursor) -> int:
        if self._fragments is None:
            self._fragments = self._new_fragments()
        return self._fragments.add(cursor)

    def _new_fragments(self) -> FragmentReassembler:
        # Imported when needed: most captures have no fragments.
        from kanalyze.net.fragments import FragmentLimits, FragmentReassembler

        return FragmentReassembler(self._limits or FragmentLimits(), self._stats, self._lose)


def read_headers(batch: PacketBatch, stats: LayerStats) -> SegmentColumns:
    """Read the headers of a batch that is a capture of its own (see :class:`HeaderReader`)."""
    reader = HeaderReader(stats)
    segments = reader.read(batch)
    reader.finish()
    return segments


class SegmentColumnsBuilder:
    """Fills segment columns in a memory that has room for ``room`` segments."""

    def __init__(self, memory: memoryview, room: int) -> None:
        self._used = 0
        columns = list(columns_in(memory, room, room).values())
        self._number, self._time_ns, self._is_ipv6, self._source_high = columns[:4]
        self._source_low, self._destination_high, self._destination_low = columns[4:7]
        self._source_port, self._destination_port, self._sequence = columns[7:10]
        self._acknowledgment, self._flags, self._window, self._checksum = columns[10:14]
        self._identification, self._payload_start, self._payload_bytes = columns[14:17]
        self._captured_bytes = columns[17]

    def put(self, cursor: HeaderCursor, number: int, time_ns: int) -> int:
        """Write the segment whose valid TCP header a cursor stands at."""
        at = cursor.at
        payload_start = at + (cursor.u8(at + 12) >> 4) * 4
        payload_bytes = cursor.ip_end - payload_start
        captured_bytes = min(max(cursor.limit - payload_start, 0), payload_bytes)
        row = self._used
        self._used += 1
        self._number[row] = number
        self._time_ns[row] = time_ns
        self._is_ipv6[row] = cursor.is_ipv6
        self._source_high[row] = cursor.source_high
        self._source_low[row] = cursor.source_low
        self._destination_high[row] = cursor.destination_high
        self._destination_low[row] = cursor.destination_low
        self._source_port[row] = cursor.u16(at)
        self._destination_port[row] = cursor.u16(at + 2)
        self._sequence[row] = cursor.u32(at + 4)
        self._acknowledgment[row] = cursor.u32(at + 8)
        self._flags[row] = cursor.u8(at + 13)
        self._window[row] = cursor.u16(at + 14)
        self._checksum[row] = cursor.u16(at + 16)
        self._identification[row] = cursor.identification
        self._payload_start[row] = cursor.base + payload_start
        self._payload_bytes[row] = payload_bytes
        self._captured_bytes[row] = captured_bytes
        return 0

    def count(self) -> int:
        """Return the number of segments so far."""
        return self._used


def read_all(
    builders: list[SegmentColumnsBuilder | None],
    cursor: HeaderCursor,
    reassemble: Callable[[HeaderCursor], int],
) -> None:
    """Read the headers of all packets of a cursor's batch; None for a shard that nobody wants."""
    numbers = memoryview(cursor.batch.number)
    times = memoryview(cursor.batch.time_ns)
    count, segments = len(builders), 0
    builder: Any = builders[0]
    for row in range(len(numbers)):
        link = cursor.begin(row)
        if not (find_tcp(cursor, link, reassemble) and has_tcp_header(cursor)):
            continue
        segments += 1
        if cursor.tunnels:
            count_tunnels(cursor)
        if count > 1:
            builder = builders[shard_at(cursor, count)]
        if builder is not None:
            builder.put(cursor, numbers[row], times[row])
    cursor.stats.counters.tcp_segments += segments


def has_tcp_header(cursor: HeaderCursor) -> bool:
    """Tell whether the TCP header that a cursor stands at is valid; count it if it is not."""
    at = cursor.at
    if at + TCP_BYTES > cursor.limit:
        return drop_cut(cursor)
    header_bytes = (cursor.u8(at + 12) >> 4) * 4
    if header_bytes < TCP_BYTES or cursor.ip_end < at + header_bytes:
        return drop_bad(cursor)
    return True


def shard_at(cursor: HeaderCursor, count: int) -> int:
    """Return the shard of the connection whose TCP header a cursor stands at."""
    return shard_of(
        cursor.source_high,
        cursor.source_low,
        cursor.u16(cursor.at),
        cursor.destination_high,
        cursor.destination_low,
        cursor.u16(cursor.at + 2),
        count,
    )


def drop_cut(cursor: HeaderCursor) -> bool:
    """Count a packet that the capture cut within the TCP header."""
    cursor.stats.counters.cut_headers += 1
    cursor.note(AnomalyKind.BAD_TCP_HEADER, "cut within the TCP header")
    return False


def drop_bad(cursor: HeaderCursor) -> bool:
    """Count a packet whose TCP header has an impossible length."""
    cursor.stats.counters.bad_tcp_headers += 1
    cursor.note(AnomalyKind.BAD_TCP_HEADER, "wrong header length")
    return False


def count_tunnels(cursor: HeaderCursor) -> None:
    """Count a segment for each kind of tunnel that it came through."""
    counts = cursor.stats.counters.tunnels
    for bit, name in enumerate(TUNNELS):
        if cursor.tunnels >> bit & 1:
            counts[name] = counts.get(name, 0) + 1


class EndpointFilter:
    """Selects TCP packets by the port and by the address of either end.

    Packets whose ports are not known are selected too: fragments, and packets that the capture cut
    within the TCP header.
    """

    def __init__(
        self, ports: Collection[int], networks: Collection[IPv4Network | IPv6Network]
    ) -> None:
        """Select by ``ports`` and ``networks``; an empty collection matches everything."""
        flags = bytearray(_PORTS) if ports else bytearray(b"\1") * _PORTS
        for port in ports:
            flags[port] = 1
        self._ports = memoryview(bytes(flags))
        numbers = array("Q")
        for network in networks:
            mask, base = int(network.netmask), int(network.network_address)
            numbers.extend((network.version == 6, mask >> 64, mask & _LOW_64_BITS))
            numbers.extend((base >> 64, base & _LOW_64_BITS))
        self._networks = memoryview(numbers)
        self._network_count = len(networks)
        self._is_fragment = False

    def selected(self, packets: PacketBatch) -> array[int]:
        """Return the indices of the packets that match."""
        rows = array("q", [0]) * len(packets)
        count = self._fill(HeaderCursor(packets, LayerStats()), memoryview(rows), len(packets))
        return rows[:count]

    def _fill(self, cursor: HeaderCursor, rows: memoryview, packets: int) -> int:
        used = 0
        leave = self._leave_fragment
        for row in range(packets):
            self._is_fragment = False
            link = cursor.begin(row)
            if find_tcp(cursor, link, leave):
                is_selected = self._has_port(cursor) and self._has_network(cursor)
            else:
                is_selected = self._is_fragment
            if is_selected:
                rows[used] = row
                used += 1
        return used

    def _leave_fragment(self, _cursor: HeaderCursor) -> int:
        """Note that the packet is a fragment, and stop reading it."""
        self._is_fragment = True
        return DROPPED

    def _has_port(self, cursor: HeaderCursor) -> bool:
        if cursor.at + PORTS_BYTES > cursor.limit:
            return True
        source, destination = cursor.u16(cursor.at), cursor.u16(cursor.at + 2)
        return self._ports[source] != 0 or self._ports[destination] != 0

    def _has_network(self, cursor: HeaderCursor) -> bool:
        if not self._network_count:
            return True
        for index in range(self._network_count):
            at = NETWORK_NUMBERS * index
            if (self._networks[at] != 0) == cursor.is_ipv6 and (
                self._is_in(at, cursor.source_high, cursor.source_low)
                or self._is_in(at, cursor.destination_high, cursor.destination_low)
            ):
                return True
        return False

    def _is_in(self, at: int, high: int, low: int) -> bool:
        return (
            high & self._networks[at + 1] == self._networks[at + 3]
            and low & self._networks[at + 2] == self._networks[at + 4]
        )


# -- from the link layer to TCP -------------------------------------------------------------------


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
        return cursor.cut(BEFORE_IP)
    version = cursor.u8(cursor.at) >> 4
    if version == 4:
        return IPV4
    return IPV6 if version == 6 else IP_VERSION | version


def read_ethertype(cursor: HeaderCursor, type_at: int, header_bytes: int) -> int:
    """Step over a header of fixed size with an ethertype in it, and the VLAN tags after it."""
    if not cursor.fits(header_bytes):
        return cursor.cut(BEFORE_IP)
    kind = cursor.u16(cursor.at + type_at)
    cursor.at += header_bytes
    kind = without_tags(cursor, kind)
    return LLC_FRAME if kind == COOKED_LLC else kind


def read_family(cursor: HeaderCursor) -> int:
    """Step over BSD's loopback header: an address family in either byte order.

    Families are small numbers, so the smaller reading is the right one.
    """
    if not cursor.fits(FAMILY_BYTES):
        return cursor.cut(BEFORE_IP)
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
    reader = _LINK_READERS.get(link)
    if reader is not None:
        return reader(cursor)
    fixed = _FIXED_KINDS.get(link)
    if fixed is None:
        return count_unknown(cursor, link)
    return fixed if cursor.fits(1) else cursor.cut(BEFORE_IP)


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
        return cursor.cut(BEFORE_IP)
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
        return cursor.cut(BEFORE_IP)
    if link in _CARRIERS:
        return count_unknown(cursor, _PPI)
    return read_link(cursor, link)


_LINK_READERS: Final[dict[int, Callable[[HeaderCursor], int]]] = {
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
_FIXED_KINDS: Final = {51: PPPOE, 228: IPV4, 229: IPV6}
"""Nothing stands before the header: PPPoE, raw IPv4, raw IPv6."""
_READERS: Final[dict[int, Callable[[HeaderCursor], int]]] = {
    MPLS: read_mpls,
    MPLS_MULTICAST: read_mpls,
    PBB: read_pbb,
    PPP: read_ppp,
    PPPOE: read_pppoe,
}
"""Headers between the link layer and IP that Python code reads, by kind."""


# -- shards ----------------------------------------------------------------------------------------


def shards_of(segments: SegmentColumns, count: int) -> array[int]:
    """Return for each segment the index, below ``count``, of its connection's shard."""
    shards = array("q", [0]) * len(segments)
    fill_shards(shards, segments, count)
    return shards


def fill_shards(shards: array[int], segments: SegmentColumns, count: int) -> None:
    """Write the shard of each segment into an array of the same length."""
    target = memoryview(shards)
    source_high, source_low = memoryview(segments.source_high), memoryview(segments.source_low)
    source_port = memoryview(segments.source_port)
    destination_high = memoryview(segments.destination_high)
    destination_low = memoryview(segments.destination_low)
    destination_port = memoryview(segments.destination_port)
    for row in range(len(target)):
        target[row] = shard_of(
            source_high[row],
            source_low[row],
            source_port[row],
            destination_high[row],
            destination_low[row],
            destination_port[row],
            count,
        )


def shard_of(
    source_high: int,
    source_low: int,
    source_port: int,
    destination_high: int,
    destination_low: int,
    destination_port: int,
    count: int,
) -> int:
    """Return the index, below ``count``, of the shard of a connection.

    It depends on the two ends and ``count`` alone, so all workers agree.
    """
    # A sum, so that both directions get the same shard.
    ends = mixed(source_high, source_low, source_port)
    ends = ends + mixed(destination_high, destination_low, destination_port) & LOW_64_BITS
    ends ^= ends >> 32
    ends = ends * MIX_BOTH & LOW_64_BITS
    return (ends >> 32) % count


def mixed(high: int, low: int, port: int) -> int:
    """Return the 64-bit hash of one end."""
    both = (high * MIX_ADDRESS ^ low) & LOW_64_BITS
    both = (both * MIX_PORT ^ port) & LOW_64_BITS
    both = both * MIX_ADDRESS & LOW_64_BITS
    return both ^ both >> 32
