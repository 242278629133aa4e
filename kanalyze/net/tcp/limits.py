"""How long TCP reassembly waits for missing bytes, and how much it buffers meanwhile.

In: nothing. Out: :class:`ReassemblyLimits`.
"""

from __future__ import annotations

from typing import Final

from kanalyze.common.named_tuples import NamedTuple

BUFFERED_SEGMENT_BYTES: Final = 320
"""Memory of a buffered segment without its payload. This and the sizes below were measured with
tracemalloc on CPython 3.11 (229 bytes for a buffered segment, about 4,600 for an open connection
that is measured, 1,665 for one that is not, 276 for one with nothing but a SYN, 357 for a closed
pair; all IPv4), and rounded up."""
_OPEN_CONNECTION_BYTES: Final = 4608
_HALF_OPEN_BYTES: Final = 512
_TIME_WAIT_PAIR_BYTES: Final = 640
_TIMED_SEGMENT_BYTES: Final = 32
_EVENT_BYTES: Final = 48
_MIN_BYTES: Final = 1 << 20
_ENDLESS_PAIRS: Final = 16_384


class ReassemblyLimits(NamedTuple):
    """Bounds of a reassembler's memory, and how long it waits for missing bytes.

    A hole in a stream has one of three causes. The network lost a segment: then the sender sends
    it again, and may meanwhile send more, up to the receiver's window. The capture has the packets
    in another order than the wire: then the segment comes soon. The capture lost it: then it never
    comes, and the receiver acknowledges bytes past the hole.
    """

    buffered_bytes_per_direction: int = 8 << 20
    """Payload buffered behind a hole. Linux announces windows of up to 3 MiB (6 MiB in newer
    kernels) by default. Whatever a sender may send after a segment that the network lost fits, so
    only a hole that the capture lost reaches this limit."""
    buffered_segments_per_direction: int = 8192
    """8 MiB in segments of 1024 bytes."""
    buffered_bytes: int = 128 << 20
    """Memory for what all connections buffer, checked after each batch: the payload and
    :data:`BUFFERED_SEGMENT_BYTES` a segment."""
    acknowledged_hole_segments: int = 256
    """After the receiver has acknowledged missing bytes, the hole is given up once so many segments
    of the connection, in both directions, came: several times what a network card hands over at
    once."""
    acknowledged_hole_ns: int = 200_000_000
    """The hole is also given up after so much time: far more than capture queues differ by."""
    hole_ns: int = 10_000_000_000
    """Age at which a hole is given up in any case, for captures of one direction alone: longer than
    the first three attempts of a sender take (RFC 6298: it waits 1 s, then twice as long)."""
    connections: int = 65_536
    """Open connections; beyond, the quarter that is silent for longest is closed."""
    half_open: int = 65_536
    """Connections with nothing but a SYN; beyond, the oldest quarter is closed. They have a limit
    of their own, so that a flood of them closes no other connection."""
    time_wait_pairs: int = 65_536
    """Pairs of endpoints remembered after the close, for late packets and for the number of
    the next connection on the same pair; beyond, the oldest is forgotten."""
    late_segments: int = 16
    """Segments with payload that count as late ones of a closed connection; after them, a new
    connection begins."""
    late_ns: int = 60_000_000_000
    """How long after a close payload may be late: TIME_WAIT of Linux."""
    timed_segments: int = 1 << 20
    """Segments of all connections that wait for their acknowledgment while round trips are
    measured; beyond, the waiting ones give no sample. Each takes 24 bytes."""
    path_events: int = 1 << 18
    """Retransmissions and zero windows that are remembered of all open connections; beyond, all are
    forgotten, and their number is not known for the open requests. Each takes 48 bytes."""
    idle_ns: int | None = None
    """Silence after which an open connection is closed; None for never, for captures that end."""
    out_of_window_segments: int = 16
    """So many segments in a row with impossible sequence numbers are ignored; one more begins a new
    connection whose SYN was not captured."""

    @classmethod
    def of_memory(cls, total_bytes: int, idle_ns: int | None = None) -> ReassemblyLimits:
        """Return limits that keep a reassembler below ``total_bytes`` between two batches.

        Half is for buffered payload, a quarter for open connections (4.6 kB each, measured), an
        eighth for closed pairs (640 bytes), a sixteenth for segments that wait for their
        acknowledgment (32 bytes), a 32nd for connections with nothing but a SYN (512 bytes; at the
        end of a capture they take three times as much, as updates), a 64th for retransmissions
        (48 bytes). The data of the current batch come on top, and 0.2 MB of headers that are kept
        to find duplicates.

        ``idle_ns`` is as above. A run with it has no end. It remembers fewer closed pairs, so that
        its memory reaches its bound soon, not after a day.

        Raises:
            ValueError: less than 1 MiB.
        """
        if total_bytes < _MIN_BYTES:
            raise ValueError(f"too little memory for reassembly: {total_bytes} bytes")
        buffered_bytes = total_bytes // 2
        time_wait_pairs = total_bytes // 8 // _TIME_WAIT_PAIR_BYTES
        return cls(
            buffered_bytes=buffered_bytes,
            buffered_bytes_per_direction=min(
                cls().buffered_bytes_per_direction, buffered_bytes // 4
            ),
            connections=total_bytes // 4 // _OPEN_CONNECTION_BYTES,
            half_open=total_bytes // 32 // _HALF_OPEN_BYTES,
            time_wait_pairs=time_wait_pairs
            if idle_ns is None
            else min(time_wait_pairs, _ENDLESS_PAIRS),
            timed_segments=total_bytes // 16 // _TIMED_SEGMENT_BYTES,
            path_events=total_bytes // 64 // _EVENT_BYTES,
            idle_ns=idle_ns,
        )
