"""The values of many messages as columns, and what is done with whole columns.

In: columns. Out: columns: put together, put in order, with entries left out, of defaults. Must not
know of bytes.

A column has an *entry* for each message, or, inside :class:`Elements`, for each element. Places
are indices in the buffer that holds the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "CODECS",
    "NO_CODEC",
    "PLAIN",
    "Elements",
    "Fields",
    "Ids",
    "Numbers",
    "RecordSets",
    "Texts",
    "Values",
    "concatenated",
    "owners",
    "spread",
    "taken",
    "without",
]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd", "unknown", "mixed")
"""What a number in :attr:`RecordSets.codec` stands for."""
NO_CODEC: Final = -1
"""In :attr:`RecordSets.codec` where there is no whole batch."""

PLAIN: Final = ""
"""Name of the only field of elements that are no structs."""


class Numbers(NamedTuple):
    """Integers of any width; bool as 0 and 1."""

    values: NDArray[np.int64]


class Texts(NamedTuple):
    """Strings, or bytes, by where they stand; what is no UTF-8 is for the caller to see."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    """In bytes; -1 for null. Start says nothing then, nor for a length of 0."""


class Ids(NamedTuple):
    """UUIDs by where their 16 bytes stand."""

    start: NDArray[np.int64]
    """-1 where the version has none: :data:`~kanalyze.protocol.language.ZERO_UUID`."""


class RecordSets(NamedTuple):
    """Records fields in numbers, as :class:`~kanalyze.protocol.records.RecordsSummary` has them."""

    is_null: NDArray[np.bool_]
    """The field is null; the others are 0 then, and the codec is :data:`NO_CODEC`."""
    record_count: NDArray[np.int64]
    """Never None: a number that is hidden is trouble, and trouble is not sound."""
    record_bytes: NDArray[np.int64]
    base_offset: NDArray[np.int64]
    """None where ``codec`` is :data:`NO_CODEC` (and 0 here)."""
    codec: NDArray[np.int64]
    """Index into :data:`CODECS`; :data:`NO_CODEC` for None: there is no whole batch."""


class Elements:
    """Arrays: one entry each in ``count``, and one for each element in ``owner`` and ``fields``.

    A struct that is no array counts as an array of one, null or present.
    """

    __slots__ = ("count", "fields", "owner")

    def __init__(self, owner: NDArray[np.int64], count: NDArray[np.int64], fields: Fields) -> None:
        self.owner = owner
        """Index of the entry that the element belongs to. Rises; elements of one owner are in wire
        order."""
        self.count = count
        """Elements of each entry; -1 for null."""
        self.fields = fields
        """Of the elements. Those of an array of plain values stand under :data:`PLAIN`."""


Values: TypeAlias = Numbers | Texts | Ids | RecordSets | Elements
Fields: TypeAlias = dict[str, Values]
"""Columns by Kafka's name of the field."""


def owners(count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the owner of each element; counts of null count as 0."""
    return np.repeat(np.arange(len(count)), np.maximum(count, 0))


def spread(start: NDArray[np.int64], count: NDArray[np.int64], step: int) -> NDArray[np.int64]:
    """Return ``start``, ``start + step`` ... for each pair of start and count, in one array.

    No count is negative.
    """
    before = np.cumsum(count) - count
    return np.repeat(start - before * step, count) + np.arange(int(count.sum())) * step


def taken(fields: Fields, index: NDArray[np.int64]) -> Fields:
    """Return the entries that ``index`` names, in its order."""
    return {name: _taken(values, index) for name, values in fields.items()}


def _taken(values: Values, index: NDArray[np.int64]) -> Values:
    if not isinstance(values, Elements):
        return _like(values, [column[index] for column in values])
    real = np.maximum(values.count, 0)
    first = np.cumsum(real) - real
    inner = spread(first[index], real[index], 1)
    count = values.count[index]
    return Elements(owners(count), count, taken(values.fields, inner))


def concatenated(parts: Sequence[Fields]) -> Fields:
    """Return the entries of all parts, one part behind the other. All have the same fields."""
    if len(parts) == 1:
        return parts[0]
    return {name: _concatenated([part[name] for part in parts]) for name in parts[0]}


def _concatenated(parts: Sequence[Values]) -> Values:
    arrays = [part for part in parts if isinstance(part, Elements)]
    if not arrays:
        return _like(parts[0], map(np.concatenate, zip(*parts, strict=True)))
    count = np.concatenate([part.count for part in arrays])
    return Elements(owners(count), count, concatenated([part.fields for part in arrays]))


def without(fields: Fields, keep: NDArray[np.bool_]) -> Fields:
    """Return the same entries, those that are not to be kept with 0 in all and no elements."""
    return {name: _without(values, keep) for name, values in fields.items()}


def _without(values: Values, keep: NDArray[np.bool_]) -> Values:
    if not isinstance(values, Elements):
        return _like(values, [column * keep for column in values])
    stay = np.flatnonzero(keep[values.owner])
    return Elements(values.owner[stay], values.count * keep, taken(values.fields, stay))


def _like(values: Values, columns: Iterable[NDArray[Any]]) -> Values:
    """Return the same kind of values, of other columns."""
    kind: Any = type(values)
    made: Values = kind(*columns)
    return made
