"""Kept rows equal the added rows; queries give the same results as for the whole capture.

A user's query may fail, never end or return anything: the other queries still run. When searches
for findings begin is tested with fake clocks and executors.
"""

from __future__ import annotations

import tracemalloc
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.api.tables import fill
from kanalyze.common.times import format_time
from kanalyze.errors import KanalyzeError
from kanalyze.live import kept_rows as module
from kanalyze.live.kept_rows import (
    SHARE,
    FindingSearch,
    FindingsWatch,
    KeptRows,
    _lag_in,
    ask,
    database_of,
)
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.queries.database import Database
from kanalyze.queries.files import Query
from kanalyze.queries.findings import MAX_OF_A_KIND, FindingKind, kind_of_finding
from kanalyze.queries.named_findings import with_commands
from kanalyze.queries.report import report_of
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.table_rows import TableRows
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality, quality_facts
from tests.support.captures import NAMES, often, path
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import findings_in, kinds_of
from tests.support.rows import START_NS, orphan, row
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SECOND_NS = 1_000_000_000
MEMORY_BYTES = 256 << 20
HOUR_NS = 3600 * SECOND_NS


def kept_rows(*kinds: str, **limits: int) -> KeptRows:
    search = FindingSearch(kinds_of(*(kinds or FEW_FINDINGS)), pytest.fail)
    return KeptRows(search, **limits)


def kept_of(analysis: Analysis) -> KeptRows:
    kept = KeptRows(FindingSearch(kinds_of(), pytest.fail))
    for rows in analysis.table_rows(kept.tables_of_requests):
        kept.add(rows)
    return kept


FAULT = "fault-too-large"


@pytest.mark.parametrize("name", often([*NAMES, FAULT], ["groups", FAULT]))
def test_report_and_findings_are_those_of_the_capture(name):
    with Database(max_memory_bytes=MEMORY_BYTES, threads=1) as database:
        analysis = Analysis([str(path(name))])
        fill(database, analysis, kept_rows().tables_of_requests)
        report = report_of(database, analysis.quality)
    findings = findings_in(name)
    second_analysis = Analysis([str(path(name))])
    kept = kept_of(second_analysis)
    all_rows = kept.latest(1 << 62, 1 << 62)
    facts = list(quality_facts(second_analysis.quality))
    assert list(ask(kept.search, all_rows, 0, facts)[0].findings) == findings
    assert all_rows.requests == report["totals"]["rows"]
    live_report = kept.report(second_analysis.quality, {})
    shown = with_commands(findings, kept.search.kinds, {})
    assert live_report.pop("findings") == [finding.to_dict() for finding in shown]
    assert live_report == report


def test_metrics_that_clients_push_are_kept_with_their_requests():
    capture = str(path("telemetry"))
    lines = "SELECT client_metrics.* EXCLUDE request_id, requests.request_packet"
    query = f"{lines} FROM client_metrics JOIN requests USING (request_id) ORDER BY ALL"
    batches = kept_of(Analysis([capture])).latest(1 << 62, 1 << 62).batches
    with database_of(batches, [], MEMORY_BYTES) as database:
        found = database.ask(query)
    assert found == kanalyze.sql(capture, query)
    assert found.num_rows == 89


def seconds_of_rows(first: int, end: int) -> TableRows:
    """Return rows of requests that begin one second apart."""
    rows = [
        row(
            request_packet=number,
            request_start_ns=START_NS + number * SECOND_NS,
            response_start_ns=START_NS + number * SECOND_NS + 5,
        )
        for number in range(first, end)
    ]
    return TableRows([RowBlock.of_rows(rows)], [], [])


def packets_in(kept: KeptRows, span_ns: int, most_requests: int = 1 << 62) -> list[int]:
    latest = kept.latest(span_ns, most_requests)
    with database_of(latest.batches, (), MEMORY_BYTES) as database:
        answer = database.ask("SELECT request_packet FROM requests ORDER BY request_id")
    numbers = answer.column(0).to_pylist()
    assert latest.requests == len(numbers)
    if numbers:
        assert latest.first_ns == START_NS + numbers[0] * SECOND_NS
        assert latest.last_ns == START_NS + numbers[-1] * SECOND_NS
    return numbers


def test_the_latest_rows_are_limited_by_time_and_by_number():
    kept = kept_rows()
    for minute in range(10):
        kept.add(seconds_of_rows(minute * 60, minute * 60 + 60))
    assert packets_in(kept, HOUR_NS) == list(range(600))
    last_minutes = packets_in(kept, 120 * SECOND_NS)
    # Rows are dropped in blocks of a minute or two.
    assert last_minutes == list(range(last_minutes[0], 600))
    assert 360 <= last_minutes[0] <= 480
    last_rows = packets_in(kept, HOUR_NS, most_requests=200)
    assert last_rows == list(range(last_rows[0], 600))
    assert 60 <= len(last_rows) <= 200


@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [{"most_requests": 250}, {"most_bytes": 60_000}])
def test_the_report_says_since_when_rows_are_kept(limit):
    kept = kept_rows(**limit)
    for minute in range(20):
        kept.add(seconds_of_rows(minute * 60, minute * 60 + 60))
    numbers = packets_in(kept, 24 * HOUR_NS)
    assert 0 < len(numbers) < 600
    assert numbers[-1] == 1199
    report = kept.report(CaptureQuality(), {"host": ["10.0.0.1"]})
    since_ns = kept.since_ns
    assert report["filter"] == {"host": ["10.0.0.1"], "since": format_time(since_ns)}
    reported = [number for number in numbers if START_NS + number * SECOND_NS >= since_ns]
    assert report["totals"]["requests"] == len(reported) == 1200 - reported[0]


def test_a_report_has_no_requests_from_before_the_kept_rows(monkeypatch):
    """A request from before that time may be answered later."""
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 100)
    kept = kept_rows(most_requests=100)
    kept.add(seconds_of_rows(0, 100))
    late = row(request_start_ns=START_NS + SECOND_NS, response_start_ns=START_NS + 200 * SECOND_NS)
    kept.add(TableRows([RowBlock.of_rows([late, orphan()])], [], []))
    kept.add(seconds_of_rows(300, 301))
    report = kept.report(CaptureQuality(), {})
    assert report["totals"]["rows"] == 1
    assert report["filter"] == {"since": format_time(START_NS + 99 * SECOND_NS + 1)}


GROUP_LINES = """
    SELECT requests.request_packet, groups.request_packet, groups.event, groups.partition
    FROM groups
    LEFT JOIN requests ON groups.request_id = requests.request_id
"""


def pieces(rows: TableRows, count: int) -> Iterator[TableRows]:
    """Yield the same rows in smaller blocks, as they come from an interface."""
    for block in rows.requests:
        for first in range(0, len(block), count):
            last = min(first + count, len(block))
            lines = []
            for table, all_lines in rows.lines:
                ids = all_lines.columns["request_id"].values
                positions = [at for at, number in enumerate(ids) if first < number <= last]
                if positions:
                    lines.append((table, all_lines.take(positions)))
            yield TableRows([block.part(first, last)], [], [], lines=lines)


def test_lines_belong_to_their_requests_after_the_oldest_are_dropped(monkeypatch):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 20)
    answers = []
    for most_requests in (1 << 30, 60):
        kept = kept_rows(most_requests=most_requests)
        for rows in Analysis([str(path("groups"))]).table_rows(kept.tables_of_requests):
            for piece in pieces(rows, 15):
                kept.add(piece)
        since_ns = kept.since_ns
        with database_of(
            kept.latest(HOUR_NS, 1 << 30).batches, (), MEMORY_BYTES, since_ns
        ) as database:
            answers.append(database.values(GROUP_LINES, {}))
    all_lines, kept_lines = answers
    assert [line[0] for line in all_lines] == [line[1] for line in all_lines] != []
    assert 0 < len(kept_lines) < len(all_lines)
    assert kept_lines == all_lines[-len(kept_lines) :]


def test_findings_include_open_connections(tmp_path):
    """The capture ends early: a connection only gets its row when it closes."""
    data = path("fault-heartbeats").read_bytes()
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(data[: len(data) * 19 // 20])
    analysis, kept = Analysis([str(cut)]), kept_rows()
    kept.open_connections = analysis.open_connections
    names = []
    for rows in analysis.table_rows(kept.tables_of_requests):
        kept.add(rows)
        if rows.requests and analysis.monitor.open_connections:
            latest = kept.latest(HOUR_NS, 1000)
            names += [finding.name for finding in ask(kept.search, latest, 0)[0].findings]
            break
    assert "late_heartbeats" in names


ENDLESS = "SELECT 'x' AS what, count(*) AS weight FROM range(1e9::BIGINT) a, range(1e9::BIGINT) b"
FAILING = {
    "binder": "FROM no_such_table",
    "row": "SELECT CAST(client_id AS INTEGER) AS what FROM requests",
    "no weight": "SELECT 'x' AS what",
    "null": "SELECT NULL AS what, 1 AS weight",
    "numbers": "SELECT 1 AS what, 2 AS weight",
    "texts": "SELECT 'x' AS what, 'y' AS weight",
    "times": "SELECT 'x' AS what, 1 AS weight, 'now' AS last_time_ns",
}


def kind(name: str, sql: str, more_lines: str = "") -> FindingKind:
    head = f"severity: 99\nsure: no.\nwhy: so.\nrepair: none.\n{more_lines}"
    return kind_of_finding(Query(name, "Of a user.", head, (), sql))


def batches():
    kept = KeptRows(FindingSearch((), pytest.fail))
    throttled = [row(client_id="billing", throttle_time_ms=100)]
    kept.add(TableRows([RowBlock.of_rows(throttled)], [], []))
    return kept.latest(1 << 62, 10).batches


class Search:
    """A search in one throttled request, and the lines that it has reported."""

    def __init__(self, *kinds: FindingKind) -> None:
        self.lines: list[str] = []
        others = kinds_of("throttled", *FEW_FINDINGS)
        self._search = FindingSearch([*kinds, *others], self.lines.append)
        self._parts = batches()

    def search(self, longest_s: float = LONG_S):
        findings, left_out = self._search.search(
            lambda: database_of(self._parts, (), MEMORY_BYTES), longest_s
        )
        return [finding.name for finding in findings], left_out


@pytest.mark.few(2)
@pytest.mark.parametrize("problem", FAILING)
def test_a_query_that_fails_is_left_out_and_reported_once(problem):
    search = Search(kind("mine", FAILING[problem]))
    for _ in range(2):
        names, left_out = search.search()
        assert names == ["throttled"]
        assert list(left_out) == ["mine"]
    assert search.lines == [f"finding 'mine' is left out: {left_out['mine']}"]
    assert "\n" not in search.lines[0]


def test_a_query_that_never_ends_is_interrupted_and_not_run_again():
    search = Search(kind("slow", ENDLESS))
    names, left_out = search.search(longest_s=0.2)
    assert left_out["slow"] == "its query takes longer than 0.2 s"
    # With so short a limit, other queries may be interrupted too.
    for _ in range(2):
        names, left_out = search.search()
        assert "slow" not in names
        assert left_out["slow"] == "its query takes longer than 0.2 s"
    assert sum("'slow'" in line for line in search.lines) == 1


def test_a_query_over_tables_that_live_does_not_make_is_left_out():
    search = Search(kind("mine", "FROM records", "tables: records groups\n"))
    reason = "live does not make the table records"
    assert search.search() == (["throttled"], {"mine": reason})
    assert search.lines == [f"finding 'mine' is left out: {reason}"]


def test_a_query_of_a_user_is_run_with_the_built_in_queries():
    sql = "SELECT client_id, 'it is here' AS what, 1 AS weight FROM requests"
    assert Search(kind("mine", sql)).search() == (["mine", "throttled"], {})


def test_without_space_for_a_database_all_findings_are_left_out():
    lines: list[str] = []
    search = FindingSearch(kinds_of("throttled", "too_large"), lines.append)

    def make():
        raise KanalyzeError("no space left on device")

    reasons = dict.fromkeys(("throttled", "too_large"), "no space left on device")
    for _ in range(2):
        assert search.search(make, LONG_S) == ([], reasons)
    assert len(lines) == 2


def test_only_the_first_lines_of_a_huge_answer_are_fetched():
    sql = "SELECT 'x' || i AS what, i AS weight FROM range(3000000) t(i)"
    tracemalloc.start()
    try:
        names, left_out = Search(kind("mine", sql)).search()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert names.count("mine") == MAX_OF_A_KIND
    assert left_out == {}
    # All lines would take some 600 MB.
    assert peak_bytes < 50 << 20


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
        self.future.set_result((self.begun[-1]()[0], duration_ns))

    def shutdown(self) -> None:
        self.is_over = True


SEARCHED = ("throttled", "capture_lost_packets")


def throttled(count: int) -> TableRows:
    requests = [
        row(client_id="billing", throttle_time_ms=100, request_start_ns=START_NS + number)
        for number in range(count)
    ]
    return TableRows([RowBlock.of_rows(requests)], [], [])


def started() -> tuple[FindingsWatch, Executor, KeptRows]:
    kept, executor = kept_rows(*SEARCHED), Executor()
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
    executor.end()
    tick_at(watch, 21)
    assert watch.latest is not None
    lost = [finding for finding in watch.latest.findings if finding.name == "capture_lost_packets"]
    assert [finding.what for finding in lost] == ["10 packets dropped by the capturing program"]
    watch.close()
    assert executor.is_over


def test_unexpected_exceptions_are_raised():
    watch, executor, _ = started()
    tick_at(watch, 2)
    executor.future.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        tick_at(watch, 3)


def test_a_background_thread_finds_the_same():
    kept = kept_rows(*SEARCHED)
    kept.add(throttled(4))
    watch = FindingsWatch(kept)
    watch.tick(STATE, START_NS, 0)
    watch.tick(STATE, START_NS, 2 * SECOND_NS)
    watch.close()
    watch.tick(STATE, START_NS, 3 * SECOND_NS)
    assert watch.latest is not None
    assert (
        watch.latest.findings == ask(kept.search, kept.latest(SECOND_NS, 10), 0)[0].findings != ()
    )


def test_a_search_tells_the_lag_of_groups():
    kept, capture = KeptRows(FindingSearch((), pytest.fail)), str(path("fault-lag"))
    for rows in Analysis([capture]).table_rows(kept.tables_of_requests):
        kept.add(rows)
    (expected,) = kanalyze.report(capture)["lag"]
    (lag,) = ask(kept.search, kept.latest(1 << 62, 1 << 30), 0)[0].lag
    assert lag._asdict() == expected


def test_lag_is_not_known_if_its_query_fails():
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        assert _lag_in(database) is None
