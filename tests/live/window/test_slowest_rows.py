from __future__ import annotations

from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.windows import SlowestRows
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import START_NS, partition, row

MAX_ROWS = 10


def slowest_of(*blocks) -> list[dict]:
    """Return the slowest of rows that come in these blocks."""
    slowest = SlowestRows(MAX_ROWS)
    for rows in blocks:
        block = RowBlock.of_rows(rows)
        slowest.add(RowMeasures(block.columns), block)
    return slowest.to_list()


def test_only_the_slowest_rows_are_kept_slowest_first():
    rows = [row(latency_ns=number, request_packet=number) for number in range(100)]
    for blocks in ([rows], [[item] for item in rows], [[item] for item in rows[::-1]]):
        slowest = slowest_of(*blocks)
        assert [item["latency_ns"] for item in slowest] == list(range(99, 99 - MAX_ROWS, -1))
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
        parts.append(SlowestRows(MAX_ROWS))
        parts[-1].add(RowMeasures(block.columns), block)
    for one, other in (parts, parts[::-1]):
        merged = SlowestRows(MAX_ROWS)
        merged.merge(one)
        merged.merge(other)
        assert merged.to_list() == slowest_of(rows)


def test_a_slow_request_names_a_few_topics():
    items = [partition(name) for name in "dcba"] + [partition(None, topic_id="id")]
    (entry,) = slowest_of([row(partitions=items)])
    assert (entry["topics"], entry["more_topics"]) == (["a", "b", "c"], True)


def test_requests_without_a_latency_of_the_broker_are_not_slow():
    rows = [row(latency_ns=None), row(latency_ns=3), row(latency_ns=9, waited=True)]
    assert [item["latency_ns"] for item in slowest_of(rows)] == [3]
