from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.records.batch import RecordBatch
from kanalyze.kafka.records.types import (
    DecompressionLimits,
    RecordProblem,
    as_int64,
    note,
)


@pytest.mark.parametrize(
    ("compressed", "allowed"),
    [(0, 1 << 20), (1, 1 << 20), (1024, 1 << 20), (2048, 2 << 20), (1 << 20, 64 << 20)],
)
def test_the_allowed_bytes_depend_on_the_compressed_bytes(compressed: int, allowed: int) -> None:
    assert DecompressionLimits().allowed(compressed) == allowed


def test_most_bytes_bounds_what_the_ratio_and_the_free_bytes_allow() -> None:
    assert DecompressionLimits(most_bytes=100).allowed(10) == 100
    assert DecompressionLimits(1000, most_ratio=3, free_bytes=5).allowed(10) == 30
    assert DecompressionLimits(1000, most_ratio=3, free_bytes=50).allowed(10) == 50


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_sums_wrap_at_64_bits(left: int, right: int) -> None:
    wrapped = as_int64(left + right)
    assert -(2**63) <= wrapped < 2**63
    assert (wrapped - left - right) % 2**64 == 0


def test_a_problem_is_noted_once() -> None:
    problems: list[RecordProblem] = []
    for problem in (RecordProblem.MALFORMED_RECORD, RecordProblem.BAD_COMPRESSION) * 2:
        note(problems, problem)
    assert problems == [RecordProblem.MALFORMED_RECORD, RecordProblem.BAD_COMPRESSION]


def batch(base_sequence: int | None) -> RecordBatch:
    made = RecordBatch(
        lambda _: iter(()),
        base_offset=100,
        batch_bytes=61,
        magic=2,
        codec="none",
        crc_ok=True,
        timestamp_type="create",
        limits=DecompressionLimits(),
    )
    made.base_sequence = base_sequence
    return made


def test_sequence_numbers_rise_with_the_offset_and_wrap_to_0_after_the_largest() -> None:
    assert batch(7).sequence(103) == 10
    assert batch(2**31 - 2).sequence(101) == 2**31 - 1
    assert batch(2**31 - 2).sequence(102) == 0
    assert batch(None).sequence(102) == -1
