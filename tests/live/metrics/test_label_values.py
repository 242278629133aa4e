from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.metrics import OTHER, LabelValues, label_text
from kanalyze.tables.columns.block import Words


def words(*texts: str | None) -> Words:
    known = sorted({text for text in texts if text is not None})
    codes = [-1 if text is None else known.index(text) for text in texts]
    return Words(np.array(codes, dtype=np.int32), known)


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


def test_the_number_of_labels_is_limited() -> None:
    """For example, a client may have a new name for each connection."""
    label = LabelValues("client_id", 10)
    for first in range(0, 5000, 100):
        label.slots(words(*(f"app-{n}" for n in range(first, first + 100))))
    assert (len(label.texts), label.folded) == (12, 4990)


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
