from __future__ import annotations

import zlib

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.records.checksums import crc32, crc32c


def test_crc32c_is_that_of_rfc_3720() -> None:
    assert crc32c(bytes(32), 0, 32) == 0x8A9136AA
    assert crc32c(b"\xff" * 32, 0, 32) == 0x62A8AB43
    assert crc32c(bytes(range(32)), 0, 32) == 0x46DD794E
    assert crc32c(b"123456789", 0, 9) == 0xE3069283


def test_crc32_is_that_of_gzip() -> None:
    assert crc32(b"123456789", 0, 9) == 0xCBF43926


@given(st.binary(max_size=50), st.integers(0, 50), st.integers(0, 50))
def test_only_the_bytes_between_start_and_end_count(data: bytes, start: int, end: int) -> None:
    end = max(start, min(end, len(data)))
    part = data[start:end]
    assert crc32(data, start, end) == zlib.crc32(part)
    assert crc32c(data, start, end) == crc32c(part, 0, len(part))


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) + 7])
def test_crc32c_agrees_with_another_library(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    assert crc32c(data, 1, size) == google_crc32c.value(data[1:size])
