"""Payload is pruned before it is sent: no byte that a row needs is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.batch.archive.packed_segments import as_arrays
from kanalyze.batch.archive.payload_pruning import PayloadPruner
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.tables.requests.extract import Extractors
from tests.support import kafka as k
from tests.support import proxied
from tests.support.packets import make_batch, timed
from tests.support.traffic import Line, Part, fetch, fetch_answer, produce, produce_answer

if TYPE_CHECKING:
    from kanalyze.batch.archive.packed_segments import Holes

CATALOG = Catalog()
MARK = b"RECORD-DATA-"


def records(count: int) -> bytes:
    return k.record_batch(records=40, size=count * len(MARK))[:61] + MARK * count


RECORDS = records(16_000)


def pruner() -> PayloadPruner:
    return PayloadPruner(CATALOG, Decoders(CATALOG), Extractors(CATALOG).needed_fields)


def left_out(packets: list[bytes], payload_pruner: PayloadPruner) -> tuple[bytes, int]:
    """The bytes that are left out, and the size of the whole payload."""
    segments = as_arrays(read_headers(make_batch(timed(packets)), LayerStats()))
    holes: Holes = payload_pruner.holes(segments)
    start = segments.payload_start[holes.row] + holes.start
    places = zip(start.tolist(), holes.length.tolist(), strict=True)
    data = b"".join(bytes(segments.buffer[begin : begin + size]) for begin, size in places)
    return data, int(segments.payload_bytes.sum())


def in_segments(frame: bytes, size: int = 1448) -> list[bytes]:
    return [frame[at : at + size] for at in range(0, len(frame), size)]


def conversation(line: Line, count: int, data: bytes = RECORDS) -> None:
    for number in range(1, 1 + count):
        part = Part(records=data)
        line.client(*in_segments(produce(number, 9, [part])))
        line.broker(produce_answer(number, 9, [part]))


def test_record_data_of_requests_is_pruned() -> None:
    packets: list[bytes] = []
    conversation(Line(packets).open(), 3)
    data, payload_bytes = left_out(packets, pruner())
    assert len(data) > 0.97 * payload_bytes
    assert data.replace(MARK, b"").count(b"RECORD") < 100, "only record data is pruned"


def test_only_record_data_is_pruned_behind_a_proxy() -> None:
    for turns in proxied.PREFIXES.values():
        packets: list[bytes] = []
        line = Line(packets).open()
        for side, said in turns:
            line.says(side, said)
        conversation(line, 3)
        data, payload_bytes = left_out(packets, pruner())
        assert len(data) > 0.8 * payload_bytes
        assert data.replace(MARK, b"").count(b"RECORD") < 100


def test_record_data_of_responses_is_pruned() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(1, 4):
        part = Part(records=RECORDS)
        line.client(fetch(number, 12, [part]))
        line.broker(*in_segments(fetch_answer(number, 12, [part])))
    data, payload_bytes = left_out(packets, pruner())
    assert len(data) > 0.97 * payload_bytes


def test_a_response_without_its_request_is_kept() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    part = Part(records=RECORDS)
    line.client(fetch(1, 12, [part]))
    begin = len(packets)
    line.broker(*in_segments(fetch_answer(1, 12, [part])))
    assert left_out(packets[begin:], pruner())[0] == b""


def test_requests_are_remembered_while_other_connections_are_busy() -> None:
    packets: list[bytes] = []
    line = Line(packets, client_port=50_001).open()
    part = Part(records=RECORDS)
    line.client(fetch(1, 12, [part]))
    conversation(Line(packets, client_port=50_002).open(), 3)
    begin = len(packets)
    line.broker(*in_segments(fetch_answer(1, 12, [part])))
    payload_pruner = pruner()
    left_out(packets[:begin], payload_pruner)
    data, payload_bytes = left_out(packets[begin:], payload_pruner)
    assert len(data) > 0.97 * payload_bytes


def test_small_messages_are_kept() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(1, 2000):
        line.client(produce(number, 9, [Part()]))
        line.broker(produce_answer(number, 9, [Part()]))
    assert left_out(packets, pruner())[0] == b""


def test_a_frame_that_continues_in_the_next_batch_is_pruned() -> None:
    packets: list[bytes] = []
    conversation(Line(packets).open(), 4)
    payload_pruner = pruner()
    middle = len(packets) // 2 + 31
    first, first_bytes = left_out(packets[:middle], payload_pruner)
    second, second_bytes = left_out(packets[middle:], payload_pruner)
    assert len(first) + len(second) > 0.9 * (first_bytes + second_bytes)


def test_payload_before_the_first_frame_boundary_is_kept() -> None:
    packets: list[bytes] = []
    conversation(Line(packets).open(), 12, records(4_000))
    data, payload_bytes = left_out(packets[10:], pruner())
    assert 0.5 * payload_bytes < len(data) < payload_bytes - 20 * 1448


def test_only_record_data_is_pruned_of_segments_out_of_order() -> None:
    packets: list[bytes] = []
    conversation(Line(packets).open(), 2)
    packets[40], packets[45] = packets[45], packets[40]
    data, payload_bytes = left_out(packets, pruner())
    assert len(data) > 0.8 * payload_bytes
    assert data.replace(MARK, b"").count(b"RECORD") < 100


def test_holes_do_not_overlap_after_a_loss() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    conversation(line, 1)
    part = Part(records=records(40_000))
    answer = produce_answer(2, 9, [part])
    line.client(*in_segments(produce(2, 9, [part])))
    line.broker(answer[:10], answer[10:])
    del packets[-2]
    line.client(*in_segments(produce(3, 9, [part])))
    segments = as_arrays(read_headers(make_batch(timed(packets)), LayerStats()))
    holes = pruner().holes(segments)
    begins = segments.payload_start[holes.row] + holes.start
    order = np.argsort(begins)
    assert len(order) > 100
    assert (np.diff(begins[order]) >= holes.length[order][:-1]).all()


@pytest.mark.parametrize("version", [3, 9])
def test_other_traffic_is_kept(version: int) -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    for _ in range(300):
        line.client(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 40)
        line.broker(bytes([version]) * 1200)
    assert left_out(packets, pruner())[0] == b""


def test_frames_continue_in_the_next_capture() -> None:
    packets: list[bytes] = []
    conversation(Line(packets).open(), 4)
    middle = len(packets) // 2 + 31
    alone = left_out(packets[middle:], pruner())[0]
    payload_pruner = pruner()
    left_out(packets[:middle], payload_pruner)
    payload_pruner.next_capture()
    assert len(left_out(packets[middle:], payload_pruner)[0]) > len(alone) + 100_000


def test_only_record_data_is_pruned_of_captures_in_the_wrong_order() -> None:
    packets: list[bytes] = []
    conversation(Line(packets).open(), 4)
    payload_pruner = pruner()
    left_out(packets[300:], payload_pruner)
    payload_pruner.next_capture()
    data, _ = left_out(packets[:300], payload_pruner)
    assert data.replace(MARK, b"").count(b"RECORD") < 100
