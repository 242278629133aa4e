"""A live run: packets from a feed, rows to sinks, a report at the end.

In: a feed of packets, sinks, two clocks. Out: what sinks make of it, and a report.

Packets are read in ticks of a fraction of a second. Each tick gives the sinks the time, also if no
packets came. This time is the time of the last packet plus the time since then on a monotonic
clock, so a file that is read through a pipe has the times of its packets.

Sinks show, count or write rows and packets: the view, lines of rates, metrics, files. A full disk
does not end the run: the view and the metrics continue, and files are written again as soon as
there is room.
"""

from __future__ import annotations

import time
from array import array
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Protocol

from kanalyze.capture.merge import PacketRun
from kanalyze.common.int_columns import total
from kanalyze.errors import reason_of
from kanalyze.live.silence import BrokerResponses
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.model.packets import PacketBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.registry import CollectorRegistry

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.live.kept_rows import FindingsWatch, KeptRows
    from kanalyze.live.key_log_files import KeyLogFiles
    from kanalyze.live.recorder.files import PcapngWriter, RollingParquet
    from kanalyze.live.recorder.packet_recorder import PacketRecorder
    from kanalyze.live.silence import SilentBroker
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import TokenBytes
    from kanalyze.runtime.monitor import InFlight, TlsConnections
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tls.streams import GivenUp

IDLE_NS: Final = 1800 * 1_000_000_000
"""A connection without packets for this time counts as closed. By default
(``connections.max.idle.ms``) brokers close idle connections after 600 s, clients after 540 s."""
_TICK_S: Final = 0.1
_LAST_TICK_S: Final = 0.6
"""Longer than the time for which a live capture gathers packets for a batch."""
_METRICS_EVERY_NS: Final = 60 * 1_000_000_000
"""What OpenTelemetry's exporters have by default."""
_EXAMINE_EVERY_NS: Final = 1_000_000_000
_NONE: Final = array("q")
_NO_PACKETS: Final = PacketBatch(memoryview(b""), _NONE, _NONE, _NONE, _NONE, _NONE, array("i"))


class Feed(Protocol):
    """A source of packets: an interface, a pipe."""

    @property
    def about(self) -> FileMetadata | None:
        """The metadata of the capture so far; None for an interface."""
        ...

    @property
    def dropped_packets(self) -> int | None:
        """Packets lost before they were read; None if not known."""
        ...

    @property
    def is_at_end(self) -> bool:
        """True if no more packets come."""
        ...

    @property
    def anomalies(self) -> Iterable[Anomaly]:
        """Anomalies of the capture itself; complete at its end."""
        ...

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return the next packets, numbered from 1; None if none come in time."""
        ...


class PacketFilter(Protocol):
    """Selects packets."""

    def selected(self, packets: PacketBatch) -> array[int]:
        """Return the indices of the packets that match."""
        ...


class Sink:
    """A consumer of rows or packets. Methods raise OSError if a system call fails.

    What a sink does not override, it ignores.
    """

    def add_packets(self, packets: PacketBatch) -> None:
        """Receive packets; copy them, because their buffer is used again after the tick."""

    def redact(self, tokens: Sequence[TokenBytes]) -> None:
        """Receive the positions of SASL tokens, before the rows of those packets."""

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Receive rows."""

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Receive the time; return False to end the run."""
        return True

    def roll(self) -> None:
        """Close the open files and start new ones, because the user asked for it."""

    def close(self) -> None:
        """Finish; no other method is called afterwards."""


class LiveSource:
    """A feed as the source of an analysis; see :class:`.stages.Captures`."""

    def __init__(
        self,
        feed: Feed,
        name: str,
        on_tick: Callable[[PacketBatch | None], bool],
        on_end: Callable[[], None] | None = None,
        filters: Sequence[PacketFilter] = (),
    ) -> None:
        """Read a feed.

        Args:
            feed: the packets.
            name: the name of the capture in rows.
            on_tick: called with the packets of each tick, before the analysis reads them;
                returns False to end the capture.
            on_end: called after the last packets.
            filters: all of them must select a packet; packets keep their numbers.
        """
        self.names = [name]
        self.can_be_read_again = False
        self.progress: tuple[int, int | None] = (0, None)
        self.anomalies: list[Anomaly] = []
        self._feed = feed
        self._on_tick = on_tick
        self._on_end = on_end
        self._filters = filters
        self.has_secrets = False
        """True if the last tick read new TLS secrets, for which connections may wait."""

    @property
    def description(self) -> FileMetadata | None:
        """The metadata of the capture so far; None for an interface."""
        return self._feed.about

    @property
    def dropped_packets(self) -> int | None:
        """Packets lost before they were read; None if not known."""
        return self._feed.dropped_packets

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet, and its number there."""
        return self.names[0], number

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun]:  # noqa: ARG002 - as in Captures
        """Return the only run: packets are numbered as they come."""
        return [PacketRun(low, 0, self.names[0])]

    def batches(self) -> Iterator[PacketBatch]:
        """Yield packets as they come, until a tick ends the capture.

        One more tick then reads the packets that were captured before that. A tick with new secrets
        but no packets yields an empty batch.
        """
        continues = True
        while True:
            # Checked before reading: an error after this check is raised by the next read.
            is_last = not continues or self._feed.is_at_end
            packets = self._selected(_LAST_TICK_S if is_last else _TICK_S)
            continues = self._on_tick(packets)
            if packets is None and self.has_secrets:
                packets = _NO_PACKETS
            if packets is not None:
                yield packets
            if is_last:
                break
        if self._on_end is not None:
            self._on_end()
        self.anomalies.extend(self._feed.anomalies)

    def _selected(self, timeout_s: float) -> PacketBatch | None:
        """Return the selected packets of the next batch; None if it has none or nothing came."""
        packets = self._feed.read(timeout_s)
        for packet_filter in self._filters:
            if packets is None:
                return None
            rows = packet_filter.selected(packets)
            if len(rows) < len(packets):
                packets = packets.select(rows) if rows else None
        return packets


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
        should_roll: Callable[[], bool],
        now_ns: int,
        conditions: Mapping[str, Any] | None = None,
        kept: KeptRows | None = None,
        watch: FindingsWatch | None = None,
        has_report: bool = True,
        keys: KeyLogFiles | None = None,
        filters: Sequence[PacketFilter] = (),
        on_given_up: Callable[[Sequence[GivenUp]], None] | None = None,
    ) -> None:
        """Prepare a run; nothing is read yet.

        Args:
            feed: the packets.
            name: the name of the capture.
            sinks: the consumers, called in this order.
            clock_ns: returns the time of a monotonic clock.
            is_over: called at each tick; True ends the run.
            should_roll: called at each tick; True starts new files.
            now_ns: the Unix time until the first packet comes.
            conditions: the filters of packets, for the report.
            kept: stores the rows of every table, for findings and the report; None for neither.
            watch: searches for findings, which sinks get with the state; None for no search.
            has_report: whether to make the report.
            keys: the key logs of the analysis, read at each tick before its packets.
            filters: the filters of packets; see :class:`LiveSource`.
            on_given_up: called with TLS connections that stay encrypted, because no secret came.
        """
        self._conditions = dict(conditions or {})
        self._keys = keys
        self._on_given_up = on_given_up
        on_end = None if keys is None else keys.end
        self.source = LiveSource(feed, name, self._tick, on_end, filters)
        self._feed = feed
        self._sinks = sinks
        self._files = [sink.failures for sink in sinks if isinstance(sink, FileSink)]
        self._watch = watch
        self._clock_ns = clock_ns
        self._is_over = is_over
        self._should_roll = should_roll
        self._began_ns = self._packet_clock_ns = clock_ns()
        self._packet_ns = now_ns
        self._packets = self._wire_bytes = 0
        self._analysis: Analysis | None = None
        self._in_flight: InFlight | None = None
        self._doubts: dict[str, Any] | None = None
        self._tls: TlsConnections | None = None
        self._examine_ns = 0
        self._responses = BrokerResponses()
        self._silent: tuple[SilentBroker, ...] = ()
        self._kept_rows = kept
        self._has_report = has_report

    def run(self, analysis: Analysis) -> dict[str, Any] | None:
        """Read to the end; return the report, if rows are kept. ``analysis`` reads :attr:`source`.

        All sinks are closed in any case. Raises what feeds and sinks raise.
        """
        self._analysis = analysis
        with ExitStack() as closing:
            # The stack closes the last one first: so they are closed in order, even if one fails.
            for sink in reversed(self._sinks):
                closing.callback(sink.close)
            if self._watch is not None:
                closing.callback(self._watch.close)
            for rows in self._blocks(analysis):
                self._responses.add(rows)
                for sink in self._sinks:
                    sink.add(rows, self._now_ns())
            self._report_given_up(analysis)
        if self._kept_rows is None or not self._has_report:
            return None
        conditions = {**self._conditions, **analysis.row_filter.conditions}
        return self._kept_rows.report(analysis.quality, conditions)

    def _blocks(self, analysis: Analysis) -> Iterator[RowBlock]:
        """Yield the rows of requests, and keep them with those of the other tables.

        Other tables are made only if rows are kept: they increase the time for a packet by half,
        and each line of ``groups`` and ``metadata`` takes some 20 us.
        """
        if self._kept_rows is None:
            yield from analysis.batches()
            return
        self._kept_rows.open_connections = analysis.open_connections
        for rows in analysis.table_rows(self._kept_rows.tables_of_requests):
            self._kept_rows.add(rows)
            yield from rows.requests

    def redact(self, tokens: Sequence[TokenBytes]) -> None:
        """Pass the positions of tokens to the sinks; the analysis calls this (``on_tokens``)."""
        for sink in self._sinks:
            sink.redact(tokens)

    def _tick(self, packets: PacketBatch | None) -> bool:
        if packets is not None:
            self._packet_ns = max(packets.time_ns)
            self._packet_clock_ns = self._clock_ns()
            self._packets += len(packets)
            self._wire_bytes += total(packets.wire_bytes)
        if self._should_roll():
            for sink in self._sinks:
                sink.roll()
        state, clock_ns = self._state(), self._clock_ns()
        if self._keys is not None:
            self.source.has_secrets = self._keys.tick(clock_ns)
        if self._watch is not None:
            self._watch.tick(state, self._now_ns(), clock_ns)
            state = state._replace(findings=self._watch.latest)
        continues = not self._is_over()
        for sink in self._sinks:
            if packets is not None:
                sink.add_packets(packets)
            continues = sink.tick(state, self._now_ns(), clock_ns) and continues
        return continues

    def _report_given_up(self, analysis: Analysis) -> None:
        given_up = analysis.monitor.take_given_up()
        if given_up and self._on_given_up is not None:
            self._on_given_up(given_up)

    def _now_ns(self) -> int:
        return self._packet_ns + self._clock_ns() - self._packet_clock_ns

    def _state(self) -> CaptureState:
        analysis = self._analysis
        assert analysis is not None  # it reads the packets
        self._examine(analysis)
        return CaptureState(
            source=self.source.names[0],
            packets=self._packets,
            wire_bytes=self._wire_bytes,
            dropped_packets=self._feed.dropped_packets,
            connections=analysis.monitor.open_connections,
            elapsed_ns=self._clock_ns() - self._began_ns,
            connections_seen=analysis.monitor.connections_seen,
            held_bytes=analysis.monitor.buffered_bytes,
            last_packet_ns=self._packet_ns if self._packets else None,
            anomalies=analysis.monitor.count_anomalies(),
            in_flight=self._in_flight,
            doubts=self._doubts,
            problems=tuple(each.problem for each in self._files if each.problem is not None),
            write_failures={each.what: each.count for each in self._files},
            tls=self._tls,
            silent_brokers=self._silent,
        )

    def _examine(self, analysis: Analysis) -> None:
        """Once a second, get requests in flight, doubts and TLS connections from the analysis."""
        clock_ns = self._clock_ns()
        is_due = self._in_flight is None or clock_ns >= self._examine_ns
        if is_due or self._feed.is_at_end:
            # These calls visit all connections, which would take too long at each tick.
            before_ns = self._now_ns() - _EXAMINE_EVERY_NS
            self._in_flight = analysis.monitor.in_flight(before_ns)
            self._silent = self._responses.silent(self._in_flight, before_ns)
            self._doubts = analysis.monitor.doubts()
            self._tls = analysis.monitor.tls()
            self._report_given_up(analysis)
            self._examine_ns = clock_ns + _EXAMINE_EVERY_NS


_RECOVERED_NS: Final = 60_000_000_000
"""Time for which writing must succeed before success is reported: a full disk may have room for a
moment."""


class WriteFailures:
    """Reports that attempts to write fail, but not each failure."""

    def __init__(
        self, what: str, target: str, warn: Callable[[str], None], written: Callable[[], int]
    ) -> None:
        """Start without failures.

        Args:
            what: the contents, as in ``cannot write WHAT to TARGET: ...``.
            target: the file or folder as the user named it.
            warn: receives messages.
            written: returns how much was written so far. An attempt that writes nothing does not
                count as a success.
        """
        self.what = what
        self.count = 0
        """Attempts that failed."""
        self._target = target
        self._warn = warn
        self._written = written
        self._written_at_failure = 0
        self._failed_ns = 0
        self.problem: str | None = None
        """Why files cannot be written; None if they can."""

    def attempt(self, write: Callable[[], object], clock_ns: int) -> None:
        """Call ``write``, which may raise OSError, at a time ``clock_ns`` of a monotonic clock."""
        try:
            write()
        except OSError as error:
            self.count += 1
            if self.problem is None:
                self.problem = f"cannot write {self.what} to {self._target}: {reason_of(error)}"
                self._warn(f"{self.problem}; trying again")
            self._written_at_failure, self._failed_ns = self._written(), clock_ns
        if (
            self.problem is not None
            and self._written() > self._written_at_failure
            and clock_ns - self._failed_ns >= _RECOVERED_NS
        ):
            self._warn(f"writing {self.what} to {self._target} again")
            self.problem = None

    def end(self, missing: str) -> None:
        """Report what is missing at the end, if anything."""
        if missing:
            self._warn(f"missing in {self._target}: {missing}")


class OtlpSink(Sink):
    """Sends rows of requests to a collector, as spans, and metrics from time to time."""

    def __init__(
        self, url: str, warn: Callable[[str], None], registry: CollectorRegistry | None
    ) -> None:
        """Take the URL of a collector, and the metrics to send; raises UsageError."""
        # Imported late: few runs send spans.
        from kanalyze.export.otlp import SpanWriter
        from kanalyze.export.otlp_http import BackgroundSender, Collector

        self._sender = BackgroundSender(Collector(url), warn)
        self._spans = SpanWriter(self._sender.put)
        self._registry = registry
        self._began_ns = time.time_ns()
        self._due_ns: int | None = None
        """Monotonic time at which metrics are sent next."""

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - spans have times
        """Send the spans of rows."""
        self._spans.write_block(rows)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Send metrics if they are due."""
        if self._due_ns is None:
            self._due_ns = clock_ns + _METRICS_EVERY_NS
        elif clock_ns >= self._due_ns:
            self._due_ns = clock_ns + _METRICS_EVERY_NS
            self._send_metrics()
        return True

    def close(self) -> None:
        """Send the last metrics, and what waits."""
        self._send_metrics()
        self._sender.close()

    def _send_metrics(self) -> None:
        if self._registry is None:
            return
        from kanalyze.export.otlp_http import METRICS
        from kanalyze.export.otlp_metrics import metrics_message

        families = self._registry.collect()
        self._sender.put(metrics_message(families, self._began_ns, time.time_ns()), METRICS)


class RowsSink(Sink):
    """Writes each row as it comes."""

    def __init__(self, write: Callable[[RowBlock], None], flush: Callable[[], None]) -> None:
        """Write rows by ``write``, and flush them at once."""
        self._write = write
        self._flush = flush

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - as in Sink
        """Write rows."""
        self._write(rows)
        self._flush()


class FileSink(Sink):
    """A sink that writes files; a failure is reported and does not end the run."""

    def __init__(self, failures: WriteFailures) -> None:
        """Report failures by ``failures``."""
        self.failures = failures
        self._clock_ns = 0
        """Monotonic time of the last tick."""

    def _attempt(self, write: Callable[[], object]) -> None:
        self.failures.attempt(write, self._clock_ns)


class ParquetSink(FileSink):
    """Parquet files of rows."""

    def __init__(
        self,
        files: RollingParquet,
        warn: Callable[[str], None],
        change: Callable[[RowBlock], RowBlock] | None = None,
    ) -> None:
        """Write to files what ``change`` makes of rows; ``warn`` receives messages."""
        self._files = files
        self._change = change
        super().__init__(WriteFailures("rows", files.target, warn, lambda: files.files))

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Write rows."""
        rows = rows if self._change is None else self._change(rows)
        # In two steps: if finishing the old file fails, the new rows are not lost with it.
        self._attempt(lambda: self._files.tick(now_ns, self._clock_ns))
        self._attempt(lambda: self._files.add(rows, now_ns, self._clock_ns))

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Start a new file if it is due."""
        self._clock_ns = clock_ns
        self._attempt(lambda: self._files.tick(now_ns, clock_ns))
        return True

    def roll(self) -> None:
        """Start a new file."""
        self._attempt(self._files.roll)

    def close(self) -> None:
        """Finish the last file."""
        self._attempt(self._files.close)
        lost = self._files.lost_rows
        self.failures.end(f"{lost:,} rows" if lost else "")


class PacketRecorderSink(FileSink):
    """The packets of selected exchanges."""

    def __init__(
        self, recorder: PacketRecorder, writer: PcapngWriter, warn: Callable[[str], None]
    ) -> None:
        """Record packets; ``recorder`` writes to ``writer``, ``warn`` receives messages."""
        self._recorder = recorder
        self._writer = writer
        super().__init__(WriteFailures("packets", writer.target, warn, lambda: writer.packets))

    def add_packets(self, packets: PacketBatch) -> None:
        """Buffer packets."""
        self._attempt(lambda: self._recorder.add_packets(packets))

    def redact(self, tokens: Sequence[TokenBytes]) -> None:
        """Redact tokens."""
        self._recorder.redact(tokens)

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - as in Sink
        """Select the packets of matching rows."""
        self._recorder.add_rows(rows)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Write the packets of complete exchanges."""
        self._clock_ns = clock_ns
        self._attempt(lambda: self._recorder.tick(now_ns))
        return True

    def roll(self) -> None:
        """Write the buffered packets, and start a new file."""
        self._attempt(self._recorder.flush)
        self._attempt(self._writer.roll)

    def close(self) -> None:
        """Write the remaining packets."""
        self._attempt(self._recorder.close)
        recorder = self._recorder
        missing = {
            "{:,} packets that could not be written": recorder.lost_packets,
            "{:,} requests beyond the limit per second": recorder.skipped_rows,
            "{:,} requests whose packets were no longer buffered": recorder.late_rows,
        }
        parts = [text.format(count) for text, count in missing.items() if count]
        self.failures.end(", ".join(parts))
