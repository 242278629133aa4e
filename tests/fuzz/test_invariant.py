from __future__ import annotations

import sys

import pytest

from tests.fuzz.invariant import Broken, holds, sizes_of


def test_a_false_condition_raises_broken() -> None:
    holds([1], "never")
    with pytest.raises(Broken, match="always"):
        holds([], "always")


def test_nested_objects_are_counted() -> None:
    value = {"a": [1, (2.5, b"three")], "b": None, "c": True}
    assert sizes_of(value)[0] == 6


def test_sizes_are_those_of_getsizeof() -> None:
    many = [{"a": "x" * 1000}, (b"y" * 500, 7_000)]
    first, second = many
    parts = [many, first, "x" * 1000, second, b"y" * 500, 7_000]
    assert sizes_of(many)[1] == sum(map(sys.getsizeof, parts))


def test_shared_objects_take_no_bytes() -> None:
    shared = ("", b"", (), 0, 7, None, True)
    assert sizes_of(shared) == (6, sys.getsizeof(shared))


def test_very_deep_values_are_measured() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    assert sizes_of(value)[0] == 100_001
