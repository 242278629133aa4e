from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.statistics.summary import Statistics
from kanalyze.tables.quality import CaptureQuality
from tests.support.quality import capture_quality
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

ROWS = st.lists(rows(), max_size=8)


def summary_of(*parts, quality: CaptureQuality | None = None, key_limit: int = 10_000) -> dict:
    statistics = Statistics(key_limit=key_limit)
    for part in parts:
        statistics.add(part)
    return statistics.summary(quality or CaptureQuality())


def only(table: list[dict], **names) -> dict:
    (found,) = [item for item in table if all(item[name] == value for name, value in names.items())]
    return found


@settings(max_examples=40)
@given(ROWS, ROWS, ROWS)
def test_the_statistic_of_parts_is_the_sum_of_the_parts_in_any_order(one, two, three):
    pieces = []
    for part in (three, one, two):
        piece = Statistics()
        piece.add(part)
        pieces.append(piece)
    merged = Statistics()
    for piece in pieces:
        merged.merge(piece)
    assert merged.summary(CaptureQuality()) == summary_of(one + two + three)


def test_halves_of_much_traffic_add_up_to_the_whole():
    traffic = plain_traffic(4000)
    one, two = Statistics(), Statistics()
    one.add(traffic[:1500])
    two.add(traffic[1500:])
    one.merge(two)
    assert one.summary(CaptureQuality()) == summary_of(traffic)


@settings(max_examples=40)
@given(ROWS)
def test_the_size_of_batches_does_not_matter(some):
    assert summary_of(*[[item] for item in some]) == summary_of(some)


@settings(max_examples=40)
@given(ROWS)
def test_the_summary_is_what_json_gives_back(some):
    summary = summary_of(some)
    assert json.loads(json.dumps(summary)) == summary


@settings(max_examples=40)
@given(ROWS)
def test_totals_are_the_sums_over_all_rows(some):
    totals = summary_of(some)["totals"]
    assert totals["rows"] == len(some)
    for status in ("ok", "error", "one_way", "unanswered", "orphan_response", "malformed"):
        assert totals[status] == sum(item.status == status for item in some)
    assert totals["requests"] == totals["rows"] - totals["orphan_response"]
    assert totals["request_bytes"] == sum(item.request_bytes or 0 for item in some)
    assert totals["response_bytes"] == sum(item.response_bytes or 0 for item in some)
    assert totals["throttle_time_ms"] == sum(item.throttle_time_ms or 0 for item in some)
    assert totals["throttled"] == sum(bool(item.throttle_time_ms) for item in some)


@settings(max_examples=40)
@given(ROWS)
def test_every_table_adds_up_to_the_totals(some):
    summary = summary_of(some, key_limit=1)
    requests = summary["totals"]["requests"]
    assert sum(item["requests"] for item in summary["apis"]) == requests
    assert sum(item["requests"] for item in summary["clients"]) == requests
    assert sum(item["requests"] for item in summary["brokers"]) == requests
    assert sum(item["count"] for item in summary["errors"]) == sum(
        len(item.errors) for item in some
    )


def test_apis_are_told_apart_with_the_busiest_first():
    summary = summary_of([row(), fetch(), fetch(api_version=13)])
    assert [(item["api_name"], item["requests"]) for item in summary["apis"]] == [
        ("Fetch", 2),
        ("Produce", 1),
    ]
    assert summary["apis"][0]["versions"] == {"12": 1, "13": 1}
    assert summary["apis"][0]["statuses"] == {"ok": 2}


def test_apis_of_the_old_protocol_stand_apart():
    summary = summary_of([row(), row(wire="kafka-0.7")])
    assert [item["wire"] for item in summary["apis"]] == ["kafka", "kafka-0.7"]


def test_a_fetch_that_waited_is_in_no_latency_but_its_own():
    waited = fetch(latency_ns=500_000_000, waited=True)
    summary = summary_of([fetch(latency_ns=1000), waited])
    api = only(summary["apis"], api_name="Fetch")
    assert api["requests"] == 2
    assert api["latency_ns"]["count"] == 1
    assert api["latency_ns"]["max"] == 1000
    assert api["waited"]["requests"] == 1
    assert api["waited"]["latency_ns"]["max"] == 500_000_000
    assert summary["clients"][0]["latency_ns"]["max"] == 1000
    assert summary["brokers"][0]["latency_ns"]["max"] == 1000
    assert [item["latency_ns"] for item in summary["slowest"]] == [1000]


def test_a_response_without_a_request_is_an_entry_of_its_own_and_nobodys_client():
    summary = summary_of([orphan()])
    (api,) = summary["apis"]
    assert (api["api_key"], api["requests"], api["responses"]) == (None, 0, 1)
    assert api["statuses"] == {"orphan_response": 1}
    assert summary["clients"] == []
    assert summary["brokers"][0]["response_bytes"] == 50


def test_every_error_code_in_a_response_counts():
    many = failed("orders", 6, "NOT_LEADER_OR_FOLLOWER")
    many = many._replace(errors=many.errors * 3)
    later = failed("orders", 6, "NOT_LEADER_OR_FOLLOWER", response_start_ns=START_NS + 10**9)
    summary = summary_of([many, later, failed(None, 41, "NOT_CONTROLLER")])
    first, second = summary["errors"]
    assert (first["error_name"], first["topic"], first["count"]) == (
        "NOT_LEADER_OR_FOLLOWER",
        "orders",
        4,
    )
    assert (first["first_time_ns"], first["last_time_ns"]) == (
        START_NS + 2_001_000,
        START_NS + 10**9,
    )
    assert (second["error_code"], second["topic"], second["count"]) == (41, None, 1)
    assert summary["totals"]["error"] == 3
    assert only(summary["topics"], topic="orders")["errors"] == 4


def test_a_client_is_one_entry_with_all_its_addresses_software_and_users():
    summary = summary_of(
        [
            row(client_software_name=None, client_software_version=None),
            row(client_ip="10.0.0.2", principal="alice"),
            row(principal="bob", client_software_version="2.6.0"),
        ]
    )
    (client,) = summary["clients"]
    assert client["client_id"] == "app"
    assert client["requests"] == 3
    assert client["client_ips"] == ["10.0.0.1", "10.0.0.2"]
    assert client["software"] == ["librdkafka 2.5.0", "librdkafka 2.6.0"]
    assert client["principals"] == ["alice", "bob"]
    assert not client["more_client_ips"]


def test_the_addresses_listed_for_a_client_are_bounded():
    crowd = [row(client_ip=f"10.0.0.{number}") for number in range(100)]
    (client,) = summary_of(crowd)["clients"]
    assert len(client["client_ips"]) == 8
    assert client["more_client_ips"]


def test_a_request_counts_once_for_a_topic_whatever_its_partitions():
    items = [partition("orders", 0), partition("clicks", 0), partition("orders", 1)]
    summary = summary_of([row(partitions=items, record_count=3)])
    orders = only(summary["topics"], topic="orders")
    assert orders["produce_requests"] == 1
    assert orders["produced_records"] == 2
    assert orders["produced_bytes"] == 200
    assert orders["fetch_requests"] == 0


def test_produced_and_fetched_records_are_told_apart():
    summary = summary_of([row(), fetch(record_count=5, partitions=[partition(record_count=5)])])
    assert summary["totals"]["produced_records"] == 1
    assert summary["totals"]["fetched_records"] == 5
    topic = only(summary["topics"], topic="orders")
    assert (topic["produced_records"], topic["fetched_records"]) == (1, 5)


def test_a_record_count_that_is_not_known_makes_the_sum_say_so():
    unknown = row(record_count=None, partitions=[partition(record_count=None)])
    summary = summary_of([row(), unknown])
    assert summary["totals"]["produced_records"] == 1
    assert summary["totals"]["produced_records_known"] is False
    assert summary["totals"]["fetched_records_known"] is True
    assert only(summary["apis"], api_name="Produce")["record_count_known"] is False
    assert only(summary["topics"], topic="orders")["produced_records_known"] is False


def test_a_fetch_without_a_response_brought_no_records():
    summary = summary_of([unanswered()])
    assert summary["totals"]["fetched_records_known"] is True
    assert only(summary["topics"], topic="orders")["fetched_records_known"] is True


def test_a_partition_that_a_response_leaves_out_makes_nothing_unknown():
    left_out = fetch(partitions=[partition(record_count=None, error_code=None)], record_count=0)
    summary = summary_of([left_out])
    assert only(summary["topics"], topic="orders")["fetched_records_known"] is True


def test_an_api_without_records_says_neither_count_nor_doubt():
    metadata = row(api_key=3, api_name="Metadata", record_count=None)
    api = summary_of([metadata])["apis"][0]
    assert (api["record_count"], api["record_count_known"]) == (None, None)


def test_a_topic_without_a_name_goes_by_its_id():
    summary = summary_of([row(partitions=[partition(None, topic_id="id")])])
    (topic,) = summary["topics"]
    assert (topic["topic"], topic["topic_id"]) == (None, "id")


def test_groups_count_requests_joins_and_errors():
    join = row(api_key=11, api_name="JoinGroup", group_id="g")
    beat = failed(None, 27, "REBALANCE_IN_PROGRESS", api_key=12, api_name="Heartbeat", group_id="g")
    summary = summary_of([join, beat, beat, row()])
    assert summary["groups"] == [
        {"group_id": "g", "other": False, "requests": 3, "joins": 1, "errors": 2}
    ]


def test_brokers_have_their_address_with_brackets_for_ipv6():
    summary = summary_of([row(), row(broker_ip="2001:db8::9", broker_port=1)])
    assert {item["broker"] for item in summary["brokers"]} == {"10.0.0.9:9092", "[2001:db8::9]:1"}


def test_throughput_counts_requests_and_responses_at_their_own_times():
    late = failed("orders", 6, "X", response_start_ns=START_NS + 10_000_000)
    throughput = summary_of([late])["throughput"]
    assert throughput["start_ns"] == START_NS
    assert throughput["bucket_ns"] == 1_000_000
    assert throughput["requests"] == [1] + [0] * 10
    assert throughput["request_bytes"] == [200] + [0] * 10
    assert throughput["response_bytes"] == [0] * 10 + [50]
    assert throughput["errors"] == [0] * 10 + [1]


def test_the_slowest_requests_name_their_packets():
    summary = summary_of([row(latency_ns=number) for number in range(50)])
    assert [item["latency_ns"] for item in summary["slowest"]] == list(range(49, 39, -1))
    assert summary["slowest"][0]["request_packet"] == 4
    assert summary["slowest"][0]["response_packet"] == 6
    assert summary["slowest"][0]["topics"] == ["orders"]


@pytest.mark.parametrize(
    ("table", "name", "crowd"),
    [
        ("clients", "client_id", [row(client_id=str(n)) for n in range(9)]),
        ("topics", "topic", [row(partitions=[partition(str(n))]) for n in range(9)]),
        ("groups", "group_id", [row(group_id=str(n)) for n in range(9)]),
        ("brokers", "broker", [row(broker_port=n + 1) for n in range(9)]),
        ("apis", "api_name", [row(api_key=n, api_name=str(n)) for n in range(9)]),
        ("errors", "error_code", [failed("t", n, "X") for n in range(1, 10)]),
    ],
)
def test_beyond_the_limit_keys_are_counted_together_and_the_summary_says_so(table, name, crowd):
    summary = summary_of(crowd, key_limit=3)
    assert len(summary[table]) == 4
    other = summary[table][-1] if table != "errors" else only(summary[table], other=True)
    assert other["other"] is True
    assert other[name] is None
    assert table in summary["limited"]
    assert summary_of(crowd, key_limit=9)["limited"] == []


def test_a_huge_client_id_takes_little_room():
    summary = summary_of([row(client_id="x" * 32767, latency_ns=9)])
    assert len(json.dumps(summary)) < 10_000


def test_the_capture_is_described_from_its_quality():
    quality = capture_quality(
        captures=["a.pcap"], packets=5, first_time_ns=START_NS, last_time_ns=START_NS + 7
    )
    capture = summary_of([], quality=quality)["capture"]
    assert capture["first_time"] == "2026-01-01T00:00:00.000000000Z"
    assert capture["last_time"] == "2026-01-01T00:00:00.000000007Z"
    assert capture["duration_ns"] == 7
    assert summary_of([], quality=quality)["quality"] == quality.to_dict()


def test_nothing_at_all_still_gives_a_summary():
    summary = summary_of()
    assert summary["schema"] == 1
    assert summary["totals"]["rows"] == 0
    assert summary["capture"]["first_time"] is None
    assert summary["throughput"]["start_ns"] is None
    assert summary["apis"] == summary["clients"] == summary["slowest"] == summary["limited"] == []
