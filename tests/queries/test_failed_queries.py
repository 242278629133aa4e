"""A query that fails costs what it would have answered: one line names it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

import kanalyze
from kanalyze.cli.main import main
from kanalyze.queries.compare.comparison import Thresholds, compare_sides
from kanalyze.queries.compare.sides import checked_report, side_of_report
from kanalyze.queries.engine import FailedQueries, QueryError
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import finding_kinds
from kanalyze.queries.page import cube_of
from kanalyze.queries.report import report_with_findings
from kanalyze.render.html import html_page, plain_page
from kanalyze.render.report_markdown import report_markdown
from kanalyze.render.terminal import report_lines
from kanalyze.tables.quality import CaptureQuality
from tests.support import rows as made
from tests.support.captures import path
from tests.support.filled import filled
from tools.json_schema import SCHEMAS

if TYPE_CHECKING:
    from pathlib import Path

BASICS = str(path("basics"))
REASON = "Invalid Input Error: no luck"


def fail(monkeypatch: pytest.MonkeyPatch, kind: str, name: str, sql: str = "") -> None:
    """Let a query fail while it runs."""
    query = built_in(kind)[name]
    text = sql or "SELECT error('no luck') AS what, 1 AS weight FROM requests"
    used = "".join(f" AND ${parameter} IS NOT NULL" for parameter in query.parameters)
    lines = query.description.splitlines()
    always = "\n".join(line for line in lines if not line.startswith("only if "))
    sql = f"{text} WHERE true{used}"
    monkeypatch.setitem(built_in(kind), name, query._replace(sql=sql, description=always))


def report_and_page() -> tuple[dict[str, Any], str]:
    """Return the report on usual rows, and its page."""
    failed = FailedQueries()
    with filled({"requests": made.plain_traffic(40)}) as database:
        report = report_with_findings(database, CaptureQuality(), None, finding_kinds())
        cube = cube_of(database, report, failed)
        failed.add_to(report)
        left = database.ask("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'")
    assert not [table for table in left["table_name"].to_pylist() if table.startswith("page_")]
    return report, plain_page(report) if cube is None else html_page(report, cube)


QUERIES = [(kind, name) for kind in ("report", "findings", "page") for name in built_in(kind)]
OFTEN = [
    *(("report", name) for name in ("totals", "apis", "throughput", "slowest")),
    *(("page", name) for name in ("clients", "requests", "cells", "slowest", "failures")),
    ("findings", "throttled"),
]
WORDS = {"report": "table", "findings": "finding", "page": "page"}
LOST = {"report": "not made", "findings": "not searched", "page": "not made"}
OF_SEVERAL = {"time_buckets": {"throughput", "latency"}}


@pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param(*query, marks=() if query in OFTEN else pytest.mark.long) for query in QUERIES],
)
def test_a_query_that_fails_costs_what_it_would_have_answered(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, kind, name)
    report, page = report_and_page()
    assert report["failed_queries"] == [{"kind": WORDS[kind], "name": name, "reason": REASON}]
    errors = Draft202012Validator(SCHEMAS["report"]).iter_errors({**report, "kanalyze_version": ""})
    assert [error.message for error in errors] == []
    line = f"WARNING: {WORDS[kind]} {name}: {LOST[kind]}, {REASON}"
    text = "\n".join(line.plain for line in report_lines(report, 500))
    for shown in (text, report_markdown(report).replace("\\", ""), page.replace("&#x27;", "'")):
        assert shown.count(line) == 1, shown
    # All other tables are there.
    nulls = {key for key, value in report.items() if value is None}
    assert len(nulls) == (0 if kind != "report" else len(OF_SEVERAL.get(name, {name})))
    has_clients = kind != "report" or name not in ("clients", "client_identities")
    assert ("Busiest clients" in text) is has_clients


def test_without_a_finding_that_failed_nothing_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, "findings", "throttled")
    report, page = report_and_page()
    report["findings"] = []
    assert "Nothing wrong was found" not in page
    text = "\n".join(line.plain for line in report_lines(report, 200))
    assert "Findings\nnone of those that were searched for\n" in text


def test_commands_end_well_though_a_query_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fail(
        monkeypatch,
        "findings",
        "throttled",
        "SELECT 2147483647::INTEGER + 1::INTEGER AS what, 1 AS weight",
    )
    line = "finding throttled: not searched, Out of Range Error: Overflow in addition of INT32"
    files = [tmp_path / name for name in ("r.html", "r.json", "r.md")]
    page, report, markdown = map(str, files)
    assert main(["report", BASICS, "--html", page, "--json", report]) == 0
    text = capsys.readouterr().out.replace("\n", " ")
    assert main(["report", BASICS, "-o", markdown]) == 0
    for shown in (text, *(file.read_text() for file in files)):
        assert shown.count("Overflow in addition of INT32") == 1
    assert line in text
    [failed] = json.loads(files[1].read_text())["failed_queries"]
    assert (failed["kind"], failed["name"]) == ("finding", "throttled")
    assert kanalyze.report(BASICS)["failed_queries"] == [failed]
    # Without its finding there is nothing to extract.
    assert main(["extract", BASICS, "--finding", "throttled", "-o", str(tmp_path / "x.pcap")]) == 2
    assert "query 'throttled': Out of Range Error" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "lost"), [("names", "new"), ("cells", "slower")])
def test_a_comparison_goes_on_without_a_query(
    name: str,
    lost: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail(monkeypatch, "compare", name)
    assert main(["compare", BASICS, str(path("errors"))]) == 0
    text = capsys.readouterr().out.replace("\n", " ")
    assert f"comparison {name}: not compared, {REASON}" in text
    comparison = kanalyze.compare(BASICS, path("errors"))
    assert comparison[lost] == []
    assert {line["name"] for line in comparison["failed_queries"]} == {name}
    errors = Draft202012Validator(SCHEMAS["compare"]).iter_errors(
        {**comparison, "kanalyze_version": ""}
    )
    assert [error.message for error in errors] == []


def test_a_report_with_null_for_a_table_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = report_and_page()
    for name in ("apis", "clients", "totals"):
        with monkeypatch.context() as patch:
            fail(patch, "report", name)
            report, _ = report_and_page()
        sides = [side_of_report("x", checked_report("x", each)) for each in (report, whole)]
        comparison = compare_sides(sides[0], sides[1], Thresholds())
        assert [each for each in comparison["new"] if each["kind"] == "client"] == []


def test_a_query_without_enough_memory_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    large = "SELECT length(list(i)::VARCHAR) AS what, 1 AS weight FROM range(20000000) r(i)"
    fail(monkeypatch, "findings", "throttled", large)
    report, _ = report_and_page()
    [failed] = report["failed_queries"]
    assert failed["name"] == "throttled"
    assert "memory" in failed["reason"].lower()
    assert report["totals"]["requests"] == 40


def test_an_error_has_the_name_of_its_query_and_a_reason_without_it() -> None:
    error = QueryError("no luck", "throttled")
    assert (str(error), error.reason) == ("query 'throttled': no luck", "no luck")
    assert (str(QueryError("no luck")), QueryError("no luck").query) == ("no luck", None)
