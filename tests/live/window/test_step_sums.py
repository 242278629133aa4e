from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from kanalyze.live.window.step_sums import CaptureSums, RecentSums, StepSums

from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.snapshot import Amounts
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import orphan, row, rows

if TYPE_CHECKING:
    from kanalyze.live.window.sums import TopicSums
    from kanalyze.spec.rows.requests import Row


def step_of(all_rows: list[Row]) -> StepSums:
    step = StepSums(1000)
    if all_rows:
        step.add(RowMeasures(RowBlock.of_rows(all_rows).columns))
    return step


def recent_of(all_rows: list[Row]) -> RecentSums:
    recent = RecentSums(1000)
    if all_rows:
        block = RowBlock.of_rows(all_rows)
        recent.add(RowMeasures(block.columns), block)
    return recent


def figures_of(step: StepSums) -> dict:
    return {
        "traffic": step.traffic.amounts,
        "apis": {key: api.figures for key, api in step.apis},
        "clients": {key: client.figures for key, client in step.clients},
        "brokers": {key: broker.figures for key, broker in step.brokers},
        "topics": {key: topic_figures(topic) for key, topic in step.topics},
        "errors": {key: (error.count, error.last_time_ns) for key, error in step.errors},
    }


def topic_figures(topic: TopicSums) -> tuple:
    records = (topic.produced, topic.fetched)
    return (
        *(topic.produce_requests, topic.fetch_requests, topic.errors),
        *((sums.count, sums.bytes, sums.unknown) for sums in records),
    )


def recent_figures(recent: RecentSums) -> tuple:
    groups = {
        key: (
            group.counts,
            group.protocol,
            group.members,
            group.members_known,
            group.rebalances,
            group.last_failure,
            group.longest_join_ns,
            group.longest_sync_ns,
            group.last_time_ns,
        )
        for key, group in recent.groups
    }
    return groups, recent.slowest.to_list()


@given(st.lists(rows(), max_size=20), st.integers(0, 20))
def test_merged_sums_of_parts_equal_the_sums_of_all_rows(all_rows, cut):
    merged = step_of(all_rows[:cut])
    merged.merge(step_of(all_rows[cut:]))
    assert figures_of(merged) == figures_of(step_of(all_rows))
    recent = recent_of(all_rows[:cut])
    recent.merge(recent_of(all_rows[cut:]))
    assert recent_figures(recent) == recent_figures(recent_of(all_rows))


def test_adding_rows_returns_the_added_amounts():
    step = StepSums(10)
    added = step.add(RowMeasures(RowBlock.of_rows([row(), orphan(), row(status="error")]).columns))
    assert added == Amounts(2, 1, 400, 150)
    assert step.traffic.amounts == added


def test_capture_sums_add_up():
    one, other = CaptureSums(), CaptureSums()
    one.packets, one.wire_bytes, one.dropped_packets = 1, 2, 3
    other.packets, other.wire_bytes, other.dropped_packets = 10, 20, 30
    one.merge(other)
    assert (one.packets, one.wire_bytes, one.dropped_packets) == (11, 22, 33)


def test_the_p99_of_a_step_leaves_out_long_polls():
    all_rows = [
        row(latency_ns=5),
        row(api_name="Fetch", api_key=1, latency_ns=7),
        row(api_name="Fetch", api_key=1, latency_ns=500, waited=True),
        row(api_name="JoinGroup", api_key=11, latency_ns=9_000, waited=True),
        row(api_name="SyncGroup", api_key=14, latency_ns=9_000, waited=True),
        row(api_name="SyncGroup", api_key=14, latency_ns=3, waited=False),
    ]
    step = step_of(all_rows)
    assert (step.latency().count, step.p99_ns) == (3, 7)
    step.add(RowMeasures(RowBlock.of_rows([row(latency_ns=8)]).columns))
    assert step.p99_ns == 8
    step.merge(step_of([row(latency_ns=9)]))
    assert step.p99_ns == 9
    assert step_of([]).p99_ns is None
