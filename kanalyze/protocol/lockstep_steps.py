"""The steps that read a struct of many messages at once.

In: places of bytes (:class:`~kanalyze.protocol.lockstep_entries.Entries`). Out: columns of what is
wanted, and places that have gone on. Must not know definitions: what there is to be read, and in
which form, is told when a step is made.

Whoever goes wrong is dropped; see :mod:`kanalyze.protocol.lockstep_entries`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kanalyze.protocol.lockstep_columns import (
    Elements,
    Fields,
    Ids,
    Numbers,
    Texts,
    concatenated,
    owners,
    spread,
    taken,
)
from kanalyze.protocol.lockstep_records import read_record_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.protocol.lockstep_defaults import Default
    from kanalyze.protocol.lockstep_entries import Entries

__all__ = [
    "MOST_ELEMENTS",
    "MOST_TAGS",
    "ByteString",
    "EmptyTags",
    "Head",
    "InlineStruct",
    "Length",
    "Member",
    "Plan",
    "Presence",
    "Records",
    "Repeated",
    "Run",
    "Step",
    "Tags",
]

MOST_ELEMENTS: Final = 64
"""Of variable size, in one array."""
MOST_TAGS: Final = 4
"""In one tag section."""

_FREE_ROUNDS: Final = 4
"""Rounds over an array's elements that are never too many."""
_ELEMENTS_PER_ROUND: Final = 8
"""A round takes about as long as it takes others to decode a message, or so many elements more."""


class Member(NamedTuple):
    """A field of fixed size in a run."""

    name: str | None
    """None when the field is not wanted."""
    size: int
    code: str | None
    """NumPy's type; None for a UUID, which is not read but only found."""
    is_bool: bool = False


class Head(NamedTuple):
    """The first bytes of what is not of fixed size."""

    code: str
    size: int


class Step(ABC):
    """Reads a few fields of one struct."""

    __slots__ = ()

    @abstractmethod
    def read(self, entries: Entries, found: Fields) -> None:
        """Read on from each place, of which there is at least one; put what is wanted in."""

    @property
    def size(self) -> int | None:
        """Bytes that are always read, but for those who are dropped; None when that differs."""
        return None


class Plan:
    """All steps of a struct, or of elements that are plain values."""

    __slots__ = ("_absent", "_steps", "_wanted", "size")

    def __init__(
        self, steps: Sequence[Step], wanted: dict[str, Default], absent: frozenset[str]
    ) -> None:
        """Take the wanted fields in the order of the definition, and which are not on the wire."""
        self._steps = steps
        self._wanted = wanted
        self._absent = absent
        self.size: int | None = 0
        """Bytes that the struct takes, as in :attr:`Step.size`."""
        if steps:
            self.size = steps[0].size if len(steps) == 1 else None

    def read(self, entries: Entries) -> Fields:
        """Read the struct at each place, of which there is at least one."""
        found: Fields = {}
        for step in self._steps:
            step.read(entries, found)
        if not self._wanted:
            return found
        absent, count = self._absent, len(entries.pos)
        return {
            name: default.columns(count) if name in absent else found[name]
            for name, default in self._wanted.items()
        }

    def nothing(self) -> Fields:
        """Return the columns of no struct."""
        return {name: default.columns(0) for name, default in self._wanted.items()}


class Run(Step):
    """Fields of fixed size, one behind the other."""

    __slots__ = ("_ids", "_kind", "_lead", "_numbers", "_opaque", "_size")

    def __init__(self, members: Sequence[Member], head: Head | None = None) -> None:
        """Lay out the fields, and the head that ends them."""
        self._ids: list[tuple[str, int]] = []
        self._numbers: list[tuple[str, bool]] = []
        read: list[tuple[str, int]] = []
        at = 0
        for member in members:
            if member.name is not None and member.code is None:
                self._ids.append((member.name, at))
            elif member.name is not None and member.code is not None:
                self._numbers.append((member.name, member.is_bool))
                read.append((member.code, at))
            at += member.size
        if head is not None:
            read.append((head.code, at))
            at += head.size
        self._size = at
        self._lead = read[0][1] if read else 0
        self._kind = _layout([(code, offset - self._lead) for code, offset in read])
        # NumPy copies an opaque item as bytes, but a struct field by field.
        is_struct = self._kind.names is not None
        self._opaque = np.dtype(f"V{self._kind.itemsize}") if is_struct else self._kind

    @property
    def size(self) -> int:
        """Bytes of the run."""
        return self._size

    def read(self, entries: Entries, found: Fields) -> None:
        """Read the run; the places are behind it then."""
        self._note(self._columns(entries) if self._numbers else (), entries, found)

    def read_head(self, entries: Entries, found: Fields) -> NDArray[np.int64]:
        """Read the run and return its head. The places are behind it then."""
        columns = self._columns(entries)
        self._note(columns[:-1], entries, found)
        return columns[-1].astype(np.int64)

    def _columns(self, entries: Entries) -> Sequence[NDArray[Any]]:
        items = entries.gather(self._opaque, self._lead)
        if self._kind.names is None:
            return (items,)
        structs = items.view(self._kind)
        return [structs[name] for name in self._kind.names]

    def _note(self, columns: Sequence[NDArray[Any]], entries: Entries, found: Fields) -> None:
        for (name, is_bool), column in zip(self._numbers, columns, strict=True):
            found[name] = Numbers((column != 0 if is_bool else column).astype(np.int64))
        for name, offset in self._ids:
            found[name] = Ids(entries.pos + offset)
        entries.pos = entries.pos + self._size


def _layout(read: Sequence[tuple[str, int]]) -> np.dtype[Any]:
    if len(read) == 1:
        return np.dtype(read[0][0])
    return np.dtype(
        {
            "names": [str(index) for index in range(len(read))],
            "formats": [code for code, _ in read],
            "offsets": [offset for _, offset in read],
        }
    )


class EmptyTags(Step):
    """A run that ends with a tag section, in which there must be nothing."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def size(self) -> int:
        """Bytes of the run."""
        return self._run.size

    def read(self, entries: Entries, found: Fields) -> None:
        """Read the run; drop who has a tag."""
        entries.drop_where(self._run.read_head(entries, found) != 0)


class Tags(Step):
    """A run that ends with a tag section, of which nothing is wanted."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def read(self, entries: Entries, found: Fields) -> None:
        """Read the run and step over the tags; drop those whose tags do not rise."""
        count = self._run.read_head(entries, found)
        if not count.any():
            return
        # With so few, the count is a varint of one byte.
        entries.drop_where(count > MOST_TAGS)
        last = np.full(len(count), -1)
        for rank in range(MOST_TAGS):
            index = np.flatnonzero((count > rank) & (entries.end >= 0))
            if not index.size:
                return
            part = entries.part(index)
            tag = part.read_varint()
            part.drop_where(tag <= last[index])
            last[index] = tag
            size = part.read_varint()
            part.pos = part.pos + size
            entries.put(index, part)


class Length:
    """How the length of a field is told, or the count of an array: the end of a run."""

    __slots__ = ("_is_nullable", "_is_varint", "_run")

    def __init__(self, run: Run, *, is_varint: bool, is_nullable: bool) -> None:
        """Take a run whose head is the number; of a varint, its first byte."""
        self._run = run
        self._is_varint = is_varint
        self._is_nullable = is_nullable

    def read(self, entries: Entries, found: Fields) -> NDArray[np.int64]:
        """Return the number, -1 for null, in an array that is the caller's to change.

        Those for which it cannot be are dropped, and theirs is 0.
        """
        length = self._run.read_head(entries, found)
        if self._is_varint:
            length = entries.finish_varint(length) - 1
        if length.min() < 0:
            wrong = length < (-1 if self._is_nullable else 0)
            entries.drop_where(wrong)
            length[wrong] = 0
        return length


class Presence(Length):
    """Whether a struct that may be null is there: a count of 1, or -1."""

    __slots__ = ()

    def __init__(self, run: Run) -> None:
        """Take a run whose head is the mark."""
        super().__init__(run, is_varint=False, is_nullable=True)

    def read(self, entries: Entries, found: Fields) -> NDArray[np.int64]:
        """Return the count; drop those whose mark is neither."""
        mark = self._run.read_head(entries, found)
        wrong = np.abs(mark) != 1
        entries.drop_where(wrong)
        mark[wrong] = -1
        return mark


class ByteString(Step):
    """A string, bytes, or records as they are."""

    __slots__ = ("_length", "_name")

    def __init__(self, length: Length, name: str | None) -> None:
        """Take the field's name; None when it is not wanted."""
        self._length = length
        self._name = name

    def read(self, entries: Entries, found: Fields) -> None:
        """Read the length and step over the bytes."""
        length = self._length.read(entries, found)
        if self._name is not None:
            found[self._name] = Texts(entries.pos, length)
        entries.pos = entries.pos + np.maximum(length, 0)


class Records(Step):
    """Records to be summarised."""

    __slots__ = ("_length", "_name")

    def __init__(self, length: Length, name: str) -> None:
        self._length = length
        self._name = name

    def read(self, entries: Entries, found: Fields) -> None:
        """Read the length, look at the batches, and step over them."""
        length = self._length.read(entries, found)
        found[self._name] = read_record_sets(entries, length)
        entries.pos = entries.pos + np.maximum(length, 0)


class InlineStruct(Step):
    """A struct that is always there, its fields wanted under its name."""

    __slots__ = ("_name", "_plan")

    def __init__(self, name: str, plan: Plan) -> None:
        self._name = name
        self._plan = plan

    def read(self, entries: Entries, found: Fields) -> None:
        """Read the struct."""
        count = len(entries.pos)
        fields = self._plan.read(entries)
        found[self._name] = Elements(np.arange(count), np.ones(count, np.int64), fields)


class Repeated(Step):
    """An array; or a struct that may be null, as an array of one."""

    __slots__ = ("_default", "_least_size", "_length", "_plan")

    def __init__(
        self, length: Length, plan: Plan, least_size: int, default: Default | None
    ) -> None:
        """Take what reads an element, and the fewest bytes of one.

        ``default`` knows the field's name and what it is without elements; None when the field is
        not wanted.
        """
        self._length = length
        self._plan = plan
        self._least_size = least_size
        self._default = default

    def read(self, entries: Entries, found: Fields) -> None:
        """Read the count, and each element."""
        count = self._read_count(entries, found)
        if count.min() == 1 == count.max():
            self._note(count, self._plan.read(entries), found)
        elif self._plan.size is not None:
            self._read_at_once(entries, count, self._plan.size, found)
        else:
            self._read_in_rounds(entries, count, found)

    def _read_count(self, entries: Entries, found: Fields) -> NDArray[np.int64]:
        count = self._length.read(entries, found)
        wrong = count * self._least_size > entries.end - entries.pos
        if self._plan.size is None:
            wrong |= count > MOST_ELEMENTS
        if wrong.any():
            entries.drop(wrong)
            count[wrong] = 0
        return count

    def _note(self, count: NDArray[np.int64], fields: Fields | None, found: Fields) -> None:
        """Put the elements in; ``fields`` is None when there are none."""
        if self._default is None:
            return
        if fields is None:
            fields = self._default.elements(0)
        found[self._default.field.name] = Elements(owners(count), count, fields)

    def _read_at_once(
        self, entries: Entries, count: NDArray[np.int64], size: int, found: Fields
    ) -> None:
        """Read all elements of all arrays: where each of them stands is known."""
        real = np.maximum(count, 0)
        fields = None
        if real.any():
            inner = entries.part(owners(count))
            inner.pos = spread(entries.pos, real, size)
            fields = self._plan.read(inner)
        entries.pos = entries.pos + real * size
        self._note(count, fields, found)

    def _read_in_rounds(self, entries: Entries, count: NDArray[np.int64], found: Fields) -> None:
        """Read the first element of each array, then the second of those that have one..."""
        too_many = count > _rounds_worth_it(count)
        if too_many.any():
            entries.drop(too_many)
            count[too_many] = 0
        parts: list[Fields] = []
        indices: list[NDArray[np.intp]] = []
        for rank in range(MOST_ELEMENTS):
            is_live = (count > rank) & (entries.end >= 0)
            index = np.flatnonzero(is_live)
            # Arrays of messages that were dropped end where that was.
            np.minimum(count, rank, out=count, where=~is_live)
            if not index.size:
                break
            part = entries.part(index)
            parts.append(self._plan.read(part))
            indices.append(index)
            entries.put(index, part)
        fields = None
        if parts and self._default is not None:
            fields = taken(concatenated(parts), _order(indices, count))
        self._note(count, fields, found)


def _rounds_worth_it(count: NDArray[np.int64]) -> int:
    """Return how many rounds to make; longer arrays are better left to the other decoder.

    A round costs nearly the same for one array as for a thousand. Without this, a message of many
    elements among short ones would cost more than they do all together.
    """
    most = int(count.max())
    if most <= _FREE_ROUNDS:
        return most
    sizes = np.bincount(np.maximum(count, 0))
    rounds = np.arange(most + 1)
    elements = sizes * rounds
    longer = len(count) - np.cumsum(sizes)
    elements_of_longer = elements.sum() - np.cumsum(elements)
    cost = rounds + longer + elements_of_longer / _ELEMENTS_PER_ROUND
    return max(int(cost.argmin()), _FREE_ROUNDS)


def _order(indices: list[NDArray[np.intp]], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in the order of rounds each element is, by owner.

    ``indices`` are the owners in each round.
    """
    real = np.maximum(count, 0)
    first = np.cumsum(real) - real
    places = np.concatenate([first[index] + rank for rank, index in enumerate(indices)])
    order = np.empty(len(places), np.int64)
    order[places] = np.arange(len(places))
    return order
