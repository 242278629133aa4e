"""What is measured of one connection, segment by segment: handshake, round trips, unusual packets.

In: segments of a connection in the order of the capture. Out: figures in a
:class:`kanalyze.model.TcpMeasures`, which explains them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.packets import known_time
from kanalyze.net.tcp.round_trips import RoundTripTimer

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    FIN, SYN, RST, ACK = 1, 2, 4, 16
    CONTROL = FIN | SYN | RST
    IS_COPY = 1
    IS_ZERO_WINDOW = 2

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpMeasures
    from kanalyze.net.tcp.delivery import Segment
    from kanalyze.net.tcp.round_trips import TimedSegments

__all__ = ["Meter"]

SEQUENCE_MASK = 0xFFFF_FFFF


class Meter:
    """Measures one connection. Ends are those of the pair: 0 the lower, 1 the higher."""

    _NOT_SAVED = ("indices", "measures")
    _SAVED = Saved(
        "awaited:end? _expected:count? _is_simultaneous:bool lower_timer:here higher_timer:here"
    )

    def __init__(
        self, measures: TcpMeasures, indices: tuple[int, int], all_timed: TimedSegments
    ) -> None:
        """``indices`` are the lower and the higher end's indices in ``endpoints``."""
        self.measures = measures
        self.indices = indices
        lower, higher = indices
        self.lower_timer = RoundTripTimer(measures.round_trips[lower], all_timed)
        """Of the data that the lower end sent."""
        self.higher_timer = RoundTripTimer(measures.round_trips[higher], all_timed)
        self.awaited: int | None = None
        """The end whose next segment ends the handshake; None if it is over, or was not seen."""
        self._expected: int | None = None
        """Acknowledgment number that ends the handshake; None before the SYN-ACK was seen."""
        self._is_simultaneous = False

    def drop_timed(self) -> None:
        """Forget the segments that wait for their acknowledgment; they give no sample."""
        self.lower_timer.drop_all()
        self.higher_timer.drop_all()

    def take(self, segment: Segment, is_out_of_window: bool, is_last: bool) -> None:
        """Take a segment.

        Args:
            segment: one of the connection.
            is_out_of_window: if true, only its flags and window count.
            is_last: the stream ends with its FIN, which takes a sequence number.
        """
        from_higher = segment.from_higher
        index = self.indices[from_higher]
        flags = segment.flags
        if segment.marks & IS_COPY:
            self.measures.duplicate_packets[index] += 1
            return
        if segment.marks & IS_ZERO_WINDOW:
            self.measures.zero_window_packets[index] += 1
        if flags & CONTROL:
            self._take_control(segment, index)
        if from_higher == self.awaited and not flags & SYN:
            self._end_handshake(segment)
        if flags & RST or is_out_of_window:
            return
        first = segment.sequence + (1 if flags & SYN else 0)
        length = segment.length + (1 if is_last and segment.length else 0)
        self.time(from_higher, flags, first, length, segment.acknowledgment, segment.time_ns)

    def time(
        self,
        from_higher: int,
        flags: int,
        first: int,
        length: int,
        acknowledgment: int,
        time_ns: int,
    ) -> None:
        """Measure round trips.

        Args:
            from_higher: 1 if the higher end sent the segment, else 0.
            flags: the flags of TCP.
            first: sequence number of the first byte of payload.
            length: payload bytes, and the FIN if it follows them; 0 without payload.
            acknowledgment: acknowledgment number.
            time_ns: Unix time in ns.
        """
        if flags & ACK:
            other = self.lower_timer if from_higher else self.higher_timer
            other.acknowledge(acknowledgment, time_ns)
        if length:
            mine = self.higher_timer if from_higher else self.lower_timer
            mine.send(first & SEQUENCE_MASK, length, time_ns)

    def _take_control(self, segment: Segment, index: int) -> None:
        flags = segment.flags
        if flags & (FIN | RST) and self.measures.closed_time_ns is None:
            self.measures.closed_time_ns = known_time(segment.time_ns)
        if flags & RST:
            self.measures.reset_packets[index] += 1
        if flags & FIN:
            self.measures.fin_packets[index] += 1
        if flags & SYN:
            if flags & ACK:
                self._take_answer(segment, index)
            else:
                self._take_syn(segment, index)

    def _take_syn(self, segment: Segment, index: int) -> None:
        measures = self.measures
        if measures.opened_by is None:
            measures.opened_by = index
            self.awaited = segment.from_higher
        if measures.opened_by != index:
            # Simultaneous open: neither SYN answers the other.
            self._end_without_figures()
        elif measures.syn_time_ns is None:
            measures.syn_time_ns = None if self._is_simultaneous else known_time(segment.time_ns)
        else:
            measures.syn_retransmissions[index] += 1

    def _take_answer(self, segment: Segment, index: int) -> None:
        measures = self.measures
        if self._is_simultaneous:
            return
        if measures.opened_by is None:
            measures.opened_by = 1 - index
            self.awaited = 1 - segment.from_higher
        if measures.opened_by == index:
            self._end_without_figures()
        elif measures.syn_ack_time_ns is None:
            measures.syn_ack_time_ns = known_time(segment.time_ns)
            self._expected = (segment.sequence + 1) & SEQUENCE_MASK
        else:
            measures.syn_retransmissions[index] += 1

    def _end_handshake(self, segment: Segment) -> None:
        """Read the opener's first segment after its SYN."""
        self.awaited = None
        flags = segment.flags
        if flags & ACK and not flags & RST and segment.acknowledgment == self._expected:
            self.measures.handshake_ack_time_ns = known_time(segment.time_ns)

    def _end_without_figures(self) -> None:
        self._is_simultaneous = True
        self.awaited = None
        self.measures.syn_time_ns = self.measures.syn_ack_time_ns = None
