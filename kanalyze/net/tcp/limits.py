"""How long TCP reassembly waits for missing bytes, and how much it buffers meanwhile.

In: nothing. Out: :class:`ReassemblyLimits`. Must not know: anything.
"""

from __future__ import annotations

from typing import Final

from kanalyze.common.named_tuples import NamedTuple

__all__ = ["BUFFERED_SEGMENT_BYTES", "ReassemblyLimits"]

BUFFERED_SEGMENT_BYTES: Final = 320
"""Memory of a buffered segment besides its payload. This and those below were measured with
tracemalloc on CPython 3.11 (229 bytes for a buffered segment, 4,218 for an open connection that
is measured, 2,425 for one that is not, 402 for one with nothing but a SYN, 453 for a closed pair;
all IPv4), and rounded up."""
_OPEN_CONNECTION_BYTES: Final = 4608
_HALF_OPEN_BYTES: Final = 512
_TIME_WAIT_PAIR_BYTES: Final = 640
_TIMED_SEGMENT_BYTES: Final = 32
_EVENT_BYTES: Final = 48
_LEAST_BYTES: Final = 1 << 20
_ENDLESS_PAIRS: Final = 16_384


class ReassemblyLimits(NamedTuple):
    """Bounds of the memory and the patience of a reassembler.

    A hole in a stream has one of three causes. The network lost a segment: then the sender sends
    it again, and may meanwhile send on up to the receiver's window. The capture has the packets
    in another order than the wire: then it comes soon. The capture lost it: then it never comes,
    and the receiver's acknowledgment past the hole is the sign.
    """

    buffered_bytes_per_direction: int = 8 << 20
    """Payload buffered behind a hole. Linux announces windows of up to 3 MiB (6 MiB in newer
    kernels) unless told otherwise: what a sender may have sent after a segment that the network
    lost fits, so that only what the capture lost runs into this limit."""
    buffered_segments_per_direction: int = 8192
    """8 MiB in segments of 1024 bytes."""
    buffered_bytes: int = 128 << 20
    """Memory for what all connections buffer, checked after each batch: the payload and
    :data:`BUFFERED_SEGMENT_BYTES` a segment."""
    acknowledged_hole_segments: int = 256
    """Segments of the connection, either way, that are waited for after the receiver has
    acknowledged what is missing: several times what a network card hands over at once."""
    acknowledged_hole_ns: int = 200_000_000
    """The same as time: far more than capture queues are apart."""
    hole_ns: int = 10_000_000_000
    """Age at which a hole is given up in any case, for captures that hold one direction alone:
    longer than a sender waits (RFC 6298: 1 s, then doubled) for its first three attempts."""
    connections: int = 65_536
    """Open connections; beyond, the quarter that was silent for longest is closed."""
    half_open: int = 65_536
    """Open connections of which nothing but a SYN was seen; beyond, the oldest quarter is closed.
    They are counted apart: a flood of them ends no other."""
    time_wait_pairs: int = 65_536
    """Pairs of endpoints remembered after the close, for late packets and for the number of
    the next connection on the same pair; beyond, the oldest is forgotten."""
    late_segments: int = 16
    """Segments with payload that are taken for late ones of a closed connection; those after
    them are a connection of their own."""
    late_ns: int = 60_000_000_000
    """How long after a close payload may be late: TIME_WAIT of Linux."""
    timed_segments: int = 1 << 20
    """Segments that wait for their acknowledgment, where round trips are measured, in all;
    beyond, those that wait give no sample. Each takes 24 bytes."""
    path_events: int = 1 << 18
    """Packets sent again and windows of 0 that are remembered of open connections, in all; beyond,
    all are forgotten, and requests that are under way do not tell how many there were. Each takes
    48 bytes."""
    idle_ns: int | None = None
    """Silence after which an open connection is closed; None for never, where a capture ends."""
    out_of_window_segments: int = 16
    """Segments in a row that cannot be of their connection, before they are taken for a new
    connection whose SYN was not captured."""

    @classmethod
    def of_memory(cls, total_bytes: int, idle_ns: int | None = None) -> ReassemblyLimits:
        """Return limits with which a reassembler keeps below so many bytes between two batches.

        Half is for buffered payload, a quarter for open connections (4.6 kB each, measured), an
        eighth for closed pairs (640 bytes), a sixteenth for segments that wait for their
        acknowledgment (32 bytes), a 64th for packets that were sent again (48 bytes), a 32nd for
        connections with nothing but a SYN (512 bytes;
        at the end of a capture they take three times as much, as updates). While a
        batch is worked on, what it adds comes on top; and so do 0.2 MB of headers, by which
        duplicates are found.

        ``idle_ns`` is as above. Such a run has no end, and so remembers fewer closed pairs: its
        memory is to reach its bound soon, not after a day.

        Raises:
            ValueError: less than 1 MiB.
        """
        if total_bytes < _LEAST_BYTES:
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
