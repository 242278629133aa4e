"""Windows, the rows that they keep, and windows over a part of those rows."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter, defaultdict
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.int_columns import shifted
from kanalyze.live.window import windows as windows_module
from kanalyze.live.window.row_measures import RowChoice, RowMeasures
from kanalyze.live.window.snapshot import Amounts, CaptureState, Snapshot
from kanalyze.live.window.sums import EXACT_LIMIT, RELATIVE_ERROR
from kanalyze.live.window.windows import (
    HISTORY_STEPS,
    MAX_SLOWEST,
    RecentRows,
    SlowestRows,
    Windows,
)
from kanalyze.model.tcp import Endpoint
from kanalyze.tables.columns.block import Ints, RowBlock, Words
from tests.support.captures import often
from tests.support.row_blocks import blocks_of
from tests.support.rows import (
    START_NS,
    failed,
    partition,
    plain_traffic,
    row,
    rows,
    unanswered,
)

ALL_ROWS = RowChoice()
SECOND_NS = 1_000_000_000


def block(*numbers: int, **columns) -> RowBlock:
    """Return rows with these packet numbers, a second apart. Later rows have lower latencies."""
    return RowBlock.of_rows(
        [
            row(
                request_packet=number,
                request_start_ns=START_NS + number * SECOND_NS,
                response_start_ns=START_NS + number * SECOND_NS,
                latency_ns=1000 - number,
                **columns,
            )
            for number in numbers
        ]
    )


def packets_found(
    kept: RecentRows, choice=ALL_ROWS, *, since=0, most=100, slowest=False
) -> list[int]:
    rows, count = kept.find(choice, since_ns=since, most=most, slowest=slowest)
    assert count >= len(rows)
    return [item.request_packet for item in rows]


def filled() -> RecentRows:
    kept = RecentRows(60)
    kept.begin()
    for step, numbers in enumerate([(1, 2), (5, 3), (4,)]):
        kept.add(step, block(*numbers, client_id=f"c{step}"))
    return kept


def test_the_latest_or_the_slowest_come_first():
    assert packets_found(filled()) == [5, 4, 3, 2, 1]
    assert packets_found(filled(), slowest=True) == [1, 2, 3, 4, 5]
    assert packets_found(filled(), slowest=True, most=2) == [1, 2]
    assert packets_found(filled(), most=2) == [5, 4]
    assert filled().find(ALL_ROWS, since_ns=0, most=2, slowest=True)[1] == 5
    kept = RecentRows(60)
    kept.add(1, RowBlock.of_rows([row(latency_ns=None, request_packet=7), row(request_packet=8)]))
    assert packets_found(kept, slowest=True) == [8, 7]


def test_rows_are_selected_by_condition_and_by_time():
    assert packets_found(filled(), RowChoice({"client_id": "c1"})) == [5, 3]
    assert packets_found(filled(), since=START_NS + 3 * SECOND_NS) == [5, 4, 3]


def test_rows_of_old_steps_are_dropped():
    kept = RecentRows(2)
    kept.begin()
    for step in range(5):
        kept.add(step, block(step))
    assert packets_found(kept) == [4, 3]
    assert kept.first_step == 3


@pytest.mark.parametrize(("name", "limit"), [("MAX_ROWS", 5), ("MAX_BYTES", 40_000)])
def test_memory_is_bounded(monkeypatch, name, limit):
    monkeypatch.setattr(windows_module, name, limit)
    kept = RecentRows(60)
    kept.begin()
    for number in range(50):
        kept.add(number, block(number, client_id=f"{number}" + "x" * 5000))
    assert packets_found(kept)[0] == 49
    assert 1 < len(packets_found(kept)) < 10
    assert kept.first_step > 40
    # The latest block is kept, however large it is.
    kept.add(51, block(*range(100), client_id="y" * 50_000))
    assert len(packets_found(kept)) == 100


def slowest_of(*blocks) -> list[dict]:
    """Return the slowest of rows that come in these blocks."""
    slowest = SlowestRows()
    for of_block in blocks:
        block = RowBlock.of_rows(of_block)
        slowest.add(RowMeasures(block.columns), block)
    return slowest.to_list()


def test_only_the_slowest_rows_are_kept_slowest_first():
    rows = [row(latency_ns=number, request_packet=number) for number in range(100)]
    # Those without a latency of the broker are not slow.
    rows += [row(latency_ns=None), row(latency_ns=10**9, waited=True)]
    for blocks in ([rows], [[item] for item in rows], [[item] for item in rows[::-1]]):
        slowest = slowest_of(*blocks)
        assert [item["latency_ns"] for item in slowest] == list(range(99, 99 - MAX_SLOWEST, -1))
        assert slowest[0]["request_packet"] == 99


def test_the_earliest_of_equally_slow_requests_are_kept_in_any_order():
    rows = [row(latency_ns=5, request_start_ns=START_NS + number) for number in range(30)]
    forwards = slowest_of(*([item] for item in rows))
    assert forwards == slowest_of(*([item] for item in rows[::-1])) == slowest_of(rows[::-1])
    assert forwards[0]["request_start_ns"] == START_NS


def test_merged_requests_are_those_of_both_in_any_order():
    rows = [row(latency_ns=number % 7, correlation_id=number) for number in range(40)]
    parts = []
    for part in (rows[::2], rows[1::2]):
        block = RowBlock.of_rows(part)
        parts.append(SlowestRows())
        parts[-1].add(RowMeasures(block.columns), block)
    for one, other in (parts, parts[::-1]):
        merged = SlowestRows()
        merged.merge(one)
        merged.merge(other)
        assert merged.to_list() == slowest_of(rows)


def test_a_slow_request_names_a_few_topics():
    items = [partition(name) for name in "dcba"] + [partition(None, topic_id="id")]
    (entry,) = slowest_of([row(partitions=items)])
    assert (entry["topics"], entry["more_topics"]) == (["a", "b", "c"], True)


ONE_CLIENT = RowChoice(naming="client-3")


def traffic(second: int, count: int = 200):
    later_ns = second * SECOND_NS
    return [
        item._replace(
            request_start_ns=item.request_start_ns + later_ns,
            response_start_ns=item.response_start_ns + later_ns,
        )
        for item in plain_traffic(count)
        if item.response_start_ns is not None and item.request_start_ns is not None
    ]


def add_traffic(seconds: range, windows: Windows) -> None:
    random = Random(1)
    for second in seconds:
        now_ns = START_NS + (second + 1) * SECOND_NS - 1
        rows = traffic(second)
        while rows:
            count = random.randrange(1, 90)
            windows.add(RowBlock.of_rows(rows[:count]), now_ns)
            rows = rows[count:]


def started() -> Windows:
    windows = Windows(keeps_rows=True)
    windows.tick(START_NS)
    return windows


def figures(snapshot):
    """Return the fields of a snapshot that are about requests."""
    return (
        *(snapshot.traffic, snapshot.p50_ns, snapshot.p99_ns, snapshot.window_ns),
        *(snapshot.history, snapshot.p99_history),
        *(snapshot.apis, snapshot.clients, snapshot.brokers, snapshot.topics, snapshot.slowest),
        *(snapshot.errors, snapshot.groups),
    )


def figures_of_chosen_rows(windows: Windows, end_ns: int):
    """Return the figures of windows to which only the selected rows were added."""
    chosen_windows = Windows()
    chosen_windows.tick(START_NS)
    for kept in windows.recent_rows.blocks:
        numbers = [n for n, is_chosen in enumerate(ONE_CLIENT(kept.block)) if is_chosen]
        chosen_windows.add(kept.block.take(numbers), kept.step * SECOND_NS)
    return figures(chosen_windows.snapshot(end_ns))


def test_sums_are_those_of_the_matching_rows_as_more_rows_come():
    windows = started()
    add_traffic(range(5), windows)
    windows.snapshot(START_NS + 5 * SECOND_NS - 1)
    windows.filter_by(ONE_CLIENT)
    for seconds in (5, 12):
        add_traffic(range(5, seconds), windows)
        whole = windows.snapshot(START_NS + seconds * SECOND_NS - 1)
        snapshot = windows.filtered(whole)
        assert 0 < snapshot.traffic.requests < whole.traffic.requests
        assert {client.client_id for client in snapshot.clients} == {"client-3"}
        assert figures(snapshot) == figures_of_chosen_rows(windows, whole.time_ns)


def test_counts_of_the_capture_are_not_filtered():
    windows = started()
    add_traffic(range(2), windows)
    end_ns = START_NS + 2 * SECOND_NS
    windows.add_capture(CaptureState("eth0", 500, 60_000, 7, 3, SECOND_NS), end_ns)
    whole = windows.snapshot(end_ns)
    windows.filter_by(ONE_CLIENT)
    snapshot = windows.filtered(whole)
    assert (snapshot.packets, snapshot.wire_bytes, snapshot.dropped_packets) == (500, 60_000, 7)
    assert (snapshot.capture, snapshot.idle_ns, snapshot.unfiltered) == (
        whole.capture,
        whole.idle_ns,
        whole,
    )


def test_a_step_with_dropped_rows_is_left_out(monkeypatch):
    monkeypatch.setattr(windows_module, "MAX_ROWS", 450)
    windows = started()
    add_traffic(range(6), windows)
    whole = windows.snapshot(START_NS + 6 * SECOND_NS - 1)
    windows.filter_by(RowChoice())
    snapshot = windows.filtered(whole)
    seconds = snapshot.window_ns / SECOND_NS
    assert seconds < whole.window_ns / SECOND_NS
    per_second = whole.traffic.requests / (whole.window_ns / SECOND_NS)
    assert abs(snapshot.traffic.requests / seconds - per_second) < per_second / 2


def test_clearing_the_windows_clears_the_filtered_sums():
    windows = started()
    add_traffic(range(3), windows)
    whole = windows.snapshot(START_NS + 3 * SECOND_NS)
    windows.filter_by(ONE_CLIENT)
    assert windows.filtered(whole).traffic.requests
    windows.clear()
    assert windows.filtered(windows.snapshot(START_NS + 3 * SECOND_NS)).traffic.requests == 0


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


@pytest.mark.parametrize("size", often([1, 511, 512, 1100], [1, 511]))
def test_figures_do_not_depend_on_the_size_of_batches(size):
    all_rows = plain_traffic(1100)
    whole, parts = Windows(), Windows()
    whole.add(RowBlock.of_rows(all_rows), time_at(1))
    for first in range(0, 1100, size):
        block = RowBlock.of_rows(all_rows[first : first + size])
        parts.add(block, time_at(1))
    assert parts.snapshot(time_at(1)) == whole.snapshot(time_at(1))


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


def test_rates_are_over_the_elapsed_time_at_first_and_over_the_window_later():
    windows = Windows()
    windows.tick(time_at(0))
    windows.add(RowBlock.of_rows([row_at(1), row_at(2), row_at(3.5)]), time_at(4))
    snapshot = windows.snapshot(time_at(4))
    assert snapshot.window_ns == 4 * SECOND_NS
    assert snapshot.per_second(snapshot.traffic.requests) == 0.75
    windows.add(RowBlock.of_rows([row_at(second) for second in range(100)]), time_at(99.5))
    windows.tick(time_at(120.25))
    windows.add(RowBlock.of_rows([row_at(115), row_at(116)]), time_at(120.5))
    snapshot = windows.snapshot(time_at(120.5))
    assert snapshot.window_ns == 9.5 * SECOND_NS
    assert snapshot.traffic.requests == 2


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


def test_the_time_stands_still_if_the_clock_is_set_back_a_little():
    windows = Windows()
    windows.add(RowBlock.of_rows([row_at(20)]), time_at(20))
    windows.add(RowBlock.of_rows([row_at(15)]), time_at(15))
    snapshot = windows.snapshot(time_at(15))
    assert snapshot.time_ns == time_at(20)
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
    windows = Windows()
    windows.clear()
    snapshot = windows.snapshot(time_at(0))
    assert (snapshot.rows, snapshot.window_ns) == (0, SECOND_NS)
    assert snapshot.traffic == (0, 0, 0, 0, 0)
    assert snapshot.history == (Amounts(0, 0, 0, 0),)
    assert snapshot.error_share == 0


# -- separate entries -----------------------------------------------------------------------------


def test_the_slowest_requests_and_groups_of_the_last_minute_are_kept():
    windows = Windows()
    for second in range(100):
        all_rows = [
            row_at(second, latency_ns=second * 1000 + n, client_id=f"c{n}") for n in range(3)
        ]
        all_rows.append(row_at(second, api_name="Fetch", waited=True, latency_ns=10**12))
        all_rows.append(row_at(second, api_name="JoinGroup", group_id="g", latency_ns=None))
        windows.add(RowBlock.of_rows(all_rows), time_at(second))
    slowest = windows.snapshot(time_at(99)).slowest
    assert len(slowest) == MAX_SLOWEST
    assert [entry["latency_ns"] for entry in slowest[:4]] == [99_002, 99_001, 99_000, 98_002]
    assert slowest[0]["client_id"] == "c2"
    assert slowest[0]["topics"] == ["orders"]
    assert slowest[0]["connection"] == "10.0.0.1:40000>10.0.0.9:9092"
    snapshot = windows.snapshot(time_at(140))
    assert snapshot.slowest[0]["latency_ns"] == 99_002
    assert [group.group_id for group in snapshot.groups] == ["g"]
    snapshot = windows.snapshot(time_at(160))
    assert snapshot.slowest == snapshot.groups == ()


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
    # A capture that begins again counts from 0.
    windows.add_capture(state(packets=30, dropped_packets=None), time_at(12))
    windows.add_capture(state(packets=31, dropped_packets=2), time_at(12))
    snapshot = windows.snapshot(time_at(12))
    assert (snapshot.packets, snapshot.dropped_packets) == (31, 2)
    windows.add(RowBlock.of_rows([row_at(12), failed("t", 6, "SIX", group_id="g")]), time_at(12))
    windows.clear()  # rows are forgotten, but not the state of the capture
    windows.add_capture(state(packets=33, dropped_packets=2), time_at(12))
    snapshot = windows.snapshot(time_at(12))
    assert (snapshot.rows, snapshot.traffic.requests, snapshot.slowest) == (0, 0, ())
    assert (snapshot.packets, snapshot.dropped_packets) == (2, 0)


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
