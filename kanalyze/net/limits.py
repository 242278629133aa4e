"""How long and how much TCP reassembly waits for what is missing.

In: nothing. Out: :class:`ReassemblyLimits`. Must not know: anything.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReassemblyLimits"]


@dataclass(frozen=True, slots=True)
class ReassemblyLimits:
    """Bounds of the memory and the patience of a reassembler.

    A hole in a stream has one of three causes. The network lost a segment: then the sender sends
    it again, and may meanwhile send on up to the receiver's window. The capture has the packets
    in another order than the wire: then it comes soon. The capture lost it: then it never comes,
    and the receiver's acknowledgment past the hole is the sign.
    """

    held_bytes_per_direction: int = 8 << 20
    """Payload held back behind a hole. Linux announces windows of up to 3 MiB (6 MiB in newer
    kernels) unless told otherwise: what a sender may have sent after a segment that the network
    lost fits, so that only what the capture lost runs into this limit."""
    held_segments_per_direction: int = 8192
    """8 MiB in segments of 1024 bytes."""
    held_bytes: int = 128 << 20
    """Payload held back in all, checked after each batch."""
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
    closed_pairs: int = 65_536
    """Pairs of endpoints remembered after the close, for late packets and for the number of
    the next connection on the same pair; beyond, the oldest is forgotten."""
    late_segments: int = 16
    """Segments with payload that are taken for late ones of a closed connection; those after
    them are a connection of their own."""
    late_ns: int = 60_000_000_000
    """How long after a close payload may be late: TIME_WAIT of Linux."""
    stray_segments: int = 16
    """Segments in a row that cannot be of their connection, before they are taken for a new
    connection whose SYN was not captured."""
