from __future__ import annotations

import math
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.live.window.sums import (
    EXACT_LIMIT,
    RELATIVE_ERROR,
    LatencySketch,
)
from tests.support.cases import examples

INT64S = st.integers(-(2**63), 2**63 - 1)
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
    for value in values:
        one_by_one.add([value])
    assert figures(one_by_one) == figures(sketch_of(values))


@settings(max_examples=examples(40))
@given(st.lists(DURATIONS, min_size=EXACT_LIMIT + 1, max_size=EXACT_LIMIT + 50))
def test_queries_in_between_change_no_later_result(values):
    queried = LatencySketch()
    for first in range(0, len(values), 100):
        queried.add(values[first : first + 100])
        queried.quantile(0.5)
    assert figures(queried) == figures(sketch_of(values))


def test_count_minimum_and_maximum_are_exact_for_many_values():
    values = [value * 1_000_003 for value in range(5000)]
    sketch = sketch_of(values)
    assert (sketch.count, sketch.quantile(0), sketch.quantile(1)) == (5000, 0, values[-1])


def test_values_in_buckets_of_width_1_are_exact_at_any_count():
    sketch = sketch_of(list(range(200)) * 10)
    assert [sketch.quantile((value + 1) / 200) for value in (0, 49, 99, 199)] == [0, 49, 99, 199]


@pytest.mark.parametrize("power", [8, 31, 53, 54, 62])
def test_neighbours_of_powers_of_two_stay_in_order_and_within_the_error(power):
    values = [2**power - 1, 2**power, 2**power + 1]
    for value in values:
        sketch = sketch_of([0] + [value] * EXACT_LIMIT + [2**63 - 1])
        assert abs(sketch.quantile(0.5) - value) <= value * RELATIVE_ERROR


def test_negative_values_keep_their_sign_and_order():
    sketch = sketch_of([-1_000_000] * 600 + [1_000_000] * 601)
    assert sketch.quantile(0.25) == pytest.approx(-1_000_000, rel=RELATIVE_ERROR)
    assert sketch.quantile(0.75) == pytest.approx(1_000_000, rel=RELATIVE_ERROR)


def test_an_empty_sketch_has_no_quantiles():
    sketch = LatencySketch()
    sketch.add([])
    sketch.merge(LatencySketch())
    assert (sketch.count, sketch.quantile(0.5)) == (0, None)


def test_the_quantile_is_taken_as_its_shortest_decimal():
    values = list(range(1, 101))
    # In doubles, 0.07 * 100 is 7.000000000000001.
    assert math.ceil(0.07 * 100) == 8
    assert sketch_of(values).quantile(0.07) == 7


def test_merged_sketches_are_independent_of_the_other():
    one, two = sketch_of([1, 2]), sketch_of([3])
    one.merge(two)
    one.add([4])
    assert figures(two) == figures(sketch_of([3]))


def test_memory_is_bounded_by_the_number_of_buckets():
    sketch = LatencySketch()
    for exponent in range(63):
        sketch.add([(1 << exponent) + step * (1 << exponent) // 300 for step in range(300)])
    assert len(sketch._buckets) + len(sketch._pending) < 56 * 128 + 1025
