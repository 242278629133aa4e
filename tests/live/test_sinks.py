"""Each sink, with the real objects that it passes packets and rows to."""

from __future__ import annotations

import errno
import io
import json
import os
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import kanalyze
from kanalyze.live.metrics import Metrics
from kanalyze.live.rate_jsonl import RatesWriter
from kanalyze.live.recorder.files import PcapngWriter, RollingParquet
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.live.run import PacketRecorderSink, ParquetSink, RowsSink, WriteFailures
from kanalyze.live.view.view import ViewController
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.live.window.windows import Windows
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.filters import RowFilter
from tests.live.test_run import Clock, Feed, live_run
from tests.live.view.test_view import FakeTerminal
from tests.support.captures import path
from tests.support.packets import Packet, make_batch, segment
from tests.support.rows import START_NS, row
from tests.support.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


MINUTE_NS = 60_000_000_000


class Disk:
    """A fake target of writes, and the messages about it."""

    def __init__(self) -> None:
        self.written = 0
        self.messages: list[str] = []
        self.clock_ns = 5
        self._failures = WriteFailures(
            "rows", "/data/rows", self.messages.append, lambda: self.written
        )
        self.end = self._failures.end

    def attempt(self, *attempts: Callable[[], object]) -> None:
        """Attempt each action in order, without time passing."""
        for action in attempts:
            self._failures.attempt(action, self.clock_ns)

    def write(self) -> None:
        self.written += 1

    def hold(self) -> None:
        """Buffer the data, without writing it."""

    def fail(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail_in_the_middle(self) -> None:
        self.written += 1
        raise OSError(errno.EIO, "Input/output error")


def test_the_start_and_the_end_of_a_failure_are_reported_once() -> None:
    disk = Disk()
    disk.attempt(disk.write, disk.fail, disk.fail, disk.hold, disk.fail)
    assert disk.messages == [
        "cannot write rows to /data/rows: No space left on device; trying again"
    ]
    disk.clock_ns += MINUTE_NS
    disk.attempt(disk.hold)
    assert disk.messages[1:] == []
    disk.attempt(disk.write, disk.write)
    assert disk.messages[1:] == ["writing rows to /data/rows again"]
    disk.attempt(disk.fail)
    assert disk.messages[2:] == [
        "cannot write rows to /data/rows: No space left on device; trying again"
    ]
    disk.end("7 rows")
    assert disk.messages[3:] == ["missing in /data/rows: 7 rows"]


def test_a_failure_ends_only_after_a_minute_without_failures() -> None:
    """Otherwise there would be two messages at each attempt."""
    disk = Disk()
    for _ in range(100):
        disk.clock_ns += MINUTE_NS // 2
        disk.attempt(disk.fail, disk.write)
    assert len(disk.messages) == 1
    disk.clock_ns += MINUTE_NS
    disk.attempt(disk.hold)
    assert disk.messages[1:] == ["writing rows to /data/rows again"]


def test_a_partial_write_that_fails_is_a_failure() -> None:
    disk = Disk()
    for _ in range(3):
        disk.clock_ns += MINUTE_NS
        disk.attempt(disk.fail_in_the_middle)
    assert disk.messages == ["cannot write rows to /data/rows: Input/output error; trying again"]


SECOND_NS = 1_000_000_000


def state(**changes: int | None) -> CaptureState:
    default = CaptureState("eth0", 10, 1000, 0, 2, SECOND_NS)
    return default._replace(**changes)


def rows(count: int = 3) -> RowBlock:
    return RowBlock.of_rows([row()] * count)


def batch():
    return make_batch([Packet(segment(payload=b"x" * 50), START_NS, wire_bytes=900)])


def test_lines_are_written_each_interval_and_at_the_end():
    stream = io.BytesIO()
    sink = RatesWriter(Windows(), stream, interval_ns=SECOND_NS)
    assert sink.tick(state(), START_NS, 0)
    sink.add(rows(), START_NS)
    assert stream.getvalue() == b""
    assert sink.tick(state(packets=20), START_NS + SECOND_NS, SECOND_NS)
    assert stream.getvalue().count(b"\n") == 1
    # Rows at the end of the capture come after the last tick.
    sink.add(rows(4), START_NS + SECOND_NS)
    sink.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["rows"] for line in lines] == [3, 7]
    assert [line["capture"]["packets"] for line in lines] == [20, 20]
    assert [line["capture"]["dropped_packets"] for line in lines] == [0, 0]


def test_the_view_shows_rows_and_ends_the_run():
    terminal = FakeTerminal()
    sink = ViewController(Windows(), terminal)
    sink.add(rows(), START_NS)
    sink.add_packets(batch())
    assert sink.tick(state(), START_NS + SECOND_NS, 0)
    assert "Produce" in terminal.drawn[-1]
    assert "eth0" in terminal.drawn[-1]
    terminal.pressed = ["q"]
    assert not sink.tick(state(), START_NS + SECOND_NS, 1)
    sink.close()


def test_the_view_the_lines_and_metrics_report_files_that_cannot_be_written(tmp_path: Path):
    terminal, stream, metrics = FakeTerminal(), io.BytesIO(), Metrics()
    writer = PcapngWriter(tmp_path / "saved.pcapng")
    recording = PacketRecorderSink(PacketRecorder(writer, [RowFilter()]), writer, lambda line: None)
    rolling = ParquetSink(RollingParquet(tmp_path), lambda line: None)
    view = ViewController(Windows(), terminal)
    lines = RatesWriter(Windows(), stream, interval_ns=SECOND_NS)
    rolling.failures.attempt(full, 0)
    clock = Clock()
    feed = Feed(iter([batch()]), clock, SECOND_NS)
    live = live_run(feed, [rolling, recording, view, lines, metrics], clock)
    live.run(Analysis((), source=live.source))
    assert "cannot write rows" in terminal.drawn[-1]
    (problem,) = json.loads(stream.getvalue().splitlines()[-1])["capture"]["problems"]
    assert problem.startswith("cannot write rows")
    text = generate_latest(metrics.registry).decode()
    failures = {
        sample.labels["files"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "kanalyze_write_failures_total"
    }
    assert failures == {"rows": 1, "packets": 0}


def test_rows_are_flushed_at_once():
    calls: list[object] = []
    sink = RowsSink(calls.append, lambda: calls.append("flushed"))
    block = rows()
    sink.add(block, START_NS)
    assert calls == [block, "flushed"]
    assert sink.tick(state(), START_NS, 0)
    sink.roll()
    sink.close()
    assert calls == [block, "flushed"]


def test_metrics_count_rows_and_the_capture():
    metrics = Metrics()
    metrics.add_packets(batch())
    metrics.add_packets(batch())
    metrics.add(rows(), START_NS)
    capture_state = state(
        packets=2,
        dropped_packets=5,
        connections_seen=7,
        held_bytes=99,
        last_packet_ns=START_NS,
        anomalies={AnomalyKind.LOST_BYTES: 4},
    )
    assert metrics.tick(capture_state, START_NS, 0)
    text = generate_latest(metrics.registry).decode()
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels or sample.labels.get("kind") == "lost_bytes"
    }
    assert samples == {
        "kanalyze_capture_packets_total": 2,
        "kanalyze_capture_bytes_total": 2 * int(batch().captured_bytes[0]),
        "kanalyze_capture_dropped_packets_total": 5,
        "kanalyze_connections_total": 7,
        "kanalyze_open_connections": 2,
        "kanalyze_held_bytes": 99,
        "kanalyze_last_packet_timestamp_seconds": START_NS / SECOND_NS,
        "kanalyze_anomalies_total": 4,
    }


def test_packets_of_errors_are_saved(tmp_path: Path):
    capture, saved = path("errors"), tmp_path / "saved.pcapng"
    writer = PcapngWriter(saved)
    messages: list[str] = []
    sink = PacketRecorderSink(
        PacketRecorder(writer, [RowFilter.parse(errors=True)]), writer, messages.append
    )

    class Shown(Watched):
        """Passes packets to the sink, as a run does."""

    source = Shown(capture, sink, 40)
    for number, batch_of_rows in enumerate(Analysis([], source=source).batches()):
        sink.add(batch_of_rows, source.now_ns)
        if number == 10:
            sink.roll()
        assert sink.tick(state(), source.now_ns, 0)
    sink.close()
    files = sorted(tmp_path.glob("*.pcapng"))
    assert len(files) == 2
    expected = [row for row in kanalyze.requests(capture) if row.status == "error"]
    saved_errors = [row for row in kanalyze.requests(*files) if row.status == "error"]
    key = ["connection", "request_start_ns", "correlation_id", "error_code"]
    assert sorted([getattr(row, name) for name in key] for row in saved_errors) == sorted(
        [getattr(row, name) for name in key] for row in expected
    )
    assert len(expected) > 5
    assert messages == []


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_run_continues_if_rows_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    messages: list[str] = []
    sink = ParquetSink(RollingParquet(tmp_path, every_s=10), messages.append)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for second in range(0, 60, 5):
            sink.add(rows(2), START_NS + second * SECOND_NS)
            assert sink.tick(state(), START_NS + second * SECOND_NS, second * SECOND_NS)
    # Reported once, not at each attempt.
    assert sink.failures.count > 2
    assert messages == [f"cannot write rows to {tmp_path}: No space left on device; trying again"]
    assert list(tmp_path.glob("*.parquet")) == []
    sink.tick(state(), START_NS + 120 * SECOND_NS, 120 * SECOND_NS)
    sink.add(rows(3), START_NS + 120 * SECOND_NS)
    # The rows are still in memory.
    assert messages[1:] == []
    sink.roll()
    assert messages[1:] == [f"writing rows to {tmp_path} again"]
    sink.close()
    (file,) = tmp_path.glob("*.parquet")
    written_count = pq.read_metadata(file).num_rows
    assert messages[2:] == [f"missing in {tmp_path}: {12 * 2 + 3 - written_count} rows"]


def test_the_run_continues_if_packets_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    messages: list[str] = []
    capture, saved = path("errors"), tmp_path / "saved.pcapng"
    writer = PcapngWriter(saved)
    recorder = PacketRecorder(writer, [RowFilter.parse(errors=True)], lead_s=0)
    sink = PacketRecorderSink(recorder, writer, messages.append)
    source = Watched(capture, sink, 40)
    with monkeypatch.context() as patched:
        patched.setattr(writer, "_create", full)
        for batch_of_rows in Analysis([], source=source).batches():
            if messages:
                patched.undo()
            sink.add(batch_of_rows, source.now_ns)
            assert sink.tick(state(), source.now_ns, 61 * len(messages) * SECOND_NS)
    sink.close()
    assert messages == [
        f"cannot write packets to {saved}: No space left on device; trying again",
        f"writing packets to {saved} again",
        f"missing in {saved}: {recorder.lost_packets} packets that could not be written",
    ]
    assert len(list(kanalyze.requests(saved, errors=True))) > 0
