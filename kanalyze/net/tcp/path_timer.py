"""Measures network round trips to one end: times one segment at a time until its acknowledgment.

In: the segments of one end, and the acknowledgments of the other. Out: round trips in a
:class:`~kanalyze.model.network_path.RoundTripHistory`.

A SYN is acknowledged at once, and a SYN-ACK too. Any other acknowledgment may be delayed by the
receiver (RFC 9293, section 3.8.6.3): a delayed one comes after 40 ms at least (Linux; Windows and
macOS wait longer), or with a response, which takes as long as the work does. So only a *prompt*
acknowledgment measures the network: one without data that came sooner, or that covers so many bytes
that the receiver could not delay it (two segments of the largest size in use, in jumbo frames). Any
other one is an upper bound of the network's time.

Segments that were sent again give no round trip (Karn's rule; RFC 6298, section 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME
    from kanalyze.net.tcp.sequence_space import distance

    MIN_DELAY_NS = 35_000_000  # 40 ms, less the inaccuracy of clocks and timers
    UNDELAYED_BYTES = 17_920  # two segments of 8,960 bytes
    MIN_SYN_TIMEOUT_NS = 200_000_000  # a SYN that is repeated sooner was captured twice

if TYPE_CHECKING:
    from kanalyze.model.network_path import RoundTripHistory

__all__ = ["PathTimer"]

SEQUENCE_MASK = 0xFFFF_FFFF


class PathTimer:
    """Times the segments of one end.

    Attributes:
        is_timed: whether a segment waits for its acknowledgment.
        end: sequence number after the last byte of that segment.
        sent_ns: time of that segment.
        has_syn: whether a SYN was timed.
        is_syn: whether the segment that waits is the SYN.
    """

    _NOT_SAVED = ("history",)
    _SAVED = Saved("is_timed:bool has_syn:bool is_syn:bool end:u32 sent_ns:int")

    def __init__(self, history: RoundTripHistory) -> None:
        self.history = history
        self.is_timed = self.has_syn = self.is_syn = False
        self.end = 0
        self.sent_ns = 0

    def begin(self, end: int, time_ns: int) -> None:
        """Time a segment, by the sequence number after its last byte."""
        self.is_timed = time_ns != NO_TIME
        self.is_syn = False
        self.end = end & SEQUENCE_MASK
        self.sent_ns = time_ns

    def begin_syn(self, end: int, time_ns: int) -> None:
        """Time the first SYN; a repeated one stops the timing."""
        if not self.has_syn:
            self.begin(end, time_ns)
            self.has_syn = self.is_syn = True
        elif self.is_syn and time_ns - self.sent_ns > MIN_SYN_TIMEOUT_NS:
            self.is_timed = False

    def cancel(self) -> None:
        """Stop timing: bytes were sent again, so an acknowledgment may be of either copy."""
        self.is_timed = False

    def acknowledge(
        self, sequence: int, newly: int, has_payload: bool, time_ns: int, packet: int
    ) -> None:
        """Take an acknowledgment of everything before ``sequence``; ``newly`` bytes are new."""
        if distance(sequence, self.end) < 0:
            return
        self.is_timed = False
        elapsed_ns = time_ns - self.sent_ns
        if elapsed_ns < 0:
            return
        may_be_delayed = not self.is_syn and elapsed_ns >= MIN_DELAY_NS
        is_prompt = not has_payload and (not may_be_delayed or newly >= UNDELAYED_BYTES)
        self.history.add(elapsed_ns, is_prompt, packet)
