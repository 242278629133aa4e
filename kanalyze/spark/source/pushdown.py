"""Spark's filters on columns of rows.

In: filters as Spark hands them to a Python data source, rows by column. Out: which rows pass. This
module must not know what table the rows are of.

A filter is either accepted, and then selects here the same rows as in Spark, or it is left to
Spark. A row passes if the filter is true; a comparison with null is neither true nor false, and
neither is its negation. Texts are compared as their UTF-8, byte by byte.
"""

from __future__ import annotations

from operator import eq, ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
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

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.row_groups import utf8
from kanalyze.tables.columns.block import Ints, Lists
from kanalyze.tables.columns.numpy_arrays import IntArray, WordArray, ints_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.row import Column

__all__ = ["can_take", "column_of", "matching", "passing"]

_Mask: TypeAlias = "NDArray[np.bool_]"

_NULL_TESTS: Final = (IsNull, IsNotNull)
_TEXT_TESTS: Final[dict[type[Filter], Callable[[bytes, bytes], bool]]] = {
    StringStartsWith: bytes.startswith,
    StringEndsWith: bytes.endswith,
    StringContains: bytes.__contains__,
}
_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], Any]]] = {
    EqualTo: eq,
    EqualNullSafe: eq,
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
}
_LITERALS: Final[dict[str, type]] = {
    "string": str,
    "int16": int,
    "int32": int,
    "int64": int,
    "bool": bool,
}
"""What columns of each type may be compared with; others are left to Spark."""
_LEAST_INT64: Final = -(1 << 63)
_LARGEST_INT64: Final = (1 << 63) - 1


def can_take(condition: Filter, columns: Sequence[Column]) -> bool:
    """Return whether :func:`passing` supports a filter on rows of these columns."""
    if isinstance(condition, Not):
        return can_take(condition.child, columns)
    kinds = {column.name: column.type for column in columns}
    kind = kinds.get(column_of(condition), "")
    if isinstance(condition, _NULL_TESTS):
        return kind in _LITERALS
    values = _values(condition)
    if type(condition) in _TEXT_TESTS:
        return kind == "string" and _are_of(values, str)
    if type(condition) in _COMPARISONS or isinstance(condition, In):
        return kind in _LITERALS and _are_of(values, _LITERALS[kind])
    return False


def column_of(condition: Filter) -> str:
    """Return the column of a filter; empty for a field inside a column."""
    if isinstance(condition, Not):
        return column_of(condition.child)
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _values(condition: Filter) -> list[Any]:
    value: Any = getattr(condition, "value", None)
    return list(value) if isinstance(condition, In) else [value]


def _are_of(values: list[Any], kind: type) -> bool:
    """Return whether values are all of a type, and numbers are int64."""
    return all(
        type(value) is kind and (type(value) is not int or _LEAST_INT64 <= value <= _LARGEST_INT64)
        for value in values
    )


def matching(block: RowBlock, conditions: Sequence[Filter]) -> RowBlock:
    """Return the rows of a block that pass all filters; the same block if all rows do."""
    if not conditions or not len(block):
        return block
    passes = np.logical_and.reduce([passing(block, condition) for condition in conditions])
    return block if passes.all() else block.take(np.flatnonzero(passes).tolist())


def passing(block: RowBlock, condition: Filter) -> _Mask:
    """Return for each row of a block whether it passes a filter; see :func:`can_take`."""
    truth = _truth(block, condition)
    return truth.is_true & truth.is_known


class _ThreeValued(NamedTuple):
    """The value of a filter for each row: true, false or null."""

    is_true: _Mask
    is_known: _Mask
    """False where the filter is null; ``is_true`` means nothing there."""


def _truth(block: RowBlock, condition: Filter) -> _ThreeValued:
    if isinstance(condition, Not):
        truth = _truth(block, condition.child)
        return _ThreeValued(~truth.is_true, truth.is_known)
    column = block.columns[column_of(condition)]
    assert not isinstance(column, Lists), "a filter on a list is not accepted"
    values = ints_of(column) if isinstance(column, Ints) else words_of(column)
    valid = _valid(values, len(block))
    always = np.ones(len(block), np.bool_)
    if isinstance(condition, IsNull):
        return _ThreeValued(~valid, always)
    if isinstance(condition, IsNotNull):
        return _ThreeValued(valid, always)
    if isinstance(values, IntArray):
        is_true = _numbers_compared(values.values, condition)
    else:
        is_true = _texts_compared(values, condition)
    if isinstance(condition, EqualNullSafe):
        return _ThreeValued(is_true & valid, always)
    return _ThreeValued(is_true, valid)


def _valid(values: IntArray | WordArray, count: int) -> _Mask:
    if not isinstance(values, IntArray):
        return values.codes >= 0
    return np.ones(count, np.bool_) if values.valid is None else values.valid


def _numbers_compared(numbers: NDArray[np.int64], condition: Filter) -> _Mask:
    values = [int(value) for value in _values(condition)]
    if isinstance(condition, In):
        return np.isin(numbers, np.array(values, np.int64))
    is_true: _Mask = _COMPARISONS[type(condition)](numbers, np.int64(values[0]))
    return is_true


def _texts_compared(texts: WordArray, condition: Filter) -> _Mask:
    """Compare each distinct text once, in the UTF-8 that Arrow and Spark use."""
    codes, words = texts
    values = [utf8(value) for value in _values(condition)]
    if isinstance(condition, In):
        selected = frozenset(values)
        matches = [utf8(word) in selected for word in words]
    else:
        test = _TEXT_TESTS.get(type(condition)) or _COMPARISONS[type(condition)]
        matches = [test(utf8(word), values[0]) for word in words]
    # Code -1 stands for null, and selects the last item.
    return np.array([*matches, False], np.bool_)[codes]
