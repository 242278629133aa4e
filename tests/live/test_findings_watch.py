"""When searches for findings begin, with fake clocks and executors."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.live.kept_rows import SHARE, FindingSearch, FindingsWatch, KeptRows, ask
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.runtime.table_rows import TableRows
from kanalyze.tables.columns.block import RowBlock
from tests.support.findings import kinds_of
from tests.support.rows import START_NS, row

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND_NS = 1_000_000_000
STATE = CaptureState("live:eth0", 10, 1000, 0, 1, SECOND_NS)


class Executor:
    """A fake executor: a search ends when the test ends it."""

    def __init__(self) -> None:
        self.begun: list[Callable[[], Any]] = []
        self.future: Future[Any] = Future()
        self.is_over = False

    def submit(self, fn: Callable[[], Any], /) -> Future[Any]:
        self.begun.append(fn)
        self.future = Future()
        return self.future

    def end(self, duration_ns: int = 0) -> None:
        self.future.set_result(self.begun[-1]()._replace(duration_ns=duration_ns))

    def shutdown(self) -> None:
        self.is_over = True


def throttled(count: int) -> TableRows:
    requests = [
        row(client_id="billing", throttle_time_ms=100, request_start_ns=START_NS + number)
        for number in range(count)
    ]
    return TableRows([RowBlock.of_rows(requests)], [], [])


def kept_rows() -> KeptRows:
    return KeptRows(FindingSearch(kinds_of("throttled", "capture_lost_packets"), pytest.fail))


def started() -> tuple[FindingsWatch, Executor, KeptRows]:
    kept, executor = kept_rows(), Executor()
    kept.add(throttled(3))
    watch = FindingsWatch(kept, executor)
    watch.tick(STATE, START_NS, 0)
    return watch, executor, kept


def tick_at(watch: FindingsWatch, second: float, state: CaptureState = STATE) -> None:
    watch.tick(state, START_NS + round(second * SECOND_NS), round(second * SECOND_NS))


def test_the_first_packets_start_a_search_whose_findings_are_kept():
    watch, executor, _ = started()
    tick_at(watch, 2, STATE._replace(packets=0))
    assert (executor.begun, watch.latest) == ([], None)
    tick_at(watch, 2.5)
    assert len(executor.begun) == 1
    tick_at(watch, 3)
    assert watch.latest is None
    executor.end()
    tick_at(watch, 3.5)
    latest = watch.latest
    assert latest is not None
    assert (latest.time_ns, latest.requests) == (START_NS + round(2.5 * SECOND_NS), 3)
    (finding,) = latest.findings
    assert (finding.name, finding.concerns) == ("throttled", {"client_id": "billing"})
    assert finding.what == (
        "3 of 3 responses throttled, 300 ms in all, 100 ms at most; "
        "0 requests sent before the throttle time was over"
    )


def test_only_one_search_runs_at_a_time():
    watch, executor, kept = started()
    for second in range(2, 100):
        tick_at(watch, second)
    assert len(executor.begun) == 1
    executor.end()
    tick_at(watch, 100)
    kept.add(throttled(2))
    for second in (104, 106):
        tick_at(watch, second)
    assert len(executor.begun) == 2
    executor.end()
    tick_at(watch, 107)
    assert watch.latest is not None
    assert watch.latest.requests == 5


def test_searches_take_no_more_than_their_share_of_time():
    watch, executor, _ = started()
    tick_at(watch, 2)
    executor.end(duration_ns=3 * SECOND_NS)
    tick_at(watch, 5)
    tick_at(watch, 5 + 3 * SHARE - 0.1)
    assert len(executor.begun) == 1
    tick_at(watch, 5 + 3 * SHARE)
    assert len(executor.begun) == 2


def test_no_search_starts_while_packets_are_dropped():
    watch, executor, _ = started()
    for second, dropped in ((2, 5), (8, 9), (14, 10)):
        tick_at(watch, second, STATE._replace(dropped_packets=dropped))
    assert executor.begun == []
    tick_at(watch, 20, STATE._replace(dropped_packets=10))
    assert len(executor.begun) == 1


def test_unexpected_exceptions_are_raised():
    watch, executor, _ = started()
    tick_at(watch, 2)
    executor.future.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        tick_at(watch, 3)


def test_dropped_packets_are_a_finding():
    watch, executor, _ = started()
    for second in (2, 8):  # no search starts while the number rises
        tick_at(watch, second, STATE._replace(dropped_packets=7))
    executor.end()
    tick_at(watch, 9)
    assert watch.latest is not None
    lost = [finding for finding in watch.latest.findings if finding.name == "capture_lost_packets"]
    assert [finding.what for finding in lost] == ["7 packets dropped by the capturing program"]


def test_closing_shuts_the_executor_down():
    watch, executor, _ = started()
    watch.close()
    assert executor.is_over


def test_a_background_thread_finds_the_same():
    kept = kept_rows()
    kept.add(throttled(4))
    watch = FindingsWatch(kept)
    watch.tick(STATE, START_NS, 0)
    watch.tick(STATE, START_NS, 2 * SECOND_NS)
    watch.close()
    watch.tick(STATE, START_NS, 3 * SECOND_NS)
    assert watch.latest is not None
    assert watch.latest.findings == ask(kept.search, kept.latest(SECOND_NS, 10)).findings != ()
