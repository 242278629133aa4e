"""Sums by key, groups of rows, and sketches of quantiles."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.sums import (
    EXACT_LIMIT,
    RELATIVE_ERROR,
    ExactSum,
    GroupedRows,
    KeyedSums,
    LatencySketch,
    key_of,
    values_at,
)
from kanalyze.live.window.tables import RECENT_TABLES, WINDOW_TABLES, WindowTable
from kanalyze.tables.columns.block import columns_of_rows
from kanalyze.tables.columns.numpy_arrays import IntArray as Ints
from kanalyze.tables.columns.numpy_arrays import WordArray
from kanalyze.tables.columns.numpy_arrays import WordArray as Words
from tests.support.cases import examples
from tests.support.rows import rows

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
def test_values_of_each_group(rows):
    values, kept = column(row[2] for row in rows), mask_of(rows)
    groups, expected = groups_of(rows), expected_groups(rows).values()
    assert [rows[first][:2] for first in groups.firsts] == list(expected_groups(rows))
    # Sums are exact beyond 64 bits.
    assert groups.sums(values) == [sum(v for v, _ in group) for group in expected]
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


DURATIONS = st.integers(0, 2**40)
QUANTILES = st.sampled_from([0, 0.01, 0.07, 0.25, 0.5, 0.9, 0.99, 0.999, 1])


def sketch_of(values) -> LatencySketch:
    return LatencySketch(array("q", values))


def nearest_rank(values, q):
    # Computed in integers: in doubles, 0.07 * 100 is more than 7.
    rank = max(1, -(-round(q * 1000) * len(values) // 1000))
    return sorted(values)[rank - 1]


def figures(sketch: LatencySketch):
    return sketch.count, [sketch.quantile(q / 20) for q in range(21)]


@settings(max_examples=examples(40))
@given(st.lists(INT64S, min_size=1, max_size=EXACT_LIMIT), QUANTILES)
def test_quantiles_of_few_values_are_exact(values, q):
    assert sketch_of(values).quantile(q) == nearest_rank(values, q)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(EXACT_LIMIT + 1, 3000), QUANTILES)
def test_quantiles_of_many_values_are_within_the_stated_error(seed, count, q):
    values = np.random.default_rng(seed).lognormal(14, 3, count).astype(np.int64)
    # NumPy's quantile is not used: its 0.07 of 1300 is a little more than 91.
    exact = nearest_rank(values.tolist(), q)
    assert abs(sketch_of(values.tolist()).quantile(q) - exact) <= exact * RELATIVE_ERROR


@given(st.integers(EXACT_LIMIT + 1, 2000), INT64S)
def test_the_error_bound_holds_for_all_of_int64(count, value):
    sketch = sketch_of([value] * (count - 2) + [-(2**63), 2**63 - 1])
    assert abs(sketch.quantile(0.5) - value) <= abs(value) * RELATIVE_ERROR + 1


@settings(max_examples=examples(40))
@given(
    st.lists(st.lists(DURATIONS, max_size=20).map(lambda part: part * 40), max_size=4),
    st.randoms(use_true_random=False),
)
def test_merging_parts_in_any_order_equals_adding_everything(parts, random):
    whole = sketch_of([value for part in parts for value in part])
    sketches = [sketch_of(part) for part in parts]
    random.shuffle(sketches)
    merged = LatencySketch()
    for sketch in sketches:
        merged.merge(sketch)
    assert figures(merged) == figures(whole)


@settings(max_examples=examples(40))
@given(st.lists(INT64S, min_size=1, max_size=60).map(lambda values: values * 20))
def test_adding_one_by_one_equals_adding_all_at_once(values):
    one_by_one = LatencySketch()
    for number, value in enumerate(values):
        one_by_one.add([value])
        if number % 100 == 0:
            one_by_one.quantile(0.5)  # changes no later result
    assert figures(one_by_one) == figures(sketch_of(values))


@pytest.mark.parametrize("power", [8, 31, 53, 54, 62])
def test_neighbours_of_powers_of_two_stay_in_order_and_within_the_error(power):
    values = [2**power - 1, 2**power, 2**power + 1]
    for value in values:
        sketch = sketch_of([0] + [value] * EXACT_LIMIT + [2**63 - 1])
        assert abs(sketch.quantile(0.5) - value) <= value * RELATIVE_ERROR


def test_an_empty_sketch_has_no_quantiles():
    sketch = LatencySketch()
    sketch.add([])
    sketch.merge(LatencySketch())
    assert (sketch.count, sketch.quantile(0.5)) == (0, None)


def test_merged_sketches_are_independent_of_the_other():
    one, two = sketch_of([1, 2]), sketch_of([3])
    one.merge(two)
    one.add([4])
    assert figures(two) == figures(sketch_of([3]))


def test_memory_is_bounded_by_the_number_of_rounded_values():
    sketch = LatencySketch()
    for exponent in range(63):
        sketch.add([(1 << exponent) + step * (1 << exponent) // 300 for step in range(300)])
    assert len(sketch._values) + len(sketch._pending) < 56 * 128 + 2049


TABLES = (*WINDOW_TABLES.values(), *RECENT_TABLES.values())
KEYS = st.lists(st.sampled_from("abcdef"), max_size=20)


def sums_of(table: WindowTable, all_rows) -> KeyedSums:
    sums = table.sums(1000)
    if all_rows:
        table.add(sums, RowMeasures(columns_of_rows(all_rows)))
    return sums


@given(st.lists(rows(), max_size=20), st.integers(0, 20))
def test_merged_sums_of_parts_equal_the_sums_of_all_rows(all_rows, cut):
    for table in TABLES:
        merged = sums_of(table, all_rows[:cut])
        merged.merge(sums_of(table, all_rows[cut:]))
        assert table.entries(merged) == table.entries(sums_of(table, all_rows))


def counts_of(keys, limit: int) -> KeyedSums:
    """Count each key."""
    counts = KeyedSums([ExactSum("count", "one")], limit)
    words = WordArray(np.arange(len(keys), dtype=np.int32), list(keys))
    counts.add([words], {"one": np.ones(len(keys), dtype=np.int64)})
    return counts


@given(KEYS, KEYS)
def test_nothing_is_lost_beyond_the_limit(one, two):
    merged = counts_of(one, 2)
    merged.merge(counts_of(two, 2))
    assert sum(count for (count,) in merged.all_values()) == len(one + two)
    assert len(list(merged)) <= 2
    assert (merged.others is None) == (len(set(one + two)) <= 2)


def test_merged_sums_are_independent_of_the_other():
    one, two = counts_of("a", 9), counts_of("b", 9)
    one.merge(two)
    one.merge(counts_of("b", 9))
    assert dict(two) == {("b",): [1]}
