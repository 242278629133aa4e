"""What brokers copy from each other."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import kanalyze
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.views import REPLICATION_COLUMNS
from tests.support.captures import analysis, path, truth


def replication(capture: str) -> list[dict[str, Any]]:
    return kanalyze.sql(str(path(capture)), "FROM replication ORDER BY ALL").to_pylist()


def test_followers_copy_what_was_produced() -> None:
    counted = truth("cluster")
    lines = replication("cluster")
    ports = {counted["ports"][f"INTERNAL-{number}"] for number in (1, 2, 3)}
    assert {line["broker_port"] for line in lines} == ports
    assert {line["follower_id"] for line in lines} == {1, 2, 3}
    produced = sum(counted["produced_records"]["cluster"].values())
    assert sum(line["record_count"] for line in lines) == 2 * produced
    produced_bytes = counted["client_listeners"]["produced_bytes"]["cluster"]
    assert sum(line["record_bytes"] for line in lines) == 2 * produced_bytes


def test_times_between_fetches_are_those_of_plain_python() -> None:
    starts = defaultdict(list)
    ends: dict[tuple[Any, ...], tuple[str, str, int]] = {}
    for row in analysis("cluster")[0]:
        if row.api_name == "Fetch" and (row.client_id or "").startswith("broker-"):
            connection = (row.connection, row.connection_number)
            starts[connection].append(row.request_start_ns)
            ends[connection] = (row.client_id or "", row.broker_ip, row.broker_port)
    gaps = defaultdict(list)
    fetches: dict[tuple[Any, ...], int] = defaultdict(int)
    for connection, times in starts.items():
        times.sort()
        gaps[ends[connection]] += [after - before for before, after in pairwise(times)]
        fetches[ends[connection]] += len(times)
    lines = replication("cluster")
    assert len(lines) == len(fetches)
    for line in lines:
        end = (line["client_id"], line["broker_ip"], line["broker_port"])
        assert line["fetches"] == fetches[end]
        assert line["longest_gap_ns"] == max(gaps[end])
        assert line["mean_gap_ns"] == sum(gaps[end]) // len(gaps[end])


def test_without_followers_there_are_no_lines() -> None:
    answer = kanalyze.sql(str(path("basics")), "FROM replication")
    assert answer.num_rows == 0
    assert answer.column_names == [column.name for column in with_times(REPLICATION_COLUMNS)]
