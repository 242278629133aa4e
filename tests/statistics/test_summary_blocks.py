"""Statistics of rows by column: the same as those of the rows."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.statistics.summary import Statistics
from kanalyze.tables.columns.block import RowBlock, Words
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.row import ErrorItem
from tests.support.row_blocks import blocks_of
from tests.support.rows import START_NS, failed, fetch, orphan, partition, plain_traffic, row, rows


def summary_of_rows(some, key_limit: int = 10_000) -> dict:
    statistics = Statistics(key_limit=key_limit)
    statistics.add(some)
    return statistics.summary(CaptureQuality())


def summary_of_block(some, key_limit: int = 10_000) -> dict:
    statistics = Statistics(key_limit=key_limit)
    statistics.add_block(RowBlock.of_rows(some))
    return statistics.summary(CaptureQuality())


@settings(max_examples=60)
@given(st.lists(rows(), max_size=12), st.randoms(use_true_random=False))
def test_any_split_into_blocks_gives_the_same_summary(some, dice):
    statistics = Statistics()
    for block in blocks_of(some, dice):
        statistics.add_block(block)
    assert statistics.summary(CaptureQuality()) == summary_of_rows(some)


def test_much_traffic_gives_the_same_summary_however_it_is_split():
    traffic = [*plain_traffic(3000), orphan(), failed("orders", 6, "X")]
    one, two = Statistics(), Statistics()
    one.add_block(RowBlock.of_rows(traffic[:1100]))
    two.add(traffic[1100:1700])
    two.add_block(RowBlock.of_rows(traffic[1700:]))
    one.merge(two)
    assert one.summary(CaptureQuality()) == summary_of_rows(traffic)


def test_rows_held_back_are_merged_from_either_side():
    one, two = Statistics(), Statistics()
    one.add([row()])
    two.add([row()])
    one.merge(two)
    assert one.summary(CaptureQuality())["totals"]["rows"] == 2
    assert two.summary(CaptureQuality())["totals"]["rows"] == 1


@pytest.mark.parametrize("summary_of", [summary_of_rows, summary_of_block])
def test_the_keys_met_first_stand_alone(summary_of):
    crowd = [row(client_id=name, broker_port=ord(name)) for name in "cabdca"]
    summary = summary_of(crowd, key_limit=2)
    assert [item["client_id"] for item in summary["clients"]] == ["a", "c", None]
    assert [item["broker"] for item in summary["brokers"]] == [
        "10.0.0.9:97",
        "10.0.0.9:99",
        None,
    ]


def test_sums_beyond_int64_are_exact():
    huge = [row(request_bytes=2**62, latency_ns=2**63 - 1, client_id=str(n % 2)) for n in range(9)]
    summary = summary_of_block(huge)
    assert summary["totals"]["request_bytes"] == 9 * 2**62
    assert summary["clients"][0]["request_bytes"] == 5 * 2**62
    assert summary["apis"][0]["latency_ns"]["mean"] == 2**63 - 1


@pytest.mark.parametrize("seed", [1, 2])
def test_of_equally_slow_requests_those_are_kept_that_rows_would_keep(seed):
    dice = np.random.default_rng(seed)
    alike = [
        row(
            latency_ns=int(dice.integers(3)),
            request_start_ns=START_NS + int(dice.integers(3)),
            request_packet=int(dice.integers(1, 4)),
            correlation_id=number,
        )
        for number in range(400)
    ]
    whole = summary_of_block(alike)["slowest"]
    assert whole == summary_of_rows(alike)["slowest"]
    one_by_one = Statistics()
    for first in range(0, 400, 7):
        one_by_one.add_block(RowBlock.of_rows(alike[first : first + 7]))
    assert one_by_one.summary(CaptureQuality())["slowest"] == whole
    slowest_first = sorted(
        alike,
        key=lambda item: (
            -item.latency_ns,
            item.request_start_ns,
            item.request_packet,
            item.correlation_id,
        ),
    )
    assert [item["correlation_id"] for item in whole] == [
        item.correlation_id for item in slowest_first[:10]
    ]


def test_a_request_counts_once_for_a_topic_wherever_its_partitions_stand():
    items = [partition("a", 0), partition("b", 0), partition("a", 1)]
    summary = summary_of_block([row(partitions=items), fetch(partitions=items), row()])
    topics = {item["topic"]: item for item in summary["topics"]}
    assert topics["a"]["produce_requests"] == topics["a"]["fetch_requests"] == 1
    assert topics["a"]["produced_records"] == 2
    assert topics["orders"]["produce_requests"] == 1


def test_refused_records_are_in_no_sum_but_their_own():
    items = [partition("a", 0, record_count=5), partition("a", 1, record_count=7, error_code=6)]
    refused = failed("a", 6, "X", partitions=items, record_count=12, record_bytes=200)
    totals = summary_of_block([refused])["totals"]
    assert (totals["produced_records"], totals["refused_records"]) == (5, 7)
    assert totals["produced_record_bytes"] == 100


def test_errors_know_when_they_were_seen_where_a_time_is_known():
    items = [ErrorItem("a", 0, 6, "X"), ErrorItem("a", 1, 6, "X"), ErrorItem(None, None, 3, "Y")]
    some = [
        row(errors=items, response_start_ns=time_ns) for time_ns in (None, START_NS + 9, START_NS)
    ]
    first, second = summary_of_block(some)["errors"]
    assert (first["count"], first["first_time_ns"], first["last_time_ns"]) == (
        6,
        START_NS,
        START_NS + 9,
    )
    assert (second["error_code"], second["topic"], second["count"]) == (3, None, 3)
    (untimed,) = summary_of_block([row(errors=items[:1], response_start_ns=None)])["errors"]
    assert untimed["first_time_ns"] is None


def test_words_that_blocks_share_are_counted_only_where_they_occur():
    block = RowBlock.of_rows([row(), row()])
    shared = [f"client-{number}" for number in range(1000)]
    texts = Words(array("i", [999, 999]), shared)
    statistics = Statistics()
    statistics.add_block(RowBlock(2, {**block.columns, "client_id": texts}))
    clients = statistics.summary(CaptureQuality())["clients"]
    assert [(item["client_id"], item["requests"]) for item in clients] == [("client-999", 2)]


def test_an_empty_block_adds_nothing():
    assert summary_of_block([]) == summary_of_rows([])
