from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.render.layout import bar_lines, columns_for, largest, resampled

AMOUNTS = st.lists(st.integers(0, 10**12), max_size=50)


@given(st.integers(1, 240), st.integers(1, 200))
def test_buckets_fit_into_the_width_and_use_at_least_half_of_it(buckets, width):
    per_bucket, repeat = columns_for(buckets, width)
    columns = -(-buckets // per_bucket) * repeat
    assert columns <= width
    assert 2 * columns > width or per_bucket == 1


@given(AMOUNTS, st.integers(1, 9))
def test_resampling_keeps_the_sum(amounts, per_bucket):
    assert sum(resampled(amounts, per_bucket)) == sum(amounts)
    assert len(resampled(amounts, per_bucket)) == -(-len(amounts) // per_bucket)


def test_the_highest_bar_is_full_and_0_is_blank():
    assert bar_lines([0, 1, 2, 4], 2) == ["   \u2588", " \u2584\u2588\u2588"]


def test_bars_can_be_several_columns_wide():
    assert bar_lines([4, 0], 1, repeat=3) == ["\u2588\u2588\u2588   "]


def test_a_tiny_amount_is_not_blank():
    assert bar_lines([1, 10**12], 1) == ["\u2581\u2588"]


@given(AMOUNTS, st.integers(1, 6))
def test_every_line_has_a_column_for_each_amount(amounts, height):
    lines = bar_lines(amounts, height)
    assert [len(line) for line in lines] == [len(amounts)] * height


def test_zeros_alone_are_blank():
    assert bar_lines([0, 0], 2) == ["  ", "  "]


def test_null_is_ignored_in_the_largest_amounts():
    assert largest([1, None, 3, None, None, 2], 2) == [1, 3, 2]
    assert largest([None, None, 5], 2) == [0, 5]
    assert largest([], 3) == []
