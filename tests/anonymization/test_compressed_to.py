"""Compressed bytes have the requested size, and decompress to the same data."""

from __future__ import annotations

import gzip
import random

import cramjam
import lz4.block
import lz4.frame
import pytest

from kanalyze.anonymization.records import compressed_to
from kanalyze.kafka.records.compression import decompress
from tests.support.record_sets import CODECS

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
XERIAL = b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1"


def blanked(size: int, seed: int) -> bytes:
    """Return data like blanked records: small numbers, and runs of one byte."""
    chance = random.Random(seed)
    made = bytearray()
    while len(made) < size:
        made += bytes(chance.randrange(64) for _ in range(8)) + b"x" * chance.randrange(200)
    return bytes(made[:size])


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODECS[1:])
def test_any_size_above_the_smallest_is_reached(codec: int) -> None:
    for size in (0, 1, 100, 5000, 150_000):
        data = blanked(size, size)
        reached = 0
        for room in (*range(40), 41, 100, 999, 5000):
            packed = smallest(codec, data) + room
            found = compressed_to(codec, data, bytes(packed))
            if found is None:
                continue
            reached += 1
            assert len(found) == packed
            assert decompress(codec, found, 1 << 20) == (data, None)
        # LZ4 and snappy cannot become larger than data as it is.
        assert reached >= 25 or (size < 5000 and codec in (LZ4, SNAPPY)), (size, reached)


def smallest(codec: int, data: bytes) -> int:
    if codec == GZIP:
        return len(gzip.compress(data, 6))
    if codec == SNAPPY:
        return len(bytes(cramjam.snappy.compress_raw(data)))
    if codec == LZ4:
        pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
        return 11 + sum(
            4 + min(len(piece), len(lz4.block.compress(piece, store_size=False)))
            for piece in pieces
        )
    return len(data) + 30 if len(data) < 100 else len(data) // 2 + 40


def test_the_framing_of_snappy_stays() -> None:
    data = blanked(4000, 1)
    packed = bytes(cramjam.snappy.compress_raw(random.Random(5).randbytes(4000)))
    original = XERIAL + len(packed).to_bytes(4) + packed
    found = compressed_to(SNAPPY, data, original)
    assert found is not None
    assert found[:8] == XERIAL[:8]
    assert len(found) == len(original)
    assert decompress(SNAPPY, found, 1 << 20) == (data, None)


def test_other_libraries_read_the_result() -> None:
    data = blanked(70_000, 2)
    found = {codec: compressed_to(codec, data, bytes(40_000)) for codec in (GZIP, LZ4)}
    assert gzip.decompress(found[GZIP] or b"") == data
    assert lz4.frame.decompress(found[LZ4] or b"") == data


def test_the_wrong_checksum_of_old_frames_stays_wrong() -> None:
    data = blanked(3000, 3)
    found = compressed_to(LZ4, data, bytes(2000), wrong_lz4_checksum=True)
    assert found is not None
    assert decompress(LZ4, found, 1 << 20).problem is not None
    assert decompress(LZ4, found, 1 << 20, wrong_lz4_checksum=True) == (data, None)


def test_too_small_sizes_give_no_result() -> None:
    data = random.Random(4).randbytes(2000)
    for codec in (GZIP, SNAPPY, LZ4, ZSTD, 5):
        assert compressed_to(codec, data, bytes(1000)) is None
