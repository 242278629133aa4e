"""Each sink, over the parts that it puts behind one interface."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import kanalyze
from kanalyze.analysis.block import RowBatch
from kanalyze.analysis.filters import RowFilter
from kanalyze.live.keep import PacketKeeper
from kanalyze.live.lines import RateLines
from kanalyze.live.loop import LiveView
from kanalyze.live.metrics import Metrics
from kanalyze.live.pcapng_writer import PcapngWriter
from kanalyze.live.rolling import RollingRows
from kanalyze.live.sinks import (
    KeepSink,
    LinesSink,
    MetricsSink,
    RollingSink,
    RowsSink,
    ViewSink,
)
from kanalyze.live.snapshot import CaptureState
from kanalyze.live.windows import Windows
from kanalyze.pipeline import Analysis
from tests.live.test_loop import FakeTerminal
from tests.support.captures import path
from tests.support.packets import Packet, make_batch, segment
from tests.support.rows import START_NS, row
from tests.support.watched import Watched

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 1_000_000_000


def state(**changes: int | None) -> CaptureState:
    told = CaptureState("eth0", 10, 1000, 0, 2, SECOND_NS)
    return told._replace(**changes)


def rows(count: int = 3) -> RowBatch:
    return RowBatch.of_rows([row()] * count)


def batch():
    return make_batch([Packet(segment(payload=b"x" * 50), START_NS, wire_bytes=900)])


def test_lines_are_written_each_interval_and_at_the_end():
    windows, stream = Windows(), io.BytesIO()
    sink = LinesSink(windows, RateLines(windows, stream, interval_ns=SECOND_NS))
    assert sink.turn(state(), START_NS, 0)
    sink.add(rows(), START_NS)
    assert stream.getvalue() == b""
    assert sink.turn(state(packets=20), START_NS + SECOND_NS, SECOND_NS)
    assert stream.getvalue().count(b"\n") == 1
    # What the end of the capture brings comes after the last turn.
    sink.add(rows(4), START_NS + SECOND_NS)
    sink.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["rows"] for line in lines] == [3, 7]
    assert [line["capture"]["packets"] for line in lines] == [20, 20]
    assert [line["capture"]["dropped_packets"] for line in lines] == [0, 0]


def test_without_a_turn_there_is_no_line():
    stream = io.BytesIO()
    windows = Windows()
    LinesSink(windows, RateLines(windows, stream, interval_ns=SECOND_NS)).close()
    assert stream.getvalue() == b""


def test_a_line_is_due_also_when_nothing_comes():
    windows, stream = Windows(), io.BytesIO()
    sink = LinesSink(windows, RateLines(windows, stream, interval_ns=SECOND_NS))
    for turn in range(31):
        sink.turn(state(), START_NS + turn * SECOND_NS // 10, turn * SECOND_NS // 10)
    assert stream.getvalue().count(b"\n") == 3


def test_the_view_shows_rows_and_ends_the_run():
    windows, terminal = Windows(), FakeTerminal()
    sink = ViewSink(windows, LiveView(windows, terminal))
    sink.add(rows(), START_NS)
    sink.add_packets(batch())
    assert sink.turn(state(), START_NS + SECOND_NS, 0)
    assert "Produce" in terminal.drawn[-1]
    assert "eth0" in terminal.drawn[-1]
    terminal.pressed = ["q"]
    assert not sink.turn(state(), START_NS + SECOND_NS, 1)
    sink.close()


def test_rows_are_to_be_seen_at_once():
    told: list[object] = []
    sink = RowsSink(told.append, lambda: told.append("flushed"))
    given = rows()
    sink.add(given, START_NS)
    assert told == [given, "flushed"]
    assert sink.turn(state(), START_NS, 0)
    sink.roll()
    sink.close()
    assert told == [given, "flushed"]


def test_metrics_are_counted_and_the_capture_told():
    metrics = Metrics()
    sink = MetricsSink(metrics)
    sink.add_packets(batch())
    sink.add_packets(batch())
    sink.add(rows(), START_NS)
    assert sink.turn(state(dropped_packets=5, packets=2), START_NS, 0)
    text = generate_latest(metrics.registry).decode()
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }
    told = {name: value for name, value in samples.items() if "capture" in name or "open" in name}
    size = int(batch().captured_bytes[0])
    assert {2.0, 5.0, 2.0 * size} <= set(told.values()), told


def test_files_of_rows_roll_by_time_and_when_they_are_to(tmp_path: Path):
    sink = RollingSink(RollingRows(tmp_path, every_s=10))

    def counts() -> list[int]:
        files = sorted(tmp_path.glob("*.parquet"))
        return [pq.ParquetFile(file).metadata.num_rows for file in files]

    sink.add(rows(1), START_NS)
    assert sink.turn(state(), START_NS + 9 * SECOND_NS, 0)
    assert counts() == []
    # Also when nothing comes.
    assert sink.turn(state(), START_NS + 10 * SECOND_NS, 0)
    assert counts() == [1]
    sink.add(rows(2), START_NS + 11 * SECOND_NS)
    sink.roll()
    assert counts() == [1, 2]
    sink.roll()
    sink.add(rows(3), START_NS + 12 * SECOND_NS)
    sink.close()
    assert counts() == [1, 2, 3]


@pytest.mark.parametrize("rolls", [False, True])
def test_packets_of_errors_are_kept(tmp_path: Path, rolls: bool):
    capture, kept = path("errors"), tmp_path / "kept.pcapng"
    writer = PcapngWriter(kept)
    sink = KeepSink(PacketKeeper(writer, [RowFilter(errors_only=True)]), writer)

    class Shown(Watched):
        """Shows packets to the sink, as a run does."""

    source = Shown(capture, sink, 40)
    for number, batch_of_rows in enumerate(Analysis([], source=source).batches()):
        sink.add(batch_of_rows, source.now_ns)
        if rolls and number == 10:
            sink.roll()
        assert sink.turn(state(), source.now_ns, 0)
    sink.close()
    files = sorted(tmp_path.glob("*.pcapng"))
    assert len(files) == 1 + rolls
    wanted = [each for each in kanalyze.requests(capture) if each.status == "error"]
    found = [each for each in kanalyze.requests(*files) if each.status == "error"]
    key = ["connection", "request_start_ns", "correlation_id", "error_code"]
    assert sorted([getattr(each, name) for name in key] for each in found) == sorted(
        [getattr(each, name) for name in key] for each in wanted
    )
    assert len(wanted) > 5
