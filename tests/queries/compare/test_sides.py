"""Reports are compared by their figures; any other JSON is refused in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.errors import UsageError
from kanalyze.queries.compare.comparison import Thresholds, compare_sides
from kanalyze.queries.compare.sides import is_report, parse_report, side_of_report
from tests.support.captures import ROOT, path

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = (ROOT / "reports" / "basics.json").read_bytes()
BASICS = json.loads(TEXT)


def copied() -> Any:
    return json.loads(TEXT)


def compared(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    return compare_sides(side_of_report("A", a), side_of_report("B", b), Thresholds())


def test_a_report_does_not_differ_from_itself() -> None:
    comparison = compared(BASICS, BASICS)
    names = ("slower", "faster", "fails_more", "fails_less", "new", "gone", "may_be_chance")
    assert [comparison[name] for name in names] == [[]] * 7
    assert not comparison["tested"]
    assert "no rows" in comparison["not_tested"]


def test_the_figures_of_a_report_are_compared() -> None:
    after = copied()
    produce = next(api for api in after["apis"] if api["api_name"] == "Produce")
    produce["latency_ns"] |= {"count": 10_000, "p50": 3_000_000, "p99": 90_000_000}
    produce["requests"] = 10_000
    produce["errors"] = 500
    before = copied()
    other = next(api for api in before["apis"] if api["api_name"] == "Produce")
    other["latency_ns"] |= {"count": 10_000, "p50": 3_000_000, "p99": 9_000_000}
    other["requests"] = 10_000
    other["errors"] = 0
    comparison = compared(before, after)
    [change] = comparison["slower"]
    assert (change["by"], change["api"], change["name"]) == ("api", "Produce", None)
    quantiles = [measure for measure in change["measures"] if measure["measure"] == "p99"]
    assert [(measure["a"], measure["b"], measure["ratio"]) for measure in quantiles] == [
        (9_000_000, 90_000_000, 10)
    ]
    assert quantiles[0]["chance"] is quantiles[0]["low"] is None
    [failing] = comparison["fails_more"]
    assert failing["measures"][0]["difference"] == pytest.approx(0.05, rel=0.1)


def test_the_names_of_a_report_match_the_rows() -> None:
    side = side_of_report("A", kanalyze.report(path("groups")))
    rows = list(kanalyze.requests(path("groups")))
    clients = {row.client_id for row in rows if row.client_id is not None}
    assert set(side.names["client"]) == clients
    assert set(side.names["group"]) == {row.group_id for row in rows} - {None}
    assert set(side.names["API"]) == {row.api_name for row in rows}
    versions = {f"{row.api_name} v{row.api_version}" for row in rows}
    assert set(side.names["API version"]) == versions


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"{}",
        b"[1]",
        b'{"schema": 2, "capture": {}, "apis": []}',
        b'{"schema": 1, "capture": 1, "apis": []}',
        b'{"a":' * 100_000,
        b"\xff{",
    ],
)
def test_a_text_that_is_no_report_is_refused_in_one_line(text: bytes) -> None:
    with pytest.raises(UsageError, match=r"^x\.json: not a (kanalyze )?report") as caught:
        parse_report("x.json", text)
    assert "\n" not in str(caught.value)


def break_requests(report: dict[str, Any]) -> None:
    report["apis"][0]["requests"] = "many"


def break_latency(report: dict[str, Any]) -> None:
    report["apis"][0]["latency_ns"] = [1, 2]


def break_line(report: dict[str, Any]) -> None:
    report["clients"] = [1]


def break_name(report: dict[str, Any]) -> None:
    report["topics"][0]["topic"] = {"a": 1}


def break_flag(report: dict[str, Any]) -> None:
    report["apis"][0]["errors"] = True


@pytest.mark.parametrize(
    "damage", [break_requests, break_latency, break_line, break_name, break_flag]
)
def test_a_report_with_a_value_of_another_type_is_refused_in_one_line(
    damage: Callable[[dict[str, Any]], None],
) -> None:
    report = copied()
    damage(report)
    with pytest.raises(UsageError, match=r"^A: not a kanalyze report: "):
        side_of_report("A", report)


def test_a_report_is_recognized_by_its_beginning() -> None:
    assert is_report(TEXT[:64])
    assert not is_report(path("basics").read_bytes()[:64])
