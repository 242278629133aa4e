"""Clocks that jump during a run: counts, files and kept rows are the same as without a jump.

Packets have the time of the machine that captured them, whose clock may be set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import kanalyze
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.int_columns import shifted as later
from kanalyze.live.metrics.counters import Metrics
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.live.recorder.pcapng_writer import PcapngWriter
from kanalyze.live.recorder.rolling_parquet import RollingParquet
from kanalyze.live.run import IDLE_NS, LiveRun
from kanalyze.live.sinks import MetricsSink, PacketRecorderSink, ParquetSink
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.filters import RowFilter
from tests.live.test_run import Clock, Feed, Sink
from tests.support.captures import in_turn, path
from tests.support.watched import part_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kanalyze.model.packets import PacketBatch
    from kanalyze.tables.row import Row

S = 1_000_000_000
TURN_NS = S // 5
HOUR_NS, YEAR_NS = 3600 * S, 365 * 86_400 * S
JUMPS = {
    "an hour back": -HOUR_NS,
    "a second back": -S,
    "an hour ahead": HOUR_NS,
    "a year ahead": YEAR_NS,
}
NAMES = ["errors", "groups"]
PACKETS_A_TURN = 9


def shifted(name: str, jump_ns: int, *, every: int | None = None) -> Iterator[PacketBatch]:
    """A capture, some packets a turn, whose clock jumps in the middle.

    With ``every``, it jumps forth and back each time after this number of ticks.
    """
    buffer = bytearray(1 << 22)
    with MergedCaptures(find_inputs([str(path(name))])) as captures:
        (whole,) = captures.batches()
        for turn, first in enumerate(range(0, len(whole), PACKETS_A_TURN)):
            part = part_of(whole, first, first + PACKETS_A_TURN, buffer)
            jumped = first > len(whole) // 2 if every is None else turn // every % 2
            part.time_ns = later(part.time_ns, jump_ns * bool(jumped))
            yield part


class Ran(NamedTuple):
    rows: list[Row]
    written: int
    """Rows in files."""
    files: int
    kept: list[Row]
    requests: float
    """The count of the metrics."""
    told: list[str]


def run(batches: Iterator[PacketBatch], folder: Path) -> Ran:
    clock, shown, told, metrics = Clock(), Sink(), [], Metrics()
    writer = PcapngWriter(folder / "kept.pcapng")
    sinks = [
        ParquetSink(RollingParquet(folder / "rows", every_s=60), told.append),
        PacketRecorderSink(
            PacketRecorder(writer, [RowFilter(errors_only=True)]), writer, told.append
        ),
        MetricsSink(metrics),
        shown,
    ]
    feed = Feed(batches, clock, TURN_NS)
    live = LiveRun(
        feed,
        "made up",
        sinks,
        clock_ns=clock,
        is_over=lambda: False,
        should_roll=lambda: False,
        now_ns=0,
    )
    live.run(Analysis((), source=live.source, idle_ns=IDLE_NS))
    files = list((folder / "rows").iterdir())
    samples = [
        sample.value
        for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())
        for sample in family.samples
        if sample.name == "kanalyze_requests_total"
    ]
    ports = {row.broker_port for row in shown.rows}
    return Ran(
        shown.rows,
        sum(pq.read_metadata(file).num_rows for file in files),
        len(files),
        list(kanalyze.requests(folder / "kept.pcapng", port=ports, errors=True)),
        sum(samples),
        told,
    )


def timeless(rows: list[Row]) -> list[tuple[object, ...]]:
    """Rows without times, sorted."""
    return sorted(
        (
            *(row.client_port, row.correlation_id or 0, str(row.api_name), row.status),
            *(str(row.error_code), str(row.request_bytes), str(row.response_bytes)),
            str([(error.code, error.partition) for error in row.errors]),
        )
        for row in rows
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(("jump", "name"), in_turn(JUMPS, NAMES))
def test_a_jump_changes_no_row_and_no_file(name: str, jump: str, tmp_path: Path) -> None:
    expected = list(kanalyze.requests(path(name)))
    ran = run(shifted(name, JUMPS[jump]), tmp_path)
    assert timeless(ran.rows) == timeless(expected)
    assert ran.written == ran.requests == len(expected)
    # One file before it, one after it, at most.
    assert ran.files <= 2
    errors = [row for row in expected if row.status == "error"]
    assert timeless(ran.kept) == timeless(errors)
    assert ran.told == []


@pytest.mark.few(1)
@pytest.mark.parametrize("every", [1, 7])
def test_packets_of_two_clocks_an_hour_apart(every: int, tmp_path: Path) -> None:
    """As in a capture that alternates between packets of two machines."""
    expected = list(kanalyze.requests(path("errors")))
    ran = run(shifted("errors", -HOUR_NS, every=every), tmp_path)
    assert timeless(ran.rows) == timeless(expected)
    assert ran.written == ran.requests == len(expected)
    assert ran.files <= 3
    assert timeless(ran.kept) == timeless([row for row in expected if row.status == "error"])
