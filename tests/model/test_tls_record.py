"""The header of a TLS record."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.model.tls_record import find_record, find_records, looks_like_record, record_bytes


@pytest.mark.parametrize("head", ["1603010200", "1603030050", "1503030002", "1703030013"])
def test_records_are_known_by_type_version_and_length(head: str) -> None:
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
def test_anything_else_is_not(head: str) -> None:
    assert not looks_like_record(bytes.fromhex(head))


def test_a_header_says_the_size_of_its_record() -> None:
    assert record_bytes(b"??\x17\x03\x03\x01\x02", 2) == 5 + 258
    assert record_bytes(b"\x17\x03\x03\x00\x00") == 5
    assert record_bytes(b"\x17\x03\x03\x48\x00") == 5 + 16384 + 2048
    assert record_bytes(b"\x17\x03\x03\x48\x01") is None


ODD = st.sampled_from(b"\x00\x03\x04\x05\x13\x14\x16\x17\x18\x48\x49\xff")


@given(st.lists(ODD, max_size=60).map(bytes), st.integers(0, 20))
def test_records_are_found_wherever_they_look_so(data: bytes, begin: int) -> None:
    places = [at for at in range(begin, len(data)) if looks_like_record(data[at : at + 5])]
    assert find_record(bytearray(data), begin) == (places[0] if places else None)


RECORDS = b"".join(b"\x17\x03\x03\x00\x40" + bytes([n]) * 64 for n in range(5))


@pytest.mark.parametrize("skipped", [0, 1, 30, 68, 69, 100])
def test_records_are_found_in_the_middle(skipped: int) -> None:
    found = find_records(memoryview(RECORDS[skipped:]))
    assert found is not None
    assert (found + skipped) % 69 == 0


def test_less_than_three_records_in_a_row_are_none() -> None:
    assert find_records(memoryview(RECORDS[: 2 * 69])) is None
    assert find_records(memoryview(b"")) is None
    assert find_records(memoryview(random.Random(4).randbytes(300_000))) is None
