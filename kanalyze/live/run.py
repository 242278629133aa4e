"""A capture that goes on: packets in, rows to whoever wants them, in turns.

In: a feed of packets, sinks, two clocks. Out: what sinks make of it, and in the end a report. This
module must not know sockets, terminals or files, nor signals: it is told to stop.

A turn is what came in a fraction of a second. Sinks are told the time in each, also when nothing
came; that of packets goes on by the clock that does not jump from the last packet on, so that a
file that is played into a pipe has the times of its packets.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Protocol

from kanalyze.common.int_columns import total
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.statistics.summary import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import TokenBytes
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.statistics.in_flight import InFlight
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["IDLE_NS", "Feed", "LiveRun", "LiveSource", "Sink"]

IDLE_NS: Final = 1800 * 1_000_000_000
"""Silence after which a connection is given up. A broker closes one after 600 s, and a client its
own after 540 s, where their ``connections.max.idle.ms`` are as they come."""
_TURN_S: Final = 0.1
_LAST_TURN_S: Final = 0.6
"""Longer than packets are gathered for before they are handed over."""
_LOOK_EVERY_NS: Final = 1_000_000_000


class Feed(Protocol):
    """Where packets come from: an interface, a pipe."""

    @property
    def about(self) -> FileMetadata | None:
        """What the capture says of itself, so far; None for an interface."""
        ...

    @property
    def dropped_packets(self) -> int | None:
        """Packets lost before they were read, so far; None when nobody can say."""
        ...

    @property
    def is_at_end(self) -> bool:
        """Whether nothing more comes; what was read before then has been given."""
        ...

    @property
    def anomalies(self) -> Iterable[Anomaly]:
        """What is wrong with the capture itself; complete at its end."""
        ...

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return what has come, numbered on from 1; None when nothing did in time."""
        ...


class Sink(Protocol):
    """Who wants rows, or packets. Methods raise OSError where a system call fails."""

    def add_packets(self, packets: PacketBatch) -> None:
        """Take packets, of which the buffer is used again after the turn."""
        ...

    def hide(self, tokens: Sequence[TokenBytes]) -> None:
        """Take where packets hold what nobody may keep, before the rows of those packets."""
        ...

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Take rows."""
        ...

    def turn(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        """Take notice of the time; False to end the run."""
        ...

    def roll(self) -> None:
        """Begin new files, for somebody wants those that are open."""
        ...

    def close(self) -> None:
        """End: no more will come."""
        ...


class LiveSource:
    """Stands for captures where an analysis reads; see :class:`.stages.Captures`."""

    def __init__(self, feed: Feed, name: str, turn: Callable[[PacketBatch | None], bool]) -> None:
        """Read a feed.

        Args:
            feed: the packets.
            name: of the capture, as it stands in rows.
            turn: is told what came, before anybody else is; False ends the capture.
        """
        self.names = [name]
        self.can_be_read_again = False
        self.progress: tuple[int, int | None] = (0, None)
        self.anomalies: list[Anomaly] = []
        self._feed = feed
        self._turn = turn

    @property
    def description(self) -> FileMetadata | None:
        """What the capture says of itself, so far; None for an interface."""
        return self._feed.about

    @property
    def dropped_packets(self) -> int | None:
        """Packets lost before they were read."""
        return self._feed.dropped_packets

    def place(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet, and its number there."""
        return self.names[0], number

    def batches(self) -> Iterator[PacketBatch]:
        """Give packets as they come, until the turn says that it is enough.

        There is one more turn then: what was on its way when somebody wanted the end counts too.
        """
        is_wanted = True
        while True:
            # Asked before it is read: what went wrong since then is told by the next read.
            is_last = not is_wanted or self._feed.is_at_end
            packets = self._feed.read(_LAST_TURN_S if is_last else _TURN_S)
            is_wanted = self._turn(packets)
            if packets is not None:
                yield packets
            if is_last:
                break
        self.anomalies.extend(self._feed.anomalies)


class LiveRun:
    """One run, from the first packet to the report."""

    def __init__(
        self,
        feed: Feed,
        name: str,
        sinks: Sequence[Sink],
        *,
        clock_ns: Callable[[], int],
        is_over: Callable[[], bool],
        wants_roll: Callable[[], bool],
        now_ns: int,
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        """Set up; nothing is read yet.

        Args:
            feed: the packets.
            name: of the capture.
            sinks: in the order in which they are told.
            clock_ns: a clock that does not jump.
            is_over: asked in each turn; true to end the run.
            wants_roll: asked in each turn; true to let files begin anew.
            now_ns: Unix time, until the first packet has come.
            conditions: by which packets are taken in, for the report.
        """
        self._conditions = dict(conditions or {})
        self.source = LiveSource(feed, name, self._turn)
        self._feed = feed
        self._sinks = sinks
        self._clock_ns = clock_ns
        self._is_over = is_over
        self._wants_roll = wants_roll
        self._began_ns = self._told_ns = clock_ns()
        self._packet_ns = now_ns
        self._packets = self._wire_bytes = 0
        self._analysis: Analysis | None = None
        self._in_flight: InFlight | None = None
        self._doubts: dict[str, Any] | None = None
        self._look_again_ns = 0
        self._statistics = Statistics()

    def run(self, analysis: Analysis) -> dict[str, Any]:
        """Read to the end; return the report. ``analysis`` reads :attr:`source`.

        Sinks are closed whatever happens, each of them. Raises what feeds and sinks do.
        """
        self._analysis = analysis
        with ExitStack() as closing:
            # They are closed in their order, and those behind one that fails too.
            for sink in reversed(self._sinks):
                closing.callback(sink.close)
            for rows in analysis.batches():
                self._statistics.add_block(rows)
                for sink in self._sinks:
                    sink.add(rows, self._now_ns())
        return self._statistics.summary(analysis.quality, self._conditions)

    def hide(self, tokens: Sequence[TokenBytes]) -> None:
        """Tell sinks where tokens are; the analysis is to call this (``on_tokens``)."""
        for sink in self._sinks:
            sink.hide(tokens)

    def _turn(self, packets: PacketBatch | None) -> bool:
        if packets is not None:
            self._packet_ns = max(packets.time_ns)
            self._told_ns = self._clock_ns()
            self._packets += len(packets)
            self._wire_bytes += total(packets.wire_bytes)
        if self._wants_roll():
            for sink in self._sinks:
                sink.roll()
        state, clock_ns = self._state(), self._clock_ns()
        goes_on = not self._is_over()
        for sink in self._sinks:
            if packets is not None:
                sink.add_packets(packets)
            goes_on = sink.turn(state, self._now_ns(), clock_ns) and goes_on
        return goes_on

    def _now_ns(self) -> int:
        return self._packet_ns + self._clock_ns() - self._told_ns

    def _state(self) -> CaptureState:
        analysis = self._analysis
        assert analysis is not None  # packets are read by it
        self._look(analysis)
        return CaptureState(
            source=self.source.names[0],
            packets=self._packets,
            wire_bytes=self._wire_bytes,
            dropped_packets=self._feed.dropped_packets,
            connections=analysis.monitor.open_connections,
            elapsed_ns=self._clock_ns() - self._began_ns,
            begun_connections=analysis.monitor.begun_connections,
            held_bytes=analysis.monitor.held_bytes,
            last_packet_ns=self._packet_ns if self._packets else None,
            anomalies=analysis.monitor.count_anomalies(),
            in_flight=self._in_flight,
            doubts=self._doubts,
        )

    def _look(self, analysis: Analysis) -> None:
        """See, once a second and at the end, which requests wait and what came to nothing."""
        clock_ns = self._clock_ns()
        is_due = self._in_flight is None or clock_ns >= self._look_again_ns
        if is_due or self._feed.is_at_end:
            # It goes through all connections, which is no work for each turn.
            before_ns = self._now_ns() - _LOOK_EVERY_NS
            self._in_flight = analysis.monitor.in_flight(before_ns)
            self._doubts = analysis.monitor.doubts()
            self._look_again_ns = clock_ns + _LOOK_EVERY_NS
