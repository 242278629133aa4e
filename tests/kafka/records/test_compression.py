"""Checksums, and decompression that is bounded."""

from __future__ import annotations

import gzip
import struct
import time
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import cramjam
import google_crc32c
import lz4.frame
import pytest
import xxhash
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.kafka.records.compression import crc32c, decompress, lz4_header_checksum
from kanalyze.kafka.records.types import RecordProblem
from tests.support.effort import took_soon

if TYPE_CHECKING:
    from collections.abc import Callable


def test_crc32c_is_that_of_rfc_3720() -> None:
    assert crc32c(bytes(32), 0, 32) == 0x8A9136AA
    assert crc32c(b"\xff" * 32, 0, 32) == 0x62A8AB43
    assert crc32c(bytes(range(32)), 0, 32) == 0x46DD794E
    assert crc32c(b"123456789", 0, 9) == 0xE3069283


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) + 7])
def test_crc32c_agrees_with_another_library(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    assert crc32c(data, 1, size) == google_crc32c.value(data[1:size])


STEADY = settings(deadline=None)  # the first example loads a codec
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LIMIT = 1 << 20
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
TEXT = b"some records, " * 5000


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def xerial(data: bytes, block: int = 32 << 10) -> bytes:
    blocks = [raw_snappy(data[at : at + block]) for at in range(0, len(data), block)]
    return XERIAL + b"".join(struct.pack(">i", len(item)) + item for item in blocks)


COMPRESS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (GZIP, gzip.compress),
    "gzip members": (GZIP, lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:])),
    "gzip, then padding": (GZIP, lambda data: gzip.compress(data) + bytes(9)),
    "snappy": (SNAPPY, raw_snappy),
    "xerial": (SNAPPY, xerial),
    "xerial twice": (SNAPPY, lambda data: xerial(data[:50]) + xerial(data[50:])),
    "lz4": (LZ4, lz4.frame.compress),
    "lz4 linked": (LZ4, lambda data: lz4.frame.compress(data, block_linked=True)),
    "lz4 checked": (
        LZ4,
        lambda data: lz4.frame.compress(data, content_checksum=True, block_checksum=True),
    ),
    "zstd": (ZSTD, lambda data: zstandard.ZstdCompressor().compress(data)),
    "zstd frames": (
        ZSTD,
        lambda data: (
            zstandard.ZstdCompressor().compress(data[:99])
            + zstandard.ZstdCompressor(write_checksum=True).compress(data[99:])
        ),
    ),
    "zstd, no size": (
        ZSTD,
        lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    ),
}
CODED = sorted(set(COMPRESS) - {"none"})
# The others may be cut at a place where a reader takes the data for complete.
WITH_END = [name for name in CODED if name not in ("gzip, then padding", "xerial", "xerial twice")]


@pytest.mark.parametrize("name", COMPRESS)
@STEADY
@given(data=st.one_of(st.binary(max_size=300), st.just(TEXT), st.just(bytes(200_000))))
def test_decompressed_data_is_the_original(name: str, data: bytes) -> None:
    codec, compress = COMPRESS[name]
    assert decompress(codec, compress(data), LIMIT) == (data, None)


@pytest.mark.parametrize("name", COMPRESS)
@pytest.mark.parametrize("limit", [0, 1, 65_535, 65_536, 65_537, len(TEXT) - 1])
def test_data_beyond_the_limit_is_a_problem_and_is_not_returned(name: str, limit: int) -> None:
    codec, compress = COMPRESS[name]
    data, problem = decompress(codec, compress(TEXT), limit)
    assert problem is RecordProblem.DECOMPRESSED_TOO_LARGE
    assert len(data) <= limit
    assert TEXT.startswith(data)


@pytest.mark.parametrize("name", COMPRESS)
def test_data_of_exactly_the_limit_is_returned(name: str) -> None:
    codec, compress = COMPRESS[name]
    assert decompress(codec, compress(TEXT), len(TEXT)) == (TEXT, None)


@pytest.mark.parametrize("name", WITH_END)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.7, 0.99])
def test_truncated_data_is_a_problem_and_gives_its_beginning(name: str, part: float) -> None:
    codec, compress = COMPRESS[name]
    packed = compress(TEXT)
    cut = packed[: int(len(packed) * part)]
    data, problem = decompress(codec, cut, LIMIT)
    assert problem is RecordProblem.BAD_COMPRESSION
    assert TEXT.startswith(data)
    # The last bytes of most are a checksum.
    assert len(data) < len(TEXT) or part == 0.99


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_a_problem(codec: int) -> None:
    assert decompress(codec, b"abc", LIMIT) == (b"", RecordProblem.UNKNOWN_CODEC)


@pytest.mark.parametrize("name", CODED)
@STEADY
@given(st.data())
def test_changed_bytes_give_a_result_within_the_limit(name: str, draw: st.DataObject) -> None:
    codec, compress = COMPRESS[name]
    packed = bytearray(compress(TEXT[:2000]))
    for _ in range(draw.draw(st.integers(1, 4))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    data, _ = decompress(codec, bytes(packed), 10_000)
    assert len(data) <= 10_000


def zlib_bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    piece = bytes(1 << 20)
    return b"".join(packer.compress(piece) for _ in range(size >> 20)) + packer.flush()


BOMB_BYTES = 256 << 20
BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "gzip": (GZIP, lambda: zlib_bomb(BOMB_BYTES)),
    "gzip members": (GZIP, lambda: zlib_bomb(16 << 20) * 16),
    "lz4": (LZ4, lambda: lz4.frame.compress(bytes(BOMB_BYTES))),
    "zstd": (ZSTD, lambda: zstandard.ZstdCompressor().compress(bytes(BOMB_BYTES))),
    "snappy": (SNAPPY, lambda: raw_snappy(bytes(BOMB_BYTES))),
    "xerial": (SNAPPY, lambda: XERIAL + chunk(raw_snappy(bytes(16 << 20))) * 16),
}


def chunk(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@pytest.mark.few(3)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_no_more_than_the_limit(name: str) -> None:
    codec, make = BOMBS[name]
    bomb, limit = make(), 4 << 20
    decompress(codec, b"", limit)  # loads the library
    began = time.process_time()
    tracemalloc.start()
    try:
        data, problem = decompress(codec, bomb, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert problem is RecordProblem.DECOMPRESSED_TOO_LARGE
    assert len(data) <= limit
    assert peak < 2 * limit + len(bomb) + (1 << 20)
    assert took_soon(time.process_time() - began, 2)


def test_snappy_data_with_a_false_size_allocates_little() -> None:
    for size in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x20"):  # 4 GiB, 64 MiB
        tracemalloc.start()
        try:
            result = decompress(SNAPPY, size + b"\x00a", 1 << 30)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert result == (b"", RecordProblem.BAD_COMPRESSION)
        assert peak < 1 << 20


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_too_many_empty_members_are_a_problem(codec: int) -> None:
    empty = gzip.compress(b"") if codec == GZIP else zstandard.ZstdCompressor().compress(b"")
    began = time.process_time()
    assert decompress(codec, empty * 50_000, LIMIT) == (b"", RecordProblem.BAD_COMPRESSION)
    assert took_soon(time.process_time() - began, 2)
    assert decompress(codec, empty * 900, LIMIT) == (b"", None)


def test_xerial_data_whose_chunks_do_not_fit_is_a_problem() -> None:
    good = chunk(raw_snappy(b"abc"))
    for bad in (good[:-1], good + b"\x00\x00", chunk(b""), struct.pack(">i", -5) + b"12345678"):
        data, problem = decompress(SNAPPY, XERIAL + good + bad, LIMIT)
        assert problem is RecordProblem.BAD_COMPRESSION
        assert data.startswith(b"abc")


@STEADY
@given(st.binary(min_size=2, max_size=15))
def test_the_checksum_of_an_lz4_header_is_the_second_byte_of_xxhash_32(data: bytes) -> None:
    assert lz4_header_checksum(data) == xxhash.xxh32(data).intdigest() >> 8 & 0xFF


def test_a_descriptor_that_is_too_long_has_no_header_checksum() -> None:
    with pytest.raises(ValueError, match="less than 16"):
        lz4_header_checksum(bytes(16))


@pytest.mark.parametrize("store_size", [True, False])
def test_the_wrong_header_checksum_of_magic_0_is_accepted_on_request_only(store_size: bool) -> None:
    frame = bytearray(lz4.frame.compress(TEXT, store_size=store_size))
    at = 14 if store_size else 6
    # As Kafka 0.8 and 0.9 wrote it: over the magic bytes too.
    wrong = xxhash.xxh32(bytes(frame[:at])).intdigest() >> 8 & 0xFF
    assert wrong != frame[at]
    frame[at] = wrong
    old = bytes(frame)
    assert decompress(LZ4, old, LIMIT, wrong_lz4_checksum=True) == (TEXT, None)
    assert decompress(LZ4, old, LIMIT) == (b"", RecordProblem.BAD_COMPRESSION)


@pytest.mark.parametrize(
    "data", [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x48\x40\x01", b"no lz4"]
)
def test_bytes_that_are_no_lz4_frame_are_a_problem_without_the_checksum_too(data: bytes) -> None:
    result = decompress(LZ4, data, LIMIT, wrong_lz4_checksum=True)
    assert result == (b"", RecordProblem.BAD_COMPRESSION)
