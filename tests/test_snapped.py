"""Captures with a snap length: the original length says how far a stream went."""

from __future__ import annotations

import io
import random
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kanalyze.render.header import header_lines
from tests.support import kafka as k
from tests.support.packets import pcap_file, timed
from tests.support.reference import read, reference
from tests.support.streams import cut
from tests.support.summaries import summary_of_blocks
from tests.support.traffic import Line, Part, fetch, fetch_answer, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.reference import Reading

SEGMENT_BYTES = 1448
SNAP_BYTES = 200
REQUESTS = 60
HIDDEN = {5, 6, 17, 40}
"""Requests that begin in the middle of a segment, where the snap length cut off their head."""
REFUSED = {3, 30}
NOISE = random.Random(9)


def request(number: int) -> bytes:
    records = k.record_batch(9, 20_000)[:61] + NOISE.randbytes(20_000)
    return produce(number, 8, [Part(records=records)], client_id="producer-1")


def answer(number: int) -> bytes:
    return produce_answer(number, 8, [Part(error_code=6 if number in REFUSED else 0)])


def sent() -> Iterator[tuple[int, bytes]]:
    """Requests that are sent together, with the number of the first of them."""
    together, first = b"", 1
    for number in range(1, REQUESTS + 1):
        if number not in HIDDEN and together:
            yield first, together
            together, first = b"", number
        together += request(number)
    yield first, together


def packets_of(*, opened: bool = True, port: int = 50000) -> list[bytes]:
    packets: list[bytes] = []
    line = Line(packets, port)
    if opened:
        line.open()
    turns = [*sent()]
    for (first, data), (after, _) in pairwise([*turns, (REQUESTS + 1, b"")]):
        line.client(*cut(data, [SEGMENT_BYTES] * (len(data) // SEGMENT_BYTES)))
        for number in range(first, after):
            line.broker(answer(number))
    return packets


def snapped(packets: list[bytes]) -> bytes:
    made = timed(packets)
    for packet in made:
        packet.wire_bytes, packet.data = len(packet.data), packet.data[:SNAP_BYTES]
    return pcap_file(made, snap_bytes=SNAP_BYTES)


def statuses(reading: Reading) -> dict[int | None, str]:
    return {row.correlation_id: row.status for row in reading.rows}


def summary_of(reading: Reading) -> dict[str, object]:
    return summary_of_blocks(reading.blocks, reading.quality)


def expected(number: int) -> str:
    if number in HIDDEN:
        return "orphan_response"
    return "error" if number in REFUSED else "ok"


@pytest.mark.parametrize("opened", [True, False])
def test_only_requests_whose_head_was_cut_off_are_missing(opened: bool) -> None:
    capture = snapped(packets_of(opened=opened))
    reading = read([io.BytesIO(capture)])
    assert reading.quality.kafka_connections == 1
    assert statuses(reading) == {number: expected(number) for number in range(1, REQUESTS + 1)}
    sizes = {row.request_bytes for row in reading.rows if row.status != "orphan_response"}
    assert sizes == {len(request(1))}
    one_by_one = reference([io.BytesIO(capture)])
    assert sorted(map(repr, one_by_one.rows)) == sorted(map(repr, reading.rows))


def test_large_responses_are_found_again_too() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    parts = [Part(records=k.record_batch(9, 20_000)[:61] + NOISE.randbytes(20_000))]
    for number in range(1, 40, 3):
        line.client(
            *(fetch(each, 11, client_id="consumer-1") for each in range(number, number + 3))
        )
        line.broker(fetch_answer(number, 11, parts))
        both = b"".join(fetch_answer(each, 11, parts) for each in (number + 1, number + 2))
        line.broker(*cut(both, [SEGMENT_BYTES] * (len(both) // SEGMENT_BYTES)))
    reading = read([io.BytesIO(snapped(packets))])
    answered = {row.correlation_id for row in reading.rows if row.response_bytes is not None}
    assert answered == {number for number in range(1, 40) if number % 3}
    lost = [row for row in reading.rows if row.correlation_id not in answered]
    assert {row.status for row in lost} == {"unanswered"}
    assert all("lost_bytes" in row.anomalies for row in lost)


def test_snapped_bytes_are_one_anomaly_of_each_direction() -> None:
    packets = [*packets_of(), *packets_of(port=50001)]
    quality = read([io.BytesIO(snapped(packets))]).quality
    totals = {kind.value: total for kind, total in quality.anomalies.items()}
    assert totals["snapped_bytes"].count == 4
    assert totals["snapped_bytes"].bytes == quality.snapped_bytes > 2_000_000


def test_the_tables_of_the_report_count_the_same_errors_as_rows() -> None:
    reading = read([io.BytesIO(snapped(packets_of()))], jobs=1)
    summary = summary_of(reading)
    errors = Counter(code for row in reading.rows for code in [row.error_code] if code)
    assert errors == {6: len(REFUSED)}
    assert summary["totals"]["error"] == len(REFUSED)  # type: ignore[index]
    assert [api["errors"] for api in summary["apis"] if api["requests"]] == [len(REFUSED)]  # type: ignore[attr-defined]
    assert [error["count"] for error in summary["errors"]] == [len(REFUSED)]  # type: ignore[attr-defined]


def test_an_unknown_number_of_records_is_not_reported_as_zero() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    name = "t" * 40
    for number in range(1, 5):
        line.client(fetch(number, 11, [Part(topic=name)], client_id="consumer-1"))
        line.broker(fetch_answer(number, 11, [Part(topic=name, records=k.record_batch(9, 1000))]))
    reading = read([io.BytesIO(snapped(packets))])
    head = "\n".join(line.plain for line in header_lines(summary_of(reading)))
    assert "fetched an unknown number (≥4.24 kB)" in head
