"""Requests in flight, of every API: captures cut after a packet, followed by seconds of silence."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.exposition import generate_latest

from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.live.kept_rows import FindingSearch, FindingsWatch, KeptRows
from kanalyze.live.metrics import Metrics
from kanalyze.live.recorder.files import PcapngWriter
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.live.run import LiveRun, MetricsSink, PacketRecorderSink, ViewSink
from kanalyze.live.view.tables import TABLES
from kanalyze.live.view.view import ViewController
from kanalyze.live.window.windows import Windows
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.filters import RowFilter
from tests.support.captures import TROUBLED, WHOLE, key_log, often, path
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import kinds_of
from tests.support.packets import START_NS
from tests.support.watched import part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch
    from kanalyze.runtime.monitor import InFlight
    from kanalyze.tables.columns.block import RowBlock

SECOND_NS = 1_000_000_000
_SILENCE_NS = 3 * SECOND_NS
"""Longer than the time between two looks at what is in flight, and than most long polls."""
_CUTS = 12
CUT_BY_DEFAULT = ("basics", "fault-rebalances", "next-groups", "old-0-8-2-2", "transactions")


class SilentFeed:
    """A capture, some packets at a time, each time followed by seconds without packets."""

    dropped_packets: int | None = None
    about: FileMetadata | None = None

    def __init__(self, file: Path, at_once: int) -> None:
        self.clock_ns = 0
        self.anomalies: list[Anomaly] = []
        self.is_at_end = False
        self._steps = self._parts(file, at_once)

    def _parts(self, file: Path, at_once: int) -> Iterator[PacketBatch | None]:
        buffer = bytearray(1 << 22)  # more than any capture here
        with MergedCaptures(find_inputs([str(file)])) as captures:
            for batch in captures.batches():
                for first in range(0, len(batch), at_once):
                    yield from (part_of(batch, first, first + at_once, buffer), None)
        self.is_at_end = True

    def read(self, timeout_s: float) -> PacketBatch | None:
        self.clock_ns += _SILENCE_NS
        return next(self._steps, None)


class FakeTerminal:
    """A terminal whose user looks at one table after the other."""

    size = (200, 60)

    def __init__(self) -> None:
        self._table = 0
        self.drawn = ""

    def keys(self) -> list[str]:
        self._table = self._table % len(TABLES) + 1
        return [str(self._table)]

    def show(self, renderable: Any) -> None:
        self.drawn = renderable.plain


class States:
    """A sink that notes what was in flight at each tick."""

    def __init__(self) -> None:
        self.in_flight: list[InFlight] = []

    def add_packets(self, packets: PacketBatch) -> None:
        pass

    def redact(self, tokens: object) -> None:
        pass

    def add(self, rows: RowBlock, now_ns: int) -> None:
        pass

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        assert state.in_flight is not None
        self.in_flight.append(state.in_flight)
        return True

    def roll(self) -> None:
        pass

    def close(self) -> None:
        pass


class AtOnce(Executor):
    """Runs each task when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **named))
        return future


def run(name: str, at_once: int, sinks: list[Any], kept: KeptRows | None) -> States:
    feed, states = SilentFeed(path(name), at_once), States()
    live = LiveRun(
        feed,
        "-",
        [*sinks, states],
        clock_ns=lambda: feed.clock_ns,
        is_over=lambda: False,
        should_roll=lambda: False,
        now_ns=START_NS,
        kept=kept,
    )
    analysis = Analysis((), source=live.source, keylog=key_log(name), on_tokens=live.redact)
    live.run(analysis)
    return states


def kept_rows() -> KeptRows:
    return KeptRows(FindingSearch(kinds_of(*FEW_FINDINGS), pytest.fail))


def check(name: str, at_once: int, folder: Path, *, searches: bool) -> None:
    """Every sink takes every state; what is in flight does not depend on which tables are made."""
    kept = kept_rows()
    windows, terminal, metrics = Windows(keeps_rows=True), FakeTerminal(), Metrics()
    view = ViewController(windows, terminal)
    watch = FindingsWatch(kept, AtOnce()) if searches else None
    recorder = PcapngWriter(str(folder / "saved.pcapng"), interface="-")
    sinks = [
        PacketRecorderSink(
            PacketRecorder(recorder, [RowFilter.parse(slower_than="0ns")]), recorder, pytest.fail
        ),
        MetricsSink(metrics),
        ViewSink(windows, view, (), watch),
    ]
    states = run(name, at_once, sinks, kept)
    assert states.in_flight == run(name, at_once, [], None).in_flight
    at_end = states.in_flight[-1].requests
    assert f"in flight {at_end}" in terminal.drawn
    assert not searches or view.findings is not None
    exposed = generate_latest(metrics.registry).decode()
    assert f"kanalyze_in_flight_requests {float(at_end)}" in exposed


def packets_of(name: str) -> int:
    with MergedCaptures(find_inputs([str(path(name))])) as captures:
        return sum(map(len, captures.batches()))


@pytest.mark.parametrize("name", often([*WHOLE, *TROUBLED], CUT_BY_DEFAULT))
def test_captures_that_stop_anywhere_have_requests_in_flight(name, tmp_path):
    searches = name == "fault-rebalances"  # a search takes longer than all else
    check(name, packets_of(name) // _CUTS + 1, tmp_path, searches=searches)


@pytest.mark.long
@pytest.mark.parametrize("name", [*WHOLE, *TROUBLED])
def test_captures_that_stop_after_each_packet_have_requests_in_flight(name, tmp_path):
    check(name, 1, tmp_path, searches=False)


def test_a_join_that_waits_for_other_members_is_in_flight_and_not_listed():
    """93 packets into this capture, a JoinGroup waits."""
    during = run("fault-rebalances", 93, [], kept_rows()).in_flight[1]
    assert during.requests > 0
    assert "JoinGroup" not in [request.api_name for request in during.oldest]
