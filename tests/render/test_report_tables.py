"""Tables for people have the figures of the summary, whatever the order of their lines."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import pytest

import kanalyze
from kanalyze.render.report_tables import TableOrder, report_tables
from kanalyze.render.units import (
    bytes_text,
    clock_text,
    count_text,
    duration_text,
    per_mille_text,
    shown,
)
from kanalyze.spec.options import SORTS
from kanalyze.spec.report import AFTER_CHARTS, BEFORE_CHARTS
from tests.support.captures import path
from tests.support.rows import failed, fetch, partition, row, unanswered
from tests.support.summaries import summary_of

_Lines: TypeAlias = list[dict[str, str]]

CAPTURES = ("basics", "errors", "groups", "codecs", "waits", "fault-network")
ALL = TableOrder(limit=10_000)


@functools.cache
def report(name: str) -> dict[str, Any]:
    return kanalyze.report(path(name))


@pytest.fixture(params=CAPTURES)
def summary(request: pytest.FixtureRequest) -> dict[str, Any]:
    return report(request.param)


def tables(summary: dict[str, Any], order: TableOrder = ALL) -> dict[str, _Lines]:
    """Return the lines of each table by its title."""
    lines_by_title = {}
    for table in [table for tables in report_tables(summary, order) for table in tables]:
        titles = [column.title for column in table.columns]
        texts = [[text for text, _ in cells] for cells in table.rows]
        lines_by_title[table.title] = [dict(zip(titles, row, strict=True)) for row in texts]
    return lines_by_title


def titled(summary: dict[str, Any], title: str, order: TableOrder = ALL) -> _Lines:
    """Return the lines of the table whose title begins with a text, or none."""
    matching = [lines for name, lines in tables(summary, order).items() if name.startswith(title)]
    assert len(matching) <= 1
    return matching[0] if matching else []


def test_every_declared_column_shows_a_field_of_its_table() -> None:
    for table in (*BEFORE_CHARTS, *AFTER_CHARTS):
        for column in table.columns:
            names = {name.partition(".")[0] for name in column.field.split("+")}
            assert names <= {field.name for field in table.fields}, (table.name, column.title)


def test_fields_are_written_by_their_kinds_and_units() -> None:
    lines = [
        fetch(client_id="a", latency_ns=3_000_000),
        failed("orders", 6, "NOT_LEADER_OR_FOLLOWER", client_id="b"),
        unanswered(client_id="b", request_bytes=2048),
    ]
    summary = summary_of(lines)
    cells = [" ".join(line.values()) for line in titled(summary, "Clients by API")]
    assert cells == [
        "a Fetch 1 0 0 250 B 3 ms 3 ms 3 ms",
        "b Fetch 1 0 1 2.05 kB - - -",
        "b Produce 1 1 0 250 B 2 ms 2 ms 2 ms",
    ]
    (error,) = titled(summary, "Errors by client")
    assert error["error"] == "NOT_LEADER_OR_FOLLOWER 6"
    assert (error["client"], error["API"], error["count"]) == ("b", "Produce", "1")


def test_versions_in_use_are_those_of_the_summary(summary: dict[str, Any]) -> None:
    versions = {
        line["API"]: {
            version.removeprefix("v"): int(count.replace(",", ""))
            for version, count in (
                entry.split(": ") for entry in line["requests by version"].split(", ")
            )
        }
        for line in titled(summary, "Versions in use")
    }
    assert versions == {api["api_name"]: api["versions"] for api in summary["apis"]}


PARTS = {
    "sending": "request_send_ns",
    "network": "broker_network_ns",
    "resent": "retransmission_wait_ns",
    "queued": "pipeline_wait_ns",
    "broker": "broker_time_ns",
    "response": "response_send_ns",
}


def test_where_the_time_went_is_that_of_the_summary(summary: dict[str, Any]) -> None:
    lines = sorted(
        summary["latency_parts"],
        key=lambda line: line["requests"] * line["total_time_ns"]["mean"],
        reverse=True,
    )
    shown_lines = titled(summary, "Where the time went")
    assert len(shown_lines) == len(lines)
    for shown_line, line in zip(shown_lines, lines, strict=True):
        assert shown_line["API"] == line["api_name"]
        assert shown_line["captured at"] == shown(line["capture_point"])
        assert shown_line["requests"] == count_text(line["requests"])
        assert shown_line["mean"] == duration_text(line["total_time_ns"]["mean"])
        for title, name in PARTS.items():
            # The table leaves out a part that no line has.
            assert shown_line.get(title, "0 %") == per_mille_text(line[name]["per_mille"])


def test_the_slowest_requests_say_where_their_time_went(summary: dict[str, Any]) -> None:
    for shown_line, line in zip(titled(summary, "Slowest"), summary["slowest"], strict=True):
        assert shown_line["latency"] == duration_text(line["latency_ns"])
        percents = {}
        for text in [shown_line["mostly"], *shown_line["and"].split(", ")]:
            if text != "-":
                title, number, _ = text.rsplit(" ", 2)
                percents[title] = int(number)
        whole = line["total_time_ns"]
        assert percents == {
            title: round(100 * line[name] / whole)
            for title, name in PARTS.items()
            if line[name] and round(100 * line[name] / whole)
        }
        assert list(percents.values()) == sorted(percents.values(), reverse=True)


def test_the_worst_times_have_the_figures_of_both_series(summary: dict[str, Any]) -> None:
    amounts, latency = summary["throughput"], summary["latency"]
    spans = {}
    for number, requests in enumerate(amounts["requests"]):
        start_ns = amounts["start_ns"] + number * amounts["bucket_ns"]
        sizes = amounts["request_bytes"][number] + amounts["response_bytes"][number]
        spans[clock_text(start_ns)] = {
            "requests": count_text(requests),
            "errors": count_text(amounts["errors"][number]),
            "bytes": bytes_text(sizes),
            **{name: duration_text(latency[name][number]) for name in ("p50", "p90", "p99", "max")},
        }
    shown_lines = titled(summary, "Worst times")
    for line in shown_lines:
        assert spans[line.pop("from")] == line
    known = sorted((p99_ns for p99_ns in latency["p99"] if p99_ns is not None), reverse=True)
    assert len(known) > 1
    assert [line["p99"] for line in shown_lines] == [duration_text(p99_ns) for p99_ns in known]


def test_the_worst_times_by_errors_are_those_with_errors() -> None:
    summary = kanalyze.report(path("groups"))
    shown_lines = titled(summary, "Worst times", TableOrder("errors", 100))
    errors = sorted((count for count in summary["throughput"]["errors"] if count), reverse=True)
    assert [line["errors"] for line in shown_lines] == list(map(count_text, errors))


# -- order ----------------------------------------------------------------------------------------


@functools.cache
def different_clients() -> dict[str, Any]:
    """Return the report on clients that are the first of their table, each by another figure."""
    return summary_of(
        [
            *[row(client_id="busy") for _ in range(5)],
            *[failed("orders", 6, "X", client_id="failing") for _ in range(3)],
            row(client_id="slow", latency_ns=9_000_000_000),
            row(client_id="slow"),
            row(client_id="large", request_bytes=1_000_000),
            unanswered(client_id="silent"),
        ]
    )


@pytest.mark.parametrize(
    ("sort", "first", "last"),
    [
        ("requests", "busy", "large"),
        ("errors", "failing", "silent"),
        ("bytes", "large", "silent"),
        ("p50", "busy", "silent"),
        ("p99", "slow", "silent"),
        ("max", "slow", "silent"),
    ],
)
def test_lines_are_sorted_by_the_requested_figure(sort: str, first: str, last: str) -> None:
    clients = [
        line["client"] for line in titled(different_clients(), "Clients, by", TableOrder(sort))
    ]
    assert clients[0] == first
    if last == "silent":
        assert clients[-1] == last  # its latency is unknown
    titles = list(tables(different_clients(), TableOrder(sort)))
    assert f"Clients by API, by {sort}" in titles
    assert f"Requests by API, with latency, by {sort}" in titles


@pytest.mark.few(21)
@pytest.mark.parametrize("sort", SORTS)
def test_the_order_does_not_change_the_lines(sort: str, summary: dict[str, Any]) -> None:
    def all_lines(order: TableOrder) -> list[str]:
        tables_by_title = tables(summary, order).items()
        return sorted(
            str(line)
            for title, lines in tables_by_title
            for line in lines
            if not title.startswith("Worst times")
        )

    assert all_lines(TableOrder(sort, 10_000)) == all_lines(ALL)


def test_the_line_of_others_is_always_last() -> None:
    rows = [row(client_id=f"c{n}") for n in range(3)]
    rows += [row(client_id=f"z{n}", request_bytes=10**6) for n in range(3)]
    lines = titled(summary_of([*rows, *rows[:3]], most_keys=3), "Clients, by", TableOrder("bytes"))
    assert lines[-1]["client"] == "(other clients)"


def test_the_line_of_long_polls_is_below_that_of_its_api() -> None:
    rows = [fetch(waited=True, latency_ns=10**9), fetch(), row(latency_ns=5_000_000)]
    lines = titled(summary_of(rows), "Requests by API", TableOrder("max"))
    assert [line["API"] for line in lines] == ["Produce", "Fetch", "Fetch (waited)"]


@pytest.mark.parametrize("limit", [1, 2])
def test_every_table_is_limited_and_counts_omitted_lines(limit: int) -> None:
    summary, order = different_clients(), TableOrder(limit=limit)
    for table in [table for tables in report_tables(summary, order) for table in tables]:
        assert len(table.rows) <= limit
    (clients,) = [
        table for table in report_tables(summary, order)[0] if table.title == "Busiest clients"
    ]
    assert clients.more == 5 - limit


# -- omitted tables -------------------------------------------------------------------------------


def test_a_table_that_would_repeat_another_is_omitted() -> None:
    one = summary_of([row(), fetch()])
    names = ("Clients by API", "Busiest partitions", "Errors by client")
    assert [name for name in names if titled(one, name)] == []
    two = summary_of([row(), fetch(client_id="b"), row(partitions=[partition("orders", 1)])])
    assert [name for name in names if titled(two, name)] == list(names[:2])


def test_with_several_brokers_lines_name_the_broker() -> None:
    lines = titled(summary_of([row(), row(broker_port=9093)]), "Where the time went")
    assert {line["broker address"] for line in lines} == {"10.0.0.9:9092", "10.0.0.9:9093"}
    assert {line["broker"] for line in lines} == {per_mille_text(749)}
