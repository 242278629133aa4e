"""Captures that begin while connections are open, and whose requests are all large."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kanalyze.render.header import header_lines
from kanalyze.runtime.pipeline import Analysis
from tests.kafka.session.test_request_scan import join_group, join_group_answer
from tests.support import kafka as k
from tests.support.packets import pcap_file, segment, timed
from tests.support.streams import cut
from tests.support.summaries import summary_of
from tests.support.talk import Talk
from tests.support.traffic import Line, Part, fetch, fetch_answer, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

SEGMENT_BYTES = 1448
MIB = 1 << 20


def batch(noise: random.Random, size: int) -> bytes:
    """A batch of records that are noise, of ``size`` bytes in all."""
    return k.record_batch(9, size - 61)[:61] + noise.randbytes(size - 61)


def large(noise: random.Random, number: int, partition_bytes: int, client_id: str | None) -> bytes:
    """Produce v9 to six partitions."""
    parts = [Part(partition=each, records=batch(noise, partition_bytes)) for each in range(6)]
    return produce(number, 9, parts, client_id=client_id)


def produced(number: int) -> bytes:
    return produce_answer(number, 9, [Part(partition=each) for each in range(6)])


def packets_of(
    make: Callable[[int], bytes],
    *,
    requests: int = 12,
    port: int = 50000,
    in_flight: int = 3,
    answer: Callable[[int], bytes] = produced,
    skip: int = 40_000,
) -> list[bytes]:
    """A connection that was open before; the capture begins within its first request.

    Requests follow one another without a pause, so that segments end anywhere.
    """
    packets: list[bytes] = []
    line = Line(packets, port)
    sent = b"".join(make(number) for number in range(1, in_flight + 1))[skip:]
    line.client(*cut(sent, [SEGMENT_BYTES] * (len(sent) // SEGMENT_BYTES)))
    for number in range(1, requests + 1):
        line.broker(answer(number))
        if number + in_flight <= requests:
            more = make(number + in_flight)
            line.client(*cut(more, [SEGMENT_BYTES] * (len(more) // SEGMENT_BYTES)))
    return packets


def rows_of(file: Path, packets: list[bytes], **arguments: object) -> tuple[list[Row], Analysis]:
    file.write_bytes(pcap_file(timed(packets)))
    run = Analysis([str(file)], **arguments)  # type: ignore[arg-type]
    return [row for rows in run.row_batches() for row in rows], run


def compared_columns(rows: list[Row]) -> list[tuple[object, ...]]:
    return sorted(
        (row.client_port, row.correlation_id or 0, row.status, row.record_count) for row in rows
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("client_id", ["producer-1", None])
@pytest.mark.parametrize("partition_bytes", [16_000, 170_000])
def test_a_producer_of_large_requests_is_found_wherever_the_capture_begins(
    tmp_path: Path, partition_bytes: int, client_id: str | None
) -> None:
    noise = random.Random(partition_bytes)
    packets = packets_of(lambda number: large(noise, number, partition_bytes, client_id))
    rows, run = rows_of(tmp_path / "a.pcap", packets)
    assert run.quality.kafka_connections == 1
    # The first request began before the capture; its answer is there.
    assert compared_columns(rows) == [
        (50000, 1, "orphan_response", None),
        *((50000, number, "ok", 54) for number in range(2, 13)),
    ]
    forced, _ = rows_of(tmp_path / "a.pcap", packets, ports=[9092])
    assert compared_columns(forced) == compared_columns(rows)


def test_the_capture_may_begin_within_a_request_of_any_size() -> None:
    noise = random.Random(3).randbytes(MIB)
    talk = Talk(opened_by=None)
    for _ in range(40):
        talk.client(*cut(noise, [65_000] * 16))
    assert talk.tracker.undecided_bytes <= 512 * 1024
    talk.client(k.produce(7, 1, records=k.record_batch(5, 90 * MIB))[:4000])
    assert talk.tracker.counts.kafka == 1


def test_an_unrecognised_connection_to_a_known_broker_is_reported(tmp_path: Path) -> None:
    noise = random.Random(7)
    known: list[bytes] = []
    packets: list[bytes] = []
    Line(known, 40000).open().client(fetch(1, 11)).broker(fetch_answer(1, 11)).close()
    for number, port in enumerate((50001, 50002)):
        Line(packets, port).client(*[noise.randbytes(1000)] * (3 + number)).broker(b"?" * 100)
    # A connection to another address than the broker's.
    other = segment(payload=noise.randbytes(500), broker=("10.0.0.9", 9999))
    _, run = rows_of(tmp_path / "a.pcap", [*known, *packets, other])
    summary = run.quality.to_dict()
    assert summary["other_protocols"] == {"unknown": 3}
    assert summary["unread_ports"] == {"9092": {"connections": 2, "packets": 9, "bytes": 7200}}
    text = "\n".join(line.plain for line in header_lines(summary_of(quality=run.quality)))
    assert "2 connections on port 9092 not recognised as Kafka, 7.20 kB in 9 packets" in text
    assert "use --port 9092" in text
    _, alone = rows_of(tmp_path / "b.pcap", packets)
    assert alone.quality.to_dict()["unread_ports"] == {}


def test_bytes_given_up_before_detection_count_as_skipped(tmp_path: Path) -> None:
    """A request without records is not recognised, nor buffered, until the next one comes."""
    packets = packets_of(lambda number: join_group(number, 2 * MIB), answer=join_group_answer)
    rows, run = rows_of(tmp_path / "a.pcap", packets)
    assert {row.correlation_id for row in rows if row.status == "ok"} >= set(range(4, 13))
    quality = run.quality
    counted = quality.decoded_bytes + quality.undecoded_bytes + quality.skipped_bytes
    assert counted == quality.kafka_bytes
