from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.step_sums import Amounts, CaptureSums, RecentSums, StepSums, Traffic
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import orphan, row, rows

if TYPE_CHECKING:
    from kanalyze.live.window.sums import TopicSums
    from kanalyze.tables.row import Row


def step_of(made: list[Row]) -> StepSums:
    step = StepSums(1000)
    if made:
        step.add(RowMeasures(RowBlock.of_rows(made).columns))
    return step


def recent_of(made: list[Row]) -> RecentSums:
    recent = RecentSums(1000)
    if made:
        block = RowBlock.of_rows(made)
        recent.add(RowMeasures(block.columns), block)
    return recent


def what_it_says(step: StepSums) -> dict:
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
        *((each.count, each.bytes, each.unknown) for each in records),
    )


def what_is_recent(recent: RecentSums) -> tuple:
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
def test_the_sum_of_parts_is_the_sum_of_all(made, cut):
    merged = step_of(made[:cut])
    merged.merge(step_of(made[cut:]))
    assert what_it_says(merged) == what_it_says(step_of(made))
    recent = recent_of(made[:cut])
    recent.merge(recent_of(made[cut:]))
    assert what_is_recent(recent) == what_is_recent(recent_of(made))


def test_a_step_says_what_was_added():
    step = StepSums(10)
    added = step.add(RowMeasures(RowBlock.of_rows([row(), orphan(), row(status="error")]).columns))
    assert added == Amounts(2, 1, 400, 150)
    assert step.traffic.amounts == added


def test_amounts_beyond_64_bits_are_exact():
    traffic = Traffic()
    for _ in range(3):
        traffic.add(Amounts(1, 0, 2**63 - 1, 0))
    assert traffic.amounts.request_bytes == 3 * (2**63 - 1)


def test_capture_sums_add_up():
    one, other = CaptureSums(), CaptureSums()
    one.packets, one.wire_bytes, one.dropped_packets = 1, 2, 3
    other.packets, other.wire_bytes, other.dropped_packets = 10, 20, 30
    one.merge(other)
    assert (one.packets, one.wire_bytes, one.dropped_packets) == (11, 22, 33)


def test_the_p99_of_a_step_is_that_of_what_is_not_held_back():
    made = [
        row(latency_ns=5),
        row(api_name="Fetch", api_key=1, latency_ns=7),
        row(api_name="Fetch", api_key=1, latency_ns=500, waited=True),
        row(api_name="JoinGroup", api_key=11, latency_ns=9_000, waited=True),
        row(api_name="SyncGroup", api_key=14, latency_ns=9_000, waited=True),
        row(api_name="SyncGroup", api_key=14, latency_ns=3, waited=False),
    ]
    step = step_of(made)
    assert (step.latency().count, step.p99_ns) == (3, 7)
    step.add(RowMeasures(RowBlock.of_rows([row(latency_ns=8)]).columns))
    assert step.p99_ns == 8
    step.merge(step_of([row(latency_ns=9)]))
    assert step.p99_ns == 9
    assert step_of([]).p99_ns is None
