"""What TCP shows of the network path of a connection, as of each packet.

Round trips, retransmissions and zero windows. In: events that ``net`` finds, in the order of the
capture. Out: answers about the time up to a packet, or between two packets.

Rows ask about packets, not about "now": the answer for a packet does not depend on how many packets
were in its batch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from kanalyze.common.saved import Saved

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    NOT_KNOWN = -1
    MAX_FALLS = 64  # falls of the least round trip that are all kept; later ones if they halve it
    MAX_DELAY_NS = 200_000_000  # of an acknowledgment; RFC 9293 allows 500 ms


__all__ = ["KEPT_NS", "NetworkPath", "RoundTripHistory"]

KEPT_NS: Final = 300_000_000_000
"""How long an event is remembered; for a request that took longer, events are not known."""
MAX_EVENTS: Final = 4096
"""Events that are remembered of a connection; when there are more, the older half is forgotten."""
_KEPT_NS = KEPT_NS
_NEVER = (1 << 63) - 1


class RoundTripHistory:
    """The least round trip from the capture point to one end of a connection, packet by packet.

    Attributes:
        least_ns: least of all round trips, including those that the receiver may have delayed;
            ``NOT_KNOWN`` without one.
        prompt_ns: least of the round trips that the receiver did not delay, or ``NOT_KNOWN``.
    """

    _NOT_SAVED = ("_last_fall", "_last_packet")
    _SAVED = Saved("least_ns:int prompt_ns:int packets:array[int] falls:array[count]")

    def __init__(self) -> None:
        self.least_ns = NOT_KNOWN
        self.prompt_ns = NOT_KNOWN
        self.packets = array("q")
        """Numbers of the packets at which the least round trip fell."""
        self.falls = array("q")
        """The least round trip in ns from each of these packets on."""
        self._last_packet = _NEVER
        self._last_fall = NOT_KNOWN

    def _after_load(self) -> None:
        if len(self.packets) != len(self.falls) or min(self.least_ns, self.prompt_ns) < NOT_KNOWN:
            raise ValueError("no history of round trips")
        if self.packets:
            self._last_packet, self._last_fall = self.packets[-1], self.falls[-1]

    def add(self, elapsed_ns: int, is_prompt: bool, packet: int) -> None:
        """Take a round trip, which ended with a packet.

        A round trip that the receiver may have delayed is only an upper bound for the network. It
        counts as soon as there is one that was not delayed.
        """
        if self.least_ns < 0 or elapsed_ns < self.least_ns:
            self.least_ns = elapsed_ns
        if is_prompt and (self.prompt_ns < 0 or elapsed_ns < self.prompt_ns):
            self.prompt_ns = elapsed_ns
        if self.prompt_ns < 0:
            return
        current_ns = min(self.prompt_ns, self.least_ns)
        count = len(self.falls)
        if count:
            last_ns = self._last_fall
            # To bound memory, after MAX_FALLS only a fall to half or less is kept.
            if current_ns >= last_ns or (count >= MAX_FALLS and 2 * current_ns > last_ns):
                return
        self.packets.append(packet)
        self.falls.append(current_ns)
        self._last_packet, self._last_fall = packet, current_ns

    def least_at(self, packet: int) -> int:
        """Return the least round trip in ns up to a packet; ``NOT_KNOWN`` where there is none."""
        if self._last_packet <= packet:
            return self._last_fall
        index = len(self.packets) - 2
        while index >= 0:
            if self.packets[index] <= packet:
                return self.falls[index]
            index -= 1
        return NOT_KNOWN


class NetworkPath:
    """What one connection's packets show of the network between its ends.

    Attributes:
        round_trips: by the sender of what was acknowledged: index 0 is from the capture point to
            ``endpoints[1]`` and back, index 1 to ``endpoints[0]`` and back.
        has_events: whether a packet was ever sent again, or announced a window of 0.
    """

    _NOT_SAVED = ("_quiet_after", "_quiet_before")
    _SAVED = Saved(
        "round_trips:2*here has_events:bool _first:int _last:int _forgotten:int "
        "_packets:array[int] _times:array[int] _senders:array[int] _begins:array[int] "
        "_ends:array[int] _are_tails:array[int]"
    )

    def __init__(self) -> None:
        self.round_trips = (RoundTripHistory(), RoundTripHistory())
        self.has_events = False
        # Columns with one entry per event; a zero window has an empty range of bytes.
        self._packets = self._times = self._senders = _NOTHING
        self._begins = self._ends = self._are_tails = _NOTHING
        self._first = self._last = self._forgotten = NOT_KNOWN
        """Packets of the first event, of the last, and of the last forgotten one."""
        self._quiet_after = self._quiet_before = NOT_KNOWN
        """Two packets without an event between them, from the last query: most queries are about
        such a range."""

    def _after_load(self) -> None:
        columns = self._packets, self._times, self._senders, self._begins, self._ends
        lengths = {len(column) for column in (*columns, self._are_tails)}
        if len(lengths) != 1 or len(self._packets) > MAX_EVENTS:
            raise ValueError("columns of events that are not of one length")

    @property
    def events(self) -> int:
        """Number of events that are remembered."""
        return len(self._packets)

    def add_retransmission(
        self, sender: int, begin: int, end: int, is_tail: bool, time_ns: int, packet: int
    ) -> None:
        """Take a packet with bytes that were sent before.

        Args:
            sender: index of the end in the connection.
            begin: stream offset of its first byte.
            end: stream offset after its last byte.
            is_tail: it repeats the last bytes sent so far: it may be a probe.
            time_ns: of the packet.
            packet: its number.
        """
        self._add(sender, begin, end, is_tail, time_ns, packet)

    def add_zero_window(self, sender: int, time_ns: int, packet: int) -> None:
        """Take a packet that announces a receive window of 0."""
        self._add(sender, 0, 0, False, time_ns, packet)

    def _add(
        self, sender: int, begin: int, end: int, is_tail: bool, time_ns: int, packet: int
    ) -> None:
        if not self.has_events:
            self.has_events = True
            self._first = packet
        if len(self._packets) == 0:
            self._packets, self._times, self._senders = array("q"), array("q"), array("q")
            self._begins, self._ends, self._are_tails = array("q"), array("q"), array("q")
        elif len(self._packets) >= MAX_EVENTS:
            self._forget(MAX_EVENTS // 2)
        self._last = packet
        self._quiet_before = min(self._quiet_before, packet)
        self._packets.append(packet)
        self._times.append(time_ns)
        self._senders.append(sender)
        self._begins.append(begin)
        self._ends.append(end)
        self._are_tails.append(is_tail)

    def forget_before(self, time_ns: int) -> None:
        """Forget the oldest events, up to the first that is not before ``time_ns``."""
        count = 0
        while count < len(self._times) and self._times[count] < time_ns:
            count += 1
        if count:
            self._forget(count)

    def forget_all(self) -> None:
        """Forget every event, because all connections together have too many."""
        if len(self._packets):
            self._forget(len(self._packets))

    def forget_ranges(self) -> None:
        """Forget which bytes were sent again, because stream offsets change their meaning.

        This is so when a stream is decrypted: messages have offsets in the plaintext.
        """
        for index in range(len(self._packets)):
            if self._ends[index] > self._begins[index]:
                self._begins[index], self._ends[index] = _NO_RANGE

    def _forget(self, count: int) -> None:
        self._forgotten = self._packets[count - 1]
        if count == len(self._packets):
            self._packets = self._times = self._senders = _NOTHING
            self._begins = self._ends = self._are_tails = _NOTHING
            return
        del self._packets[:count], self._times[:count], self._senders[:count]
        del self._begins[:count], self._ends[:count], self._are_tails[:count]

    def retransmissions(self, first: int, last: int, span_ns: int) -> int:
        """Return how many packets from ``first`` to ``last``, both included, were sent again.

        ``NOT_KNOWN`` if ``span_ns``, the time between the two, is above :data:`KEPT_NS`, even where
        the events happen to be remembered; or if events of the range are forgotten.
        """
        return self._count(first, last, span_ns, True)

    def zero_windows(self, first: int, last: int, span_ns: int) -> int:
        """Return how many packets announced a window of 0, as :meth:`retransmissions` does."""
        return self._count(first, last, span_ns, False)

    def _count(self, first: int, last: int, span_ns: int, has_bytes: bool) -> int:
        if not self.has_events or self._first > last:
            return 0
        # Checked first: whether the answer is known must not depend on what else is remembered.
        if span_ns > _KEPT_NS:
            return NOT_KNOWN
        if self._last < first or (self._quiet_after < first and last < self._quiet_before):
            return 0
        if first <= self._forgotten:
            return NOT_KNOWN
        begin, end = bisect_left(self._packets, first), bisect_right(self._packets, last)
        if begin == end:
            self._quiet_after = self._packets[begin - 1] if begin else self._forgotten
            self._quiet_before = self._packets[end] if end < len(self._packets) else _NEVER
            return 0
        count = 0
        for index in range(begin, end):
            count += (self._ends[index] > self._begins[index]) == has_bytes
        return count

    def last_resent_ns(
        self,
        sender: int,
        begin: int,
        end: int,
        first: int,
        last: int,
        sent_ns: int,
        until_ns: int,
    ) -> int:
        """Return when bytes of a range were last sent again because they were lost.

        A receiver may delay its acknowledgment, and senders do not wait for it before they probe
        whether the last packet arrived (RFC 8985, section 7). So a tail that was sent again within
        :data:`MAX_DELAY_NS` does not count as lost.

        Args:
            sender: index of the end in the connection.
            begin: stream offset of the first byte of the range.
            end: stream offset after its last byte.
            first: number of the first packet to look at.
            last: number of the last packet to look at.
            sent_ns: when the range was first sent.
            until_ns: later retransmissions do not count.

        Returns:
            The time in ns; ``sent_ns`` if they were not sent again; ``NOT_KNOWN`` if packets of
            this sender were sent again and their ranges are forgotten.
        """
        least = bisect_left(self._packets, first)
        index = bisect_right(self._packets, last) - 1
        while index >= least:
            time_ns = self._times[index]
            if self._begins[index] < 0 and self._senders[index] == sender:
                return NOT_KNOWN
            is_of_range = self._begins[index] < end and self._ends[index] > begin
            is_probe = self._are_tails[index] and time_ns - sent_ns < MAX_DELAY_NS
            if (
                is_of_range
                and time_ns <= until_ns
                and self._senders[index] == sender
                and not is_probe
            ):
                return max(time_ns, sent_ns)
            index -= 1
        return sent_ns


_NO_RANGE = (-2, -1)
_NOTHING = array("q")
"""Shared by all paths without events: never written to."""
