from __future__ import annotations

import gc
import tracemalloc
from collections import Counter, defaultdict
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.common.int_columns import shifted
from kanalyze.errors import UsageError
from kanalyze.live.window.snapshot import Amounts, CaptureState, Snapshot
from kanalyze.live.window.sums import EXACT_LIMIT, RELATIVE_ERROR
from kanalyze.live.window.windows import HISTORY_STEPS, MAX_SLOWEST, Windows
from kanalyze.model.tcp import Endpoint
from kanalyze.spec.rows.requests import ErrorItem
from kanalyze.tables.columns.block import Ints, RowBlock, Words
from tests.support.captures import often
from tests.support.row_blocks import blocks_of
from tests.support.rows import (
    START_NS,
    failed,
    fetch,
    orphan,
    partition,
    plain_traffic,
    row,
    rows,
    unanswered,
)

SECOND_NS = 1_000_000_000


def row_at(second: float, **changes):
    """Return a row answered so many seconds after the start."""
    time_ns = START_NS + round(second * SECOND_NS)
    return row(request_start_ns=time_ns - 1000, response_start_ns=time_ns, **changes)


def time_at(second: float) -> int:
    return START_NS + round(second * SECOND_NS)


def snapshot_of(all_rows, second: float, **arguments) -> Snapshot:
    windows = Windows(**arguments)
    windows.add(RowBlock.of_rows(all_rows), time_at(second))
    return windows.snapshot(time_at(second))


def state(**changes) -> CaptureState:
    return CaptureState("eth0", 0, 0, 0, 0, 0)._replace(**changes)


# -- compared with a plain count ------------------------------------------------------------------


def time_of(item, now_ns: int) -> int:
    if item.response_start_ns is not None:
        return item.response_start_ns
    return now_ns if item.request_start_ns is None else item.request_start_ns


def in_window(timed, number: int, steps: int):
    """Return the rows whose step, when they came, is still in the window."""
    return [item for item, step in timed if step > number - steps]


def amounts_of(all_rows) -> Amounts:
    requests = [item for item in all_rows if item.status != "orphan_response"]
    return Amounts(
        len(requests),
        sum(item.status == "error" for item in all_rows),
        sum(item.request_bytes or 0 for item in all_rows),
        sum(item.response_bytes or 0 for item in all_rows),
    )


def grouped(all_rows, key):
    groups = defaultdict(list)
    for item in all_rows:
        groups[key(item)].append(item)
    return groups


def quantile(values, share: float):
    ordered = sorted(values)
    return ordered[max(1, -(-round(share * 100) * len(ordered) // 100)) - 1] if ordered else None


def check(snapshot: Snapshot, all_rows) -> None:
    """Compare a snapshot with sums over the rows of its window, counted one by one."""
    assert snapshot.traffic == amounts_of(all_rows)
    apis = grouped(all_rows, lambda r: (r.wire, r.api_key, r.api_name, r.waited is True))
    assert {api[:4]: Amounts(*api[5:9]) for api in snapshot.apis} == {
        key: amounts_of(items) for key, items in apis.items()
    }
    for api in snapshot.apis:
        latencies = [r.latency_ns for r in apis[api[:4]] if r.latency_ns is not None]
        assert api.p50_ns == quantile(latencies, 0.5)
        assert api.p99_ns == quantile(latencies, 0.99)
    named = [item for item in all_rows if item.status != "orphan_response"]
    clients = grouped(named, lambda r: (r.client_id, r.client_ip))
    check_entries({client[:2]: client[3:] for client in snapshot.clients}, clients)
    brokers = grouped(all_rows, lambda r: str(Endpoint(r.broker_ip, r.broker_port)))
    check_entries({broker.broker: broker[2:] for broker in snapshot.brokers}, brokers)
    errors = Counter((r.api_name, e.code, e.name, e.topic) for r in all_rows for e in r.errors)
    assert {e[:4]: e.occurrences for e in snapshot.errors} == errors
    check_topics(snapshot, all_rows)


def check_entries(figures, groups) -> None:
    """Compare figures of clients or brokers with their rows."""
    assert figures.keys() == groups.keys()
    for key, items in groups.items():
        known = [r.latency_ns for r in items if r.latency_ns is not None and r.waited is not True]
        expected = (*amounts_of(items), quantile(known, 0.5), quantile(known, 0.99))
        assert figures[key] == expected


def check_topics(snapshot: Snapshot, all_rows) -> None:
    sums: Counter = Counter()
    for item in all_rows:
        direction = {"Produce": "in", "Fetch": "out"}.get(item.api_name)
        for topic_partition in item.partitions if direction else ():
            if not topic_partition.error_code:
                name = (
                    topic_partition.topic,
                    topic_partition.topic_id if topic_partition.topic is None else None,
                )
                sums[name, direction, "records"] += topic_partition.record_count or 0
                sums[name, direction, "bytes"] += topic_partition.record_bytes or 0
    shown: Counter = Counter()
    for topic in snapshot.topics:
        name = (topic.topic, topic.topic_id)
        shown[name, "in", "records"] = topic.produced_records
        shown[name, "in", "bytes"] = topic.produced_bytes
        shown[name, "out", "records"] = topic.fetched_records
        shown[name, "out", "bytes"] = topic.fetched_bytes
    assert +shown == +sums


@given(
    all_rows=st.lists(rows(), max_size=30),
    advances=st.lists(st.integers(-3 * SECOND_NS, 15 * SECOND_NS), min_size=1, max_size=6),
    span=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_a_window_equals_a_plain_count(all_rows, advances, span, seed):
    random = Random(seed)
    windows = Windows(span_s=span, key_limit=1000)
    windows.tick(START_NS + 30 * SECOND_NS)
    clock = newest = START_NS + 30 * SECOND_NS
    timed: list = []
    late = 0
    random.shuffle(all_rows)
    cuts = sorted(random.choices(range(len(all_rows) + 1), k=len(advances) - 1))
    for advance, (first, last) in zip(advances, pairwise([0, *cuts, len(all_rows)]), strict=True):
        clock += advance
        if clock // SECOND_NS <= newest // SECOND_NS - span:
            timed, newest = [], clock
        newest = max(newest, clock)
        number = newest // SECOND_NS
        for item in all_rows[first:last]:
            step = time_of(item, newest) // SECOND_NS
            late += step <= number - span
            timed.append((item, min(max(step, number - span + 1), number)))
        for block in blocks_of(all_rows[first:last], random):
            windows.add(block, clock)
        snapshot = windows.snapshot(clock)
        check(snapshot, in_window(timed, number, span))
        assert snapshot.rows == last
        assert snapshot.late_rows == late


@given(cut=st.integers(0, 120), seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_figures_do_not_depend_on_how_rows_are_split_into_batches(cut, seed):
    random = Random(seed)
    all_rows = plain_traffic(120)
    end = time_at(1)
    whole, parts = Windows(), Windows()
    whole.add(RowBlock.of_rows(all_rows), end)
    for block in [*blocks_of(all_rows[:cut], random), *blocks_of(all_rows[cut:], random)]:
        parts.add(block, end)
    assert parts.snapshot(end) == whole.snapshot(end)


@pytest.mark.parametrize("size", often([1, 511, 512, 1100], [1, 511]))
def test_figures_do_not_depend_on_the_size_of_batches(size):
    all_rows = plain_traffic(1100)
    whole, parts = Windows(), Windows()
    whole.add(RowBlock.of_rows(all_rows), time_at(1))
    for first in range(0, 1100, size):
        block = RowBlock.of_rows(all_rows[first : first + size])
        parts.add(block, time_at(1))
    assert parts.snapshot(time_at(1)) == whole.snapshot(time_at(1))


def test_rows_belong_to_the_time_when_they_came():
    windows = Windows(span_s=3)
    windows.add(RowBlock.of_rows([row_at(10)]), time_at(10))
    windows.add(RowBlock.of_rows([row_at(8), row_at(7)]), time_at(10))
    windows.tick(time_at(12))
    snapshot = windows.snapshot(time_at(12))
    assert (snapshot.rows, snapshot.late_rows, snapshot.traffic.requests) == (3, 1, 1)


def test_the_steps_of_the_history_sum_up_to_all_rows():
    all_rows = plain_traffic(2000)
    windows = Windows(step_s=0.05, span_s=1)
    for first in range(0, 2000, 100):
        rows_of_step = all_rows[first : first + 100]
        windows.add(
            RowBlock.of_rows(rows_of_step), max(item.response_start_ns for item in rows_of_step)
        )
    snapshot = windows.snapshot(time_at(1))
    sums = [sum(column) for column in zip(*snapshot.history, strict=True)]
    assert Amounts(*sums) == amounts_of(all_rows)
    assert snapshot.late_rows == 0


# -- time -----------------------------------------------------------------------------------------


def test_rates_are_over_the_elapsed_time_at_first():
    windows = Windows()
    windows.tick(time_at(0))
    windows.add(RowBlock.of_rows([row_at(1), row_at(2), row_at(3.5)]), time_at(4))
    snapshot = windows.snapshot(time_at(4))
    assert snapshot.window_ns == 4 * SECOND_NS
    assert snapshot.per_second(snapshot.traffic.requests) == 0.75


def test_rates_are_over_the_window_later():
    windows = Windows()
    windows.tick(time_at(0))
    windows.add(RowBlock.of_rows([row_at(second) for second in range(100)]), time_at(99.5))
    windows.tick(time_at(120.25))
    windows.add(RowBlock.of_rows([row_at(115), row_at(116)]), time_at(120.5))
    snapshot = windows.snapshot(time_at(120.5))
    assert snapshot.window_ns == 9.5 * SECOND_NS
    assert snapshot.traffic.requests == 2


def test_a_window_is_never_shorter_than_a_step():
    assert snapshot_of([row_at(0)], 0).window_ns == SECOND_NS


def test_rows_from_before_the_first_time_lengthen_the_window():
    snapshot = snapshot_of([row_at(1), row_at(5)], 5)
    assert snapshot.window_ns == 4 * SECOND_NS
    assert [step.requests for step in snapshot.history] == [1, 0, 0, 0, 1]


def test_old_steps_are_dropped():
    windows = Windows(span_s=3)
    windows.add(RowBlock.of_rows([row_at(0), row_at(1), row_at(2)]), time_at(2))
    counts = [windows.snapshot(time_at(second)).traffic.requests for second in (2, 3, 4, 5)]
    assert counts == [3, 2, 1, 0]


def test_late_rows_are_counted_in_the_oldest_step():
    windows = Windows(span_s=3)
    windows.add(RowBlock.of_rows([row_at(10)]), time_at(10))
    windows.add(RowBlock.of_rows([row_at(1), unanswered(request_start_ns=time_at(2))]), time_at(10))
    snapshot = windows.snapshot(time_at(10))
    assert snapshot.late_rows == 2
    assert snapshot.traffic.requests == 3
    assert windows.snapshot(time_at(11)).traffic.requests == 1


def test_rows_ahead_of_the_clock_are_counted_now():
    snapshot = snapshot_of([row_at(1), row_at(5000)], 1)
    assert snapshot.traffic.requests == 2
    assert snapshot.late_rows == 0


@pytest.mark.parametrize("hours", [1, 24, 100_000])
def test_a_clock_that_jumps_ahead_drops_all_steps(hours):
    windows = Windows()
    windows.add(RowBlock.of_rows([row_at(1), failed("t", 6, "SIX")]), time_at(1))
    snapshot = windows.snapshot(time_at(3600 * hours))
    assert snapshot.traffic == (0, 0, 0, 0, 0)
    assert (snapshot.apis, snapshot.clients, snapshot.topics, snapshot.errors) == ((), (), (), ())
    assert snapshot.slowest == ()
    assert len(snapshot.history) == HISTORY_STEPS


def test_the_time_stands_still_if_the_clock_is_set_back_a_little():
    windows = Windows()
    windows.add(RowBlock.of_rows([row_at(20)]), time_at(20))
    windows.add(RowBlock.of_rows([row_at(15)]), time_at(15))
    snapshot = windows.snapshot(time_at(15))
    assert snapshot.traffic.requests == 2
    assert snapshot.late_rows == 0
    assert windows.snapshot(time_at(25)).traffic.requests == 1


@pytest.mark.parametrize("back_s", [10, 3600, 10**9])
def test_a_clock_set_back_further_clears_the_windows(back_s):
    windows = Windows()
    windows.add(RowBlock.of_rows([row_at(0)]), time_at(0))
    windows.add(RowBlock.of_rows([row_at(-back_s), row_at(-back_s)]), time_at(-back_s))
    for second in range(20):
        windows.add(RowBlock.of_rows([row_at(second - back_s)]), time_at(second - back_s))
    snapshot = windows.snapshot(time_at(19 - back_s))
    assert snapshot.rows == 23
    assert snapshot.traffic.requests == 10
    assert snapshot.late_rows == 0


def test_without_rows_all_sums_are_zero():
    snapshot = Windows().snapshot(time_at(0))
    assert snapshot.traffic == (0, 0, 0, 0, 0)
    assert snapshot.history == (Amounts(0, 0, 0, 0),)
    assert snapshot.error_share == 0


def test_clear_removes_rows_but_not_the_state_of_the_capture():
    windows = Windows()
    windows.add_capture(state(packets=5), time_at(1))
    windows.add(RowBlock.of_rows([row_at(1), failed("t", 6, "SIX", group_id="g")]), time_at(1))
    windows.clear()
    snapshot = windows.snapshot(time_at(2))
    assert (snapshot.rows, snapshot.traffic.requests, snapshot.slowest) == (0, 0, ())
    assert snapshot.capture == state(packets=5)
    windows.add_capture(state(packets=7), time_at(2))
    assert windows.snapshot(time_at(2)).packets == 2


def test_windows_can_be_cleared_before_anything_comes():
    windows = Windows()
    windows.clear()
    assert windows.snapshot(time_at(0)).rows == 0


@pytest.mark.parametrize(("span_s", "step_s"), [(1, 2), (10, 0), (10, -1), (1, 0.0001)])
def test_an_invalid_window_is_refused(span_s, step_s):
    with pytest.raises(UsageError, match="cannot be made of steps"):
        Windows(span_s, step_s)


# -- separate entries -----------------------------------------------------------------------------


def test_long_polls_have_their_own_entry():
    all_rows = [
        fetch(waited=True, latency_ns=500_000_000),
        fetch(latency_ns=1_000),
        fetch(latency_ns=3_000),
    ]
    apis = {(api.api_name, api.waited): api for api in snapshot_of(all_rows, 0).apis}
    assert apis["Fetch", True].p50_ns == 500_000_000
    assert apis["Fetch", False].p99_ns == 3_000
    assert apis["Fetch", False].requests == 2


def test_an_orphan_response_has_no_client():
    snapshot = snapshot_of([orphan()], 0)
    assert snapshot.clients == ()
    assert snapshot.traffic == (0, 0, 0, 50, 0)


def test_the_same_client_id_from_two_addresses_is_two_clients():
    clients = snapshot_of([row(), row(client_ip="10.0.0.2"), row()], 0).clients
    assert [(client.client_ip, client.requests) for client in clients] == [
        ("10.0.0.1", 2),
        ("10.0.0.2", 1),
    ]


def test_the_slowest_requests_of_the_last_minute_are_kept():
    windows = Windows()
    for second in range(100):
        all_rows = [
            row_at(second, latency_ns=second * 1000 + n, client_id=f"c{n}") for n in range(3)
        ]
        all_rows.append(row_at(second, api_name="Fetch", waited=True, latency_ns=10**12))
        windows.add(RowBlock.of_rows(all_rows), time_at(second))
    slowest = windows.snapshot(time_at(99)).slowest
    assert len(slowest) == MAX_SLOWEST
    assert [entry["latency_ns"] for entry in slowest[:4]] == [99_002, 99_001, 99_000, 98_002]
    assert slowest[0]["client_id"] == "c2"
    assert slowest[0]["topics"] == ["orders"]
    assert slowest[0]["connection"] == "10.0.0.1:40000>10.0.0.9:9092"
    kept = windows.snapshot(time_at(140)).slowest
    assert kept[0]["latency_ns"] == 99_002
    assert windows.snapshot(time_at(160)).slowest == ()


def test_only_groups_with_events_are_listed():
    rejoin = failed(None, 27, "REBALANCE_IN_PROGRESS", api_name="Heartbeat", group_id="g")
    all_rows = [
        row(api_name="Heartbeat", group_id="calm"),
        row_at(1, api_name="JoinGroup", group_id="g", latency_ns=3_000_000_000),
        row_at(2, api_name="JoinGroup", group_id="g", latency_ns=2_000_000_000),
        row_at(3, api_name="SyncGroup", group_id="g", latency_ns=9_000_000_000),
        rejoin,
        row_at(2.5, api_name="SyncGroup", group_id="other"),
        row_at(4, api_name="JoinGroup", group_id=None),
        failed(None, 25, "UNKNOWN_MEMBER_ID", api_name="Heartbeat", group_id="calm"),
    ]
    first, second, third = snapshot_of(all_rows, 5).groups
    assert (first.group_id, first.joins, first.syncs, first.told) == ("g", 2, 1, 1)
    assert (first.longest_join_ns, first.longest_sync_ns) == (3_000_000_000, 9_000_000_000)
    assert (first.protocol, first.last_time_ns) == ("classic", time_at(3))
    assert (second.group_id, second.syncs, second.last_time_ns) == ("other", 1, time_at(2.5))
    assert (third.group_id, third.errors) == ("calm", 1)
    assert third.last_error_name == "UNKNOWN_MEMBER_ID"


def test_groups_are_kept_for_a_minute():
    windows = Windows()
    windows.add(RowBlock.of_rows([row_at(1, api_name="JoinGroup", group_id="g")]), time_at(1))
    assert windows.snapshot(time_at(50)).groups[0].joins == 1
    assert windows.snapshot(time_at(70)).groups == ()


def test_every_error_code_is_counted():
    errors = [ErrorItem("a", 0, 6, "SIX"), ErrorItem("a", 1, 6, "SIX"), ErrorItem("b", 0, 3, "X")]
    snapshot = snapshot_of([row_at(1, status="error", errors=errors), row_at(2)], 2)
    assert [(e.error_name, e.topic, e.occurrences) for e in snapshot.errors] == [
        ("SIX", "a", 2),
        ("X", "b", 1),
    ]
    assert snapshot.errors[0].last_time_ns == time_at(1)
    assert snapshot.error_share == 0.5


def latencies_of(all_rows) -> list[int]:
    return [
        item.latency_ns
        for item in all_rows
        if item.latency_ns is not None
        and item.waited is not True
        and item.api_name not in ("JoinGroup", "SyncGroup")
    ]


@pytest.mark.parametrize("count", often([1, 100, 512, 513, 5000, 20_000], [1, 512, 513, 5000]))
def test_percentiles_are_those_of_numpy(count):
    random = Random(count)
    latencies = [int(random.lognormvariate(15, 2)) for _ in range(count)]
    snapshot = snapshot_of(
        [row_at(n % 9, latency_ns=latency) for n, latency in enumerate(latencies)], 9
    )
    for share, overall, of_api in (
        (50, snapshot.p50_ns, snapshot.apis[0].p50_ns),
        (99, snapshot.p99_ns, snapshot.apis[0].p99_ns),
    ):
        expected = int(np.percentile(latencies, share, method="inverted_cdf"))
        assert overall == of_api
        # Exact for few latencies, and within the width of a bucket for many.
        assert abs(overall - expected) <= (0 if count <= EXACT_LIMIT else expected * RELATIVE_ERROR)


def test_latencies_are_kept_over_all_apis_and_by_step():
    all_rows = [_moved_to(item, n % 20) for n, item in enumerate(plain_traffic(3000))]
    all_rows.sort(key=lambda item: item.response_start_ns)
    windows = Windows()
    for second in range(20):
        rows_of_step = [
            r for r in all_rows if r.response_start_ns // SECOND_NS == time_at(second) // SECOND_NS
        ]
        windows.add(RowBlock.of_rows(rows_of_step), time_at(second + 0.9))
        windows.snapshot(time_at(second + 0.95))
    snapshot = windows.snapshot(time_at(19.95))
    # The history has steps that have left the window.
    for second, p99_ns in enumerate(snapshot.p99_history):
        rows_of_step = [
            r for r in all_rows if r.response_start_ns // SECOND_NS == time_at(second) // SECOND_NS
        ]
        assert p99_ns == quantile(latencies_of(rows_of_step), 0.99)
    assert len(snapshot.p99_history) == len(snapshot.history) == 20
    window = [r for r in all_rows if r.response_start_ns // SECOND_NS > time_at(9) // SECOND_NS]
    assert snapshot.p50_ns == pytest.approx(quantile(latencies_of(window), 0.5), rel=RELATIVE_ERROR)


def _moved_to(item, second: int):
    return item._replace(response_start_ns=time_at(second + 0.5), request_start_ns=time_at(second))


# -- state of the capture -------------------------------------------------------------------------


def test_packets_of_the_capture_are_counted_in_the_window():
    windows = Windows()
    windows.add_capture(state(packets=100, wire_bytes=5_000), time_at(0))
    windows.add_capture(state(packets=160, wire_bytes=9_000, dropped_packets=3), time_at(2))
    snapshot = windows.snapshot(time_at(2))
    assert (snapshot.packets, snapshot.wire_bytes, snapshot.dropped_packets) == (160, 9_000, 3)
    assert snapshot.capture.packets == 160
    assert windows.snapshot(time_at(10)).packets == 60
    assert windows.snapshot(time_at(12)).dropped_packets == 0


def test_counts_of_a_restarted_capture_are_added():
    windows = Windows()
    windows.add_capture(state(packets=100, dropped_packets=9), time_at(0))
    windows.add_capture(state(packets=30, dropped_packets=None), time_at(1))
    windows.add_capture(state(packets=31, dropped_packets=2), time_at(1))
    snapshot = windows.snapshot(time_at(1))
    assert snapshot.packets == 131
    assert snapshot.dropped_packets == 11


def test_the_idle_time_is_that_since_the_last_packet():
    windows = Windows()
    windows.add_capture(state(packets=0), time_at(0))
    assert windows.snapshot(time_at(7)).idle_ns == 7 * SECOND_NS
    windows.add_capture(state(packets=1), time_at(8))
    windows.add_capture(state(packets=1), time_at(9))
    assert windows.snapshot(time_at(9)).idle_ns == SECOND_NS


@pytest.mark.parametrize("jump_s", [3600, -3600, 10**9, -(10**9)])
def test_rates_stay_plausible_if_the_clock_jumps(jump_s):
    windows = Windows()
    clock_s = 0.0
    for number in range(60):
        clock_s += jump_s if number == 20 else 0.2
        # The clock jumps back again: only some packets had a wrong time.
        clock_s -= jump_s if number == 40 else 0
        windows.add_capture(state(packets=100 * number, wire_bytes=number), time_at(clock_s))
        windows.add(RowBlock.of_rows([row_at(clock_s)] * 10), time_at(clock_s))
        snapshot = windows.snapshot(time_at(clock_s))
        assert SECOND_NS <= snapshot.window_ns <= 10 * SECOND_NS
        assert 0 < snapshot.per_second(snapshot.traffic.requests) <= 60
        assert 0 <= snapshot.per_second(snapshot.packets) <= 600
        assert 0 <= snapshot.idle_ns <= SECOND_NS
        assert len(snapshot.history) == len(snapshot.p99_history) <= HISTORY_STEPS
        assert snapshot.late_rows == 0


# -- bounds ---------------------------------------------------------------------------------------


def test_keys_beyond_the_limit_share_one_entry():
    all_rows = [
        failed(f"t{n}", 3, "X", client_id=f"c{n}", partitions=[partition(f"t{n}")])
        for n in range(30)
    ]
    all_rows += [row(api_name="JoinGroup", group_id=f"g{n}") for n in range(30)]
    snapshot = snapshot_of(all_rows, 0, key_limit=5)
    for table in (snapshot.clients, snapshot.topics, snapshot.groups, snapshot.errors):
        assert [entry.other for entry in table].count(True) == 1
        assert table[-1].other
        assert len(table) <= 6
    assert sum(client.requests for client in snapshot.clients) == 60
    assert sum(error.occurrences for error in snapshot.errors) == 30
    assert sum(group.joins for group in snapshot.groups) == 30


def test_the_number_of_apis_is_limited():
    snapshot = snapshot_of([row(api_key=key, api_name=None) for key in range(-500, 500)], 0)
    assert len(snapshot.apis) == 128 + 1
    assert sum(api.requests for api in snapshot.apis) == 1000


def test_long_texts_are_shortened():
    snapshot = snapshot_of([row(client_id="x" * 30_000, partitions=[partition("t" * 30_000)])], 0)
    assert len(snapshot.clients[0].client_id) < 300
    assert len(snapshot.topics[0].topic) < 300
    assert len(snapshot.slowest[0]["client_id"]) < 300


def random_keys(block: RowBlock, second: int, random: Random) -> RowBlock:
    """Return the same rows at another time, with other clients, topics and groups."""
    columns = dict(block.columns)
    for name in ("request_start_ns", "response_start_ns"):
        times = columns[name]
        columns[name] = Ints(shifted(times.values, second * SECOND_NS), times.valid)
    for name in ("client_id", "group_id"):
        texts = columns[name]
        columns[name] = Words(texts.codes, [random.randbytes(4).hex() for _ in texts.words])
    latency = columns["latency_ns"]
    columns["latency_ns"] = Ints(shifted(latency.values, random.randrange(10**9)), latency.valid)
    return RowBlock(len(block), columns)


@pytest.mark.long
@pytest.mark.parametrize(
    ("history", "steps"),
    [(40, 50), pytest.param(HISTORY_STEPS, 10_000, marks=pytest.mark.long)],
)
def test_memory_does_not_grow_with_time(history, steps, monkeypatch):
    monkeypatch.setattr("kanalyze.live.window.windows.HISTORY_STEPS", history)
    all_rows = [
        failed(f"t{n}", 27, "REBALANCE_IN_PROGRESS", client_id=f"c{n}", group_id=f"g{n}")
        for n in range(8)
    ]
    block = RowBlock.of_rows(all_rows)
    windows = Windows(span_s=3, key_limit=10)
    random = Random(1)
    sizes = []
    tracemalloc.start()
    try:
        for second in range(2 * history + steps):
            batch = random_keys(block, second, random)
            windows.add(batch, time_at(second))
            if second >= 2 * history and second % (steps // 5) == 0:
                windows.snapshot(time_at(second))
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(sizes) < 1.05 * min(sizes), sizes
