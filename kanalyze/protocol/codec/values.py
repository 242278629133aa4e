"""What a machine wrote, kept, and as Python values.

In: a machine that has read a body, and the :class:`Shape` that belongs to its program. Out: tuples
or dicts, lists, texts, numbers; or a :class:`Taped`, which becomes these when it is asked. This
module must not know how a body is read, nor what it means.

Compiled by Cython, with the types in ``values.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.protocol.records import RecordsSummary

try:
    import cython
except ModuleNotFoundError:  # as in machine.py
    from kanalyze.compiled import cython

if not cython.compiled:
    from kanalyze.protocol.codec.opcodes import (
        CONTROL,
        HIDDEN_COUNT,
        HIDDEN_FIRST,
        MALFORMED_RECORDS,
        MISSING_RECORDS,
        RECORDS_CELLS,
        TRUNCATED_RECORDS,
    )

    AS_NUMBER, AS_BOOL, AS_FLOAT, AS_UUID, AS_TEXT, AS_BYTES = range(6)
    AS_RECORDS, AS_ARRAY, AS_TUPLE, AS_DICT, AS_NULLABLE = range(6, 11)

if TYPE_CHECKING:
    from kanalyze.protocol.codec.machine import Machine

__all__ = ["KINDS", "Shape", "Tape", "TapeReader", "Taped"]

KINDS = {
    "number": 0,
    "bool": 1,
    "float": 2,
    "uuid": 3,
    "text": 4,
    "bytes": 5,
    "records": 6,
    "array": 7,
    "tuple": 8,
    "dict": 9,
    "nullable": 10,
}
"""What a :class:`Shape` may be, and its number. A test holds them and ``values.pxd`` together."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown", "unknown", "unknown")
_new = tuple.__new__


class Shape:
    """What the cells of a value become.

    Attributes:
        kind: one of :data:`KINDS`.
        inner: the shape of an array's elements, or of the struct that may be null.
        places: of a tuple: where each value goes, in the order of the tape. Of a dict: its key.
        shapes: the shapes of those values.
        defaults: of a tuple: what stands where nothing was read, one for each place.
        tags: the tagged fields by tag: place or key, and shape; None where there is no tag section.
        unknown: of a dict: the key of the tagged fields that the definition does not know.
    """

    def __init__(
        self,
        kind: int,
        inner: Shape | None = None,
        places: list[Any] | None = None,
        shapes: list[Shape] | None = None,
        defaults: list[Any] | None = None,
        tags: dict[int, tuple[Any, Shape]] | None = None,
        unknown: str | None = None,
    ) -> None:
        self.kind = kind
        self.inner = inner
        self.places = [] if places is None else places
        self.shapes = [] if shapes is None else shapes
        self.defaults = [] if defaults is None else defaults
        self.has_lists = any(isinstance(value, list) for value in self.defaults)
        self.tags = tags
        self.unknown = "" if unknown is None else unknown


class Tape:
    """What machines wrote, of many bodies one after the other: cells, and the bytes of texts."""

    __slots__ = ("arena", "arena_used", "cells", "used")

    def __init__(self, cells: int, arena_bytes: int) -> None:
        """Make room for so many cells and bytes; it does not grow."""
        self.cells = memoryview(array("q", bytes(8 * cells)))
        self.arena = memoryview(bytearray(arena_bytes))
        self.used = 0
        self.arena_used = 0

    def has_room(self, cells: int, arena_bytes: int) -> bool:
        """Tell whether so much can be added."""
        return self.used + cells <= len(self.cells) and self.arena_used + arena_bytes <= len(
            self.arena
        )

    def add(self, cells: memoryview, begin: int, count: int) -> None:
        """Add cells of another tape; there is room for them."""
        at = self.used
        for i in range(count):
            self.cells[at + i] = cells[begin + i]
        self.used = at + count

    def add_bytes(self, arena: memoryview, begin: int, count: int) -> None:
        """Add bytes of another tape; there is room for them."""
        at = self.arena_used
        for i in range(count):
            self.arena[at + i] = arena[begin + i]
        self.arena_used = at + count


class Taped:
    """What was read of one body: a part of a tape, and the shape of it.

    Attributes:
        tape: where it is; at ``at``, so many ``cells``.
        arena_at: index in the tape's arena of the first byte that its texts may be in, of
            ``arena_bytes``. Cells that say where a text begins count from there.
        shape: what becomes of it.
    """

    __slots__ = ("arena_at", "arena_bytes", "at", "cells", "reader", "shape", "tape")

    def __init__(self, reader: TapeReader, shape: Shape, tape: Tape) -> None:
        """Take what comes next on a tape; :meth:`take` adds it."""
        self.reader = reader
        self.shape = shape
        self.tape = tape
        self.at = self.tape.used
        self.arena_at = self.tape.arena_used
        self.cells = 0
        self.arena_bytes = 0

    def take(
        self, cells: memoryview, at: int, count: int, arena: memoryview, begin: int, size: int
    ) -> None:
        """Add ``count`` cells and ``size`` bytes of elsewhere; there is room for them."""
        self.tape.add(cells, at, count)
        self.tape.add_bytes(arena, begin, size)
        self.cells = count
        self.arena_bytes = size

    def values(self) -> Any:
        """Return the values; made anew each time."""
        return self.reader.taped(self)

    def moved(self, tape: Tape) -> Taped:
        """Return the same on another tape, which has room for it."""
        made = Taped(self.reader, self.shape, tape)
        old = self.tape
        made.take(old.cells, self.at, self.cells, old.arena, self.arena_at, self.arena_bytes)
        return made


class TapeReader:
    """Reads the tape of one machine, or what was taken from it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.at = 0
        self.text = b""
        self.tape = self.machine.tape
        self.uuid = bytearray(16)
        self.sixteen = memoryview(self.uuid)

    def value(self, shape: Shape) -> Any:
        """Return the value of the whole tape."""
        machine = self.machine
        self.tape = machine.tape
        self.at = 0
        self.text = machine.text() if machine.arena_used > 0 else b""
        return self._value(shape)

    def taped(self, taped: Taped) -> Any:
        """Return the value of what was taken from the machine's tape."""
        tape = taped.tape
        self.tape = tape.cells
        self.at = taped.at
        begin = taped.arena_at
        size = taped.arena_bytes
        self.text = bytes(tape.arena[begin : begin + size]) if size > 0 else b""
        return self._value(taped.shape)

    def take(self, shape: Shape, tape: Tape) -> Taped:
        """Take the machine's whole tape, onto one that has room for it."""
        machine = self.machine
        made = Taped(self, shape, tape)
        made.take(machine.tape, 0, machine.used, machine.arena, 0, machine.arena_used)
        return made

    def _value(self, shape: Shape) -> Any:  # noqa: C901 - one switch
        kind = shape.kind
        if kind == AS_NUMBER:
            return self._cell()
        if kind == AS_TEXT:
            size = self._cell()
            if size < 0:
                return None
            begin = self._cell()
            return self.text[begin : begin + size].decode("utf-8", "backslashreplace")
        if kind == AS_TUPLE:
            return self._tuple(shape)
        if kind == AS_ARRAY:
            size = self._cell()
            if size < 0:
                return None
            inner = _inner(shape)
            values = []
            for _i in range(size):
                values.append(self._value(inner))  # noqa: PERF401 - compiled, this is faster
            return values
        if kind == AS_DICT:
            return self._dict(shape)
        if kind == AS_UUID:
            return self._uuid()
        if kind == AS_RECORDS:
            return self._records()
        if kind == AS_BYTES:
            size = self._cell()
            if size < 0:
                return None
            begin = self._cell()
            return self.text[begin : begin + size]
        if kind == AS_NULLABLE:
            if self._cell() < 0:
                return None
            return self._value(_inner(shape))
        if kind == AS_BOOL:
            return self._cell() != 0
        return _float(self._cell())

    def _cell(self) -> int:
        value = self.tape[self.at]
        self.at += 1
        return value

    def _uuid(self) -> bytes:
        for half in range(2):
            rest = self._cell()
            for i in range(7, -1, -1):
                self.sixteen[8 * half + i] = rest & 0xFF
                rest >>= 8
        return bytes(self.uuid)

    def _tuple(self, shape: Shape) -> tuple[Any, ...]:
        places, shapes = shape.places, shape.shapes
        values = list(shape.defaults)
        if shape.has_lists:
            for index in range(len(values)):
                if isinstance(values[index], list):
                    values[index] = []  # nobody shall share a list with the next message
        for index in range(len(places)):
            values[places[index]] = self._value(shapes[index])
        if shape.tags is not None:
            count = self._cell()
            for _i in range(count):
                place, inner = shape.tags[self._cell()]
                values[place] = self._value(inner)
        return tuple(values)

    def _dict(self, shape: Shape) -> dict[str, Any]:
        places, shapes = shape.places, shape.shapes
        values: dict[str, Any] = {}
        for index in range(len(places)):
            values[places[index]] = self._value(shapes[index])
        if shape.tags is not None:
            count = self._cell()
            for _i in range(count):
                tag = self._cell()
                known = shape.tags.get(tag)
                if known is not None:
                    values[known[0]] = self._value(known[1])
                    continue
                size = self._cell()
                begin = self._cell()
                pair = (tag, self.text[begin : begin + size])
                values.setdefault(shape.unknown, []).append(pair)
        return values

    def _records(self) -> RecordsSummary | None:
        at = self.at
        size = self._cell()
        if size < 0:
            return None
        tape = self.tape
        flags = tape[at + 7]
        self.at = at + RECORDS_CELLS
        hidden = flags & (HIDDEN_COUNT | MISSING_RECORDS)
        batches = tape[at + 4]
        offset = tape[at + 2] if batches else None
        is_last = flags & HIDDEN_FIRST != 0
        return _new(
            RecordsSummary,
            (
                size,
                None if hidden else tape[at + 1],
                None if is_last else offset,
                _codec(tape[at + 3]),
                batches,
                _known_time(tape[at + 5]),
                _known_time(tape[at + 6]),
                flags & CONTROL != 0,
                flags & TRUNCATED_RECORDS != 0,
                flags & MALFORMED_RECORDS != 0,
                flags & MISSING_RECORDS != 0,
                offset if is_last else None,
            ),
        )


def _inner(shape: Shape) -> Shape:
    assert shape.inner is not None
    return shape.inner


def _known_time(time_ms: int) -> int | None:
    return time_ms if time_ms >= 0 else None


def _codec(seen: int) -> str | None:
    """Name the codecs seen, a bit each."""
    if seen == 0:
        return None
    if seen & (seen - 1):
        return "mixed"
    return _CODECS[seen.bit_length() - 1]


def _float(bits: int) -> float:
    from struct import pack, unpack  # two fields of all messages are floats

    return float(unpack(">d", pack(">q", bits))[0])
