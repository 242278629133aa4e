"""A pushed filter passes exactly the rows that it passes in Spark."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from kanalyze.spark.source.pushdown import can_take, column_of, matching, passing
from kanalyze.tables.columns.block import Ints, RowBlock, Words
from kanalyze.tables.row import COLUMNS, Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT, NUMBER, TRUTH = ("text",), ("number",), ("truth",)
TABLE = (
    Column("text", "string", "", True, ""),
    Column("number", "int64", "", True, ""),
    Column("truth", "bool", "", True, ""),
    Column("texts", "list<string>", "", False, ""),
)
TEXTS = [None, "", "a", "ab", "abc", "b", "B", "é", "\U0001f600", "\uffee", "a%", None]
NUMBERS = [None, 0, 1, -1, 40_000, -(1 << 63), (1 << 63) - 1, 5, 6, 7, None, 1]
TRUTHS = [None, True, False, True, None, False, False, True, True, None, False, None]

FILTERS: list[tuple[str, Filter]] = [
    ("text = 'ab'", EqualTo(TEXT, "ab")),
    ("text = ''", EqualTo(TEXT, "")),
    ("text = 'nowhere'", EqualTo(TEXT, "nowhere")),
    ("text <> 'ab'", Not(EqualTo(TEXT, "ab"))),
    ("text <=> 'ab'", EqualNullSafe(TEXT, "ab")),
    ("not (text <=> 'ab')", Not(EqualNullSafe(TEXT, "ab"))),
    ("text in ('a', 'B', 'x')", In(TEXT, ("a", "B", "x"))),
    ("text not in ('a', 'B')", Not(In(TEXT, ("a", "B")))),
    ("text > 'ab'", GreaterThan(TEXT, "ab")),
    ("text >= 'ab'", GreaterThanOrEqual(TEXT, "ab")),
    ("text < '\uffee'", LessThan(TEXT, "\uffee")),
    ("text > '\uffee'", GreaterThan(TEXT, "\uffee")),
    ("text <= 'é'", LessThanOrEqual(TEXT, "é")),
    ("text is null", IsNull(TEXT)),
    ("text is not null", IsNotNull(TEXT)),
    ("not (text is null)", Not(IsNull(TEXT))),
    ("startswith(text, 'ab')", StringStartsWith(TEXT, "ab")),
    ("not startswith(text, 'ab')", Not(StringStartsWith(TEXT, "ab"))),
    ("endswith(text, 'b')", StringEndsWith(TEXT, "b")),
    ("contains(text, 'b')", StringContains(TEXT, "b")),
    ("contains(text, '')", StringContains(TEXT, "")),
    ("number = 1", EqualTo(NUMBER, 1)),
    ("number <> 1", Not(EqualTo(NUMBER, 1))),
    ("number <=> 1", EqualNullSafe(NUMBER, 1)),
    ("not (number <=> 1)", Not(EqualNullSafe(NUMBER, 1))),
    ("number in (1, 5, 99)", In(NUMBER, (1, 5, 99))),
    ("number not in (1, 5)", Not(In(NUMBER, (1, 5)))),
    ("number > 5", GreaterThan(NUMBER, 5)),
    ("number >= 9223372036854775807", GreaterThanOrEqual(NUMBER, (1 << 63) - 1)),
    ("number < -1", LessThan(NUMBER, -1)),
    ("number <= 0", LessThanOrEqual(NUMBER, 0)),
    ("number is null", IsNull(NUMBER)),
    ("truth", EqualTo(TRUTH, True)),
    ("not truth", Not(EqualTo(TRUTH, True))),
    ("truth <=> false", EqualNullSafe(TRUTH, False)),
    ("truth > false", GreaterThan(TRUTH, False)),
    ("truth is not null", IsNotNull(TRUTH)),
]


def numbers(values: list[int | None]) -> Ints:
    return Ints(
        array("q", [value or 0 for value in values]),
        bytearray(value is not None for value in values),
    )


def texts(values: list[str | None]) -> Words:
    words = sorted({value for value in values if value is not None})
    codes = [-1 if value is None else words.index(value) for value in values]
    return Words(array("i", codes), [*words, "never used"])


BLOCK = RowBlock(
    len(TEXTS), {"text": texts(TEXTS), "number": numbers(NUMBERS), "truth": numbers(TRUTHS)}
)


def test_each_filter_passes_the_same_rows_as_in_spark(spark: SparkSession):
    frame = spark.createDataFrame(
        pa.table(
            {
                "row": pa.array(range(len(TEXTS)), pa.int64()),
                "text": pa.array(TEXTS, pa.string()),
                "number": pa.array(NUMBERS, pa.int64()),
                "truth": pa.array(TRUTHS, pa.bool_()),
            }
        )
    )
    conditions = [f"coalesce({sql}, false) as f{i}" for i, (sql, _) in enumerate(FILTERS)]
    expected = frame.selectExpr("row", *conditions).orderBy("row").toArrow()
    for index, (sql, condition) in enumerate(FILTERS):
        assert can_take(condition, TABLE), sql
        assert passing(BLOCK, condition).tolist() == expected[f"f{index}"].to_pylist(), sql


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("elsewhere",), 1),
        EqualTo(("text", "inner"), "a"),
        EqualTo(("texts",), ["a"]),
        IsNotNull(("texts",)),
        EqualTo(TEXT, 1),
        EqualTo(TEXT, None),
        EqualTo(NUMBER, "1"),
        EqualTo(NUMBER, True),
        EqualTo(NUMBER, 1.0),
        GreaterThan(NUMBER, 1 << 63),
        EqualTo(TRUTH, 1),
        In(NUMBER, (1, None)),
        In(TEXT, ("a", None)),
        StringStartsWith(NUMBER, "1"),
        Not(EqualTo(NUMBER, 1.5)),
    ],
    ids=repr,
)
def test_filters_that_spark_may_evaluate_differently_are_left_to_spark(condition):
    assert not can_take(condition, TABLE)


def test_every_scalar_column_of_requests_takes_filters():
    scalars = [column for column in COLUMNS if not column.type.startswith("list")]
    assert all(can_take(IsNull((column.name,)), COLUMNS) for column in scalars)
    assert len(scalars) == len(COLUMNS) - 3


def test_all_of_several_filters_must_hold():
    found = matching(BLOCK, [IsNotNull(TEXT), EqualTo(NUMBER, 1)])
    assert found.columns["number"].values.tolist() == [1]
    assert len(found) == 1


def test_a_block_whose_rows_all_pass_is_not_copied():
    assert matching(BLOCK, []) is BLOCK
    assert matching(BLOCK, [Not(EqualTo(TEXT, "x"))]) is not BLOCK
    some = BLOCK.take([1, 2])
    assert matching(some, [IsNotNull(TEXT)]) is some


def test_a_text_that_is_not_unicode_is_compared_in_its_escaped_form():
    block = RowBlock(2, {"text": texts(["\udc80", "x"])})
    assert passing(block, EqualTo(TEXT, "\\udc80")).tolist() == [True, False]


def test_the_column_of_a_filter_is_known():
    assert column_of(Not(EqualTo(TEXT, "a"))) == "text"
    assert column_of(EqualTo(("a", "b"), 1)) == ""
