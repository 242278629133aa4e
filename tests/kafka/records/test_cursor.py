"""Records of a batch, one after the other: compiled and uncompiled."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kanalyze.kafka.records import cursor
from kanalyze.kafka.records.types import Header, Record, RecordProblem
from tests.support.cases import examples
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

LARGEST = 2**63 - 1


def varint(number: int) -> bytes:
    """A zigzag varint."""
    remaining, encoded = (number << 1) ^ (number >> 63), b""
    while remaining > 0x7F:
        encoded += bytes([remaining & 0x7F | 0x80])
        remaining >>= 7
    return encoded + bytes([remaining])


@functools.cache
def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(offset: int, time: int, key: bytes | None, value: bytes | None, headers=()) -> bytes:
    body = b"\0" + varint(time) + varint(offset) + field(key) + field(value)
    body += varint(len(headers)) + b"".join(field(name) + field(text) for name, text in headers)
    return varint(len(body)) + body


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module: first compiled, then uncompiled."""
    if request.param == "compiled":
        yield cursor
        return
    with uncompiled() as modules:
        pass
    yield modules["kanalyze.kafka.records.cursor"]


def read(core: ModuleType, data: bytes, count: int = 1, **base: int | None):
    """The records, and the problem that ended them."""
    numbers = {"base_offset": 0, "base_timestamp": 0, "append_time": None} | base
    cursor = core.RecordCursor(data, 0, len(data), count, *numbers.values())
    return list(cursor.records()), cursor.problem


def test_every_field_of_a_record_is_read(core):
    headers = [(b"a", b"1"), (b"b", None), (b"", b"")]
    data = record(3, 5, b"k", b"v" * 300, headers) + record(4, -6, None, None)
    records, problem = read(core, data, 2, base_offset=100, base_timestamp=1000)
    assert problem is None
    assert records == [
        Record(103, 1005, b"k", b"v" * 300, tuple(Header(*each) for each in headers)),
        Record(104, 994, None, None),
    ]


def test_sums_beyond_64_bits_wrap_and_minus_one_is_no_time(core):
    ((made,), _) = read(core, record(1, 0, None, None), base_offset=LARGEST, base_timestamp=-1)
    assert (made.offset, made.timestamp_ms) == (-LARGEST - 1, None)
    ((made,), _) = read(core, record(-2, 0, None, None), base_offset=-LARGEST)
    assert made.offset == LARGEST
    ((made,), _) = read(core, record(0, 7, None, None), append_time=99)
    assert made.timestamp_ms == 99


@pytest.mark.parametrize(
    ("data", "count", "problem"),
    [
        (record(0, 0, b"k", b"v"), 2, "wrong_record_count"),
        (record(0, 0, b"k", b"v") * 2, 1, "wrong_record_count"),
        (b"", -1, "wrong_record_count"),
        (record(0, 0, b"k", b"v")[:-1], 1, "malformed_record"),
        (varint(-1) + bytes(9), 1, "malformed_record"),
        (varint(LARGEST) + bytes(9), 1, "malformed_record"),
        (varint(0), 1, "malformed_record"),
        (b"\xff" * 11, 1, "malformed_record"),
        (varint(12) + b"\0\0\0" + b"\xff" * 8 + b"\x02", 1, "malformed_record"),
        (record(0, 0, None, None, [(None, b"")]), 1, "malformed_record"),
        (record(0, 0, None, None, [(b"", b"")] * 65_536), 1, None),
        (record(0, 0, None, None, [(b"", b"")] * 65_537), 1, "too_many_headers"),
    ],
)
def test_wrong_records_and_counts_are_reported_as_problems(core, data, count, problem):
    records, reported = read(core, data, count)
    assert reported == (None if problem is None else RecordProblem(problem))
    assert len(records) == (0 if problem and problem != "wrong_record_count" else len(data) > 0)


@given(st.binary(max_size=40), st.integers(-1, 4))
@example(b"\x80" * 9 + b"\x01", 1)
@example(b"\x80" * 9 + b"\x02", 1)
@settings(max_examples=examples(300))
def test_any_bytes_give_the_same_result_compiled_and_uncompiled(core, data, count):
    whole = record(0, 1, b"k", b"v", [(b"h", b"")])
    for tried in (data, whole + data, whole[:-3] + data):
        assert read(core, tried, count) == read(cursor, tried, count)
