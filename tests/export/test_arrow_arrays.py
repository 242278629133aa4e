from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanalyze.export import arrow_arrays
from kanalyze.export.arrow_arrays import array_of


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], pa.int64()),
        ([-1, 2**31 - 1], pa.int32()),
        ([-(2**63), 0], pa.int64()),
        ([True] * 9 + [False, True], pa.bool_()),
        ([], pa.string()),
        (["", "é", "x" * 300], pa.string()),
        ([], pa.binary()),
        ([b"\x00\xff"], pa.binary()),
        ((b"", b"one", b"\xff"), pa.binary()),
    ],
)
def test_arrays_are_those_of_pyarrow(values: Any, kind: pa.DataType) -> None:
    found = array_of(values, kind)
    found.validate(full=True)
    assert found.equals(pa.array(list(values), kind))


def test_columns_of_numpy_are_taken_as_they_are() -> None:
    numbers = np.arange(10)
    assert array_of(numbers[::3], pa.int64()).to_pylist() == [0, 3, 6, 9]
    assert array_of(numbers > 4, pa.bool_()).to_pylist() == [False] * 5 + [True] * 5


def test_a_number_beyond_the_type_is_an_error() -> None:
    with pytest.raises(OverflowError):
        array_of([2**31], pa.int32())


def test_more_bytes_than_arrow_counts_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_arrays, "_MAX_BYTES", 5)
    assert len(array_of([b"12345"], pa.binary())) == 1
    with pytest.raises(ValueError, match="2 GiB"):
        array_of(["123", "456"], pa.string())
