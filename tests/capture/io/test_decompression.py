from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import sys
import tracemalloc
import zlib

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.capture.io.decompression import DecompressedSource, compression_name
from kanalyze.capture.io.source import DamagedDataError, FileSource

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEADY = settings(deadline=None, max_examples=50)
COMPRESS = {
    "gzip": gzip.compress,
    "zstd": zstd.compress,
    "lz4": lz4.frame.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
FORMATS = pytest.mark.parametrize("form", COMPRESS)
SKIPPABLE = struct.pack("<II", 0x184D2A53, 7) + b"skipped"
NOISE = os.urandom(200_000)


def source_of(packed: bytes) -> DecompressedSource:
    return DecompressedSource(FileSource(io.BytesIO(packed), "x", owned=False))


def unpack(packed: bytes, step: int = 1000) -> bytes:
    """Return all decompressed bytes; raises at damage."""
    source, target, out = source_of(packed), bytearray(step), bytearray()
    while count := source.readinto(memoryview(target)):
        out += target[:count]
    return bytes(out)


def unpack_until_damage(packed: bytes, step: int = 1000) -> tuple[bytes, DamagedDataError | None]:
    source, target, out = source_of(packed), bytearray(step), bytearray()
    try:
        while count := source.readinto(memoryview(target)):
            out += target[:count]
    except DamagedDataError as error:
        return bytes(out), error
    return bytes(out), None


@STEADY
@given(
    st.sampled_from(list(COMPRESS)),
    st.lists(st.binary(max_size=400), min_size=1, max_size=4),
    st.integers(1, 500),
    st.integers(0, 9),
)
def test_concatenated_pieces_are_decompressed_in_any_steps(form, pieces, step, padding):
    packed = b"".join(COMPRESS[form](piece) + bytes(padding) for piece in pieces)
    assert unpack(packed, step) == b"".join(pieces)


@FORMATS
def test_incompressible_data_is_the_same_afterwards(form):
    assert unpack(COMPRESS[form](NOISE), 1 << 20) == NOISE
    assert unpack(COMPRESS[form](NOISE), 777) == NOISE


@pytest.mark.few(3)
@FORMATS
def test_highly_compressed_data_is_returned_in_steps_of_bounded_size(form):
    packed = COMPRESS[form](bytes(24 << 20))
    assert len(packed) < 1 << 20
    tracemalloc.start()
    try:
        source, target = source_of(packed), bytearray(100_000)
        for _ in range(5):
            assert 0 < source.readinto(memoryview(target)) <= 100_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20


@FORMATS
def test_data_cut_anywhere_is_read_up_to_the_cut_and_reported(form):
    text = b"".join(b"packet %d " % i for i in range(200))
    packed = COMPRESS[form](text)
    for end in range(4, len(packed)):
        data, error = unpack_until_damage(packed[:end])
        assert text.startswith(data)
        assert error is not None
        assert error.cut


@pytest.mark.parametrize("form", ["gzip", "zstd", "lz4", "bzip2"])
def test_a_cut_loses_little_data_before_it(form):
    packed = COMPRESS[form](NOISE)
    data, _ = unpack_until_damage(packed[: len(packed) - 5000], 777)
    assert len(data) >= (0 if form == "bzip2" else len(NOISE) - 5000 - (128 << 10))
    two = COMPRESS[form](NOISE) + packed[: len(packed) // 2]
    assert unpack_until_damage(two)[0][: len(NOISE)] == NOISE


@FORMATS
def test_a_changed_byte_is_damage_or_harmless_and_nothing_else(form):
    text = b"".join(b"packet %d " % i for i in range(40))
    packed = COMPRESS[form](text)
    kinds = set()
    for place in range(len(packed)):
        for value in (0x00, 0xFF, packed[place] ^ 0x01, packed[place] ^ 0x80):
            changed = packed[:place] + bytes([value]) + packed[place + 1 :]
            if compression_name(changed) != form:
                continue
            data, error = unpack_until_damage(changed)
            assert len(data) <= 4 << 20  # a block of bzip2 may claim more than there is
            kinds.add(None if error is None else error.cut)
    assert False in kinds


@pytest.mark.parametrize("form", ["gzip", "bzip2", "xz", "zstd"])
def test_a_wrong_checksum_is_damage_but_no_cut(form):
    packed = bytearray(
        zstd.compress(b"data" * 9, options={zstd.CompressionParameter.checksum_flag: 1})
        if form == "zstd"
        else COMPRESS[form](b"data" * 9)
    )
    place = {"gzip": -8, "zstd": -1, "bzip2": -4, "xz": -34}[form]
    packed[place] ^= 0x20
    _, error = unpack_until_damage(bytes(packed))
    assert error is not None
    assert not error.cut
    assert str(error).startswith(f"damaged {form} data (")


@pytest.mark.parametrize("form", ["zstd", "lz4"])
def test_skippable_frames_are_skipped_anywhere(form):
    pack = COMPRESS[form]
    large = struct.pack("<II", 0x184D2A5F, 100_000) + bytes(100_000)
    packed = SKIPPABLE + SKIPPABLE + pack(b"one ") + large + pack(b"two") + SKIPPABLE
    assert unpack(packed) == b"one two"
    assert compression_name(packed) == "zstd or lz4"


@pytest.mark.parametrize("rest", [SKIPPABLE[:5], SKIPPABLE[:-1], b"\x28\xb5"])
def test_a_cut_between_frames_is_a_cut_too(rest):
    data, error = unpack_until_damage(zstd.compress(b"one") + rest)
    assert data == b"one"
    assert error is not None
    assert error.cut


@FORMATS
def test_other_data_after_the_compressed_data_is_damage(form):
    other = COMPRESS["gzip" if form != "gzip" else "xz"](b"x")
    for rest in (b"garbage", other):
        data, error = unpack_until_damage(COMPRESS[form](b"data") + rest)
        assert data == b"data"
        assert error is not None
        assert not error.cut
        assert str(error) == f"what follows the {form} data is no {form} data"


def test_data_that_needs_too_much_memory_is_refused():
    # After the stream header: size, flags, filter, size of its properties, size of the dictionary.
    packed = bytearray(lzma.compress(b"data"))
    assert packed[14:16] == b"\x21\x01"
    packed[16] = 36  # 1 GiB
    packed[20:24] = struct.pack("<I", zlib.crc32(packed[12:20]))
    _, error = unpack_until_damage(bytes(packed))
    assert error is not None
    assert "memory" in str(error).lower()
    # A window of 2 GiB: the descriptor's exponent is 21 above 2**10.
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([21 << 3]) + b"\x01\x00\x00"
    _, error = unpack_until_damage(frame)
    assert error is not None
    assert not error.cut


@FORMATS
def test_the_first_bytes_tell_the_format(form):
    assert compression_name(COMPRESS[form](b"")[:4]) == form
    assert compression_name(b"\xd4\xc3\xb2\xa1") is None
    assert compression_name(b"") is None


@FORMATS
def test_decompressed_data_is_returned_without_waiting_for_more(form):
    """A source that returns a complete piece, and fails if it is read too early again."""
    text = b"data of the first piece"

    class Once:
        def __init__(self) -> None:
            self.given = False

        def readinto(self, target: memoryview) -> int:
            assert not self.given
            self.given = True
            packed = COMPRESS[form](text)
            target[: len(packed)] = packed
            return len(packed)

    source, target = DecompressedSource(Once()), bytearray(1000)
    count = source.readinto(memoryview(target))
    assert bytes(target[:count]) == text
