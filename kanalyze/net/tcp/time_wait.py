"""Closed connections, and the late packets that still belong to them (TIME_WAIT of RFC 9293).

In: connections as they close, segments on pairs of endpoints without an open connection. Out:
whether a segment is late or begins a connection, and its number.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.packets import NO_TIME
from kanalyze.net.segment_columns import SYN
from kanalyze.net.tcp.endpoint_pairs import check_pair
from kanalyze.net.tcp.sequence_space import PAST_WINDOW_BYTES, distance

if TYPE_CHECKING:
    from kanalyze.net.tcp.connection import OpenConnection
    from kanalyze.net.tcp.delivery import Segment
    from kanalyze.net.tcp.endpoint_pairs import Pair
    from kanalyze.net.tcp.half_stream import HalfStream
    from kanalyze.net.tcp.limits import ReassemblyLimits

__all__ = ["TimeWaitTable"]


class _TimeWaitEntry:
    """The last connection that closed on a pair of endpoints."""

    __slots__ = ("closed_ns", "late", "number", "sequences")
    _SAVED = Saved("number:count closed_ns:int late:count sequences:*((u32,u32)?,(u32,u32)?)")

    def __init__(
        self,
        number: int,
        closed_ns: int,
        sequences: tuple[tuple[int, int] | None, tuple[int, int] | None],
    ) -> None:
        self.number = number
        self.closed_ns = closed_ns
        self.sequences = sequences
        """For the lower and the higher end: sequence numbers of the stream's first byte and after
        its last byte; None where nothing was seen."""
        self.late = 0
        """Number of segments with payload since the close."""


class TimeWaitTable:
    """The last closed connections, each on its pair of endpoints; the oldest are forgotten."""

    _NOT_SAVED = ("_limits",)
    _SAVED = Saved("_closed:ordered[*(wide,wide),_TimeWaitEntry]", _TimeWaitEntry, bare=True)

    def __init__(self, limits: ReassemblyLimits) -> None:
        self._limits = limits
        # Not a plain dict: to find its first entry, Python steps over all deleted ones before it.
        self._closed: OrderedDict[Pair, _TimeWaitEntry] = OrderedDict()
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._closed)

    def _after_load(self) -> None:
        for pair in self._closed:
            check_pair(pair)

    def clear(self) -> None:
        """Forget all."""
        self._closed.clear()

    def add(self, connection: OpenConnection) -> None:
        """Remember a connection that is closed."""
        lower, higher = connection.half_streams
        if connection.tcp.end in ("limit", "idle"):
            self.add_cut_off(
                connection.pair, connection.tcp.connection_number, connection.tcp.last_time_ns
            )
        else:
            spans = (_span(lower), _span(higher))
            closed = _TimeWaitEntry(
                connection.tcp.connection_number, connection.tcp.last_time_ns, spans
            )
            self._add(connection.pair, closed)

    def add_cut_off(self, pair: Pair, number: int, closed_ns: int) -> None:
        """Remember a connection that a limit or idleness closed: later packets are not late."""
        self._add(pair, _TimeWaitEntry(number, closed_ns, (None, None)))

    def _add(self, pair: Pair, closed: _TimeWaitEntry) -> None:
        self._closed[pair] = closed
        if len(self._closed) > self._limits.time_wait_pairs:
            self._closed.popitem(last=False)

    def next_number(self, pair: Pair) -> int:
        """Return the number of a new connection on a pair, and forget the last one."""
        earlier = self._closed.pop(pair, None)
        return earlier.number + 1 if earlier is not None else 1

    def is_late(self, pair: Pair, segment: Segment) -> bool:
        """Return true if a segment is a late one of the last connection on its pair.

        The pair has no open connection. A SYN is late if it repeats the old one. A segment without
        SYN and payload is always late. Payload is late if its sequence number is near the old
        stream's end, it comes soon after the close, and not too many such segments came before.
        """
        closed = self._closed.get(pair)
        if closed is None:
            return False
        span = closed.sequences[segment.from_higher]
        if segment.flags & SYN:
            return span is not None and distance(segment.sequence + 1, span[0]) == 0
        if not segment.length:
            return True
        if span is None or abs(distance(segment.sequence, span[1])) > PAST_WINDOW_BYTES:
            return False
        closed.late += 1
        return closed.late <= self._limits.late_segments and (
            closed.closed_ns == NO_TIME
            or segment.time_ns - closed.closed_ns <= self._limits.late_ns
        )


def _span(direction: HalfStream) -> tuple[int, int] | None:
    if not direction.started:
        return None
    first, following = direction.first_sequence, direction.next_sequence
    # One int object for both if nothing was sent, to save memory: there are many of these.
    return first, first if following == first else following
