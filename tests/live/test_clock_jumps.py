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
from kanalyze.live.metrics import Metrics
from kanalyze.live.recorder.files import PcapngWriter, RollingParquet
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.live.run import IDLE_NS, PacketRecorderSink, ParquetSink
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.filters import RowFilter
from tests.live.test_run import Clock, Feed, Sink, live_run
from tests.support.captures import in_turn, path
from tests.support.watched import part_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kanalyze.model.packets import PacketBatch
    from kanalyze.spec.rows.requests import Row

SECOND_NS = 1_000_000_000
TICK_NS = SECOND_NS // 5
HOUR_NS, YEAR_NS = 3600 * SECOND_NS, 365 * 86_400 * SECOND_NS
JUMPS = {
    "an hour back": -HOUR_NS,
    "a second back": -SECOND_NS,
    "an hour ahead": HOUR_NS,
    "a year ahead": YEAR_NS,
}
NAMES = ["errors", "groups"]
PACKETS_PER_TICK = 9


def shifted(name: str, jump_ns: int, *, every: int | None = None) -> Iterator[PacketBatch]:
    """Yield a capture, some packets at each tick, whose clock jumps in the middle.

    With ``every``, it jumps forth and back, each time after this number of ticks.
    """
    buffer = bytearray(1 << 22)
    with MergedCaptures(find_inputs([str(path(name))])) as captures:
        (whole,) = captures.batches()
        for tick, first in enumerate(range(0, len(whole), PACKETS_PER_TICK)):
            part = part_of(whole, first, first + PACKETS_PER_TICK, buffer)
            is_shifted = first > len(whole) // 2 if every is None else tick // every % 2
            part.time_ns = later(part.time_ns, jump_ns * bool(is_shifted))
            yield part


class Outputs(NamedTuple):
    rows: list[Row]
    written: int
    """Rows in files."""
    files: int
    saved: list[Row]
    requests: float
    """The count in the metrics."""
    messages: list[str]


def run(batches: Iterator[PacketBatch], folder: Path) -> Outputs:
    clock, sink, messages, metrics = Clock(), Sink(), [], Metrics()
    writer = PcapngWriter(folder / "saved.pcapng")
    sinks = [
        ParquetSink(RollingParquet(folder / "rows", every_s=60), messages.append),
        PacketRecorderSink(
            PacketRecorder(writer, [RowFilter.parse(errors=True)]), writer, messages.append
        ),
        metrics,
        sink,
    ]
    live = live_run(Feed(batches, clock, TICK_NS), sinks, clock, now_ns=0)
    live.run(Analysis((), source=live.source, idle_ns=IDLE_NS))
    files = list((folder / "rows").iterdir())
    samples = [
        sample.value
        for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())
        for sample in family.samples
        if sample.name == "kanalyze_requests_total"
    ]
    ports = {row.broker_port for row in sink.rows}
    return Outputs(
        sink.rows,
        sum(pq.read_metadata(file).num_rows for file in files),
        len(files),
        list(kanalyze.requests(folder / "saved.pcapng", port=ports, errors=True)),
        sum(samples),
        messages,
    )


def timeless(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return rows without times, sorted."""
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
def test_a_jump_of_the_clock_changes_no_output(name: str, jump: str, tmp_path: Path) -> None:
    expected = list(kanalyze.requests(path(name)))
    outputs = run(shifted(name, JUMPS[jump]), tmp_path)
    assert timeless(outputs.rows) == timeless(expected)
    assert outputs.written == outputs.requests == len(expected)
    # At most one file before the jump, and one after it.
    assert outputs.files <= 2
    errors = [row for row in expected if row.status == "error"]
    assert timeless(outputs.saved) == timeless(errors)
    assert outputs.messages == []


@pytest.mark.few(1)
@pytest.mark.parametrize("every", [1, 7])
def test_alternating_clocks_change_no_output(every: int, tmp_path: Path) -> None:
    """A merged capture may alternate between packets of two machines."""
    expected = list(kanalyze.requests(path("errors")))
    outputs = run(shifted("errors", -HOUR_NS, every=every), tmp_path)
    assert timeless(outputs.rows) == timeless(expected)
    assert outputs.written == outputs.requests == len(expected)
    assert outputs.files <= 3
    assert timeless(outputs.saved) == timeless([row for row in expected if row.status == "error"])
