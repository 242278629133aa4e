from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.window.grouped_rows import GroupedRows, key_of, value_at
from kanalyze.tables.columns.numpy_arrays import IntArray as Ints
from kanalyze.tables.columns.numpy_arrays import WordArray as Words

INT64S = st.integers(-(2**63), 2**63 - 1)
KEYED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), INT64S, st.booleans()))


def column(values) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def by_hand(rows) -> dict[tuple[int, int], list[tuple[int, bool]]]:
    """Return values by key; a dict keeps the order of first appearance."""
    made: dict[tuple[int, int], list[tuple[int, bool]]] = {}
    for one, two, value, is_kept in rows:
        made.setdefault((one, two), []).append((value, is_kept))
    return made


def groups_of(rows) -> GroupedRows:
    return GroupedRows(column(row[0] for row in rows), column(row[1] for row in rows))


@given(KEYED)
def test_groups_are_in_order_of_first_appearance(rows):
    assert [rows[first][:2] for first in groups_of(rows).firsts] == list(by_hand(rows))


@given(KEYED)
def test_sums_are_exact_whatever_the_numbers(rows):
    values = column(row[2] for row in rows)
    ones = np.ones(len(rows), dtype=np.int64)
    sums = groups_of(rows).sums(values, ones)
    assert sums == [
        [sum(value for value, _ in group), len(group)] for group in by_hand(rows).values()
    ]


@given(KEYED)
def test_values_are_those_of_the_group_with_sum_and_bounds(rows):
    values, kept = column(row[2] for row in rows), np.array([row[3] for row in rows], dtype=bool)
    groups = groups_of(rows)
    for made, wanted in (
        (groups.values(values), [[v for v, _ in some] for some in by_hand(rows).values()]),
        (
            groups.values(values, kept),
            [[v for v, k in some if k] for some in by_hand(rows).values()],
        ),
    ):
        assert [list(item.items) for item in made] == wanted
        assert [item.sum for item in made] == list(map(sum, wanted))
        assert [item.min for item in made] == [min(some, default=0) for some in wanted]
        assert [item.max for item in made] == [max(some, default=0) for some in wanted]


@given(KEYED)
def test_the_highest_of_each_group(rows):
    made = groups_of(rows).highest(column(row[2] for row in rows))
    assert made == [max(value for value, _ in some) for some in by_hand(rows).values()]


def test_a_change_is_a_value_other_than_the_one_before_in_the_group():
    groups = GroupedRows(column([0, 1, 0, 0, 1, 1]))
    assert groups.changes(column([5, 5, 5, 6, 5, 7])).tolist() == [1, 1, 0, 1, 0, 1]


def test_keys_too_large_to_combine_are_still_distinguished():
    large = column([2**40, 0, 2**40, 1, 2**40])
    groups = GroupedRows(large, large, large, column([7, 7, 7, 7, 8]))
    assert groups.firsts == [0, 1, 3, 4]


def test_keys_are_equal_where_values_are_and_null_has_its_own_key():
    words = Words(np.array([1, -1, 0, 1], dtype=np.int32), ["a", "b"])
    numbers = Ints(column([-5, 0, 0, -5]), np.array([True, False, True, True]))
    for values, wanted in ((words, ["b", None, "a", "b"]), (numbers, [-5, None, 0, -5])):
        key = key_of(values).tolist()
        assert [value_at(values, place) for place in range(4)] == wanted
        assert key[0] == key[3]
        assert len(set(key)) == 3
        assert min(key) == 0


def test_numbers_without_nulls_are_a_key_too():
    assert key_of(Ints(column([3, 1]), None)).tolist() == [3, 1]
    assert key_of(Ints(column([]), None)).tolist() == []
