"""Packets are found as by asking each packet about each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.extraction.selection import PacketSelection, Spans, TimeRanges
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import LayerStats
from kanalyze.render.wireshark import comments_of
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.packets import Packet, make_batch, segment

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

TIMES = st.integers(0, 12)
RANGES = st.lists(st.tuples(st.integers(0, 2), TIMES, TIMES), max_size=12)


def longs(numbers: Any) -> Any:
    return np.array(list(numbers), np.int64)


@given(RANGES)
def test_a_time_is_found_in_the_ranges_of_its_group_whatever_their_order(ranges: Any) -> None:
    found = TimeRanges(*(longs(each[place] for each in ranges) for place in range(3)))
    asked = [(group, time) for group in range(4) for time in range(-1, 14)]
    is_in = found.contain(*(longs(each[place] for each in asked) for place in (0, 1)))
    assert is_in.tolist() == [
        any(group == each[0] and each[1] <= time <= each[2] for each in ranges)
        for group, time in asked
    ]


ENDS = [("10.0.0.1", 5001), ("10.0.0.2", 9092), ("10.0.0.1", 5002)]
PAIRS = [(client, broker) for client in ENDS for broker in ENDS if client != broker]
V6_PAIRS = [(("fe80::1", 1), ("fe80::2", 2)), (("fe80::2", 2), ("fe80::1", 1))]


@st.composite
def requests(draw: Any) -> Row:
    (client_ip, client_port), (broker_ip, broker_port) = draw(st.sampled_from(PAIRS + V6_PAIRS))
    times = draw(st.tuples(*[st.none() | TIMES] * 4))
    names = ("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns")
    return sample_rows.row(
        connection=f"{client_ip}:{client_port}>{broker_ip}:{broker_port}",
        client_ip=client_ip,
        client_port=client_port,
        broker_ip=broker_ip,
        broker_port=broker_port,
        **dict(zip(names, times, strict=True)),
        correlation_id=draw(st.integers(0, 3)),
    )


PACKETS = [
    (time_ns, ends, size) for time_ns in range(13) for ends in PAIRS + V6_PAIRS for size in (0, 1)
]


def spans_of(row: Row) -> tuple[int, int] | None:
    times = (row.request_start_ns, row.request_end_ns, row.response_start_ns, row.response_end_ns)
    known = [time_ns for time_ns in times if time_ns is not None]
    return None if row.began_ns is None else (min(known), max(known))


def found_one_by_one(rows: list[Row], around: int, most: int) -> tuple[list[int], dict[int, Any]]:
    numbers, comments = [], {}
    for number, (time_ns, (sender, receiver), size) in enumerate(PACKETS, 1):
        texts = []
        for row in rows:
            span, client = spans_of(row), (row.client_ip, row.client_port)
            ends = {client, (row.broker_ip, row.broker_port)}
            if span is None or {sender, receiver} != ends:
                continue
            if max(span[0] - around, 0) <= time_ns <= span[1] + around and numbers[-1:] != [number]:
                numbers.append(number)
            first, last = row.request_start_ns, row.request_end_ns
            if sender != client:
                first, last = row.response_start_ns, row.response_end_ns
            if first is not None and first <= time_ns <= (first if last is None else last):
                texts.append((first, first if last is None else last, comment_of(row)))
        if texts and size:
            comments[number] = [text for _, _, text in sorted(texts)]
    return numbers, comments


def comment_of(row: Row) -> str:
    return comments_of(RowBlock.of_rows([row]))[0]


@given(st.lists(requests(), min_size=1, max_size=6), st.integers(0, 3), st.integers(1, 6))
def test_packets_and_their_comments_are_those_of_each_request(
    rows: list[Row], around: int, block_rows: int
) -> None:
    chosen = PacketSelection()
    for first in range(0, len(rows), block_rows):
        block = RowBlock.of_rows(rows[first : first + block_rows])
        spans = Spans.of(block)
        timed = np.flatnonzero(spans.is_timed)
        assert timed.tolist() == [
            place for place, row in enumerate(rows[first : first + block_rows]) if spans_of(row)
        ]
        if len(timed):
            spans = spans.only(timed).widened(around)
            chosen.add_requests(block.take(timed.tolist()), spans)
    if not chosen:
        assert not any(map(spans_of, rows))
        return
    packets = [
        Packet(segment(client=sender, broker=receiver, payload=bytes(size)), time_ns)
        for time_ns, (sender, receiver), size in PACKETS
    ]
    batch = make_batch(packets)
    found = chosen.search().find(HeaderReader(LayerStats()).read(batch), len(batch.buffer))
    numbers, comments = found_one_by_one(rows, around, 100)
    assert found.numbers.tolist() == numbers
    texts: dict[int, list[str]] = {}
    for number, comment in zip(found.commented.tolist(), found.comments.tolist(), strict=True):
        texts.setdefault(number, []).append(chosen.comments[comment])
    assert texts == comments
    assert not len(found.fragmented)
