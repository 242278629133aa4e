"""Packets to TCP segments: all headers of a batch, packet by packet.

In: a packet batch. Out: :class:`SegmentColumns`.

No packet raises an exception: a packet that is not a complete TCP segment in a known encapsulation
is counted by its reason, with a few anomalies as examples.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import load, save
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.header_cursor import HeaderCursor, as_numbers
from kanalyze.net.header_names import TUNNELS
from kanalyze.net.segment_columns import SegmentColumns
from kanalyze.net.shard import ALL_CONNECTIONS

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.layers import find_tcp
    from kanalyze.net.shard import shard_of

    TCP_BYTES = 20

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.common.plain_values import State
    from kanalyze.model.packets import PacketBatch
    from kanalyze.net.ip.fragments import FragmentLimits, FragmentReassembler, IncompleteDatagram
    from kanalyze.net.layer_stats import LayerStats
    from kanalyze.net.shard import Shard

__all__ = ["HeaderReader", "read_headers"]


class HeaderReader:
    """Reads the headers of a capture, batch after batch, and reassembles IP fragments.

    A datagram that came in fragments is one segment, with the number and the time of the packet
    that completed it.
    """

    _NOT_SAVED = ("_limits", "_return_incomplete", "_stats")

    def __init__(
        self,
        stats: LayerStats,
        limits: FragmentLimits | None = None,
        *,
        return_incomplete: bool = False,
    ) -> None:
        """Make one.

        Args:
            stats: where to count.
            limits: bounds for fragments; None for the defaults.
            return_incomplete: return the datagrams whose fragments are missing, instead of counting
                them as lost.
        """
        self._stats = stats
        self._limits = limits
        self._return_incomplete = return_incomplete
        self._fragments: FragmentReassembler | None = None
        """None before the first one."""

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
        datagrams.
        """
        self._stats.counters.packets += len(batch)
        cursor = HeaderCursor(batch, self._stats)
        builder = SegmentColumnsBuilder(len(batch))
        builder.read_all(cursor, self._reassemble, shard.index, shard.count)
        if self._fragments is not None and len(batch):
            self._fragments.expire(int(max(batch.time_ns)))
        return builder.columns(cursor.buffer)

    def read_with_incomplete(
        self, batch: PacketBatch
    ) -> tuple[SegmentColumns, list[IncompleteDatagram]]:
        """Read as :meth:`read` does; return also the datagrams that were given up meanwhile."""
        segments = self.read(batch)
        return segments, [] if self._fragments is None else self._fragments.take_incomplete()

    @property
    def open_fragments(self) -> list[int]:
        """Numbers of the packets whose datagrams may still be completed."""
        return [] if self._fragments is None else list(self._fragments.open_packets)

    def finish(self) -> list[IncompleteDatagram]:
        """End the capture; count the incomplete datagrams as lost, or return them."""
        return [] if self._fragments is None else self._fragments.finish()

    def _reassemble(self, cursor: HeaderCursor) -> int:
        if self._fragments is None:
            self._fragments = self._new_fragments()
        return self._fragments.add(cursor)

    def _new_fragments(self) -> FragmentReassembler:
        # Imported when needed: most captures have no fragments.
        from kanalyze.net.ip.fragments import FragmentLimits, FragmentReassembler

        return FragmentReassembler(
            self._limits or FragmentLimits(),
            self._stats,
            return_incomplete=self._return_incomplete,
        )


def read_headers(batch: PacketBatch, stats: LayerStats) -> SegmentColumns:
    """Read the headers of a batch that is a capture of its own (see :class:`HeaderReader`)."""
    reader = HeaderReader(stats)
    segments = reader.read(batch)
    reader.finish()
    return segments


class SegmentColumnsBuilder:
    """Fills segment columns, which have room for ``room`` segments."""

    def __init__(self, room: int) -> None:
        none = bytes(8 * room)
        names = SegmentColumns.__slots__
        arrays = {name: array("Q" if name in _ADDRESSES else "q", none) for name in names}
        del arrays["buffer"]
        self._arrays = arrays
        self._used = 0
        self._segments = 0
        self._number = memoryview(arrays["number"])
        self._time_ns = memoryview(arrays["time_ns"])
        self._is_ipv6 = memoryview(arrays["is_ipv6"])
        self._source_high = memoryview(arrays["source_high"])
        self._source_low = memoryview(arrays["source_low"])
        self._destination_high = memoryview(arrays["destination_high"])
        self._destination_low = memoryview(arrays["destination_low"])
        self._source_port = memoryview(arrays["source_port"])
        self._destination_port = memoryview(arrays["destination_port"])
        self._sequence = memoryview(arrays["sequence"])
        self._acknowledgment = memoryview(arrays["acknowledgment"])
        self._flags = memoryview(arrays["flags"])
        self._window = memoryview(arrays["window"])
        self._checksum = memoryview(arrays["checksum"])
        self._identification = memoryview(arrays["identification"])
        self._payload_start = memoryview(arrays["payload_start"])
        self._payload_bytes = memoryview(arrays["payload_bytes"])
        self._captured_bytes = memoryview(arrays["captured_bytes"])

    def read_all(
        self,
        cursor: HeaderCursor,
        reassemble: Callable[[HeaderCursor], int],
        shard_index: int,
        shard_count: int,
    ) -> None:
        """Read the headers of all packets of a cursor's batch."""
        numbers = as_numbers(cursor.batch.number)
        times = as_numbers(cursor.batch.time_ns)
        for row in range(len(numbers)):
            link = cursor.begin(row)
            if find_tcp(cursor, link, reassemble) and self._take(cursor, shard_index, shard_count):
                self._number[self._used] = numbers[row]
                self._time_ns[self._used] = times[row]
                self._used += 1
        cursor.stats.counters.tcp_segments += self._segments

    def _take(self, cursor: HeaderCursor, shard_index: int, shard_count: int) -> bool:
        """Read a TCP header; tell whether it is valid, and of a connection of the shard."""
        at = cursor.at
        if at + TCP_BYTES > cursor.limit:
            return drop_cut(cursor)
        header_bytes = (cursor.u8(at + 12) >> 4) * 4
        payload_start = at + header_bytes
        payload_bytes = cursor.ip_end - payload_start
        if header_bytes < TCP_BYTES or payload_bytes < 0:
            return drop_bad(cursor)
        self._segments += 1
        if cursor.tunnels:
            count_tunnels(cursor)
        source_port = cursor.u16(at)
        destination_port = cursor.u16(at + 2)
        if shard_count > 1 and shard_index != shard_of(
            cursor.source_high,
            cursor.source_low,
            source_port,
            cursor.destination_high,
            cursor.destination_low,
            destination_port,
            shard_count,
        ):
            return False
        captured_bytes = min(max(cursor.limit - payload_start, 0), payload_bytes)
        row = self._used
        self._is_ipv6[row] = cursor.is_ipv6
        self._source_high[row] = cursor.source_high
        self._source_low[row] = cursor.source_low
        self._destination_high[row] = cursor.destination_high
        self._destination_low[row] = cursor.destination_low
        self._source_port[row] = source_port
        self._destination_port[row] = destination_port
        self._sequence[row] = cursor.u32(at + 4)
        self._acknowledgment[row] = cursor.u32(at + 8)
        self._flags[row] = cursor.u8(at + 13)
        self._window[row] = cursor.u16(at + 14)
        self._checksum[row] = cursor.u16(at + 16)
        self._identification[row] = cursor.identification
        self._payload_start[row] = cursor.base + payload_start
        self._payload_bytes[row] = payload_bytes
        self._captured_bytes[row] = captured_bytes
        return True

    def columns(self, buffer: memoryview) -> SegmentColumns:
        """Return the filled columns, over a buffer; the builder cannot be used again."""
        arrays = self._arrays
        if self._used < len(arrays["number"]):
            arrays = {name: column[: self._used] for name, column in arrays.items()}
        return SegmentColumns(buffer, **arrays)


_ADDRESSES: Final = ("source_high", "source_low", "destination_high", "destination_low")


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
