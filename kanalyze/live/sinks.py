"""The sinks of a live run, which show, count or write its rows and packets.

In: rows, packets, the time. Out: the view, lines of rates, metrics, files. Each class adapts a part
of this package to :class:`~kanalyze.live.run.Sink`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.int_columns import total
from kanalyze.live.recorder.write_failures import WriteFailures
from kanalyze.live.run import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.live.findings_watch import FindingsWatch
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


class _WindowsSink(Sink):
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
    """The view on the terminal; its user can end the run."""

    def __init__(
        self,
        windows: Windows,
        view: ViewController,
        files: Sequence[FileSink] = (),
        watch: FindingsWatch | None = None,
    ) -> None:
        """Show windows, the findings of ``watch``, and the write failures of ``files``."""
        super().__init__(windows, files)
        self._view = view
        self._watch = watch

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        """Draw if it is due; return False if the user quits."""
        super().tick(state, now_ns, clock_ns)
        if self._watch is not None:
            self._watch.tick(state, now_ns, clock_ns)
            self._view.findings = self._watch.latest
        return self._view.tick(now_ns, clock_ns)

    def close(self) -> None:
        """Wait for the current round of queries to end."""
        if self._watch is not None:
            self._watch.close()


class RatesSink(_WindowsSink):
    """Writes a line of rates at each interval, and one at the end."""

    def __init__(
        self, windows: Windows, writer: RatesWriter, files: Sequence[FileSink] = ()
    ) -> None:
        """Write windows, and the write failures of ``files``."""
        super().__init__(windows, files)
        self._writer = writer
        self._now_ns: int | None = None

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Count rows."""
        super().add(rows, now_ns)
        self._now_ns = now_ns

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        """Write a line if it is due."""
        super().tick(state, now_ns, clock_ns)
        self._now_ns = now_ns
        self._writer.tick(now_ns, clock_ns)
        return True

    def close(self) -> None:
        """Write the last line."""
        if self._now_ns is not None:
            self._writer.write(self._now_ns)


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


class MetricsSink(Sink):
    """The metrics that Prometheus scrapes."""

    def __init__(self, metrics: Metrics, files: Sequence[FileSink] = ()) -> None:
        """Count in ``metrics``, also the write failures of ``files``."""
        self._metrics = metrics
        self._files = files
        self._captured_bytes = 0

    def add_packets(self, packets: PacketBatch) -> None:
        """Count bytes."""
        self._captured_bytes += total(packets.captured_bytes)

    def add(self, rows: RowBlock, now_ns: int) -> None:  # noqa: ARG002 - as in Sink
        """Count rows."""
        self._metrics.add(rows)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:  # noqa: ARG002
        """Set the metrics of the capture."""
        self._metrics.set_capture(state, self._captured_bytes, now_ns)
        failures = [sink.failures for sink in self._files]
        self._metrics.set_write_failures({failure.what: failure.count for failure in failures})
        return True


class ParquetSink(FileSink):
    """Parquet files of rows."""

    def __init__(self, files: RollingParquet, warn: Callable[[str], None]) -> None:
        """Write to files; ``warn`` receives messages."""
        self._files = files
        super().__init__(WriteFailures("rows", files.target, warn, lambda: files.files))

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Write rows."""
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
