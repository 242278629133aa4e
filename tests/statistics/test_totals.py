from __future__ import annotations

from kanalyze.statistics.quantile_sketch import Int64Values
from kanalyze.statistics.totals import (
    MAX_SLOWEST,
    MAX_VERSIONS,
    ApiTotals,
    ErrorTotals,
    RecordTotals,
    RowSums,
    SlowestRequests,
)
from tests.support.rows import START_NS, partition, row


def sums(status: str = "ok", **changes) -> RowSums:
    plain = {
        "status": status,
        "rows": 3,
        "responses": 3,
        "request_bytes": 30,
        "response_bytes": 60,
        "throttled": 1,
        "throttle_time_ms": 7,
        "latencies_ns": Int64Values.of([1, 2, 3]),
        "total_times_ns": Int64Values.of([4, 5, 6]),
        "waited": False,
        "records": RecordTotals(9, 90, 0),
    }
    return RowSums(**(plain | changes))


def test_an_orphan_response_is_no_request():
    assert sums("orphan_response").requests == 0
    assert sums().requests == 3


def test_only_rows_with_an_error_status_are_errors():
    assert [sums(status).errors for status in ("ok", "error", "malformed")] == [0, 3, 0]


def test_fetches_that_waited_are_counted_apart_in_latency_and_together_in_counts():
    api = ApiTotals()
    api.add(12, sums())
    api.add(12, sums(waited=True, latencies_ns=Int64Values.of([500])))
    plain = api.to_dict()
    assert plain["requests"] == 6
    assert plain["latency_ns"]["max"] == 3
    assert plain["waited"]["requests"] == 3
    assert plain["waited"]["latency_ns"]["max"] == 500
    assert plain["waited"]["request_bytes"] == 30
    assert plain["waited"]["record_count"] == 9
    assert plain["record_count"] == 18


def test_an_api_without_records_has_no_record_count():
    api = ApiTotals()
    api.add(0, sums(records=None))
    plain = api.to_dict()
    assert (plain["record_count"], plain["record_bytes"], plain["record_count_known"]) == (
        None,
        None,
        None,
    )


def test_a_sum_over_unknown_counts_says_so():
    api = ApiTotals()
    api.add(9, sums(records=RecordTotals(5, 50, 1)))
    assert api.to_dict()["record_count_known"] is False


def test_versions_are_in_order_of_their_numbers():
    api = ApiTotals()
    for version in (10, 2, None, 9):
        api.add(version, sums())
    assert list(api.to_dict()["versions"]) == ["2", "9", "10", "unknown"]


def test_versions_that_a_hostile_client_makes_up_are_bounded():
    api = ApiTotals()
    for version in range(1000):
        api.add(version, sums())
    versions = api.to_dict()["versions"]
    assert len(versions) == MAX_VERSIONS + 1
    assert sum(versions.values()) == 3000
    assert versions["other"] == 3 * (1000 - MAX_VERSIONS)


def test_an_error_knows_when_it_was_first_and_last_seen():
    one, two = ErrorTotals(), ErrorTotals()
    one.add(50)
    one.add(None)
    two.add(10)
    two.add(70)
    one.merge(two)
    one.merge(ErrorTotals())
    assert one.to_dict() == {"count": 4, "first_time_ns": 10, "last_time_ns": 70}


def slowest_of(rows) -> SlowestRequests:
    slowest = SlowestRequests()
    for item in rows:
        slowest.add([item], item.latency_ns)
    return slowest


def test_only_the_slowest_are_kept_slowest_first():
    rows = [row(latency_ns=number, request_packet=number) for number in range(100)]
    found = slowest_of(rows).to_list()
    assert [item["latency_ns"] for item in found] == list(range(99, 99 - MAX_SLOWEST, -1))
    assert found[0]["request_packet"] == 99


def test_of_equally_slow_requests_the_earlier_ones_are_kept_in_whatever_order_they_come():
    rows = [row(latency_ns=5, request_start_ns=START_NS + number) for number in range(30)]
    forwards = slowest_of(rows).to_list()
    assert forwards == slowest_of(rows[::-1]).to_list()
    assert forwards[0]["request_start_ns"] == START_NS


def test_a_slow_request_names_a_few_topics():
    items = [partition(name) for name in "dcba"] + [partition(None, topic_id="id")]
    (entry,) = slowest_of([row(partitions=items)]).to_list()
    assert (entry["topics"], entry["more_topics"]) == (["a", "b", "c"], True)


def test_a_request_without_a_latency_is_not_slow():
    slowest = SlowestRequests()
    slowest.add([row(latency_ns=None), row(latency_ns=3)], 3)
    assert [item["latency_ns"] for item in slowest.to_list()] == [3]
