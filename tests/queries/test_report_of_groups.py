"""Lag, flows and changes in a report, compared with plain Python, SQL and what clients counted."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import kanalyze
from kanalyze.render.report_tables import TableOrder, report_tables
from tests.support.captures import path, truth

RECORDS = {"Produce": "produce", "MultiProduce": "produce", "Fetch": "fetch", "ShareFetch": "fetch"}


def test_lag_is_what_producer_and_consumer_counted() -> None:
    counted = truth("fault-lag")
    produced = sum(counted["produced_records"]["orders"].values())
    (line,) = kanalyze.report(path("fault-lag"))["lag"]
    assert (line["group_id"], line["topic"]) == ("indexer-group", "orders")
    assert line["lag"] == produced - sum(counted["client_consumed"].values())
    assert (line["partitions"], line["assigned"], line["unknown"]) == (1, 1, 0)
    assert line["lag_ns"] > 10**10


@pytest.mark.parametrize("name", ["groups", "transactions", "fault-rebalances", "basics"])
def test_lag_is_the_sum_of_the_latest_lines_of_sql(name: str) -> None:
    latest = {}
    for line in kanalyze.sql(str(path(name)), "FROM lag ORDER BY time_ns").to_pylist():
        latest[line["group_id"], line["topic"], line["partition"]] = line
    of_topics: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for (group, topic, _), line in latest.items():
        of_topics[group, topic].append(line)
    lines = kanalyze.report(path(name))["lag"]
    assert {(line["group_id"], line["topic"]) for line in lines} == {*of_topics}
    for line in lines:
        told = of_topics[line["group_id"], line["topic"]]
        known = [each["lag"] for each in told if each["lag"] is not None]
        assert line["lag"] == (sum(known) if known else None)
        assert (line["partitions"], line["unknown"]) == (len(told), len(told) - len(known))
        assert line["assigned"] == sum(each["member_id"] is not None for each in told)


@pytest.mark.parametrize("name", ["groups", "basics", "cluster", "errors", "old-0-8-2-2"])
def test_flows_are_the_records_of_all_requests(name: str) -> None:
    rows = list(kanalyze.requests(path(name)))
    groups = defaultdict(set)
    for row in rows:
        if row.group_id is not None:
            groups[row.client_id].add(row.group_id)
    sums: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        client = row.client_id or ""
        if row.api_name not in RECORDS or client.startswith(("broker-", "raft-client-")):
            continue
        direction = RECORDS[row.api_name]
        (group,) = groups[row.client_id] if len(groups[row.client_id]) == 1 else (None,)
        who = (row.client_id, None) if direction == "produce" or not group else (None, group)
        for item in row.partitions:
            topic_id = None if item.topic else item.topic_id
            if not item.error_code and (item.topic or topic_id):
                of_flow = sums[item.topic, topic_id, direction, *who]
                of_flow[0] += item.record_count or 0
                of_flow[1] += item.record_bytes or 0
    lines = kanalyze.report(path(name))["flows"]
    keys = ("topic", "topic_id", "direction", "client_id", "group_id")
    assert {
        tuple(line[key] for key in keys): [line["records"], line["bytes"]] for line in lines
    } == sums


def test_people_see_a_line_for_each_topic_from_producers_to_groups() -> None:
    summary = kanalyze.report(path("fault-lag"))
    tables = [table for tables in report_tables(summary, TableOrder()) for table in tables]
    (flows,) = [table for table in tables if table.name == "flows"]
    (line,) = [[text for text, _ in cells] for cells in flows.rows]
    assert (line[0], line[2], line[4]) == ("crawler", "orders", "indexer-group")


@pytest.mark.parametrize("name", ["admin", "admin-many", "cluster"])
def test_changes_are_those_of_the_question(name: str) -> None:
    asked = kanalyze.sql(str(path(name)), "changes").to_pylist()
    lines = kanalyze.report(path(name))["changes"]
    assert lines
    names = [name for name in lines[0] if name != "time_ns"]
    assert [[line[name] for name in names] for line in lines] == [
        [line[name] for name in names] for line in asked
    ]


def test_a_capture_without_changes_and_groups_has_no_such_sections() -> None:
    report = kanalyze.report(path("codecs"))
    assert (report["changes"], report["lag"]) == ([], [])
