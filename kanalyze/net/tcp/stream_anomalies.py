"""Anomalies and retransmissions of one direction of a connection: counted and reported.

In: what reassembly found. Out: counts in the connection, anomalies of the layer.

Lost bytes are counted only here, in the connection: the quality of a capture, the rows of
connections and all totals use this count. Each counted gap is an anomaly of the same length.
``Frame.missing_bytes`` of a message is another count: a message may begin or end in a gap, and it
also counts bytes that were captured and then dropped because of a memory limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.anomalies import Anomaly, AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    IS_COPY = 1

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.layer_stats import LayerStats
    from kanalyze.net.tcp.delivery import BufferedSegment, Segment

__all__ = ["StreamAnomalies"]


class _SnappedRange:
    """Sum of the bytes that a snap length cut off, from one packet on.

    Attributes:
        stream_offset: of the first of these bytes.
        missing: number of these bytes.
        time_ns, packet: of the first packet that was cut.
        packets: number of packets that were cut.
    """

    _SAVED = Saved("stream_offset:count missing:count time_ns:int packet:count packets:count")

    def __init__(self, stream_offset: int, missing: int, time_ns: int, packet: int) -> None:
        self.stream_offset = stream_offset
        self.missing = missing
        self.time_ns = time_ns
        self.packet = packet
        self.packets = 1


class StreamAnomalies:
    """Reports the anomalies of one end; ``index`` is that end in ``connection.endpoints``.

    A snap length cuts nearly every packet. So the first cut is reported at once, and all others
    together as one anomaly at the end.
    """

    _NOT_SAVED = ("connection", "index", "stats")
    _SAVED = Saved("_is_cut:bool _more_cut:_SnappedRange?", _SnappedRange)

    def __init__(self, connection: TcpConnection, index: int, stats: LayerStats) -> None:
        self.connection = connection
        self.index = index
        self.stats = stats
        # Whether a cut was reported.
        self._is_cut = False
        self._more_cut: _SnappedRange | None = None

    def lost(self, stream_offset: int, length: int, after: BufferedSegment) -> None:
        """Count and report bytes that are missing, up to ``after``."""
        self.connection.lost_bytes[self.index] += length
        self._report(AnomalyKind.LOST_BYTES, stream_offset, length, after.time_ns, after.packet)

    def snapped(
        self, stream_offset: int, length: int, captured: int, time_ns: int, packet: int
    ) -> None:
        """Count the bytes of a delivered segment that the capture cut off, if any."""
        missing = length - captured
        if not missing:
            return
        self.connection.snapped_bytes[self.index] += missing
        if not self._is_cut:
            self._is_cut = True
            self._report(
                AnomalyKind.SNAPPED_BYTES, stream_offset + captured, missing, time_ns, packet
            )
        elif self._more_cut is None:
            self._more_cut = _SnappedRange(stream_offset + captured, missing, time_ns, packet)
        else:
            self._more_cut.missing += missing
            self._more_cut.packets += 1

    def end(self) -> None:
        """Report the cuts after the first one, as one anomaly."""
        cut = self._more_cut
        self._more_cut = None
        if cut is not None:
            detail = f"in {cut.packets} more packets" if cut.packets > 1 else "in one more packet"
            where = cut.stream_offset, cut.missing, cut.time_ns, cut.packet
            self._report(AnomalyKind.SNAPPED_BYTES, *where, detail)

    def inconsistent(self, stream_offset: int, length: int, segment: Segment) -> None:
        """Report that a segment has other bytes than an earlier one."""
        kind = AnomalyKind.INCONSISTENT_RETRANSMISSION
        self._report(kind, stream_offset, length, segment.time_ns, segment.packet)

    def limit(self, stream_offset: int, buffered_bytes: int, after: BufferedSegment) -> None:
        """Report that too much is buffered behind a hole, from ``after`` on."""
        self._report(
            AnomalyKind.REORDER_LIMIT, stream_offset, buffered_bytes, after.time_ns, after.packet
        )

    def before_start(self, begin: int, end: int, is_probe: bool) -> int:
        """Count the bytes before the first byte that was seen; return how many there are."""
        count = max(min(end, 0) - begin, 0)
        # The byte of a keep-alive probe is no data.
        if count and not is_probe:
            self.stats.counters.before_start_bytes += count
        return count

    def out_of_order(self) -> None:
        """Count a packet that came after a later part of the stream."""
        self.connection.out_of_order_packets[self.index] += 1

    def repeated(self, segment: Segment, length: int, *, is_probe: bool) -> None:
        """Count bytes of a segment that had been seen before: as copy, probe or retransmission."""
        tcp, index = self.connection, self.index
        if segment.marks & IS_COPY:
            tcp.duplicate_bytes[index] += length
        elif is_probe:
            tcp.keep_alive_bytes[index] += length
            if tcp.measures is not None:
                tcp.measures.keep_alive_packets[index] += 1
        else:
            tcp.retransmitted_bytes[index] += length
            if tcp.measures is not None:
                tcp.measures.retransmitted_packets[index] += 1

    def _report(
        self,
        kind: AnomalyKind,
        stream_offset: int,
        length: int,
        time_ns: int,
        packet: int,
        detail: str = "",
    ) -> None:
        self.stats.add(
            Anomaly(
                kind,
                time_ns=time_ns,
                packet=packet,
                connection=self.connection,
                direction=self.index,
                stream_offset=stream_offset,
                length=length,
                detail=detail,
            )
        )
