"""TLS is detected by its first bytes, wherever a capture begins."""

from __future__ import annotations

import random

import pytest

from kanalyze.model.streams import Chunk, Gap
from kanalyze.tls.streams import TlsDetector
from tests.support.streams import TIME_NS, chunk

NOISE = random.Random(5).randbytes(200_000)
RECORDS = b"".join(b"\x17\x03\x03\x40\x00" + bytes([n]) * 0x4000 for n in range(1, 9))
HELLO = b"\x16\x03\x01\x00\x40" + bytes(64)
KAFKA = b"\0\0\0\x20\0\x12\0\x04" + bytes(30)
GAP = Gap(0, 1448, TIME_NS, 1)
SEEN, UNSEEN = (True, True), (False, False)


def decide(
    first: bytes, other: bytes = b"", starts: tuple[bool, bool] = SEEN, *, is_last: bool = False
) -> bool | None:
    items: tuple[list[Chunk | Gap], list[Chunk | Gap]] = ([chunk([first])], [])
    if other:
        items[1].append(chunk([other]))
    return TlsDetector(0, starts).decide(items, is_last=is_last)


def test_a_stream_with_its_start_begins_with_a_record_or_is_no_tls() -> None:
    assert decide(HELLO) is True
    assert decide(KAFKA) is False
    assert decide(NOISE) is False
    assert decide(HELLO[:4]) is None
    assert decide(HELLO[:4], is_last=True) is False


def test_without_the_start_either_direction_may_begin_with_a_record() -> None:
    assert decide(RECORDS[:100], starts=UNSEEN) is True
    assert decide(NOISE[:100], RECORDS[:100], UNSEEN) is True
    assert decide(NOISE[:100], starts=UNSEEN) is None
    assert decide(NOISE[:100], starts=UNSEEN, is_last=True) is False
    assert decide(KAFKA, NOISE[:100], UNSEEN) is False


@pytest.mark.parametrize("skipped", [100, 5000, 16_000, 17_000])
def test_records_are_searched_where_a_capture_begins_within_one(skipped: int) -> None:
    assert decide(RECORDS[skipped:], starts=UNSEEN) is True


def test_a_zero_byte_within_a_record_is_not_taken_for_a_size() -> None:
    within = b"\0\x9a\x12\x07\x55" + RECORDS[100:]
    assert decide(within, starts=UNSEEN) is True
    assert decide(NOISE[:100], within, UNSEEN) is True


def test_kafka_that_begins_with_a_large_message_is_no_tls() -> None:
    large = (1 << 20).to_bytes(4, "big") + NOISE
    assert decide(large[:1000], starts=UNSEEN) is None
    assert decide(large[:1000], KAFKA, UNSEEN) is False
    assert decide(large, starts=UNSEEN) is False


def test_a_stream_without_records_is_searched_up_to_a_bound() -> None:
    assert decide(NOISE, starts=UNSEEN) is False


def test_a_lost_first_packet_counts_as_an_unseen_start() -> None:
    items = ([GAP, chunk([RECORDS[500:]], stream_offset=1448)], [])
    assert TlsDetector(0, SEEN).decide(items, is_last=False) is True
    items = ([GAP], [chunk([HELLO])])
    assert TlsDetector(0, SEEN).decide(items, is_last=False) is True


def test_a_stream_is_searched_again_when_it_has_doubled() -> None:
    detector, items = TlsDetector(0, UNSEEN), ([], [])
    sizes = []
    for at in range(3000, len(RECORDS), 1448):
        items[0].append(chunk([RECORDS[at : at + 1448]], stream_offset=at))
        if detector.decide(items, is_last=False):
            break
        sizes.append(at)
    assert 3 * 0x4000 < at + 1448 <= 4 * 0x4000
