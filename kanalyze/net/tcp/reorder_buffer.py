"""Payload that arrived while bytes before it are missing, and how long to wait for these.

In: segments beyond the next byte of a stream. Out: the payload once it is contiguous, and when to
give up the hole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.net.tcp.delivery import BufferedSegment

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from kanalyze.net.tcp.delivery import Segment
    from kanalyze.net.tcp.limits import ReassemblyLimits
    from kanalyze.net.tcp.stream_anomalies import StreamAnomalies

__all__ = ["ReorderBuffer"]


class ReorderBuffer:
    """Payload of one end beyond a hole; if it is empty, there is no hole."""

    _NOT_SAVED = (
        *("_acknowledged_hole_ns", "_acknowledged_hole_segments", "_hole_ns", "_most_bytes"),
        *("_most_segments", "payload_bytes"),
    )
    _SAVED = Saved(
        "hole_since_ns:int acknowledged:count acknowledged_since_ns:int "
        "acknowledged_segments:count segments:list[BufferedSegment]",
        BufferedSegment,
    )

    def __init__(self, limits: ReassemblyLimits) -> None:
        # Copies of the limits: as C integers they are read without making objects.
        self._hole_ns = limits.hole_ns
        self._acknowledged_hole_ns = limits.acknowledged_hole_ns
        self._acknowledged_hole_segments = limits.acknowledged_hole_segments
        self._most_bytes = limits.buffered_bytes_per_direction
        self._most_segments = limits.buffered_segments_per_direction
        self.segments: list[BufferedSegment] = []
        """In stream order, without overlaps."""
        self.payload_bytes = 0
        """Captured bytes of these segments."""
        self.hole_since_ns = 0
        """Time of the first segment after the current hole."""
        self.acknowledged = 0
        """Stream offset up to which the receiver has acknowledged, since there is a hole."""
        self.acknowledged_since_ns = 0
        self.acknowledged_segments = 0
        """Segments of the connection since that acknowledgment; 0 without one."""

    def _after_load(self) -> None:
        reached = 0
        for piece in self.segments:
            if piece.stream_offset < reached:
                raise ValueError("buffered segments that overlap")
            reached = piece.stream_offset + piece.length
        self.payload_bytes = sum([len(piece.data) for piece in self.segments])

    def exceeds_limits(self) -> bool:
        """Return true if more is buffered than one direction may hold."""
        return self.payload_bytes > self._most_bytes or len(self.segments) > self._most_segments

    def report_limit(self, stream_offset: int, anomalies: StreamAnomalies) -> None:
        """Report that too much is buffered behind the hole at an offset."""
        anomalies.limit(stream_offset, self.payload_bytes, self.segments[0])

    def last(self) -> BufferedSegment:
        """Return the last segment in stream order; the buffer must not be empty."""
        return self.segments[len(self.segments) - 1]

    def insert(
        self,
        segment: Segment,
        stream_offset: int,
        next_offset: int,
        source: memoryview,
        anomalies: StreamAnomalies,
    ) -> int:
        """Copy the new bytes of a segment; return how many of its bytes were seen before.

        Args:
            segment: a segment with payload.
            stream_offset: where it begins.
            next_offset: offset of the next byte to be delivered; bytes before it are left out.
            source: the buffer that the segment points into.
            anomalies: counts bytes that differ from the buffered ones.
        """
        end = stream_offset + segment.length
        at = max(stream_offset, next_offset)
        repeated = 0
        if not self.segments:
            self.hole_since_ns = segment.time_ns
            self.acknowledged = self.acknowledged_segments = 0
        index = self._count_up_to(at)
        if index:
            before = self.segments[index - 1]
            if before.stream_offset + before.length > at:
                index -= 1
        while at < end:
            earlier = self.segments[index] if index < len(self.segments) else None
            if earlier is not None and earlier.stream_offset <= at:
                stop = min(end, earlier.stream_offset + earlier.length)
                if differs(earlier, segment, stream_offset, at, stop, source):
                    anomalies.inconsistent(at, stop - at, segment)
                repeated += stop - at
                at = earlier.stream_offset + earlier.length
            else:
                stop = end if earlier is None else min(end, earlier.stream_offset)
                first = segment.start + min(at - stream_offset, segment.captured)
                last = segment.start + min(stop - stream_offset, segment.captured)
                data = bytes(source[first:last])
                piece = BufferedSegment(at, stop - at, data, segment.time_ns, segment.packet)
                self.segments.insert(index, piece)
                self.payload_bytes += len(data)
                at = stop
            index += 1
        return repeated

    def pop_contiguous(self, stream_offset: int, now_ns: int) -> list[BufferedSegment]:
        """Remove and return the segments from an offset up to the next hole.

        The waiting time of that hole begins at ``now_ns``.
        """
        count = 0
        for piece in self.segments:
            if piece.stream_offset != stream_offset:
                break
            stream_offset += piece.length
            self.payload_bytes -= len(piece.data)
            count += 1
        contiguous = self.segments[:count]
        if count:
            del self.segments[:count]
            self.hole_since_ns = now_ns
            self.acknowledged_segments = 0
        return contiguous

    def _count_up_to(self, stream_offset: int) -> int:
        """Return how many segments begin at an offset or before."""
        low, high = 0, len(self.segments)
        if high and self.last().stream_offset <= stream_offset:
            return high
        while low < high:
            middle = (low + high) // 2
            piece = self.segments[middle]
            if piece.stream_offset <= stream_offset:
                low = middle + 1
            else:
                high = middle
        return low

    # -- how long to wait -------------------------------------------------------------------------

    def acknowledge(self, stream_offset: int, now_ns: int) -> None:
        """Note that the receiver has acknowledged bytes of the hole, up to an offset."""
        self.acknowledged = max(self.acknowledged, stream_offset)
        if not self.acknowledged_segments:
            self.acknowledged_segments = 1
            self.acknowledged_since_ns = now_ns

    def count_segment(self) -> bool:
        """Count a segment; return true if too many came since the hole was acknowledged."""
        if not self.acknowledged_segments:
            return False
        self.acknowledged_segments += 1
        return self.acknowledged_segments > self._acknowledged_hole_segments

    def is_expired(self, now_ns: int) -> bool:
        """Return true if the hole is too old, acknowledged or not."""
        if self.hole_since_ns == NO_TIME:  # and any present time: only counts tell
            return False
        return now_ns - self.hole_since_ns > self._hole_ns

    def is_overdue(self, now_ns: int) -> bool:
        """Return true if there is a hole, and its waiting time is over at ``now_ns``."""
        if not self.segments:
            return False
        if self.is_expired(now_ns):
            return True
        if self.acknowledged_since_ns == NO_TIME:
            return False
        waited_ns = now_ns - self.acknowledged_since_ns
        return self.acknowledged_segments > 0 and waited_ns > self._acknowledged_hole_ns


def differs(
    earlier: BufferedSegment,
    segment: Segment,
    stream_offset: int,
    at: int,
    stop: int,
    source: memoryview,
) -> bool:
    """Return true if a segment differs from a buffered one between ``at`` and ``stop``."""
    earlier_bytes = earlier.data[at - earlier.stream_offset : stop - earlier.stream_offset]
    start = segment.start + at - stream_offset
    repeated_bytes = bytes(source[start : start + min(stop, stream_offset + segment.captured) - at])
    size = min(len(earlier_bytes), len(repeated_bytes))
    return earlier_bytes[:size] != repeated_bytes[:size]
