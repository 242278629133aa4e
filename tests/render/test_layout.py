from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kanalyze.render.layout import (
    GAP,
    TableColumn,
    bar_lines,
    fitted,
    largest,
    natural_widths,
    padded,
    resampled,
    with_whole_ids,
    without_last,
)
from kanalyze.render.table import READABLE, record_columns
from tests.support.cases import for_each

TOPIC_ID = "vWnWpcWbTA-xD4QQ5oXw_A"
COLUMNS = (
    TableColumn("name", least=10),
    TableColumn("count", right=True),
    TableColumn("extra", rank=1),
    TableColumn("more", rank=2),
)


def line_width(widths) -> int:
    shown = [width for width in widths if width is not None]
    return sum(shown) + GAP * (len(shown) - 1)


def test_a_column_is_as_wide_as_its_widest_cell_or_its_title():
    rows = [("a", "1234567", "", ""), ("abcdefgh", "1", "", "")]
    assert natural_widths(COLUMNS, rows) == [8, 7, 5, 4]
    # Wide characters take two columns.
    assert natural_widths(COLUMNS[:1], [("\u6f22\u5b57\u6f22",)]) == [6]


FITTED = (
    # They fit.
    ([20, 5, 5, 5], 80, [20, 5, 5, 5]),
    ([2000, 5, 5, 5], None, [2000, 5, 5, 5]),
    # Long names are cut before a column is left out, first the one with the highest rank.
    ([40, 5, 5, 5], 41, [20, 5, 5, 5]),
    ([40, 5, 5, 5], 28, [14, 5, 5, None]),
    ([40, 5, 5, 5], 20, [13, 5, None, None]),
    # Names are cut further if no more columns can be left out; numbers never are.
    ([40, 5, 5, 5], 15, [8, 5, None, None]),
    ([40, 20, 5, 5], 10, [8, 20, None, None]),
)


@for_each("case", FITTED)
def test_columns_are_narrowed_or_left_out_until_they_fit(case):
    natural, width, expected = case
    assert fitted(COLUMNS, natural, width) == expected


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4), st.integers(80, 200))
def test_a_line_fits_the_width(natural, width):
    assert line_width(fitted(COLUMNS, natural, width)) <= max(width, 8 + GAP + natural[1])


@given(st.text(max_size=30), st.integers(1, 20), st.booleans())
def test_a_cell_has_exactly_its_width(text, width, right):
    text = "".join(char for char in text if char.isprintable())
    assert cell_len(padded(text, width, right=right)) == width


def test_cells_are_padded_or_cut():
    assert padded("ab", 4) == "ab  "
    assert padded("ab", 4, right=True) == "  ab"
    assert padded("abcdef", 4) == "ab\u2026f"
    assert padded("abcd", 4) == "abcd"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9103", "127.0\u20269103"),
        ("broker-3-fetcher-0", "broke\u2026er-0"),
        ("FindCoordinator v2", "FindC\u2026r v2"),
        ("orders, clicks", "orders, c\u2026"),
        ("what is wrong with it", "what is w\u2026"),
        ("\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22", "\u6f22\u6f22 \u2026\u6f22\u6f22"),
    ],
)
def test_names_keep_their_end_and_sentences_their_beginning(text, expected):
    assert padded(text, 10) == expected


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("columns", [READABLE, record_columns(values=True, search=True)])
def test_a_topic_id_is_not_cut_but_a_name_is(columns, width):
    (index,) = [at for at, each in enumerate(columns) if each.column.title.startswith("topic")]
    natural = [40 if each.column.least is not None else 9 for each in columns]
    shown = {}
    for text in (TOPIC_ID, f"id {TOPIC_ID}", f"{TOPIC_ID}, orders", f"{TOPIC_ID}s"):
        cells = [text if at == index else "" for at in range(len(columns))]
        fit = with_whole_ids([each.column for each in columns], [cells])
        shown[text] = padded(text, fitted(fit, natural, width)[index])
    assert "\u2026" in shown.pop(f"{TOPIC_ID}s")
    assert all(TOPIC_ID in text for text in shown.values())


AMOUNTS = st.lists(st.integers(0, 10**12), max_size=50)


@given(AMOUNTS, st.integers(1, 9))
def test_resampling_keeps_the_sum(amounts, per_bucket):
    assert sum(resampled(amounts, per_bucket)) == sum(amounts)
    assert len(resampled(amounts, per_bucket)) == -(-len(amounts) // per_bucket)


def test_bars_are_as_high_as_their_share_of_the_largest():
    assert bar_lines([0, 1, 2, 4], 2) == ["   \u2588", " \u2584\u2588\u2588"]
    assert bar_lines([4, 0], 1, repeat=3) == ["\u2588\u2588\u2588   "]
    # A tiny amount is not blank.
    assert bar_lines([1, 10**12], 1) == ["\u2581\u2588"]
    assert bar_lines([0, 0], 2) == ["  ", "  "]


@given(AMOUNTS, st.integers(1, 6))
def test_every_line_has_a_column_for_each_amount(amounts, height):
    lines = bar_lines(amounts, height)
    assert [len(line) for line in lines] == [len(amounts)] * height


def test_null_is_ignored_in_the_largest_amounts():
    assert largest([1, None, 3, None, None, 2], 2) == [1, 3, 2]
    assert largest([None, None, 5], 2) == [0, 5]
    assert largest([], 3) == []


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (22, "v12: 1,234, v11: 5, v0"),
        (21, "v12: 1,234, v11: 5, \u2026"),
        (20, "v12: 1,234, v11: 5,\u2026"),
        (15, "v12: 1,234, \u2026  "),
        (13, "v12: 1,234, \u2026"),
        (10, "v12: \u2026    "),
        (3, "\u2026  "),
    ],
)
def test_no_number_in_a_list_is_cut(width, shown):
    assert padded("v12: 1,234, v11: 5, v0", width) == shown


def test_the_last_columns_are_left_out_where_nothing_else_helps():
    assert without_last([10, 5, None, 6, 7], 31) == [10, 5, None, 6, None]
    assert without_last([10, 5, None, 6, 7], 34) == [10, 5, None, 6, 7]
    assert without_last([10, 5], 3) == [10, None]
    assert without_last([10, 5], None) == [10, 5]
