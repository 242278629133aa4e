"""Bytes become plain values or raise ValueError, and nothing else happens."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.plain_values import fields, from_bytes, from_wide, items, to_bytes, wide
from kanalyze.model.anomalies import AnomalyKind
from tests.support.effort import took_soon

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters())
LEAVES = st.none() | st.booleans() | LONGS | st.binary() | TEXTS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner).map(tuple), max_leaves=200)
EDGES = (0, 1, 127, 128, 255, 1 << 14, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, -1, -128, -(1 << 63))


@given(VALUES)
def test_a_value_is_the_same_after_writing_and_reading(value: Any) -> None:
    made = from_bytes(to_bytes(value))
    assert made == value
    assert types_of(made) == types_of(value)


def types_of(value: Any) -> Any:
    return [types_of(item) for item in value] if isinstance(value, tuple) else type(value)


@pytest.mark.parametrize(
    "value", [*EDGES, "", "\ud800", "\U0001f600", b"", bytes(300), (), "x" * 200]
)
def test_edge_values_are_the_same_after_writing_and_reading(value: Any) -> None:
    assert from_bytes(to_bytes((value,))) == (value,)
    assert type(from_bytes(to_bytes(value))) is type(value)


@pytest.mark.parametrize("count", [0, 1, 62, 63, 64, 65, 127, 128, 5000])
def test_tuples_of_any_length_are_the_same_after_writing_and_reading(count: int) -> None:
    assert from_bytes(to_bytes(tuple(range(count)))) == tuple(range(count))


def test_small_values_take_few_bytes() -> None:
    assert len(to_bytes((None, True, 0, 127, (), "", b""))) == 10
    assert len(to_bytes(1_700_000_000_000_000_000)) == 10


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        [1],
        {1: 2},
        {1},
        bytearray(b"x"),
        memoryview(b"x"),
        AnomalyKind.LOST_BYTES,
        object(),
        print,
    ],
)
def test_values_of_other_types_are_not_written(value: Any) -> None:
    with pytest.raises(TypeError):
        to_bytes((1, (value,)))


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 1 << 200])
def test_integers_of_more_than_64_bits_are_not_written(value: int) -> None:
    with pytest.raises(OverflowError):
        to_bytes((value,))


@pytest.mark.parametrize("value", [0, 5, (1 << 63) - 1, 1 << 63, (1 << 145) - 1])
def test_wide_integers_are_the_same_after_writing_and_reading(value: int) -> None:
    assert from_wide(from_bytes(to_bytes(wide(value)))) == value


@pytest.mark.parametrize("value", [-1, None, "1", True, bytes(33), (1,)])
def test_a_value_that_is_no_wide_integer_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="no integer"):
        from_wide(value)


def nested(depth: int) -> Any:
    value: Any = ()
    for _ in range(depth - 1):
        value = (value,)
    return value


def test_tuples_nest_at_most_32_deep() -> None:
    assert from_bytes(to_bytes(nested(32))) == nested(32)
    with pytest.raises(ValueError, match="deep"):
        to_bytes(nested(33))
    one = to_bytes(((),))[:1]
    for depth in (33, 1000, 1_000_000):
        with pytest.raises(ValueError, match="deep"):
            from_bytes(one * (depth - 1) + to_bytes(()))


# -- hostile bytes --------------------------------------------------------------------------------


NUMBER, BYTES, TEXT, TUPLE = b"\x83", b"\x85", b"\x86", b"\x87"
HUGE = b"\xff" * 8 + b"\x7f"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x88",
        b"\xbf",
        NUMBER,
        NUMBER + b"\xff" * 9,
        NUMBER + b"\x80" * 9 + b"\x01",
        NUMBER + b"\x80" * 1000,
        BYTES + b"\x05abc",
        BYTES + HUGE,
        TEXT + HUGE,
        TEXT + b"\x01\xff",
        TUPLE + HUGE,
        TUPLE + b"\x05\x00",
        b"\xff" + bytes(3),
        b"\x00\x00",
    ],
)
def test_bytes_that_hold_no_value_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_bytes(data)


def test_false_sizes_are_refused_soon() -> None:
    bomb = (TUPLE + (1 << 20).to_bytes(1 + 2, "little")) * 31
    began = time.process_time()
    for data in (bomb + bytes(1 << 20), (TUPLE + HUGE) * 1000, b"\xff" * 1_000_000):
        with pytest.raises(ValueError, match=r"."):
            from_bytes(data)
    assert took_soon(time.process_time() - began, 10)


def mutated(data: bytes, dice: Random) -> Iterator[bytes]:
    for _ in range(2000):
        bad = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        yield bytes(bad[: dice.randint(1, len(bad))] if dice.random() < 0.3 else bad)


def test_changed_bytes_raise_only_value_errors() -> None:
    value = (1, (None, "text", b"bytes", -5, 1 << 40), ((True, ()), "\u00e9" * 20), *range(70))
    for data in mutated(to_bytes(value), Random(1)):
        try:
            from_bytes(data)
        except ValueError:
            continue


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = from_bytes(data)
    except ValueError:
        return
    assert from_bytes(to_bytes(value)) == value


# -- checks ---------------------------------------------------------------------------------------


def test_fields_of_the_right_kinds_are_returned() -> None:
    state = (-1, 0, True, "s", b"y", (), None, None, object())
    assert fields(state, "inbsytIT*") == state
    assert fields((), "") == ()


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        (None, "i"),
        (3, "i"),
        ([1], "i"),
        ((1, 2), "i"),
        ((), "i"),
        ((True,), "i"),
        ((None,), "i"),
        (("1",), "i"),
        ((-1,), "n"),
        ((None,), "n"),
        (((1 << 62) + 1,), "n"),
        ((-1,), "N"),
        ((1,), "b"),
        ((None,), "b"),
        ((b"s",), "s"),
        (("y",), "y"),
        (([],), "t"),
        ((1,), "T"),
        ((1,), "S"),
        ((1,), "?"),
    ],
)
def test_fields_of_other_kinds_are_refused(state: Any, kinds: str) -> None:
    with pytest.raises(ValueError, match=r"value"):
        fields(state, kinds)


def test_items_are_all_of_one_kind() -> None:
    assert items((1, 2), "n") == (1, 2)
    assert items((), "n") == ()
    for state in ((1, -2), (1, None), [1], None):
        with pytest.raises(ValueError, match=r"."):
            items(state, "n")


def test_the_bytes_are_those_of_states_that_were_saved_before() -> None:
    """A state is read years later: what stands for a kind of value stays."""
    value = (None, False, True, 5, 200, -1, -200, b"ab", "\u00e9", (), (1, (2,)))
    expected = "cb 80 81 82 05 83c801 8400 84c701 85026162 8602c3a9 c0 c201c102"
    assert to_bytes(value) == bytes.fromhex(expected)
    assert to_bytes((0,) * 70) == b"\x87\x46" + bytes(70)


def test_a_state_of_an_older_format_may_lack_the_last_fields() -> None:
    assert fields((1, b"x"), "iyiS", (7, None)) == (1, b"x", 7, None)
    assert fields((1, b"x", 3, "a"), "iyiS", (7, None)) == (1, b"x", 3, "a")
    for state in [(1,), (1, b"x", 3), (1, b"x", 3, "a", 5)]:
        with pytest.raises(ValueError, match="4 values"):
            fields(state, "iyiS", (7, None))
