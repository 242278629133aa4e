"""A user's query may fail, never end or return anything: the other queries still run."""

from __future__ import annotations

import tracemalloc

import pytest

from kanalyze.errors import KanalyzeError
from kanalyze.live.kept_rows import FindingSearch, KeptRows, database_of
from kanalyze.queries.files import Query
from kanalyze.queries.findings import MAX_OF_A_KIND, FindingKind, kind_of_finding
from kanalyze.runtime.table_rows import TableRows
from kanalyze.tables.columns.block import RowBlock
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import kinds_of
from tests.support.rows import row
from tests.support.waiting import LONG_S

MEMORY_BYTES = 128 << 20
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
