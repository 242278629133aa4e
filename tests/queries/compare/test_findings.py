"""A finding is new if the other side was searched for it, and has none about the same."""

from __future__ import annotations

from typing import Any

import pytest

import kanalyze
from kanalyze.errors import UsageError
from kanalyze.queries.compare.findings import SideFindings, only_in
from kanalyze.queries.compare.sides import side_of_report
from kanalyze.queries.findings import MAX_OF_A_KIND
from tests.support.captures import path

UUID = "0b5c9a3e-52a5-4b1b-8f0a-9d8a4f0c1e2d"


def found(name: str, cause: int | None = None, **concerns: str) -> dict[str, Any]:
    return {
        "name": name,
        "concerns": concerns,
        "cause": None if cause is None else {"name": "cause", "number": cause},
    }


def test_a_finding_about_the_same_is_not_new_whatever_its_figures_and_addresses_are() -> None:
    a = found("late", client_id=f"app-{UUID}", client_ip="10.0.0.1", topic="orders")
    b = {**a, "concerns": {**a["concerns"], "client_id": f"app-{UUID[::-1]}", "client_ip": "::1"}}
    b["concerns"]["client_id"] = f"app-{UUID.replace('0', '1')}"
    other = found("late", client_id="app", topic="clicks")
    assert only_in(SideFindings([b, other]), SideFindings([a])) == [other]
    unnamed = [found("late", client_ip=address) for address in ("10.0.0.1", "10.0.0.2")]
    assert only_in(SideFindings(unnamed), SideFindings(unnamed[:1])) == unnamed[1:]


def test_effects_keep_their_cause_only_if_it_is_new_too() -> None:
    known, cause = found("known"), found("cause")
    of_known, of_new = found("effect", 1, topic="a"), found("effect", 3, topic="b")
    present = SideFindings([known, of_known, cause, of_new])
    assert only_in(present, SideFindings([known])) == [
        {**of_known, "cause": None},
        cause,
        {**of_new, "cause": {"name": "cause", "number": 2}},
    ]


def test_nothing_is_new_where_it_was_not_searched_for() -> None:
    here = SideFindings([found("late", topic="a")])
    assert only_in(here, SideFindings([], ["late"])) == []
    assert only_in(here, None) == only_in(None, here) == []
    full = SideFindings([found("late", topic=str(number)) for number in range(MAX_OF_A_KIND)])
    assert only_in(here, full) == []
    assert only_in(here, SideFindings(full.findings[1:])) == here.findings


def test_captures_and_their_reports_have_the_same_new_findings() -> None:
    before, after = path("basics"), path("fault-throttled")
    comparison = kanalyze.compare(before, after)
    report = kanalyze.report(after)
    assert report["findings"]
    assert comparison["new_findings"] == report["findings"]
    assert comparison["gone_findings"] == kanalyze.report(before)["findings"] == []
    assert kanalyze.compare(kanalyze.report(before), report)["new_findings"] == report["findings"]
    back = kanalyze.compare(report, before)
    assert (back["gone_findings"], back["new_findings"]) == (report["findings"], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"findings": {}},
        {"findings": [1]},
        {"findings": [{"name": 1}]},
        {"findings": [{"concerns": []}]},
        {"findings": [{"concerns": {"topic": 1}}]},
        {"findings": [{"first_time_ns": "now"}]},
        {"findings": [{"cause": 2}]},
        {"findings_left_out": 1},
    ],
    ids=str,
)
def test_findings_of_the_wrong_type_are_refused(changes: dict[str, Any]) -> None:
    report = {"schema": 1, "capture": {}, "apis": [], "findings": [], **changes}
    with pytest.raises(
        UsageError, match=r"^A: not a kanalyze report: .* (wrong value|no table|not a table)"
    ):
        side_of_report("A", report)


def test_a_report_of_a_kanalyze_without_findings_has_none_to_compare() -> None:
    assert side_of_report("A", {"schema": 1, "capture": {}, "apis": []}).findings is None
