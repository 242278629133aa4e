from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.metrics.label_counts import (
    OTHER,
    CounterTable,
    HistogramTable,
    LabelValues,
    label_text,
)
from kanalyze.tables.columns.block import Words


def words(*texts: str | None) -> Words:
    known = sorted({text for text in texts if text is not None})
    codes = [-1 if text is None else known.index(text) for text in texts]
    return Words(np.array(codes, dtype=np.int32), known)


def slots(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


def test_the_first_values_have_labels_and_all_others_share_one() -> None:
    label = LabelValues("client_id", 2)
    assert [label.texts[slot] for slot in label.slots(words("b", "a", "b"))] == ["b", "a", "b"]
    assert [label.texts[slot] for slot in label.slots(words("c", "a", "d"))] == [OTHER, "a", OTHER]
    assert (label.used, label.folded) == (2, 2)


def test_the_label_for_null_does_not_count_for_the_limit() -> None:
    label = LabelValues("api", 1, null="unknown")
    slots_of_rows = label.slots(words(None, "a", None))
    assert [label.texts[slot] for slot in slots_of_rows] == ["unknown", "a", "unknown"]
    assert label.used == 1


def test_words_that_no_row_has_get_no_label() -> None:
    label = LabelValues("topic", 1)
    label.slots(Words(np.array([2], dtype=np.int32), ["a", "b", "c"]))
    assert label.texts[2:] == ["c"]


@pytest.mark.parametrize(("value", "label"), [(OTHER, "\\u006fther"), ("unknown", "\\u0075nknown")])
def test_values_that_equal_a_reserved_label_are_escaped(value: str, label: str) -> None:
    values = LabelValues("api", 2, null="unknown")
    assert values.texts[values.slot(value)] == label
    assert values.used == 1
    # A value that equals the escaped text is a third label.
    assert values.texts[values.slot(label)] == f"\\{label}"
    assert values.texts[values.slot("one too many")] == OTHER


def test_an_empty_value_is_treated_as_null() -> None:
    assert [LabelValues("client_id", 0).slots(words("", None))[row] for row in (0, 1)] == [1, 1]


def test_memory_for_labels_is_bounded() -> None:
    """For example, a client may have a new name for each connection."""
    label = LabelValues("client_id", 10)
    table = CounterTable(label)
    for first in range(0, 5000, 100):
        table.add([label.slots(words(*(f"app-{n}" for n in range(first, first + 100))))])
    assert len(label.texts) == len(label._slots) + 1 == 12
    sums = {text: total for (text,), total in table.sums()}
    assert len(sums) == 11
    assert sums[OTHER] == label.folded == 4990


@pytest.mark.parametrize(
    ("value", "label"),
    [("app", "app"), ("a\nb", "a\\nb"), ('"', '"'), ("\ud800", "\\ud800"), ("caf\u00e9", "café")],
)
def test_labels_are_printable(value: str, label: str) -> None:
    assert label_text(value) == label


@given(st.text(max_size=400))
def test_labels_are_bounded_and_can_be_written(value: str) -> None:
    assert label_text(value).isprintable()
    assert len(label_text(value).encode()) <= 128 * 12


def test_long_values_with_a_common_prefix_have_different_labels() -> None:
    labels = [label_text("x" * 200 + end) for end in "abc"]
    assert len(set(labels)) == 3
    assert {len(label) for label in labels} == {128}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2**63 - 1))))
def test_counters_are_summed_by_combination_of_labels(items: list[tuple[int, int, int]]) -> None:
    items = items[:50]
    first, second = LabelValues("a", 9), LabelValues("b", 9)
    of_first = slots(*(first.slot(f"a{item[0]}") for item in items))
    of_second = slots(*(second.slot(f"b{item[1]}") for item in items))
    table, counts = CounterTable(first, second), CounterTable(first, second)
    for half in (slice(0, 20), slice(20, None)):
        keys = [of_first[half], of_second[half]]
        table.add(keys, np.array([item[2] for item in items[half]], dtype=np.int64))
        counts.add(keys)
    expected: Counter[tuple[str, str]] = Counter()
    for a, b, amount in items:
        expected[f"a{a}", f"b{b}"] += amount
    assert {(a, b): total for (a, b), total in table.sums()} == dict(expected)
    assert {(a, b): total for (a, b), total in counts.sums()} == Counter(
        (f"a{a}", f"b{b}") for a, b, _ in items
    )


def test_bucket_edges_of_a_histogram_are_inclusive() -> None:
    label = LabelValues("api", 9)
    table = HistogramTable(label, [10, 20])
    api = label.slot("Fetch")
    table.add(slots(api, api, api, api), slots(10, 11, 20, 21))
    assert list(table.histograms()) == [(["Fetch"], [1, 3, 4], 62)]


def test_a_histogram_counts_negative_values_as_0() -> None:
    label = LabelValues("api", 9)
    table = HistogramTable(label, [10])
    table.add(slots(label.slot("Fetch")), slots(-5))
    assert list(table.histograms()) == [(["Fetch"], [1, 1], 0)]


def test_a_histogram_grows_with_its_label_and_sums_beyond_64_bits() -> None:
    label = LabelValues("api", 9)
    table = HistogramTable(label, [10])
    table.add(slots(), slots())
    fetch = label.slot("Fetch")
    for _ in range(3):
        table.add(slots(fetch, fetch), slots(2**63 - 1, 2**62))
    table.add(slots(label.slot("Produce")), slots(1))
    assert list(table.histograms()) == [
        (["Fetch"], [0, 6], 3 * (2**63 - 1 + 2**62)),
        (["Produce"], [1, 1], 1),
    ]
