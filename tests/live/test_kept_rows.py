"""Kept rows equal the added rows. Queries give the same results as for the whole capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.api.tables import fill
from kanalyze.common.times import format_time
from kanalyze.live import kept_rows as module
from kanalyze.live.kept_rows import FindingSearch, KeptRows, ask, database_of
from kanalyze.queries.database import Database
from kanalyze.queries.report import report_of
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.table_rows import TableRows
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.quality_facts import quality_facts
from tests.support.captures import NAMES, often, path
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import findings_in, kinds_of
from tests.support.rows import START_NS, orphan, row

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND_NS = 1_000_000_000
MEMORY_BYTES = 256 << 20
HOUR_NS = 3600 * SECOND_NS


def kept_rows(**limits: int) -> KeptRows:
    return KeptRows(FindingSearch(kinds_of(*FEW_FINDINGS), pytest.fail), **limits)


def kept_of(analysis: Analysis) -> KeptRows:
    kept = KeptRows(FindingSearch(kinds_of(), pytest.fail))
    for rows in analysis.table_rows(kept.tables_of_requests):
        kept.add(rows)
    return kept


DEFAULT_NAMES = ("groups", "fault-too-large", "fault-lag")


@pytest.mark.parametrize("name", often(NAMES, DEFAULT_NAMES))
def test_report_and_findings_are_those_of_the_capture(name):
    with Database(max_memory_bytes=MEMORY_BYTES, threads=1) as database:
        analysis = Analysis([str(path(name))])
        fill(database, analysis)
        report = report_of(database, analysis.quality)
    findings = findings_in(name)
    second_analysis = Analysis([str(path(name))])
    kept = kept_of(second_analysis)
    all_rows = kept.latest(1 << 62, 1 << 62)
    facts = list(quality_facts(second_analysis.quality))
    assert list(ask(kept.search, all_rows, facts).findings) == findings
    assert all_rows.requests == report["totals"]["rows"]
    live_report = kept.report(second_analysis.quality, {})
    assert live_report.pop("findings") == [finding.to_dict() for finding in findings]
    assert live_report == report


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


def test_there_are_no_findings_without_rows():
    assert kept_rows().latest(HOUR_NS, 10) == ((), 0, 0, 0)
    assert ask(kept_rows().search, kept_rows().latest(HOUR_NS, 10)).findings == ()


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


def test_below_the_limits_a_report_covers_all_rows(monkeypatch):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    kept = kept_rows()
    for first in range(0, 40, 4):
        kept.add(seconds_of_rows(first, first + 4))
    assert packets_in(kept, HOUR_NS) == list(range(40))
    assert kept.report(CaptureQuality(), {})["filter"] == {}


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
            names += [finding.name for finding in ask(kept.search, latest).findings]
            break
    assert "late_heartbeats" in names
