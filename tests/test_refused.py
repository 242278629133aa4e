"""Reports on a broker that is down, on acknowledged records, and on copies of packets."""

from __future__ import annotations

import io
from typing import Any

import pytest

import kanalyze
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.render.header import header_lines
from kanalyze.tables.quality import CaptureQuality
from tests.support import kafka as k
from tests.support.packets import ACK, RST, START_NS, SYN, Packet, pcap_file, segment, timed
from tests.support.traffic import Line, capture_of

SECOND_NS = 1_000_000_000


def report(capture: bytes) -> dict[str, Any]:
    return kanalyze.report(io.BytesIO(capture))


def text(summary: dict[str, Any]) -> str:
    return "\n".join("".join(part for part, _ in line.parts) for line in header_lines(summary))


def attempt(port: int, answer: int = RST | ACK, times: int = 1) -> list[bytes]:
    """A SYN, sent ``times`` times, and its answer."""
    client = ("10.0.0.1", port)
    syn = segment(to_broker=True, seq=1000, ack=0, flags=SYN, client=client)
    packets = [syn] * times
    if answer:
        packets.append(segment(to_broker=False, seq=0, ack=1001, flags=answer, client=client))
    return packets


def test_refused_connections_are_reported_with_the_broker_that_refused_them() -> None:
    packets = [packet for port in range(50000, 50007) for packet in attempt(port)]
    Line(packets, 51000).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).close()
    summary = report(capture_of(packets))
    assert summary["quality"]["refused_connections"] == 7
    assert summary["quality"]["refused_by"] == {"10.0.0.2:9092": 7}
    assert summary["quality"]["connections"] == 8
    assert "7 connections refused by 10.0.0.2:9092" in text(summary)


def test_the_reset_of_an_open_connection_is_no_refusal() -> None:
    packets: list[bytes] = []
    Line(packets).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).reset()
    Line(packets, 50001).open().reset()
    quality = report(capture_of(packets))["quality"]
    assert quality["refused_connections"] == quality["unanswered_connections"] == 0
    assert quality["refused_by"] == quality["unanswered_by"] == {}


def test_a_silent_broker_is_reported_once_the_client_repeats_its_syn() -> None:
    again = attempt(50000, answer=0, times=2)
    times = [START_NS, START_NS + SECOND_NS]
    summary = report(pcap_file(map(Packet, again, times)))
    assert summary["quality"]["unanswered_connections"] == 1
    assert "1 connection without an answer from 10.0.0.2:9092" in text(summary)
    # The capture may have ended before the answer came, and hold the packet twice.
    summary = report(pcap_file(timed(again)))
    assert summary["quality"]["unanswered_connections"] == 0


def test_the_list_of_brokers_that_refused_is_bounded() -> None:
    first, second = CaptureQuality(), CaptureQuality()
    for number in range(3000):
        ends = (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", number + 1))
        tcp = TcpConnection(number, ends, 1, 0, START_NS, START_NS)
        tcp.reset, tcp.closed_by, tcp.start_seen = True, 1, (True, False)
        (first if number % 2 else second).count_connection(tcp)
    first.merge(second)
    assert first.refused_connections == sum(first.refused_by.values()) == 3000
    assert len(first.refused_by) <= 1001


# -- produced, and acknowledged -------------------------------------------------------------------


def produced(*, answered: bool, acks: int = 1, code: int = 0) -> dict[str, Any]:
    packets: list[bytes] = []
    line = Line(packets).open()
    line.client(k.produce(1, acks=1, records=k.record_batch(2, size=32))).broker(
        k.produce_answer(1)
    )
    line.client(k.produce(2, acks=acks, records=k.record_batch(5, size=80)))
    if answered:
        line.broker(k.produce_answer(2, error_code=code))
    line.close()
    return report(capture_of(packets))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("how", "acknowledged", "unanswered", "sentence"),
    [
        ({"answered": True}, 7, 0, "produced 7 ("),
        ({"answered": False}, 2, 5, "; 2 acknowledged, 5 unanswered)"),
        ({"answered": False, "acks": 0}, 2, 0, "; 2 acknowledged, 5 one-way)"),
    ],
)
def test_acknowledged_records_are_counted_separately(
    how: dict[str, Any], acknowledged: int, unanswered: int, sentence: str
) -> None:
    summary = produced(**how)
    totals = summary["totals"]
    assert totals["produced_records"] == 7
    assert totals["acknowledged_records"] == acknowledged
    assert totals["unanswered_records"] == unanswered
    share = totals["produced_record_bytes"] * acknowledged / 7
    assert abs(totals["acknowledged_record_bytes"] - share) < 100
    (topic,) = summary["topics"]
    assert topic["produced_records"] == 7
    assert topic["acknowledged_records"] == acknowledged
    assert topic["unanswered_records"] == unanswered
    assert sentence in text(summary)
    assert ("acknowledged" in text(summary)) == (acknowledged != 7)


def test_refused_records_are_neither_produced_nor_acknowledged() -> None:
    totals = produced(answered=True, code=6)["totals"]
    assert (totals["produced_records"], totals["acknowledged_records"]) == (2, 2)
    assert (totals["refused_records"], totals["unanswered_records"]) == (5, 0)


# -- copies of packets ----------------------------------------------------------------------------


def heartbeats(*, doubled: int) -> dict[str, Any]:
    """Twenty heartbeats; one packet in ``doubled`` is there twice."""
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(20):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    numbered = list(enumerate(packets))
    copied = [*numbered, *((at + 0.5, packet) for at, packet in numbered if not at % doubled)]
    copied.sort()
    return report(pcap_file(Packet(data, START_NS + int(at * 1_000_000)) for at, data in copied))


@pytest.mark.parametrize("doubled", [10, 1])
def test_copies_are_told_from_what_the_network_duplicated(doubled: int) -> None:
    """Of a capture that holds every packet twice, all are copies."""
    summary = heartbeats(doubled=doubled)
    quality = summary["quality"]
    is_copied = doubled == 1
    assert quality["duplicate_bytes"] > 0
    assert quality["network_duplicate_bytes"] == (0 if is_copied else quality["duplicate_bytes"])
    assert ("captured more than once" in text(summary)) == is_copied
    assert ("duplicated by the network" in text(summary)) != is_copied
