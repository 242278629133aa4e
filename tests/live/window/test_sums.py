from __future__ import annotations

from kanalyze.live.window.latency_sketch import Latencies
from kanalyze.live.window.sums import Amounts, EndSums, EndTotals, ErrorSums, SlowestRows, Traffic
from tests.support.rows import START_NS, partition, row

MAX_ROWS = 10


def test_sums_of_an_endpoint_are_added_with_their_latencies():
    one, other = EndTotals(), EndTotals()
    one.add(EndSums(3, 1, 30, 60, 1, Latencies.of([1, 2, 3])))
    other.add(EndSums(1, 0, 5, 6, 0, Latencies.of([500])))
    one.merge(other)
    assert one.figures == (4, 1, 35, 66, 1, 2, 500)
    assert EndTotals().figures == (0, 0, 0, 0, 0, None, None)


def test_merged_errors_keep_the_latest_time():
    one = ErrorSums(2, 50)
    one.merge(ErrorSums(1, 70))
    one.merge(ErrorSums(1, None))
    assert (one.count, one.last_time_ns) == (4, 70)
    assert ErrorSums().last_time_ns is None


def slowest_of(rows) -> SlowestRows:
    slowest = SlowestRows(MAX_ROWS)
    for item in rows:
        slowest.add([item], item.latency_ns)
    return slowest


def test_only_the_slowest_rows_are_kept_slowest_first():
    rows = [row(latency_ns=number, request_packet=number) for number in range(100)]
    slowest = slowest_of(rows).to_list()
    assert [item["latency_ns"] for item in slowest] == list(range(99, 99 - MAX_ROWS, -1))
    assert slowest[0]["request_packet"] == 99


def test_the_earliest_of_equally_slow_requests_are_kept_in_any_order():
    rows = [row(latency_ns=5, request_start_ns=START_NS + number) for number in range(30)]
    forwards = slowest_of(rows).to_list()
    assert forwards == slowest_of(rows[::-1]).to_list()
    assert forwards[0]["request_start_ns"] == START_NS


def test_a_slow_request_names_a_few_topics():
    items = [partition(name) for name in "dcba"] + [partition(None, topic_id="id")]
    (entry,) = slowest_of([row(partitions=items)]).to_list()
    assert (entry["topics"], entry["more_topics"]) == (["a", "b", "c"], True)


def test_a_request_without_a_latency_is_not_slow():
    slowest = SlowestRows(MAX_ROWS)
    slowest.add([row(latency_ns=None), row(latency_ns=3)], 3)
    assert [item["latency_ns"] for item in slowest.to_list()] == [3]


def test_amounts_beyond_64_bits_are_exact():
    traffic = Traffic()
    for _ in range(3):
        traffic.count(Amounts(1, 0, 2**63 - 1, 0))
    assert traffic.amounts.request_bytes == 3 * (2**63 - 1)
