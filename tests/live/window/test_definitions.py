"""The figures of a window equal those of a report on the same rows, which uses SQL."""

from __future__ import annotations

from collections import Counter

import pytest

from kanalyze.api.tables import fill
from kanalyze.live.window.sums import RELATIVE_ERROR
from kanalyze.live.window.windows import Windows
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.database import Database
from kanalyze.queries.report import report_of
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import NAMES, often, path

DEFAULT_NAMES = ("errors", "groups", "old-0-8-2-2", "snaplen", "tls")
DAY_S = 86_400
MEMORY_BYTES = 256 << 20
LATENCIES = """
    SELECT
        percentile_disc(0.5) WITHIN GROUP (ORDER BY work_latency_ns),
        percentile_disc(0.99) WITHIN GROUP (ORDER BY work_latency_ns)
    FROM measured
"""
TRAFFIC = ("requests", "errors", "request_bytes", "response_bytes")


def report_and_snapshot(name: str):
    """Return the report on a capture, and a snapshot of a window that covers all of it."""
    with Database(max_memory_bytes=MEMORY_BYTES, threads=1) as database:
        analysis = Analysis([str(path(name))])
        fill(database, analysis)
        report = report_of(database, analysis.quality)
        (latencies,) = database.ask(LATENCIES).to_pylist()
        report["latency_ns"] = dict(zip(("p50", "p99"), latencies.values(), strict=True))
    windows = Windows(2 * DAY_S, DAY_S, key_limit=10_000)
    end_ns = report["capture"]["last_time_ns"]
    for block in Analysis([str(path(name))]).batches():
        windows.add(block, end_ns)
    return report, windows.snapshot(end_ns)


def assert_near(actual_ns: int | None, latency: dict, share: str) -> None:
    expected_ns = latency[share]
    if expected_ns is None:
        assert actual_ns is None
    else:
        # Both may differ by this much from the latency of that rank.
        assert abs(actual_ns - expected_ns) <= 2 * expected_ns * RELATIVE_ERROR


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(NAMES, DEFAULT_NAMES))
def test_every_figure_of_a_window_equals_that_of_the_report(name):
    report, snapshot = report_and_snapshot(name)
    assert snapshot.rows == report["totals"]["rows"]
    assert_near(snapshot.p50_ns, report["latency_ns"], "p50")
    assert_near(snapshot.p99_ns, report["latency_ns"], "p99")
    check_groups(report, snapshot)
    check_apis(report, snapshot)
    check_entries(
        {str(Endpoint(*split(line["broker"]))): line for line in report["brokers"]},
        {entry.broker: entry for entry in snapshot.brokers},
    )
    check_clients(report, snapshot)
    check_topics(report, snapshot)
    errors = {tuple(line.values())[:4]: line for line in report["errors"]}
    assert {entry[:4] for entry in snapshot.errors} == set(errors)
    for entry in snapshot.errors:
        line = errors[entry[:4]]
        assert (entry.occurrences, entry.last_time_ns) == (line["count"], line["last_time_ns"])
    slowest = [dict(line) for line in snapshot.slowest[: len(report["slowest"])]]
    # A report also has the parts of each request's time.
    assert slowest == [
        {name: line[name] for name in own_line}
        for own_line, line in zip(slowest, report["slowest"], strict=True)
    ]


def split(broker: str) -> tuple[str, int]:
    ip, _, port = broker.rpartition(":")
    return ip.strip("[]"), int(port)


def check_apis(report, snapshot) -> None:
    waited, worked = ({}, {})
    for entry in snapshot.apis:
        (waited if entry.waited else worked)[entry.wire, entry.api_key, entry.api_name] = entry
    lines = {(line["wire"], line["api_key"], line["api_name"]): line for line in report["apis"]}
    assert set(waited) | set(worked) == set(lines)
    for key, line in lines.items():
        both = [entry for entry in (worked.get(key), waited.get(key)) if entry is not None]
        for name in TRAFFIC:
            assert sum(getattr(entry, name) for entry in both) == line[name]
            waited_sum = getattr(waited[key], name) if key in waited else 0
            assert waited_sum == line["waited"][name]
        for entries, latency in (
            (worked, line["latency_ns"]),
            (waited, line["waited"]["latency_ns"]),
        ):
            entry = entries.get(key)
            assert_near(entry and entry.p50_ns, latency, "p50")
            assert_near(entry and entry.p99_ns, latency, "p99")
    for name in TRAFFIC:
        assert getattr(snapshot.traffic, name) == sum(line[name] for line in report["apis"])


def check_entries(lines, entries) -> None:
    assert set(entries) == set(lines)
    for key, line in lines.items():
        assert [getattr(entries[key], name) for name in TRAFFIC] == [line[n] for n in TRAFFIC]
        assert_near(entries[key].p50_ns, line["latency_ns"], "p50")
        assert_near(entries[key].p99_ns, line["latency_ns"], "p99")


def check_clients(report, snapshot) -> None:
    """A window has a line for each address of a client, a report has one for all addresses."""
    address_counts = Counter(entry.client_id for entry in snapshot.clients)
    lines = {line["client_id"]: line for line in report["clients"]}
    assert set(address_counts) == set(lines)
    for client_id, line in lines.items():
        entries = [entry for entry in snapshot.clients if entry.client_id == client_id]
        sums = [sum(getattr(entry, name) for entry in entries) for name in TRAFFIC]
        assert sums == [line[name] for name in TRAFFIC]
    with_one_address = {client_id for client_id, count in address_counts.items() if count == 1}
    check_entries(
        {client_id: lines[client_id] for client_id in with_one_address},
        {
            entry.client_id: entry
            for entry in snapshot.clients
            if entry.client_id in with_one_address
        },
    )


def check_groups(report, snapshot) -> None:
    """A window has only groups that rebalanced."""
    lines = {line["group_id"]: line for line in report["groups"]}
    entries = {entry.group_id: entry for entry in snapshot.groups}
    assert set(entries) <= set(lines)
    assert {group_id for group_id, line in lines.items() if line["joins"]} <= set(entries)
    for group_id, entry in entries.items():
        assert entry.joins == lines[group_id]["joins"]


def check_topics(report, snapshot) -> None:
    lines = {(line["topic"], line["topic_id"]): line for line in report["topics"]}
    assert {entry[:2] for entry in snapshot.topics} == set(lines)
    for entry in snapshot.topics:
        line = lines[entry[:2]]
        for name in (
            *("produce_requests", "produced_records", "produced_bytes"),
            *("fetch_requests", "fetched_records", "fetched_bytes", "errors"),
        ):
            assert getattr(entry, name) == line[name]
        known = line["produced_records_known"] and line["fetched_records_known"]
        assert entry.records_known == known
