from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.window.sums import GroupedRows, key_of, values_at
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


def mask_of(rows) -> np.ndarray:
    return np.array([row[3] for row in rows], dtype=bool)


def groups_of(rows, where=None) -> GroupedRows:
    return GroupedRows(column(row[0] for row in rows), column(row[1] for row in rows), where=where)


@given(ROWS)
def test_groups_are_in_order_of_first_appearance(rows):
    assert [rows[first][:2] for first in groups_of(rows).firsts] == list(expected_groups(rows))


@given(ROWS)
def test_sums_are_exact_beyond_64_bits(rows):
    sums = groups_of(rows).sums(column(row[2] for row in rows))
    assert sums == [sum(v for v, _ in group) for group in expected_groups(rows).values()]


@given(ROWS)
def test_values_of_each_group(rows):
    values, kept = column(row[2] for row in rows), mask_of(rows)
    groups, expected = groups_of(rows), expected_groups(rows).values()
    assert [*map(list, groups.values(values))] == [[v for v, _ in group] for group in expected]
    values_kept = [[v for v, k in group if k] for group in expected]
    assert [*map(list, groups.values(values, kept))] == values_kept
    assert groups.highest(values, kept) == [max(group, default=None) for group in values_kept]
    assert groups.highest(values) == [max(v for v, _ in group) for group in expected]


@given(ROWS)
def test_rows_that_are_left_out_are_in_no_group(rows):
    kept = [row for row in rows if row[3]]
    groups, of_kept = groups_of(rows, where=mask_of(rows)), groups_of(kept)
    assert [rows[first] for first in groups.firsts] == [kept[first] for first in of_kept.firsts]
    sums = of_kept.sums(column(row[2] for row in kept))
    assert groups.sums(column(row[2] for row in rows)) == sums
    keys = list(expected_groups(kept))
    numbers = [keys.index(row[:2]) if row[3] else -1 for row in rows]
    assert groups.numbers(len(rows)).tolist() == numbers


def test_keys_that_are_too_large_to_combine_are_distinguished():
    large = column([2**40, 0, 2**40, 1, 2**40])
    groups = GroupedRows(large, large, large, column([7, 7, 7, 7, 8]))
    assert groups.firsts == [0, 1, 3, 4]


def test_equal_values_have_equal_keys_and_null_has_its_own():
    words = Words(np.array([1, -1, 0, 1], dtype=np.int32), ["a", "b"])
    numbers = Ints(column([-5, 0, 0, -5]), np.array([True, False, True, True]))
    for values, expected in ((words, ["b", None, "a", "b"]), (numbers, [-5, None, 0, -5])):
        key = key_of(values).tolist()
        assert values_at(values, range(4)) == expected
        assert key[0] == key[3]
        assert len(set(key)) == 3
        assert min(key) == 0


def test_numbers_without_nulls_are_their_own_keys():
    assert key_of(Ints(column([3, 1]), None)).tolist() == [3, 1]
    assert key_of(Ints(column([]), None)).tolist() == []
