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
from kanalyze.live.run import PacketRecorderSink, Sink
from kanalyze.live.view.tables import TABLES
from kanalyze.live.view.view import ViewController
from kanalyze.live.window.windows import Windows
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.filters import RowFilter
from tests.live.test_run import Clock, Feed, live_run, parts, with_silence
from tests.support.captures import TROUBLED, WHOLE, key_log, often, path
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kanalyze.live.window.snapshot import CaptureState, LatestFindings
    from kanalyze.runtime.monitor import InFlight

SECOND_NS = 1_000_000_000
_SILENCE_NS = 3 * SECOND_NS
"""Longer than the time between two looks at what is in flight, and than most long polls."""
_CUTS = 12
CUT_BY_DEFAULT = ("basics", "fault-rebalances", "next-groups", "old-0-8-2-2", "transactions")


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


class States(Sink):
    """A sink that notes what was in flight at each tick."""

    def __init__(self) -> None:
        self.in_flight: list[InFlight] = []
        self.findings: LatestFindings | None = None

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        assert state.in_flight is not None
        self.in_flight.append(state.in_flight)
        self.findings = state.findings
        return True


class AtOnce(Executor):
    """Runs each task when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **named))
        return future


def run(
    name: str,
    at_once: int,
    sinks: list[Any],
    kept: KeptRows | None,
    watch: FindingsWatch | None = None,
) -> States:
    """Run over a capture, some packets at a time, with seconds of silence after each."""
    clock, states = Clock(), States()
    feed = Feed(with_silence(parts(name, at_once)), clock, _SILENCE_NS)
    live = live_run(feed, [*sinks, states], clock, kept=kept, watch=watch)
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
        metrics,
        view,
    ]
    states = run(name, at_once, sinks, kept, watch)
    assert states.in_flight == run(name, at_once, [], None).in_flight
    at_end = states.in_flight[-1].requests
    assert f"in flight {at_end}" in terminal.drawn
    assert not searches or states.findings is not None
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
