"""Other protocols give no row and are not counted as Kafka, wherever the capture begins."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.reader import open_capture
from kanalyze.kafka.session.signatures import PROTOCOLS
from kanalyze.model.packets import PacketBatch
from kanalyze.net.tcp.reassembly import Reassembler
from tests.kafka.session import strangers
from tests.support.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).resolve().parent / "other_protocols"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.pcap"))


def packets_of(name: str, skipped_packets: int) -> Iterator[PacketBatch]:
    """The packets of a recording, without the first ones."""
    with open_capture(str(FOLDER / f"{name}.pcap")) as reader:
        for batch in reader.batches(1):
            columns = (batch.number, batch.time_ns, batch.offset, batch.captured_bytes)
            rest = (batch.wire_bytes, batch.link_type)
            yield PacketBatch(
                batch.buffer, *(column[skipped_packets:] for column in (*columns, *rest))
            )


def read(name: str, skipped_packets: int) -> tuple[int, int, dict[str, int]]:
    """(rows, Kafka connections, the others by protocol) of a recording."""
    tracker, reassembler, rows = Talk().tracker, Reassembler(), 0
    for batch in packets_of(name, skipped_packets):
        rows += len(tracker.feed(reassembler.feed(batch).updates).exchanges)
    rows += len(tracker.feed(reassembler.finish().updates).exchanges)
    return rows, tracker.counts.kafka, tracker.counts.by_protocol


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_protocol_is_named_and_gives_no_row(name: str) -> None:
    rows, kafka, others = read(name, 0)
    assert (rows, kafka) == (0, 0)
    assert set(others) == {name}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_protocol_gives_no_row_wherever_the_capture_begins(name: str) -> None:
    for skipped_packets in range(1, 30, 2):
        rows, kafka, others = read(name, skipped_packets)
        assert (rows, kafka) == (0, 0)
        assert set(others) <= {name, "unknown", "none"}


def test_tls_is_recognized_in_a_capture_that_begins_in_the_middle() -> None:
    for skipped_packets in (6, 10, 20, 25):
        assert set(read("tls", skipped_packets)[2]) <= {"tls", "none"}


def check(make: Callable[[random.Random], strangers.Turns], seed: int) -> None:
    turns = make(random.Random(seed))
    for opened_by in (None, 0, 1):
        talk = Talk(opened_by=opened_by)
        for side, data in turns:
            if isinstance(data, int):
                talk.loses(side, data)
            else:
                talk.says(side, *(data[at : at + 1448] for at in range(0, len(data), 1448)))
        talk.close()
        counts = talk.tracker.counts
        assert talk.exchanges == [], (seed, opened_by)
        assert counts.kafka == 0, (seed, opened_by)
        assert sum(counts.by_protocol.values()) == 1
        assert set(counts.by_protocol) <= set(PROTOCOLS)
        assert talk.tracker.undecided_bytes == 0


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 200), marks=pytest.mark.long)])
@pytest.mark.parametrize("make", strangers.ALL)
def test_a_protocol_that_looks_like_kafka_gives_no_row(
    make: Callable[[random.Random], strangers.Turns], seeds: range
) -> None:
    for seed in seeds:
        check(make, seed)


def test_a_frame_inside_an_incomplete_frame_is_no_answered_request() -> None:
    for seed in (34, 180, 186):
        check(strangers.small_messages, seed)


def test_a_long_stream_of_another_protocol_is_not_taken_for_large_requests() -> None:
    check(strangers.zookeeper_for_long, 1)


# Each message of the four others is a valid request, and is read as one on a forced port.
UNLIKE_REQUESTS = [
    make
    for make in strangers.ALL
    if make
    not in (
        strangers.typed_messages,
        strangers.small_messages,
        strangers.small_numbers,
        strangers.zookeeper,
    )
]


@pytest.mark.parametrize("make", UNLIKE_REQUESTS)
def test_on_a_forced_port_another_protocol_gives_no_pair(
    make: Callable[[random.Random], strangers.Turns],
) -> None:
    for seed in range(4):
        talk = Talk(is_broker=lambda _ip, port: port == 9092)
        for side, data in make(random.Random(seed)):
            if isinstance(data, bytes):
                talk.says(side, data)
        talk.close()
        assert [e for e in talk.exchanges if e.request and e.response] == [], seed


def test_http_on_a_forced_port_is_reported_as_an_implausible_size() -> None:
    talk = Talk(is_broker=lambda _ip, port: port == 9092)
    talk.client(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").broker(b"HTTP/1.1 200 OK\r\n\r\nhi")
    talk.close()
    assert talk.exchanges == []
    details = [each.detail for each in talk.anomalies if each.kind.value == "implausible_size"]
    assert details == [
        'size 1195725856, the text "GET ": the client speaks HTTP',
        'size 1213486160, the text "HTTP": the server speaks HTTP',
    ]
    counts = talk.tracker.counts
    assert (counts.kafka, counts.by_protocol) == (1, {})
