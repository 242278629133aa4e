"""The header of a TLS record."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.model.tls import find_record, find_records, looks_like_record, record_bytes


@pytest.mark.parametrize("head", ["1603010200", "1603030050", "1503030002", "1703030013"])
def test_records_are_recognized_by_type_version_and_length(head: str) -> None:
    assert looks_like_record(bytes.fromhex(head))


@pytest.mark.parametrize(
    "head",
    [
        "",
        "160301",
        "1604010200",
        "1803030050",
        "1603050050",
        "1603010000",
        "160301ffff",
        "0000002c00",
    ],
)
def test_other_bytes_are_no_record(head: str) -> None:
    assert not looks_like_record(bytes.fromhex(head))


def test_a_header_says_the_size_of_its_record() -> None:
    assert record_bytes(b"??\x17\x03\x03\x01\x02", 2) == 5 + 258
    assert record_bytes(b"\x17\x03\x03\x00\x00") == 5
    assert record_bytes(b"\x17\x03\x03\x48\x00") == 5 + 16384 + 2048
    assert record_bytes(b"\x17\x03\x03\x48\x01") is None


HEADER_BYTES = st.sampled_from(b"\x00\x03\x04\x05\x13\x14\x16\x17\x18\x48\x49\xff")


@given(st.lists(HEADER_BYTES, max_size=60).map(bytes), st.integers(0, 20))
def test_the_first_bytes_that_look_like_a_record_are_found(data: bytes, begin: int) -> None:
    offsets = [at for at in range(begin, len(data)) if looks_like_record(data[at : at + 5])]
    assert find_record(bytearray(data), begin) == (offsets[0] if offsets else None)


RECORDS = b"".join(b"\x17\x03\x03\x00\x40" + bytes([n]) * 64 for n in range(5))


@pytest.mark.parametrize("skipped_bytes", [0, 1, 30, 68, 69, 100])
def test_records_are_found_in_bytes_that_begin_anywhere(skipped_bytes: int) -> None:
    found = find_records(memoryview(RECORDS[skipped_bytes:]))
    assert found is not None
    assert (found + skipped_bytes) % 69 == 0


def test_fewer_than_three_records_in_a_row_are_not_found() -> None:
    assert find_records(memoryview(RECORDS[: 2 * 69])) is None
    assert find_records(memoryview(b"")) is None
    assert find_records(memoryview(random.Random(4).randbytes(300_000))) is None
