"""Rows as columns: a NumPy array for each column, instead of a Python object for each value.

In: columns, or rows. Out: :class:`RowBlock`, :class:`RowBatch`, and the rows they hold. This
module must not know how columns are filled or where they go.

A row of :mod:`kanalyze.analysis.row` is some 60 Python objects; most rows are alike, and whoever
makes or takes thousands of them at once does so by column. Rows out of the common are made one by
one. A batch holds both, and says in which order they stand.

Nothing here is changed once made: arrays may be shared.
"""

from __future__ import annotations

from array import array
from itertools import chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kanalyze.analysis.row import COLUMNS, ErrorItem, PartitionItem, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.analysis.row import AnyRow, Column

__all__ = [
    "HELD_BYTES",
    "ROW_BYTES",
    "ColumnValues",
    "Ints",
    "Lists",
    "RowBatch",
    "RowBlock",
    "Words",
    "bytes_of_lists",
    "bytes_of_row",
    "columns_of_rows",
    "in_pieces",
    "words_in_use",
]

_ItemT = TypeVar("_ItemT")

HELD_BYTES = 16 << 20
"""What is held as objects at a time, by :func:`bytes_of_row`."""
ROW_BYTES = 2000
_ITEM_BYTES = 400
"""What a row takes, and each item of its lists: as objects and as the text of them."""


def bytes_of_lists(items: int) -> int:
    """Return about how much memory a row takes whose lists have so many items."""
    return ROW_BYTES + _ITEM_BYTES * items


def bytes_of_row(row: Row) -> int:
    """Return about how much memory a row takes while it is held and written."""
    return bytes_of_lists(len(row.partitions) + len(row.errors))


def in_pieces(items: Iterable[_ItemT], size_of: Callable[[_ItemT], int]) -> Iterator[list[_ItemT]]:
    """Give the items in lists that, but for one of a single item, take :data:`HELD_BYTES` at most.

    No list is empty, and no more items are taken than were given, and one.
    """
    some: list[_ItemT] = []
    held = 0
    for item in items:
        size = size_of(item)
        if some and held + size > HELD_BYTES:
            yield some
            some, held = [], 0
        some.append(item)
        held += size
    if some:
        yield some


class Ints(NamedTuple):
    """A column of integers, or of bools as 0 and 1."""

    values: NDArray[np.int64]
    """0 where not valid."""
    valid: NDArray[np.bool_] | None
    """False where the value is null; None where no value is."""


class Words(NamedTuple):
    """A column of texts, of which many are the same."""

    codes: NDArray[np.int32]
    """Which of ``words`` each is; -1 is null."""
    words: Sequence[str]
    """No two of them are the same. There may be more than occur: blocks may share them."""


class Lists(NamedTuple):
    """A column of lists, of texts or of structs."""

    offsets: NDArray[np.int64]
    """Where each list begins among the items, and at last where the last one ends: of ``n`` lists
    ``n + 1`` numbers, the first of them 0."""
    fields: dict[str, Ints | Words]
    """The items' fields by name, in the order of the table; of texts one field, named ``""``."""


ColumnValues: TypeAlias = Ints | Words | Lists


class RowBlock:
    """Rows by column."""

    __slots__ = ("columns", "n")

    def __init__(self, n: int, columns: dict[str, ColumnValues]) -> None:
        self.n = n
        """How many rows."""
        self.columns = columns
        """By name. Of rows of requests every one of :data:`~kanalyze.analysis.row.COLUMNS`, without
        which there is no ``rows()``; of other tables whatever is wanted."""

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> RowBlock:
        """Return rows by column; raises OverflowError for a number beyond int64."""
        return cls(len(rows), columns_of_rows(rows))

    @classmethod
    def joined(cls, blocks: Sequence[RowBlock]) -> RowBlock:
        """Return one block of all rows of some, at least one, in this order."""
        if len(blocks) == 1:
            return blocks[0]
        names = blocks[0].columns
        return cls(
            sum(map(len, blocks)),
            {name: _joined([block.columns[name] for block in blocks]) for name in names},
        )

    def __len__(self) -> int:
        return self.n

    def part(self, first: int, end: int) -> RowBlock:
        """Return the rows from number ``first``, counted from 0, to before ``end``."""
        made = {name: _part(values, first, end) for name, values in self.columns.items()}
        return RowBlock(end - first, made)

    def take(self, numbers: NDArray[np.int64]) -> RowBlock:
        """Return the rows with these numbers, counted from 0, in this order."""
        made = {name: _taken(values, numbers) for name, values in self.columns.items()}
        return RowBlock(len(numbers), made)

    def bytes_of_rows(self) -> list[int]:
        """Return what :func:`bytes_of_row` says of each row."""
        items = np.zeros(self.n, np.int64)
        for name in ("partitions", "errors"):
            lists = self.columns[name]
            assert isinstance(lists, Lists)
            items += np.diff(lists.offsets)
        return list(map(bytes_of_lists, items.tolist()))

    def rows(self) -> list[Row]:
        """Return the rows, as :class:`~kanalyze.analysis.rows.RowMaker` makes them."""
        values = [_values_of(column, self.columns[column.name]) for column in COLUMNS]
        return list(map(Row._make, zip(*values, strict=True)))


class RowBatch:
    """Rows in an order, some as objects, some by column."""

    __slots__ = ("blocks", "objects", "order")

    def __init__(
        self,
        objects: list[Row] | None = None,
        blocks: tuple[RowBlock, ...] = (),
        order: NDArray[np.int64] | None = None,
    ) -> None:
        self.objects = [] if objects is None else objects
        self.blocks = blocks
        self.order = order
        """The rows of all blocks one after the other, then the objects, are counted from 0: row
        ``i`` of the batch is number ``order[i]`` of them. None: they are in order as they stand."""

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> RowBatch:
        """Return a batch of rows that are objects."""
        return cls(list(rows))

    def __len__(self) -> int:
        return sum(map(len, self.blocks)) + len(self.objects)

    def rows(self) -> list[Row]:
        """Return all rows as objects, in order."""
        made = [row for block in self.blocks for row in block.rows()]
        made += self.objects
        if self.order is None:
            return made
        return [made[number] for number in self.order.tolist()]

    def pieces(self) -> Iterator[list[Row]]:
        """Give all rows as objects, in order, no more at a time than may be held."""
        if not self.blocks:
            yield from in_pieces(self.objects, bytes_of_row)
            return
        numbers = range(len(self)) if self.order is None else self.order.tolist()
        sizes = [size for block in self.blocks for size in block.bytes_of_rows()]
        sizes += map(bytes_of_row, self.objects)
        for some in in_pieces(numbers, sizes.__getitem__):
            yield self._rows_at(some)

    def _rows_at(self, numbers: list[int]) -> list[Row]:
        """Return the rows with these numbers, as ``order`` has them."""
        made: dict[int, Row] = {}
        first = 0
        for block in self.blocks:
            wanted = [number for number in numbers if first <= number < first + len(block)]
            within = np.array(wanted, np.int64) - first
            made.update(zip(wanted, block.take(within).rows(), strict=True))
            first += len(block)
        return [
            made[number] if number in made else self.objects[number - first] for number in numbers
        ]

    def block(self) -> RowBlock:
        """Return all rows by column, in order; raises OverflowError for one beyond int64."""
        blocks = [block for block in self.blocks if len(block)]
        if self.objects or not blocks:
            blocks.append(RowBlock.of_rows(self.objects))
        made = RowBlock.joined(blocks)
        order = self.order
        if order is None or np.array_equal(order, np.arange(len(made))):
            return made
        return made.take(order)


# -- columns of rows ------------------------------------------------------------------------------


def columns_of_rows(
    rows: Sequence[AnyRow], columns: Sequence[Column] = COLUMNS
) -> dict[str, ColumnValues]:
    """Return these columns of rows of any table, by name.

    Raises OverflowError for a number beyond int64.
    """
    return {
        column.name: _column_of(column, list(map(attrgetter(column.name), rows)))
        for column in columns
    }


def _column_of(column: Column, values: Sequence[Any]) -> ColumnValues:
    if column.type.startswith("list<"):
        return _lists_of(column, values)
    return _words_of(values) if column.type == "string" else _ints_of(values)


def _ints_of(values: Sequence[int | None]) -> Ints:
    valid = None
    if None in values:
        valid = np.array([value is not None for value in values], dtype=np.bool_)
    # An array takes numbers three times as fast as NumPy does.
    numbers = array("q", [value or 0 for value in values])
    return Ints(np.frombuffer(numbers, dtype=np.int64), valid)


def _words_of(values: Sequence[str | None]) -> Words:
    words = [value for value in dict.fromkeys(values) if value is not None]
    codes: dict[str | None, int] = {word: code for code, word in enumerate(words)}
    codes[None] = -1
    places = array("i", list(map(codes.__getitem__, values)))
    return Words(np.frombuffer(places, dtype=np.int32), words)


def _lists_of(column: Column, values: Sequence[Sequence[Any]]) -> Lists:
    offsets = _offsets(np.fromiter(map(len, values), np.int64, len(values)))
    items = list(chain.from_iterable(values))
    if not column.fields:
        return Lists(offsets, {"": _words_of(items)})
    by_field = zip(*items, strict=True) if items else [()] * len(column.fields)
    return Lists(
        offsets,
        {
            part.name: _words_of(of_part) if part.type == "string" else _ints_of(of_part)
            for part, of_part in zip(column.fields, by_field, strict=True)
        },
    )


# -- columns of columns ---------------------------------------------------------------------------


def words_in_use(texts: Words) -> Words:
    """Return the same texts, without words that do not occur if there are many of them."""
    codes, words = texts
    if len(words) <= len(codes):
        return texts
    used = np.unique(codes[codes >= 0])
    places = np.where(codes < 0, -1, np.searchsorted(used, codes)).astype(np.int32)
    return Words(places, [words[code] for code in used.tolist()])


def _taken(values: ColumnValues, numbers: NDArray[np.int64]) -> ColumnValues:
    if isinstance(values, Lists):
        return _taken_lists(values, numbers)
    return _taken_items(values, numbers)


def _part(values: ColumnValues, first: int, end: int) -> ColumnValues:
    if not isinstance(values, Lists):
        return _taken_items(values, slice(first, end))
    offsets = values.offsets[first : end + 1]
    items = slice(offsets[0], offsets[-1])
    return Lists(
        offsets - offsets[0],
        {name: _taken_items(field, items) for name, field in values.fields.items()},
    )


def _taken_items(values: Ints | Words, numbers: NDArray[np.int64] | slice) -> Ints | Words:
    if isinstance(values, Words):
        return Words(values.codes[numbers], values.words)
    return Ints(values.values[numbers], None if values.valid is None else values.valid[numbers])


def _taken_lists(lists: Lists, numbers: NDArray[np.int64]) -> Lists:
    begins = lists.offsets[:-1][numbers]
    lengths = lists.offsets[1:][numbers] - begins
    offsets = _offsets(lengths)
    # Of each item: its place behind the begin of its list, which it keeps, and the old begin.
    items = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
    return Lists(
        offsets, {name: _taken_items(values, items) for name, values in lists.fields.items()}
    )


def _joined(parts: Sequence[ColumnValues]) -> ColumnValues:
    lists = [part for part in parts if isinstance(part, Lists)]
    if lists:
        lengths = np.concatenate([np.diff(part.offsets) for part in lists])
        fields = {
            name: _joined_items([part.fields[name] for part in lists]) for name in lists[0].fields
        }
        return Lists(_offsets(lengths), fields)
    return _joined_items([part for part in parts if not isinstance(part, Lists)])


def _joined_items(parts: Sequence[Ints | Words]) -> Ints | Words:
    words = [part for part in parts if isinstance(part, Words)]
    return (
        _joined_words(words) if words else _joined_ints([p for p in parts if isinstance(p, Ints)])
    )


def _joined_ints(parts: Sequence[Ints]) -> Ints:
    values = np.concatenate([part.values for part in parts])
    if all(part.valid is None for part in parts):
        return Ints(values, None)
    valid = [
        np.ones(len(part.values), dtype=np.bool_) if part.valid is None else part.valid
        for part in parts
    ]
    return Ints(values, np.concatenate(valid))


def _joined_words(parts: Sequence[Words]) -> Words:
    known: dict[str, int] = {}
    codes = []
    for part in map(words_in_use, parts):
        places = [known.setdefault(word, len(known)) for word in part.words]
        # Code -1, null, finds the last one.
        codes.append(np.array([*places, -1], dtype=np.int32)[part.codes])
    return Words(np.concatenate(codes), list(known))


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths)))


# -- rows of columns ------------------------------------------------------------------------------


def _values_of(column: Column, values: ColumnValues) -> list[Any]:
    if isinstance(values, Lists):
        return _lists(column, values)
    return _texts(values) if isinstance(values, Words) else _numbers(column, values)


def _numbers(column: Column, ints: Ints) -> list[Any]:
    values = ints.values.astype(np.bool_) if column.type == "bool" else ints.values
    made: list[Any] = values.tolist()
    if ints.valid is None:
        return made
    pairs = zip(made, ints.valid.tolist(), strict=True)
    return [value if valid else None for value, valid in pairs]


def _texts(texts: Words) -> list[str | None]:
    words = texts.words
    return [None if code < 0 else words[code] for code in texts.codes.tolist()]


def _lists(column: Column, lists: Lists) -> list[Any]:
    if column.fields:
        by_field = [_values_of(part, lists.fields[part.name]) for part in column.fields]
        items = list(map(_ITEMS[column.name], zip(*by_field, strict=True)))
    else:
        items = _values_of(column, lists.fields[""])
    return [items[first:last] for first, last in pairwise(lists.offsets.tolist())]


_ITEMS: dict[str, Callable[[Iterable[Any]], Any]] = {
    "errors": ErrorItem._make,
    "partitions": PartitionItem._make,
}
