"""Sequence numbers of one direction of a TCP connection, and the stream offsets they stand for.

In: sequence numbers. Out: stream offsets.

Sequence numbers (RFC 9293, section 3.4) have 32 bits and wrap. Stream offsets have 64 bits and do
not; 0 is the first byte, the one after the SYN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    FUTURE_BYTES = 1 << 30  # the largest window that TCP can announce (RFC 7323, section 2.3)
    PAST_BYTES = 64 << 20

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection

__all__ = ["PAST_WINDOW_BYTES", "SequenceSpace", "distance"]

PAST_WINDOW_BYTES: Final = 64 << 20
"""How far back a retransmission may reach: the largest window in use. TCP allows larger ones."""
SEQUENCE_MASK = 0xFFFF_FFFF
HALF = 1 << 31


def distance(later: int, earlier: int) -> int:
    """Return the bytes from ``earlier`` to ``later``; negative if ``later`` comes first."""
    return ((later - earlier + HALF) & SEQUENCE_MASK) - HALF


class SequenceSpace:
    """How far one end's stream has been delivered; ``index`` is that end in ``endpoints``."""

    _NOT_SAVED: tuple[str, ...] = ("connection", "index")
    _SAVED = Saved(
        "started:bool has_syn:bool first_sequence:u32 next_sequence:u32 stream_offset:count "
        "fin_offset:count?"
    )

    def __init__(self, connection: TcpConnection, index: int) -> None:
        self.connection = connection
        self.index = index
        self.started = False
        self.has_syn = False
        self.first_sequence = 0
        """Sequence number of stream offset 0."""
        self.next_sequence = 0
        """Sequence number of the byte at :attr:`stream_offset`."""
        self.stream_offset = 0
        """Stream offset of the next byte to be delivered."""
        self.fin_offset: int | None = None
        """Stream offset after the last byte, once a FIN was seen."""

    def start(self, sequence: int, *, has_syn: bool) -> None:
        """Set the sequence number of the first byte of the stream."""
        self.started = True
        self.has_syn = has_syn
        self.connection.start_seen[self.index] = has_syn
        self.first_sequence = self.next_sequence = sequence & SEQUENCE_MASK
        self.connection.first_sequence[self.index] = self.first_sequence

    def note_syn(self, first_sequence: int) -> None:
        """Note that the SYN was seen; it may come after the first bytes."""
        self.has_syn = True
        if distance(first_sequence, self.first_sequence) == 0:
            self.connection.start_seen[self.index] = True

    def offset_of(self, sequence: int) -> int:
        """Turn a sequence number into the stream offset that is nearest to the next byte."""
        return self.stream_offset + distance(sequence, self.next_sequence)

    def is_out_of_window(self, begin: int, end: int) -> bool:
        """True if bytes cannot belong to this stream: beyond any window, or after its FIN."""
        ahead = begin - self.stream_offset
        if ahead > FUTURE_BYTES or ahead < -PAST_BYTES:
            return True
        if self.has_syn and begin < -1:  # -1: a keep-alive probe sends the byte before the first.
            return True
        return self.fin_offset is not None and end > self.fin_offset

    def advance(self, length: int) -> None:
        """Count bytes as delivered."""
        self.stream_offset += length
        self.next_sequence = (self.next_sequence + length) & SEQUENCE_MASK
