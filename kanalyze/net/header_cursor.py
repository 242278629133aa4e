"""A position among the headers of a packet, and the values read so far.

In: a packet batch. Out: :class:`HeaderCursor`, with numbers out of its bytes.

The code that moves the cursor checks that enough bytes are there before it reads a number; besides,
Python or Cython checks each index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_kinds import DROPPED

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch
    from kanalyze.net.layer_stats import LayerStats

__all__ = ["HeaderCursor", "as_numbers"]


def as_numbers(column: Any) -> memoryview:
    """Return a column of a batch as a view whose items are Python integers."""
    return memoryview(column)


class HeaderCursor:
    """Stands at a header of a packet, and goes from packet to packet of a batch.

    Attributes:
        row: index of the packet in the batch.
        at: index in the data of the header's first byte.
        limit: index of the end of the captured bytes of the packet.
        end: index of the packet's end on the wire, according to outer headers.
        kind, kind_at, kind_limit: kind (see :mod:`kanalyze.net.header_kinds`), ``at`` and ``limit``
            of the last header that was begun; -1 before the first.
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
        self.kind = self.kind_at = self.kind_limit = -1
        self.tunnels = 0
        self.is_ipv6 = False
        self.source_high = self.source_low = 0
        self.destination_high = self.destination_low = 0
        self.identification = self.ip_at = self.ip_end = 0
        self.datagram_protocol = self.fragment_offset = 0
        self.has_more = False
        self.datagram_key: tuple[int, ...] = ()
        self._offsets = as_numbers(batch.offset)
        self._captured = as_numbers(batch.captured_bytes)
        self._wires = as_numbers(batch.wire_bytes)
        self._links = as_numbers(batch.link_type)
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
