"""What becomes of live rows: each of these does one thing with them.

In: rows, packets, the time. Out: windows shown or written, metrics, files. This module must not
know where packets come from; it puts the parts of this package behind one interface,
:class:`~kanalyze.live.run.Sink`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.int_columns import total
from kanalyze.live.recorder.write_failures import WriteFailures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.live.metrics.counters import Metrics
    from kanalyze.live.rate_jsonl import RatesWriter
    from kanalyze.live.recorder.packet_recorder import PacketRecorder
    from kanalyze.live.recorder.pcapng_writer import PcapngWriter
    from kanalyze.live.recorder.rolling_parquet import RollingParquet
    from kanalyze.live.view.controller import ViewController
    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.live.window.windows import Windows
    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import TokenBytes
    from kanalyze.tables.columns.block import RowBlock

__all__ = [
    "FileSink",
    "MetricsSink",
    "PacketRecorderSink",
    "ParquetSink",
    "RatesSink",
    "RowsSink",
    "ViewSink",
]


class _IdleSink:
    """A sink that does nothing."""

    def add_packets(self, packets: PacketBatch) -> None:
        """Take no notice."""

    def redact(self, tokens: Sequence[TokenBytes]) -> None:
        """Take no notice."""

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Take no notice."""

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Go on."""
        return True

    def roll(self) -> None:
        """Have nothing to begin anew."""

    def close(self) -> None:
        """Have nothing to end."""


class _WindowsSink(_IdleSink):
    def __init__(self, windows: Windows, files: Sequence[FileSink]) -> None:
        self._windows = windows
        self._files = files

    def add(self, rows: RowBlock, now_ns: int) -> None:
        self._windows.add(rows, now_ns)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        problems = (sink.failures.problem for sink in self._files)
        state = state._replace(problems=tuple(filter(None, problems)))
        self._windows.add_capture(state, now_ns)
        self._windows.tick(now_ns)
        return True


class ViewSink(_WindowsSink):
    """A view on a terminal; it ends the run when its user wants to."""

    def __init__(
        self, windows: Windows, view: ViewController, files: Sequence[FileSink] = ()
    ) -> None:
        """Show windows, and of ``files`` which cannot be written."""
        super().__init__(windows, files)
        self._view = view

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        """Draw when it is time to."""
        super().tick(state, now_ns, clock_ns)
        return self._view.tick(now_ns, clock_ns)


class RatesSink(_WindowsSink):
    """A line of JSON each interval, and one at the end."""

    def __init__(
        self, windows: Windows, lines: RatesWriter, files: Sequence[FileSink] = ()
    ) -> None:
        """Write windows, and of ``files`` which cannot be written."""
        super().__init__(windows, files)
        self._lines = lines
        self._now_ns: int | None = None

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Count rows."""
        super().add(rows, now_ns)
        self._now_ns = now_ns

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        """Write a line when it is time to."""
        super().tick(state, now_ns, clock_ns)
        self._now_ns = now_ns
        self._lines.tick(now_ns, clock_ns)
        return True

    def close(self) -> None:
        """Write the last line."""
        if self._now_ns is not None:
            self._lines.write(self._now_ns)


class RowsSink(_IdleSink):
    """Rows as they come, to whoever writes them."""

    def __init__(self, write: Callable[[RowBlock], None], flush: Callable[[], None]) -> None:
        """Hand rows on; what was handed on is to be seen after each turn."""
        self._write = write
        self._flush = flush

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - as in the class above
        """Write rows."""
        self._write(rows)
        self._flush()


class FileSink(_IdleSink):
    """One that writes files. That it cannot is told, and ends nothing."""

    def __init__(self, failures: WriteFailures) -> None:
        """Begin well."""
        self.failures = failures
        self._clock_ns = 0
        """Of the last turn."""

    def _attempt(self, write: Callable[[], object]) -> None:
        self.failures.attempt(write, self._clock_ns)


class MetricsSink(_IdleSink):
    """Metrics that somebody scrapes meanwhile."""

    def __init__(self, metrics: Metrics, files: Sequence[FileSink] = ()) -> None:
        """Count for metrics; of ``files`` it is told how often they could not be written."""
        self._metrics = metrics
        self._files = files
        self._captured_bytes = 0

    def add_packets(self, packets: PacketBatch) -> None:
        """Count bytes."""
        self._captured_bytes += total(packets.captured_bytes)

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - as in the class above
        """Count rows."""
        self._metrics.add(rows)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Say how the capture stands."""
        waiting = state.in_flight
        self._metrics.set_capture(
            packets=state.packets,
            captured_bytes=self._captured_bytes,
            dropped_packets=state.dropped_packets,
            connections=state.begun_connections,
            open_connections=state.connections,
            held_bytes=state.held_bytes,
            last_packet_time_ns=state.last_packet_ns,
            in_flight_requests=None if waiting is None else waiting.requests,
            oldest_in_flight_ns=None if waiting is None else waiting.age_ns(now_ns),
        )
        self._metrics.set_anomalies(state.anomalies or {})
        failures = [sink.failures for sink in self._files]
        self._metrics.set_write_failures({each.what: each.count for each in failures})
        return True


class ParquetSink(FileSink):
    """Files of rows."""

    def __init__(self, files: RollingParquet, tell: Callable[[str], None]) -> None:
        """Write to files; ``tell`` is given a line for people."""
        self._files = files
        super().__init__(WriteFailures("rows", files.place, tell, lambda: files.files))

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Write rows."""
        # Of two steps, so that a file that cannot be finished costs its own rows alone.
        self._attempt(lambda: self._files.tick(now_ns, self._clock_ns))
        self._attempt(lambda: self._files.add(rows, now_ns, self._clock_ns))

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Begin a new file when it is time to."""
        self._clock_ns = clock_ns
        self._attempt(lambda: self._files.tick(now_ns, clock_ns))
        return True

    def roll(self) -> None:
        """Begin a new file."""
        self._attempt(self._files.roll)

    def close(self) -> None:
        """End the last file."""
        self._attempt(self._files.close)
        lost = self._files.lost_rows
        self.failures.end(f"{lost:,} rows" if lost else "")


class PacketRecorderSink(FileSink):
    """The packets of some exchanges."""

    def __init__(
        self, recorder: PacketRecorder, writer: PcapngWriter, tell: Callable[[str], None]
    ) -> None:
        """Keep packets; the recorder writes to the writer, ``tell`` is given a line for people."""
        self._recorder = recorder
        self._writer = writer
        super().__init__(WriteFailures("packets", writer.place, tell, lambda: writer.packets))

    def add_packets(self, packets: PacketBatch) -> None:
        """Hold packets for a while."""
        self._attempt(lambda: self._recorder.add_packets(packets))

    def redact(self, tokens: Sequence[TokenBytes]) -> None:
        """Hear what packets are to be written without."""
        self._recorder.redact(tokens)

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - as in the class above
        """See which are wanted."""
        self._recorder.add_rows(rows)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Write what is complete."""
        self._clock_ns = clock_ns
        self._attempt(lambda: self._recorder.tick(now_ns))
        return True

    def roll(self) -> None:
        """Write what is held back, and begin a new file: whoever wants the old one wants all."""
        self._attempt(self._recorder.flush)
        self._attempt(self._writer.roll)

    def close(self) -> None:
        """Write what is left."""
        self._attempt(self._recorder.close)
        recorder = self._recorder
        missing = {
            "{:,} packets that could not be written": recorder.lost_packets,
            "{:,} requests beyond what is kept of a second": recorder.skipped_rows,
            "{:,} requests whose packets were held no longer": recorder.late_rows,
        }
        parts = [text.format(count) for text, count in missing.items() if count]
        self.failures.end(", ".join(parts))
