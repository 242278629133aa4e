"""A comparison reports the differences that were made up, and no others."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.errors import UsageError
from kanalyze.queries.compare.comparison import Thresholds
from tests.support.captures import often
from tests.support.rows import fetch, row
from tests.support.two_captures import compare_rows, traffic

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

JUDGED = ("slower", "faster", "fails_more", "fails_less")


@cache
def calm() -> list[Row]:
    """Rows without faults; cached, because making them takes as long as comparing them."""
    return traffic(1)


def subject_of(change: dict[str, Any]) -> tuple[str, str, str | None]:
    return change["by"], change["api"], change["name"]


def test_a_single_slower_client_is_listed_first() -> None:
    comparison = compare_rows(calm(), traffic(2, slow={("billing", "Produce"): 1.5}))
    assert subject_of(comparison["slower"][0]) == ("client", "Produce", "billing")
    [measure] = [each for each in comparison["slower"][0]["measures"] if each["measure"] == "p50"]
    assert measure["low"] < 1.5 < measure["high"]
    assert measure["chance"] < 0.05
    assert {change["api"] for change in comparison["slower"]} == {"Produce"}
    assert not comparison["faster"]
    assert not comparison["fails_more"]
    assert comparison["slower"][0]["options"][:4] == ["--api", "Produce", "--client-id", "billing"]


@pytest.mark.long
def test_an_api_that_is_slower_for_all_clients_is_listed_once() -> None:
    slow = {(client, "Fetch"): 1.5 for client in ("billing", "shop", "search", "mail")}
    comparison = compare_rows(traffic(3), traffic(4, slow=slow))
    assert subject_of(comparison["slower"][0]) == ("api", "Fetch", None)
    also_slower = {group["by"] for group in comparison["slower"][0]["as_much_for"]}
    assert {"broker", "client", "topic"} <= also_slower
    assert {change["api"] for change in comparison["slower"]} == {"Fetch"}


@pytest.mark.long
def test_a_single_client_that_fails_more_is_listed_first() -> None:
    comparison = compare_rows(
        traffic(5, per_s=300), traffic(6, per_s=300, failing={("shop", "Fetch"): 0.035})
    )
    assert subject_of(comparison["fails_more"][0]) == ("client", "Fetch", "shop")
    [measure] = comparison["fails_more"][0]["measures"]
    assert measure["measure"] == "errors"
    assert measure["low"] < 0.03 < measure["high"]
    assert not comparison["slower"]
    assert not comparison["fails_less"]


def _not_read(item: Row) -> Row:
    return item._replace(
        status="malformed",
        error_code=None,
        error_name=None,
        errors=[],
        partitions=[part._replace(error_code=None) for part in item.partitions],
    )


def test_responses_that_were_not_read_are_neither_errors_nor_free_of_them() -> None:
    """Half of the responses of B were not read; of those that were, as many fail as of A."""
    failing = {("shop", "Fetch"): 0.2}
    rows = traffic(6, failing=failing)
    half = [_not_read(item) if at % 2 else item for at, item in enumerate(rows)]
    comparison = compare_rows(traffic(5, failing=failing), half)
    assert not comparison["fails_less"]
    measures = {
        measure["measure"] for change in comparison["fails_more"] for measure in change["measures"]
    }
    assert measures == {"unread"}


@pytest.mark.long
def test_swapping_the_sides_reverses_the_comparison() -> None:
    a = calm()
    b = traffic(8, slow={("billing", "Produce"): 1.5}, failing={("shop", "Fetch"): 0.05})
    forward, backward = compare_rows(a, b), compare_rows(b, a)
    for one, other in (("slower", "faster"), ("fails_more", "fails_less"), ("new", "gone")):
        for first, second in ((forward, backward), (backward, forward)):
            assert list(map(named, first[one])) == list(map(named, second[other]))
    forward_measure, backward_measure = (
        change["measures"][0] for change in (forward["slower"][0], backward["faster"][0])
    )
    assert forward_measure["chance"] == backward_measure["chance"]
    assert forward_measure["ratio"] == pytest.approx(1 / backward_measure["ratio"], abs=1e-3)
    assert forward_measure["low"] == pytest.approx(1 / backward_measure["high"], abs=1e-3)


def named(change: dict[str, Any]) -> tuple[Any, ...]:
    return (change.get("by", change.get("kind")), change.get("api"), change["name"])


@pytest.mark.long
@pytest.mark.parametrize(
    "change", often(["twice the load", "twice as long", "the same rows"], ["twice the load"])
)
def test_load_and_length_make_no_difference(change: str) -> None:
    a = traffic(9)
    b = {
        "twice the load": lambda: traffic(10, per_s=200),
        "twice as long": lambda: traffic(10, seconds=80),
        "the same rows": lambda: a,
    }[change]()
    comparison = compare_rows(a, b, Thresholds(1.000_001, 0, 0))
    assert not any(comparison[section] for section in JUDGED)
    if change == "twice the load":
        before, after = comparison["load"][0]["requests_per_s"]
        assert after / before == pytest.approx(2, rel=0.1)


@pytest.mark.long
def test_two_halves_of_the_same_traffic_rarely_differ() -> None:
    """No threshold hides small differences. With 60 pairs, the rate is known to 2.8 points."""
    alarms = 0
    for seed in range(60):
        rows = traffic(100 + seed, seconds=80)
        half = rows[0].request_start_ns + 40 * 10**9
        a = [request for request in rows if request.request_start_ns < half]
        b = [request for request in rows if request.request_start_ns >= half]
        comparison = compare_rows(a, b, Thresholds(1.000_001, 0, 0))
        alarms += any(comparison[section] for section in JUDGED)
    assert alarms / 60 <= 0.05 + 2.6 * (0.05 * 0.95 / 60) ** 0.5


@pytest.mark.long
def test_a_difference_below_the_thresholds_is_not_reported() -> None:
    slow = {(client, api): 1.1 for client in CLIENTS for api in ("Produce", "Fetch")}
    a, b = traffic(11, per_s=300), traffic(12, per_s=300, slow=slow)
    assert not compare_rows(a, b)["slower"]
    assert compare_rows(a, b, Thresholds(1.05, 100_000))["slower"]


CLIENTS = ("billing", "shop", "search", "mail")


def test_figures_match_plain_python() -> None:
    a, b = calm(), traffic(14, slow={("mail", "Fetch"): 3})
    comparison = compare_rows(a, b)
    change = next(
        line for line in comparison["slower"] if subject_of(line) == ("client", "Fetch", "mail")
    )
    sides = [[row for row in rows if (row.client_id, row.api_name) == ("mail", "Fetch")]
             for rows in (a, b)]  # fmt: skip
    assert change["requests"] == [len(side) for side in sides]
    for measure in change["measures"]:
        part = {"p50": 0.5, "p90": 0.9, "p99": 0.99}[measure["measure"]]
        for name, side in zip("ab", sides, strict=True):
            assert measure[name] == pytest.approx(rank(side, part), rel=0.0026)
    for name, rows in (("a", a), ("b", b)):
        span_ns = rows[-1].request_start_ns - rows[0].request_start_ns
        assert comparison[name]["requests"] == len(rows)
        assert comparison[name]["requests_per_s"] == round(len(rows) * 1e9 / span_ns, 3)


def rank(rows: list[Row], part: float) -> int:
    latencies = sorted(request.latency_ns for request in rows)
    return latencies[math.ceil(part * len(latencies)) - 1]


def test_long_polls_have_no_latency() -> None:
    a = calm()
    b = [
        request._replace(waited=True, latency_ns=request.latency_ns * 100)
        if request.api_name == "Fetch" and request.correlation_id == 7 and index % 3 == 0
        else request
        for index, request in enumerate(a)
    ]
    comparison = compare_rows(a, b)
    assert not comparison["slower"]
    [load] = [line for line in comparison["load"] if line["api"] == "Fetch"]
    assert load["waited"] == [0, pytest.approx(1 / 3, abs=0.05)]


def test_new_and_gone_names_have_their_chance() -> None:
    a = calm()
    old = [
        request._replace(api_version=3) if request.client_id == "mail" else request for request in a
    ]
    once = old[7]._replace(client_id="nobody", api_version=3, api_name="Produce")
    comparison = compare_rows(a, [*old[:7], once, *old[8:]])
    new = {(line["kind"], line["name"]): line for line in comparison["new"]}
    assert not new["API version", "Produce v3"]["may_be_chance"]
    assert new["client", "nobody"]["may_be_chance"]
    assert new["client", "nobody"]["seconds"] == 1
    assert not comparison["gone"]


@pytest.mark.long
def test_a_client_id_with_another_uuid_is_the_same_client() -> None:
    before, after = (
        [request._replace(client_id=f"app-{uuid}-1") for request in calm()]
        for uuid in ("0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
    )
    comparison = compare_rows(before, after)
    assert (comparison["new"], comparison["gone"]) == ([], [])
    assert comparison["alike"] > 0


def test_too_few_requests_are_not_compared() -> None:
    a = calm()
    rare = [fetch(client_id="rare", request_start_ns=a[0].request_start_ns + n) for n in range(29)]
    slow = [request._replace(latency_ns=10**10) for request in rare]
    comparison = compare_rows([*a, *rare], [*a, *slow])
    assert {(line["api"], line["name"]) for line in comparison["too_few"]} >= {("Fetch", "rare")}
    assert not comparison["slower"]
    assert comparison["judged"]
    largest = {(line["api"], line["name"]): line["largest"] for line in comparison["too_few"]}
    of_rare = largest["Fetch", "rare"]
    assert of_rare["b"] == pytest.approx(10**10, rel=0.01)
    assert of_rare["ratio"] == pytest.approx(of_rare["b"] / of_rare["a"], rel=1e-3)


def test_too_few_requests_of_all_kinds_judge_nothing() -> None:
    rare = calm()[:20]
    same = compare_rows(rare, rare)
    assert not same["judged"]
    assert [line["largest"] for line in same["too_few"]] == [None] * len(same["too_few"])
    slow = [request._replace(latency_ns=10**10) for request in rare]
    lines = compare_rows(rare, slow)["too_few"]
    assert any(line["largest"] and line["largest"]["ratio"] > 1 for line in lines)


@pytest.mark.parametrize("seconds", [0, 5])
def test_short_traffic_is_not_tested_and_the_reason_is_given(seconds: int) -> None:
    comparison = compare_rows(traffic(19, seconds=seconds), calm())
    assert not comparison["tested"]
    assert comparison["not_tested"].startswith(
        "requests in" if seconds else "one side has no requests"
    )


def test_without_a_test_only_the_size_of_a_difference_counts() -> None:
    slow = {(client, "Fetch"): 3.0 for client in CLIENTS}
    a, b = traffic(21, seconds=5, bursts_per_s=0), traffic(22, seconds=5, slow=slow, bursts_per_s=0)
    comparison = compare_rows(a, b)
    assert not comparison["tested"]
    assert comparison["differences_tested"] == 0
    assert {change["api"] for change in comparison["slower"]} == {"Fetch"}
    for change in comparison["slower"]:
        for measure in change["measures"]:
            assert measure["chance"] is measure["low"] is measure["high"] is None


def test_lengths_that_are_too_different_are_not_tested() -> None:
    a = [row(request_start_ns=row().request_start_ns + second * 10**9) for second in range(8)]
    b = [row(request_start_ns=row().request_start_ns + second * 10**9) for second in range(2000)]
    comparison = compare_rows(a, b)
    assert not comparison["tested"]
    assert "--since and --until" in comparison["not_tested"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((1.0, None, None), "at_least"),
        ((math.nan, None, None), "at_least"),
        ((None, -1, None), "least_ms"),
        ((None, None, 101), "least_percent"),
        ((None, True, None), "least_ms"),
    ],
)
def test_a_bad_threshold_is_reported_in_one_line(arguments: tuple[Any, ...], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}: not a number"):
        Thresholds.of(*arguments)
