"""The times of searches for findings, with fake clocks and executors."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.live.finding_search import FindingSearch
from kanalyze.live.findings_watch import SHARE, FindingsWatch, ask
from kanalyze.live.kept_rows import KeptRows
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.runtime.table_run import TableRows
from kanalyze.tables.columns.block import RowBlock
from tests.support.findings import kinds_of
from tests.support.rows import START_NS, row

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000
STATE = CaptureState("live:eth0", 10, 1000, 0, 1, SECOND)


class Executor:
    """A fake executor: a round ends when the test ends it."""

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
    made = [
        row(client_id="billing", throttle_time_ms=100, request_start_ns=START_NS + number)
        for number in range(count)
    ]
    return TableRows([RowBlock.of_rows(made)], [], [])


def kept_rows() -> KeptRows:
    return KeptRows(FindingSearch(kinds_of("throttled", "capture_lost_packets"), pytest.fail))


def begun() -> tuple[FindingsWatch, Executor, KeptRows]:
    kept, executor = kept_rows(), Executor()
    kept.add(throttled(3))
    watch = FindingsWatch(kept, executor)
    watch.tick(STATE, START_NS, 0)
    return watch, executor, kept


def at(watch: FindingsWatch, second: float, state: CaptureState = STATE) -> None:
    watch.tick(state, START_NS + round(second * SECOND), round(second * SECOND))


def test_a_search_begins_with_the_first_packets_and_its_findings_are_kept():
    watch, executor, _ = begun()
    at(watch, 2, STATE._replace(packets=0))
    assert (executor.begun, watch.latest) == ([], None)
    at(watch, 2.5)
    assert len(executor.begun) == 1
    at(watch, 3)
    assert watch.latest is None
    executor.end()
    at(watch, 3.5)
    latest = watch.latest
    assert latest is not None
    assert (latest.time_ns, latest.requests) == (START_NS + round(2.5 * SECOND), 3)
    (found,) = latest.findings
    assert (found.name, found.concerns) == ("throttled", {"client_id": "billing"})
    assert found.what == (
        "3 of 3 responses throttled, 300 ms in all, 100 ms at most; "
        "0 requests sent before the throttle time was over"
    )


def test_there_is_one_round_at_a_time():
    watch, executor, kept = begun()
    for second in range(2, 100):
        at(watch, second)
    assert len(executor.begun) == 1
    executor.end()
    at(watch, 100)
    kept.add(throttled(2))
    for second in (104, 106):
        at(watch, second)
    assert len(executor.begun) == 2
    executor.end()
    at(watch, 107)
    assert watch.latest is not None
    assert watch.latest.requests == 5


def test_searches_take_no_more_than_their_share_of_time():
    watch, executor, _ = begun()
    at(watch, 2)
    executor.end(duration_ns=3 * SECOND)
    at(watch, 5)
    at(watch, 5 + 3 * SHARE - 0.1)
    assert len(executor.begun) == 1
    at(watch, 5 + 3 * SHARE)
    assert len(executor.begun) == 2


def test_no_search_begins_while_packets_are_dropped():
    watch, executor, _ = begun()
    for second, dropped in ((2, 5), (8, 9), (14, 10)):
        at(watch, second, STATE._replace(dropped_packets=dropped))
    assert executor.begun == []
    at(watch, 20, STATE._replace(dropped_packets=10))
    assert len(executor.begun) == 1


def test_an_error_of_the_program_is_not_hidden():
    watch, executor, _ = begun()
    at(watch, 2)
    executor.future.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        at(watch, 3)


def test_dropped_packets_are_a_finding():
    watch, executor, _ = begun()
    for second in (2, 8):  # nothing is asked while the number rises
        at(watch, second, STATE._replace(dropped_packets=7))
    executor.end()
    at(watch, 9)
    assert watch.latest is not None
    lost = [each for each in watch.latest.findings if each.name == "capture_lost_packets"]
    assert [each.what for each in lost] == ["7 packets dropped by the capturing program"]


def test_the_end_waits_for_a_round():
    watch, executor, _ = begun()
    watch.close()
    assert executor.is_over


def test_a_thread_of_its_own_answers_the_same():
    kept = kept_rows()
    kept.add(throttled(4))
    watch = FindingsWatch(kept)
    watch.tick(STATE, START_NS, 0)
    watch.tick(STATE, START_NS, 2 * SECOND)
    watch.close()
    watch.tick(STATE, START_NS, 3 * SECOND)
    assert watch.latest is not None
    assert watch.latest.findings == ask(kept.search, kept.latest(SECOND, 10)).findings != ()
