"""Rows as columns: an array for each column, instead of a Python object for each value.

In: columns, or rows. Out: :class:`RowBlock`, and its rows.

A :class:`~kanalyze.spec.rows.requests.Row` is some 60 Python objects. In a block, the numbers of a
column lie side by side in memory, and texts are numbers too, because most of them are repeated.
``Row`` objects are made only by :meth:`RowBlock.rows`.

Blocks are immutable, so they can share arrays. Lists of words may grow. A block that was pickled
has memoryviews for arrays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate, chain, pairwise, repeat
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.int_columns import picked, picked_types, shifted, take_turns
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.rows.requests import COLUMNS, Row
from kanalyze.tables.columns.buffers import (
    WordBuffer,
    first_places,
    items_of_lists,
    picked_bytes,
    recoded,
    sums_up_to,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kanalyze.spec.columns import AnyRow, Column
    from kanalyze.tables.columns.buffers import IntBuffer

BUFFERED_BYTES = 16 << 20
"""Memory in bytes for the rows that are buffered at a time, as objects or as columns."""
ROW_BYTES = 2000
_ITEM_BYTES = 400
"""Estimated bytes of a row, and of each item of its lists: as objects, and as text."""


def bytes_of_row(row: Row) -> int:
    """Return the estimated memory of a row in bytes, as an object and as text."""
    return ROW_BYTES + _ITEM_BYTES * (len(row.partitions) + len(row.errors))


class Ints(NamedTuple):
    """A column of integers, of bools as 0 and 1, or of the bits of floats."""

    values: array[int]
    """Values, of type code q; 0 where null."""
    valid: bytearray | None
    """0 for each null value, 1 for the others; None if no value is null."""


class Words(NamedTuple):
    """A column of texts, in which many are equal."""

    codes: array[int]
    """The index of each text in ``words``, of type code i; -1 is null."""
    words: list[str]
    """Distinct texts. Blocks may share this list, so it may have texts that do not occur."""


class Lists(NamedTuple):
    """A column of lists, of texts or of structs."""

    offsets: array[int]
    """The index of each list's first item, and at the end the number of all items: ``n + 1``
    numbers for ``n`` lists, of type code q. The first is 0."""
    fields: dict[str, Ints | Words]
    """The fields of the items by name, in the order of the table; texts are one field, ``""``."""


ColumnValues: TypeAlias = Ints | Words | Lists


class RowBlock:
    """Rows, stored by column."""

    __slots__ = ("columns", "n")

    def __init__(self, n: int, columns: dict[str, ColumnValues]) -> None:
        self.n = n
        """Number of rows."""
        self.columns = columns
        """Columns by name; ``rows()`` needs all of a row type."""

    @classmethod
    def of_rows(cls, rows: Sequence[AnyRow], columns: Sequence[Column] = COLUMNS) -> RowBlock:
        """Return these columns of rows of any table; for errors see :func:`columns_of_rows`."""
        return cls(len(rows), columns_of_rows(rows, columns))

    @classmethod
    def joined(cls, blocks: Sequence[RowBlock]) -> RowBlock:
        """Return one block with the rows of all given blocks, of which there is at least one."""
        if len(blocks) == 1:
            return blocks[0]
        names = blocks[0].columns
        return cls(
            sum(map(len, blocks)),
            {name: _joined([block.columns[name] for block in blocks]) for name in names},
        )

    @classmethod
    def merged(cls, blocks: Sequence[RowBlock], keys: Sequence[array[int]]) -> MergedRows:
        """Return the rows of all given blocks, of which there is at least one, by ascending key.

        ``keys`` has for each block the keys of its rows, of type code q and ascending. Of rows with
        equal keys, those of the earlier block come first.
        """
        all_keys = _end_to_end("q", keys)
        order = take_turns(all_keys, list(accumulate(map(len, blocks), initial=0)))[0]
        block = cls.joined(blocks).take(order)
        return MergedRows(block, picked(all_keys, order), order)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Return the block for pickle.

        From protocol 5 on, its numbers can be sent beside what is pickled (``buffer_callback``).
        """
        from pickle import PickleBuffer  # imported late: only needed between processes

        numbers: list[array[int] | bytearray] = []
        layout = {name: _layout(values, numbers) for name, values in self.columns.items()}
        send: Callable[..., object] = PickleBuffer if protocol >= 5 else bytes
        return _unpacked, (self.n, layout, list(map(send, numbers)))

    def __len__(self) -> int:
        return self.n

    def only(self, names: Iterable[str]) -> RowBlock:
        """Return the same rows with only these columns."""
        return RowBlock(self.n, {name: self.columns[name] for name in names})

    def part(self, first: int, end: int) -> RowBlock:
        """Return the rows from ``first`` (counted from 0) up to, but not including, ``end``."""
        if (first, end) == (0, self.n):
            return self
        columns = {name: _part(values, first, end) for name, values in self.columns.items()}
        return RowBlock(end - first, columns)

    def take(self, numbers: Sequence[int]) -> RowBlock:
        """Return the rows at these positions (counted from 0), in this order.

        An array of positions has type code q.
        """
        rows = numbers if isinstance(numbers, array) else array("q", numbers)
        columns = {name: _picked(values, rows) for name, values in self.columns.items()}
        return RowBlock(len(rows), columns)

    def pieces(self) -> Iterator[RowBlock]:
        """Yield all rows, in order, in blocks that take up to :data:`BUFFERED_BYTES` as objects."""
        first = 0
        while first < self.n:
            end = self._piece_end(first)
            yield self.part(first, end)
            first = end

    def _piece_end(self, first: int) -> int:
        """Return the end of the piece that begins with row ``first``."""
        lists = [values for values in self.columns.values() if isinstance(values, Lists)]

        def bytes_up_to(end: int) -> int:
            items = sum(values.offsets[end] - values.offsets[first] for values in lists)
            return (end - first) * ROW_BYTES + items * _ITEM_BYTES

        ends = range(first + 1, self.n + 1)
        return first + max(1, bisect_right(ends, BUFFERED_BYTES, key=bytes_up_to))

    def rows(self, row_type: Any = Row, columns: Sequence[Column] = COLUMNS) -> list[Any]:
        """Return the rows as objects of a named tuple with these columns."""
        return list(map(row_type._make, zip(*self.values(columns), strict=True)))

    def values(self, columns: Sequence[Column]) -> list[list[Any]]:
        """Return a list for each column, with its values: numbers, texts, lists of items."""
        return [_values_of(column, self.columns[column.name]) for column in columns]


class MergedRows(NamedTuple):
    """The rows of several blocks in one order."""

    block: RowBlock
    keys: array[int]
    """The key of each row, ascending."""
    order: array[int]
    """The position of each row among those of all blocks, one block after another."""


# -- columns from rows ----------------------------------------------------------------------------


def columns_of_rows(
    rows: Sequence[AnyRow], columns: Sequence[Column] = COLUMNS
) -> dict[str, ColumnValues]:
    """Return these columns of rows of any table, by name.

    Raises OverflowError for a number outside int64.
    """
    return {
        column.name: _column_of(column, list(map(attrgetter(column.name), rows)))
        for column in columns
    }


def _column_of(column: Column, values: Sequence[Any]) -> ColumnValues:
    if column.type.startswith("list<"):
        return _lists_of(column, values)
    if column.type == "float64":
        bits = _same_bits("q", array("d", [value or 0.0 for value in values]))
        return Ints(bits, _valid_of(values))
    return words_from(values) if column.type == "string" else ints_from(values)


def _same_bits(kind: str, numbers: array[Any]) -> array[Any]:
    """Return numbers of 64 bits as numbers of another type with the same bits."""
    same = array(kind)
    same.frombytes(numbers.tobytes())
    return same


def ints_from(values: Sequence[int | None]) -> Ints:
    """Return a column of numbers; raises OverflowError for one outside int64."""
    return Ints(array("q", [value or 0 for value in values]), _valid_of(values))


def _valid_of(values: Sequence[object]) -> bytearray | None:
    return bytearray(map(is_not, values, repeat(None))) if None in values else None


def words_from(values: Sequence[str | None]) -> Words:
    """Return a column of texts."""
    words = [value for value in dict.fromkeys(values) if value is not None]
    codes: dict[str | None, int] = {word: code for code, word in enumerate(words)}
    codes[None] = -1
    return Words(array("i", list(map(codes.__getitem__, values))), words)


def _lists_of(column: Column, values: Sequence[Sequence[Any]]) -> Lists:
    offsets = sums_up_to(array("q", list(map(len, values))))
    items = list(chain.from_iterable(values))
    if not column.fields:
        return Lists(offsets, {"": words_from(items)})
    by_field = zip(*items, strict=True) if items else [()] * len(column.fields)
    return Lists(
        offsets,
        {
            field.name: words_from(items) if field.type == "string" else ints_from(items)
            for field, items in zip(column.fields, by_field, strict=True)
        },
    )


# -- columns from buffers -------------------------------------------------------------------------


def drained(buffer: IntBuffer | WordBuffer, count: int) -> Ints | Words:
    """Return the first ``count`` values of a buffer, and empty it."""
    if isinstance(buffer, WordBuffer):
        return Words(*buffer.drain(count))
    return Ints(*buffer.drain(count))


# -- columns from columns -------------------------------------------------------------------------


def words_in_use(texts: Words) -> Words:
    """Return the same texts; if many words do not occur, without those words."""
    codes, words = texts
    if len(words) <= len(codes):
        return texts
    new_codes, used = first_places(codes, len(words))
    return Words(new_codes, [words[code] for code in used])


def _picked(values: ColumnValues, numbers: array[int]) -> ColumnValues:
    if not isinstance(values, Lists):
        return _picked_items(values, numbers)
    offsets, items = items_of_lists(values.offsets, numbers)
    return Lists(
        offsets, {name: _picked_items(field, items) for name, field in values.fields.items()}
    )


def _picked_items(values: Ints | Words, numbers: array[int]) -> Ints | Words:
    if isinstance(values, Words):
        return Words(picked_types(values.codes, numbers), values.words)
    valid = None if values.valid is None else picked_bytes(values.valid, numbers)
    return Ints(picked(values.values, numbers), valid)


def _part(values: ColumnValues, first: int, end: int) -> ColumnValues:
    if not isinstance(values, Lists):
        return _part_of_items(values, first, end)
    offsets = values.offsets[first : end + 1]
    begin, last = offsets[0], offsets[-1]
    return Lists(
        shifted(offsets, -begin),
        {name: _part_of_items(field, begin, last) for name, field in values.fields.items()},
    )


def _part_of_items(values: Ints | Words, first: int, end: int) -> Ints | Words:
    if isinstance(values, Words):
        return Words(values.codes[first:end], values.words)
    valid = None if values.valid is None else values.valid[first:end]
    return Ints(values.values[first:end], valid)


def _joined(parts: Sequence[ColumnValues]) -> ColumnValues:
    lists = [part for part in parts if isinstance(part, Lists)]
    if not lists:
        return _joined_items([part for part in parts if not isinstance(part, Lists)])
    offsets = array("q", [0])
    for part in lists:
        offsets += shifted(part.offsets[1:], offsets[-1])
    fields = {
        name: _joined_items([part.fields[name] for part in lists]) for name in lists[0].fields
    }
    return Lists(offsets, fields)


def _joined_items(parts: Sequence[Ints | Words]) -> Ints | Words:
    words = [part for part in parts if isinstance(part, Words)]
    if words:
        return _joined_words(words)
    return _joined_ints([part for part in parts if isinstance(part, Ints)])


def _joined_ints(parts: Sequence[Ints]) -> Ints:
    values = _end_to_end("q", [part.values for part in parts])
    if all(part.valid is None for part in parts):
        return Ints(values, None)
    valid = [b"\1" * len(part.values) if part.valid is None else part.valid for part in parts]
    return Ints(values, bytearray().join(valid))


def _joined_words(parts: Sequence[Words]) -> Words:
    words = parts[0].words
    if all(part.words is words for part in parts):
        return Words(_end_to_end("i", [part.codes for part in parts]), words)
    codes = []
    codes_by_word: dict[str, int] = {}
    for part in map(words_in_use, parts):
        new_codes = array(
            "i", [codes_by_word.setdefault(word, len(codes_by_word)) for word in part.words]
        )
        codes.append(recoded(part.codes, new_codes))
    return Words(_end_to_end("i", codes), list(codes_by_word))


def _end_to_end(kind: str, parts: Sequence[array[int]]) -> array[int]:
    """Return one array of all numbers.

    To join them as bytes takes up to ten times as long: twice the memory, which the allocator gives
    back to the system each time.
    """
    joined = array(kind, [0]) * sum(map(len, parts))
    place, at = memoryview(joined), 0
    for part in parts:
        place[at : at + len(part)] = part
        at += len(part)
    return joined


# -- between processes ----------------------------------------------------------------------------

_Layout: TypeAlias = "bool | list[str] | dict[str, _Layout]"
"""What is not numbers: whether a column of integers has nulls, the words of texts, fields of lists.
"""


def _layout(values: ColumnValues, numbers: list[array[int] | bytearray]) -> _Layout:
    """Return the layout of a column, and append its numbers."""
    if isinstance(values, Lists):
        numbers.append(values.offsets)
        return {name: _layout(field, numbers) for name, field in values.fields.items()}
    if isinstance(values, Words):
        codes, words = words_in_use(values)
        numbers.append(codes)
        return words
    numbers.append(values.values)
    if values.valid is None:
        return False
    numbers.append(values.valid)
    return True


def _unpacked(
    n: int, layout: dict[str, _Layout], numbers: Sequence[bytes | bytearray | memoryview]
) -> RowBlock:
    """Return the block with this layout. Its numbers stay where they are: in memoryviews."""
    following: Iterator[Any] = (memoryview(each).cast("B") for each in numbers)

    def next_items(layout: _Layout) -> Ints | Words:
        if isinstance(layout, list):
            return Words(next(following).cast("i"), layout)
        return Ints(next(following).cast("q"), next(following) if layout else None)

    def next_column(layout: _Layout) -> ColumnValues:
        if not isinstance(layout, dict):
            return next_items(layout)
        offsets = next(following).cast("q")
        return Lists(offsets, {name: next_items(field) for name, field in layout.items()})

    return RowBlock(n, {name: next_column(column) for name, column in layout.items()})


# -- rows from columns ----------------------------------------------------------------------------


def _values_of(column: Column, values: ColumnValues) -> list[Any]:
    if isinstance(values, Lists):
        return _lists(column, values)
    return texts_in(values) if isinstance(values, Words) else _numbers(column, values)


def _numbers(column: Column, ints: Ints) -> list[Any]:
    is_float = column.type == "float64"
    values: list[Any] = (_same_bits("d", ints.values) if is_float else ints.values).tolist()
    if column.type == "bool":
        values = list(map(bool, values))
    if ints.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, ints.valid, strict=True)]


def texts_in(texts: Words) -> list[str | None]:
    """Return the texts of a column."""
    codes = texts.codes
    if len(texts.words) > len(codes):
        words = texts.words
        return [None if code < 0 else words[code] for code in codes]
    # Code -1, which is null, selects the last element, None.
    return list(map([*texts.words, None].__getitem__, codes))


def _lists(column: Column, lists: Lists) -> list[Any]:
    if column.fields:
        item_type: Any = column.item
        by_field = [_values_of(field, lists.fields[field.name]) for field in column.fields]
        items = list(map(item_type._make, zip(*by_field, strict=True)))
    else:
        items = _values_of(column, lists.fields[""])
    return [items[first:last] for first, last in pairwise(lists.offsets)]
