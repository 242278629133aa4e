from __future__ import annotations

from array import array
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.export.arrow import BatchMaker
from kanalyze.export.parquet import RowGroups, sizes_up_to
from kanalyze.spec.columns import Column
from kanalyze.spec.rows.requests import COLUMNS, Row
from kanalyze.tables.columns.block import RowBlock, Words
from tests.support.cases import examples
from tests.support.rows import failed, plain_traffic, rows

TEXTS = (Column("text", "string", "", nullable=False, meaning=""),)


def texts(*values: str) -> RowBlock:
    codes = array("i", range(len(values)))
    return RowBlock(len(values), {"text": Words(codes, values)})


def unpacked(group: RowBlock) -> list[str]:
    column = group.columns["text"]
    assert isinstance(column, Words)
    return [column.words[code] for code in column.codes]


def groups_of(*blocks: RowBlock, most_rows: int = 1000, most_bytes: int = 1 << 20) -> list:
    groups = RowGroups(TEXTS, most_rows=most_rows, most_bytes=most_bytes)
    made = [group for block in blocks for group in groups.add(block)]
    made += groups.rest()
    assert list(groups.rest()) == []
    return list(map(unpacked, made))


def sizes_of(given_rows: list[Row]) -> list[int]:
    return sizes_up_to(RowBlock.of_rows(given_rows), COLUMNS).tolist()


def test_a_row_group_is_full_at_the_limit_of_rows():
    assert groups_of(texts(*"abcde"), texts(*"fg"), most_rows=3) == [
        ["a", "b", "c"],
        ["d", "e", "f"],
        ["g"],
    ]


def test_a_group_ends_with_the_row_that_makes_it_large_enough():
    # A text takes 4 bytes more than its characters.
    many = ["x" * 6, "x" * 5, "y", "x" * 100, "z"]
    assert groups_of(texts(*many), most_bytes=20) == [many[:3], many[3:4], many[4:]]


@given(st.lists(st.text("ab", max_size=9), max_size=30), st.lists(st.integers(0, 30)))
def test_groups_do_not_depend_on_the_batches(values, cuts):
    edges = [0, *sorted(cut for cut in cuts if cut < len(values)), len(values)]
    parts = [texts(*values[first:last]) for first, last in pairwise(edges)]
    limits = {"most_rows": 7, "most_bytes": 50}
    assert groups_of(*parts, **limits) == groups_of(texts(*values), **limits)


@settings(max_examples=examples(40))
@given(st.lists(rows(), min_size=1, max_size=6))
def test_the_size_of_a_row_does_not_depend_on_other_rows(given_rows):
    sizes = [after - before for before, after in pairwise(sizes_of(given_rows))]
    assert sizes == [sizes_of([item])[-1] for item in given_rows]


def test_sizes_are_close_to_those_of_arrow():
    traffic = [*plain_traffic(1000), *(failed("\u00e9" * 20, 6, "X") for _ in range(100))]
    assert 0.95 < sizes_of(traffic)[-1] / BatchMaker().of_rows(traffic).nbytes < 1.0
