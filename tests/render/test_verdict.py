from __future__ import annotations

from typing import Any

import pytest

from kanalyze.common.zones import zone_of
from kanalyze.render.verdict import verdict_of

REFUSED = {
    "name": "too_large",
    "title": "Records that are too large",
    "severity": 84,
    "sure": "certain: the broker says so.",
    "concerns": {"client_id": "a", "topic": "orders"},
    "first_time_ns": 1_790_000_005 * 10**9,
    "last_time_ns": 1_790_000_059 * 10**9,
    "cause": None,
}
CAPTURE = {"first_time_ns": 1_790_000_000 * 10**9, "last_time_ns": 1_790_000_060 * 10**9}


def verdict(*findings: dict[str, Any], **more: Any) -> tuple[str, str]:
    totals = {"rows": 1200, "requests": 1200}
    report = {"findings": list(findings), "capture": CAPTURE, "totals": totals, **more}
    return tuple(verdict_of(report))


def test_a_verdict_says_what_since_when_and_whom() -> None:
    earlier = {**REFUSED, "concerns": {"client_id": "b"}, "first_time_ns": 1_790_000_001 * 10**9}
    text, level = verdict(REFUSED, earlier)
    assert text == "Records that are too large, since 14:13:21.000, client a, b, topic orders"
    assert level == "bad"


def test_a_verdict_names_effects_and_counts_others() -> None:
    effect = {**REFUSED, "name": "storm", "title": "Storms", "cause": {"number": 1}}
    other = {**REFUSED, "name": "other"}
    of_other = {**REFUSED, "name": "lag", "title": "Lag", "cause": {"number": 3}}
    text, _ = verdict(REFUSED, effect, other, of_other)
    assert text.endswith("topic orders; it led to: Storms; also: Records that are too large")
    more = [{**REFUSED, "name": name, "title": name} for name in ("b", "c", "d", "e")]
    assert verdict(REFUSED, *more)[0].endswith("; also: b; c; and 2 other findings")


@pytest.mark.parametrize(
    ("last_s", "when"),
    [
        (None, "since 14:13:25.000"),
        (5, "at 14:13:25.000"),
        (57, "since 14:13:25.000 until 14:14:17.000"),
        (58.5, "since 14:13:25.000"),
        (60, "since 14:13:25.000"),
    ],
)
def test_a_fault_that_is_over_has_an_end(last_s: float | None, when: str) -> None:
    last_ns = None if last_s is None else int((1_790_000_000 + last_s) * 10**9)
    text, _ = verdict({**REFUSED, "last_time_ns": last_ns})
    assert text == f"Records that are too large, {when}, client a, topic orders"


def test_effects_of_any_finding_of_the_kind_are_named() -> None:
    effect = {**REFUSED, "name": "storm", "title": "Storms", "cause": {"number": 2}}
    assert verdict(REFUSED, REFUSED, effect)[0].endswith("; it led to: Storms")


def test_a_doubtful_finding_is_said_to_be_so_and_a_harmless_one_is_a_warning() -> None:
    text, level = verdict({**REFUSED, "sure": "likely: a guess.", "severity": 15})
    assert text.startswith("Records that are too large (likely), since")
    assert level == "warning"


@pytest.mark.parametrize(
    ("more", "text", "level"),
    [
        ({}, "nothing wrong was found in 1,200 requests", "good"),
        ({"totals": {"rows": 0}}, "nothing can be said: no Kafka requests were found", "unknown"),
        ({"totals": None}, "nothing was found, but queries failed: see the warnings", "unknown"),
        (
            {"failed_queries": [{"kind": "finding", "name": "x"}]},
            "nothing was found, but queries failed: see the warnings",
            "unknown",
        ),
    ],
)
def test_without_findings(more: dict[str, Any], text: str, level: str) -> None:
    assert verdict(**more) == (text, level)


def test_names_are_escaped() -> None:
    assert "\x1b" not in verdict({**REFUSED, "concerns": {"topic": "\x1b[2J"}})[0]


def test_times_have_a_date_where_the_capture_spans_days_of_the_zone() -> None:
    report = {"findings": [REFUSED], "capture": CAPTURE, "totals": None}
    assert ", since 23:13:25.000, " in verdict_of(report, zone_of("Asia/Tokyo")).text
    longer = {**CAPTURE, "last_time_ns": 1_790_000_000 * 10**9 + 3600 * 10**9}
    text = verdict_of({**report, "capture": longer}, zone_of("Asia/Tokyo")).text
    assert ", since 09-21 23:13:25 until 09-21 23:14:19, " in text
    assert ", since 14:13:25.000 until 14:14:19.000, " in (
        verdict_of({**report, "capture": longer}).text
    )
