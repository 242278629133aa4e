from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.window.grouped_rows import GroupedRows, key_of, value_at
from kanalyze.tables.columns.numpy_arrays import IntArray as Ints
from kanalyze.tables.columns.numpy_arrays import WordArray as Words

INT64S = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), INT64S, st.booleans()))


def column(values) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def expected_groups(rows) -> dict[tuple[int, int], list[tuple[int, bool]]]:
    """Return the values of each key; a dict keeps the order of first appearance."""
    groups: dict[tuple[int, int], list[tuple[int, bool]]] = {}
    for first_key, second_key, value, is_kept in rows:
        groups.setdefault((first_key, second_key), []).append((value, is_kept))
    return groups


def groups_of(rows) -> GroupedRows:
    return GroupedRows(column(row[0] for row in rows), column(row[1] for row in rows))


@given(ROWS)
def test_groups_are_in_order_of_first_appearance(rows):
    assert [rows[first][:2] for first in groups_of(rows).firsts] == list(expected_groups(rows))


@given(ROWS)
def test_sums_are_exact_beyond_64_bits(rows):
    values = column(row[2] for row in rows)
    ones = np.ones(len(rows), dtype=np.int64)
    sums = groups_of(rows).sums(values, ones)
    assert sums == [
        [sum(value for value, _ in group), len(group)] for group in expected_groups(rows).values()
    ]


@given(ROWS)
def test_values_of_each_group_have_their_sum_and_bounds(rows):
    values, kept = column(row[2] for row in rows), np.array([row[3] for row in rows], dtype=bool)
    groups = groups_of(rows)
    for values_by_group, expected in (
        (
            groups.values(values),
            [[v for v, _ in group] for group in expected_groups(rows).values()],
        ),
        (
            groups.values(values, kept),
            [[v for v, k in group if k] for group in expected_groups(rows).values()],
        ),
    ):
        assert [list(item.items) for item in values_by_group] == expected
        assert [item.sum for item in values_by_group] == list(map(sum, expected))
        assert [item.min for item in values_by_group] == [
            min(group, default=0) for group in expected
        ]
        assert [item.max for item in values_by_group] == [
            max(group, default=0) for group in expected
        ]


@given(ROWS)
def test_the_highest_value_of_each_group_is_returned(rows):
    highest = groups_of(rows).highest(column(row[2] for row in rows))
    assert highest == [max(value for value, _ in group) for group in expected_groups(rows).values()]


def test_a_change_is_a_value_unlike_the_previous_one_of_its_group():
    groups = GroupedRows(column([0, 1, 0, 0, 1, 1]))
    assert groups.changes(column([5, 5, 5, 6, 5, 7])).tolist() == [1, 1, 0, 1, 0, 1]


def test_keys_that_are_too_large_to_combine_are_distinguished():
    large = column([2**40, 0, 2**40, 1, 2**40])
    groups = GroupedRows(large, large, large, column([7, 7, 7, 7, 8]))
    assert groups.firsts == [0, 1, 3, 4]


def test_equal_values_have_equal_keys_and_null_has_its_own():
    words = Words(np.array([1, -1, 0, 1], dtype=np.int32), ["a", "b"])
    numbers = Ints(column([-5, 0, 0, -5]), np.array([True, False, True, True]))
    for values, expected in ((words, ["b", None, "a", "b"]), (numbers, [-5, None, 0, -5])):
        key = key_of(values).tolist()
        assert [value_at(values, row) for row in range(4)] == expected
        assert key[0] == key[3]
        assert len(set(key)) == 3
        assert min(key) == 0


def test_numbers_without_nulls_are_their_own_keys():
    assert key_of(Ints(column([3, 1]), None)).tolist() == [3, 1]
    assert key_of(Ints(column([]), None)).tolist() == []
