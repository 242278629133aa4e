"""Columns as NumPy arrays that share the columns' memory.

In: columns of :mod:`~kanalyze.tables.columns.block`. Out: arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tcp import Endpoint
from kanalyze.tables.columns.block import Ints, Lists, Words, words_in_use

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from numpy.typing import NDArray

    from kanalyze.tables.columns.block import ColumnValues, RowBlock


class IntArray(NamedTuple):
    """See :class:`~kanalyze.tables.columns.block.Ints`."""

    values: NDArray[np.int64]
    valid: NDArray[np.bool_] | None


class WordArray(NamedTuple):
    """See :class:`~kanalyze.tables.columns.block.Words`."""

    codes: NDArray[np.int32]
    words: list[str]

    def is_one_of(self, texts: Container[str]) -> NDArray[np.bool_]:
        """Return for each row whether it has one of some texts; false for null."""
        return self.where(texts.__contains__)

    def where(self, selects: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return for each row whether ``selects`` returns true for its text; false for null."""
        # Code -1, null, is the last index.
        is_selected = np.array([*map(selects, self.words), False], dtype=np.bool_)
        mask: NDArray[np.bool_] = is_selected[self.codes]
        return mask


class ListArray(NamedTuple):
    """See :class:`~kanalyze.tables.columns.block.Lists`."""

    offsets: NDArray[np.int64]
    fields: dict[str, IntArray | WordArray]


def ints_of(column: ColumnValues) -> IntArray:
    """Return a column of numbers as arrays."""
    assert isinstance(column, Ints)
    valid = None if column.valid is None else np.asarray(column.valid).view(np.bool_)
    return IntArray(np.asarray(column.values), valid)


def words_of(column: ColumnValues) -> WordArray:
    """Return a column of texts as arrays; if many words do not occur, without those words."""
    assert isinstance(column, Words)
    codes, words = words_in_use(column)
    return WordArray(np.asarray(codes), words)


def lists_of(column: ColumnValues) -> ListArray:
    """Return a column of lists as arrays."""
    assert isinstance(column, Lists)
    fields = {
        name: ints_of(field) if isinstance(field, Ints) else words_of(field)
        for name, field in column.fields.items()
    }
    return ListArray(np.asarray(column.offsets), fields)


def endpoints_of(ips: WordArray, ports: IntArray) -> WordArray:
    """Return addresses with their ports as texts; an empty text where the address is null."""
    pairs, codes = np.unique((ips.codes.astype(np.int64) << 16) | ports.values, return_inverse=True)
    words = [
        str(Endpoint(ips.words[pair >> 16], pair & 0xFFFF)) if pair >= 0 else ""
        for pair in pairs.tolist()
    ]
    return WordArray(codes.astype(np.int32).reshape(-1), words)


def all_began_ns(block: RowBlock) -> NDArray[np.int64]:
    """Return when each request, or response without a request, began; 0 if unknown."""
    request, response = (
        ints_of(block.columns[name]) for name in ("request_start_ns", "response_start_ns")
    )
    if request.valid is None:
        return request.values
    return np.where(request.valid, request.values, response.values)
