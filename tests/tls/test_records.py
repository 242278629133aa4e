"""The record layer alone: pieces, holes, and the search for the next record without keys."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.streams import Chunk, Gap
from kanalyze.tls.records import LostRecords, RecordCutter, TlsRecord
from tests.support.streams import TIME_NS, chunk, cut

RANDOM = random.Random(8)
BODIES = [RANDOM.randbytes(size) for size in (1, 300, 16_000, 5, 2000, 40, 1500, 16_640, 3, 700)]
STREAM = b"".join(b"\x17\x03\x03" + len(body).to_bytes(2, "big") + body for body in BODIES)
BEGINS = [sum(len(body) + 5 for body in BODIES[:n]) for n in range(len(BODIES))]


def never_verified(record: TlsRecord, lost_bytes: int) -> bool | None:
    return None


def cutter(*, from_start: bool = True, stream_offset: int = 0) -> RecordCutter:
    return RecordCutter(never_verified, stream_offset, from_start=from_start)


def read(
    made: RecordCutter, items: list[Chunk | Gap]
) -> tuple[list[tuple[int, bytes]], list[LostRecords]]:
    """(stream offset, body) of each record, and the lost records."""
    records, lost = [], []
    for item in items:
        for each in made.feed([item]):
            if isinstance(each, LostRecords):
                lost.append(each)
            elif each is not None:
                records.append((each.stream_offset, bytes(each.body)))
        assert made.buffered_bytes <= 5 + 16_384 + 2048 + 5 + 1448
    return records, lost


@given(st.lists(st.integers(1, 3000), max_size=30))
@settings(max_examples=30)
def test_any_pieces_give_the_same_records(sizes: list[int]) -> None:
    records, lost = read(cutter(), [chunk(cut(STREAM, sizes))])
    assert records == list(zip(BEGINS, BODIES, strict=True))
    assert lost == []


def test_a_record_has_its_first_and_last_packet() -> None:
    data = STREAM[:306] + STREAM[306 : 306 + 10]
    found = []
    for each in cutter().feed([chunk([data[:4], data[4:7], data[7:200], data[200:]])]):
        assert isinstance(each, TlsRecord)
        found.append((each.first_packet, each.packet, each.time_ns - TIME_NS))
    assert found == [(1, 2, 2), (2, 4, 4)]


def with_hole(begin: int, end: int) -> list[Chunk | Gap]:
    before = chunk([STREAM[at : min(at + 1448, begin)] for at in range(0, begin, 1448)])
    pieces = [STREAM[at : at + 1448] for at in range(end, len(STREAM), 1448)]
    after = chunk(pieces, stream_offset=end, first_packet=100)
    return [before, Gap(begin, end - begin, TIME_NS + 100, 100), after]


@pytest.mark.parametrize(
    ("begin", "end", "lost", "count"),
    [
        (BEGINS[2] + 5, BEGINS[2] + 6, {2}, 1),  # within a record
        (BEGINS[2] + 900, BEGINS[3], {2}, 1),  # to its end
        (BEGINS[2] + 900, BEGINS[3] + 1, {2, 3}, None),  # into the next header
        (BEGINS[4], BEGINS[5], {4}, None),  # one record, whose length is not in the capture
        (BEGINS[4] + 2, BEGINS[4] + 3, {4}, None),  # within a header
        (BEGINS[1] + 100, BEGINS[6] + 100, {1, 2, 3, 4, 5, 6}, None),
    ],
)
def test_a_hole_loses_only_the_records_that_it_touches(
    begin: int, end: int, lost: set[int], count: int | None
) -> None:
    records, missing = read(cutter(), with_hole(begin, end))
    kept = [n for n in range(len(BODIES)) if n not in lost]
    assert records == [(BEGINS[n], BODIES[n]) for n in kept]
    first, after = BEGINS[min(lost)], BEGINS[max(lost) + 1]
    assert [(each.stream_offset, each.length, each.records) for each in missing] == [
        (first, after - first, count)
    ]


@given(begin=st.integers(0, len(STREAM) - 2), length=st.integers(1, 40_000))
@settings(max_examples=60)
def test_records_and_losses_cover_the_stream_without_holes(begin: int, length: int) -> None:
    end = min(len(STREAM) - 1, begin + length)
    records, missing = read(cutter(), with_hole(begin, end))
    known = dict(zip(BEGINS, BODIES, strict=True))
    assert all(known.get(offset) == body for offset, body in records)
    spans = [(offset, offset + 5 + len(body)) for offset, body in records]
    spans += [(each.stream_offset, each.stream_offset + each.length) for each in missing]
    at = 0
    for first, last in sorted(spans):
        assert first == at
        at = last


def test_snapped_bytes_are_missing_bytes() -> None:
    pieces = [STREAM[at : at + 1448] for at in range(0, len(STREAM), 1448)]
    records, missing = read(cutter(), [chunk(pieces, snap=1000)])
    known = dict(zip(BEGINS, BODIES, strict=True))
    assert all(known[offset] == body for offset, body in records)
    assert missing


def test_a_stream_may_begin_anywhere() -> None:
    late = chunk([STREAM[BEGINS[2] + 70 :]], stream_offset=BEGINS[2] + 70)
    made = cutter(from_start=False, stream_offset=BEGINS[2] + 70)
    records, missing = read(made, [late])
    assert records == list(zip(BEGINS, BODIES, strict=True))[3:]
    assert sum(each.length for each in missing) == BEGINS[3] - BEGINS[2] - 70


def test_bytes_that_are_no_record_are_skipped() -> None:
    data = STREAM[: BEGINS[2]] + b"GET / HTTP/1.1\r\n\r\n" * 50 + STREAM[BEGINS[2] :]
    records, missing = read(cutter(), [chunk([data])])
    assert [body for _, body in records] == BODIES
    assert [each.length for each in missing] == [18 * 50]


def test_endless_headers_take_linear_time() -> None:
    """Every few bytes look like the beginning of a record, which is then verified."""
    tried = []

    def refuse(record: TlsRecord, lost_bytes: int) -> bool:
        tried.append(len(record.body))
        return False

    made = RecordCutter(refuse, 0, from_start=False)
    data = b"\x17\x03\x03\x00\x10" * 20_000
    assert list(made.feed([chunk(cut(data, [1448] * 60))])) == []
    assert len(tried) <= len(data) // 5
    assert made.buffered_bytes < 1000
