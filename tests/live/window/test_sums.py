from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.sums import ExactSum, KeyedSums
from kanalyze.live.window.tables import RECENT_TABLES, WINDOW_TABLES, WindowTable
from kanalyze.tables.columns.block import columns_of_rows
from kanalyze.tables.columns.numpy_arrays import IntArray, WordArray
from tests.support.rows import rows

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


def test_long_texts_in_a_key_are_shortened():
    counts = counts_of(["x" * 100_000] * 2, 9)
    ((key, values),) = list(counts)
    assert values == [2]
    assert len(str(key[0])) < 300


def test_sums_beyond_64_bits_are_exact():
    sums = KeyedSums([ExactSum("count", "amount")], None)
    for _ in range(3):
        key = IntArray(np.zeros(2, dtype=np.int64), None)
        sums.add([key], {"amount": np.array([2**63 - 1, 2**62])})
    assert sums.figures(sums.of((0,))) == {"count": 3 * (2**63 - 1 + 2**62)}
