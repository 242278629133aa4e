"""Decodes bodies: to cells on a tape, and from these to Python values.

In: a program, and bodies: bytes, or in a :class:`~kanalyze.kafka.framing.frame.Frame`. Out: tuples
or dicts, lists, texts, numbers; or a :class:`EncodedFields`, which is turned into these on request;
or the exceptions of :mod:`kanalyze.kafka.wire`.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.codec.machine import Machine, Tape
from kanalyze.kafka.records.types import RecordsSummary
from kanalyze.kafka.wire import Malformed, MissingBytes, Truncated, WireError

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import are_equal, start_of
    from kanalyze.kafka.codec.opcodes import (
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
    RUNNING, DONE, TRUNCATED = range(3)

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.codec.machine import Programs
    from kanalyze.kafka.framing.frame import Frame

KINDS = (
    *("number", "bool", "float", "uuid", "text", "bytes", "records", "array", "tuple", "dict"),
    "nullable",
)
"""The kinds of a :class:`Shape`, in the order of their numbers in ``values.pxd``."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown", "unknown", "unknown")
SEEN_CODECS = tuple(
    None if not bits else _CODECS[bits.bit_length() - 1] if not bits & (bits - 1) else "mixed"
    for bits in range(256)
)
"""The name for every set of codecs, which is a number with a bit for each codec."""
_new = tuple.__new__
ALL_CODECS = 0xFF
"""The set of all codecs."""
MAX_EMPTY_ELEMENTS = 1 << 20
"""How many elements an array in a saved state may have if its elements take no cells: nothing
is selected in them."""
_INT64, _DOUBLE, _PAIR = Struct(">q"), Struct(">d"), Struct(">qq")
_NO_PRODUCER = (-1, -1, -1)
"""The cells of a producer that is not known."""
NO_UUID = bytes(16)
"""The one object for a UUID of zeros."""
_MAX_KNOWN = 256
_LONGEST_KNOWN_BYTES = 64
"""How many texts and how many UUIDs are remembered, so that repeated ones are not made again; and
how long a remembered text may be."""


class Shape:
    """How the cells of a value become Python values.

    Attributes:
        kind: the number of one of :data:`KINDS`.
        inner: the shape of an array's elements, or of the struct that may be null.
        keys: of a tuple: the index of each value, in the order of the tape. Of a dict: the key of
            each value.
        shapes: the shapes of those values.
        defaults: of a tuple: the value at each index if the field was not read.
        tags: the tagged fields by tag: index or key, and shape; None where there is no tag section.
        is_full: of a tuple: True if all of its values are on the tape, in their order.
        unknown: of a dict: the key of the tagged fields that the definition does not know.
        cells: how many cells a value takes on the tape; -1 if that depends on the value.
    """

    def __init__(
        self,
        kind: str,
        inner: Shape | None = None,
        keys: list[Any] | None = None,
        shapes: list[Shape] | None = None,
        defaults: list[Any] | None = None,
        tags: dict[int, tuple[Any, Shape]] | None = None,
        unknown: str | None = None,
    ) -> None:
        self.kind = KINDS.index(kind)
        self.inner = inner
        self.keys = [] if keys is None else keys
        self.shapes = [] if shapes is None else shapes
        self.defaults = [] if defaults is None else defaults
        self.has_lists = any(isinstance(value, list) for value in self.defaults)
        self.tags = tags
        count = len(self.shapes)
        self.is_full = count > 0 and self.keys == list(range(len(self.defaults))) and tags is None
        self.unknown = "" if unknown is None else unknown
        self.cells = _fixed_cells(self)


class Program(NamedTuple):
    """Instructions, to be put into tables of programs."""

    words: tuple[int, ...]
    relocations: tuple[int, ...]
    """Indices of the words that hold addresses, counted from the first word."""
    stack_cells: int
    """How many cells of the machine's stack it needs at most."""
    shape: Shape
    """The shape of the values that it puts on the tape."""


class EncodedFields:
    """The selected fields of one body: a part of a tape, and its shape.

    Attributes:
        tape: the tape; the body has ``cells`` cells from index ``at`` on.
        arena_at: index in the tape's arena of the first of its ``arena_bytes`` bytes. Cells with
            the index of a text count from there.
        shape: how the cells become values.
    """

    _NOT_SAVED = ("reader", "shape")

    def __init__(self, reader: TapeReader, shape: Shape, tape: Tape) -> None:
        """Begin at the end of a tape; :meth:`take` adds cells and bytes."""
        self._begin(reader, shape, tape)

    def _begin(self, reader: TapeReader, shape: Shape, tape: Tape) -> None:
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
        """Add ``count`` cells and ``size`` bytes; the tape has room for them."""
        self.tape.add(cells, at, count)
        self.tape.add_bytes(arena, begin, size)
        self.cells = count
        self.arena_bytes = size

    def values(self) -> Any:
        """Return the values; each call makes them again."""
        return self.reader.decoded(self)

    def is_of(self, shape: Shape) -> bool:
        """Return true if the value has this shape."""
        return self.shape is shape

    def state(self) -> State:
        """Return what :meth:`from_state` takes: the cells, and the bytes of texts."""
        tape = self.tape
        cells = []
        for at in range(self.at, self.at + self.cells):
            cells.append(tape.cells[at])  # noqa: PERF401 - compiled, this is faster
        begin, size = self.arena_at, self.arena_bytes
        return tuple(cells), bytes(tape.arena[begin : begin + size]) if size > 0 else b""

    @classmethod
    def from_state(
        cls, state: object, reader: TapeReader, shape: Shape, *, is_older: bool = False
    ) -> EncodedFields:
        """Make one from a state; raises ValueError if the state does not have the shape.

        In the format of states before (``is_older``), records lack the producer.
        """
        saved_cells, texts = fields(state, "ty")
        numbers = list(items(saved_cells, "i"))
        checker = CellChecker(memoryview(array("q", numbers)), len(texts))
        checker.records_cells -= is_older * len(_NO_PRODUCER)
        checker.pass_value(shape)
        if checker.at != len(numbers):
            raise ValueError("cells left over")
        for end in reversed(checker.records_ends) if is_older else ():
            numbers[end:end] = _NO_PRODUCER
        cells = memoryview(array("q", numbers))
        encoded = cls(reader, shape, Tape(len(cells), len(texts)))
        encoded.take(cells, 0, len(cells), memoryview(texts), 0, len(texts))
        return encoded


class _Text:
    """A text with its bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.text = str(data, "utf-8", "backslashreplace")

    def is_at(self, data: bytes | memoryview, begin: int, end: int) -> bool:
        """Return true if ``data[begin:end]`` are this text's bytes."""
        size = len(self.data)
        return end - begin == size and (
            size == 0 or are_equal(data, begin, start_of(self.data), size)
        )


class Texts:
    """Makes texts from bytes; repeated texts are the same objects."""

    def __init__(self) -> None:
        self._known: list[_Text | None] = [None] * _MAX_KNOWN

    def text(self, data: bytes | memoryview, begin: int, end: int) -> str:
        """Return the text of some bytes; bytes that are no UTF-8 become escapes.

        The caller has seen that they are there.
        """
        if end - begin > _LONGEST_KNOWN_BYTES:
            return str(bytes(data[begin:end]), "utf-8", "backslashreplace")
        slot = 0
        for i in range(begin, end):
            slot = (slot * 31 + data[i]) & 0xFFFFFF
        slot %= _MAX_KNOWN
        entry = self._known[slot]
        if entry is None or not entry.is_at(data, begin, end):
            entry = self._known[slot] = _Text(bytes(data[begin:end]))
        return entry.text


class _UuidEntry:
    """A UUID with the two numbers that it was made from."""

    def __init__(self, high: int, low: int) -> None:
        self.high = high
        self.low = low
        self.data = _PAIR.pack(high, low)


class TapeCursor:
    """Reads a :class:`EncodedFields` cell by cell; the caller knows its shape.

    Attributes:
        at: index of the next cell.
    """

    def __init__(self, shared: TapeCursor | None = None) -> None:
        """Begin without cells; share the remembered texts and UUIDs of another cursor, if given.

        These take up to 64 KiB, and there is a cursor for each version of each message.
        """
        self.at = 0
        self.current_tape: Tape | None = None
        self.tape = memoryview(array("q", [0]))
        self.arena = memoryview(bytearray(1))
        self.arena_at = 0
        self.texts: Texts
        self.uuids: list[_UuidEntry | None]
        if shared is None:
            self.texts, self.uuids = Texts(), [None] * _MAX_KNOWN
        else:
            self._share(shared)

    def _share(self, other: TapeCursor) -> None:
        self.texts, self.uuids = other.texts, other.uuids

    def begin(self, encoded: EncodedFields) -> None:
        """Go to the first cell of a body."""
        self._go_to(encoded.tape, encoded.at, encoded.arena_at)

    def _go_to(self, tape: Tape, at: int, arena_at: int) -> None:
        if tape is not self.current_tape:  # assigning a view takes longer than the rest of this
            self.current_tape = tape
            self.tape = tape.cells
            self.arena = tape.arena
        self.at = at
        self.arena_at = arena_at

    def number(self) -> int:
        """Return the next cell, and move past it."""
        value = self.tape[self.at]
        self.at += 1
        return value

    def text(self) -> str | None:
        """Return the next text, None for null, and move past it."""
        size = self.number()
        if size < 0:
            return None
        begin = self.arena_at + self.number()
        if begin < 0 or size > len(self.arena) - begin:
            raise IndexError("a text outside of its arena")
        return self.texts.text(start_of(self.arena), begin, begin + size)

    def uuid(self) -> bytes:
        """Return the next 16 bytes, and move past them."""
        high = self.number()
        low = self.number()
        if high == 0 and low == 0:
            return NO_UUID
        slot = (high ^ low) & (_MAX_KNOWN - 1)
        entry = self.uuids[slot]
        if entry is None or entry.high != high or entry.low != low:
            entry = self.uuids[slot] = _UuidEntry(high, low)
        return entry.data


class TapeReader(TapeCursor):
    """Makes Python values from the tape of one machine, or from a part taken from it."""

    def __init__(self, machine: Machine, shared: TapeCursor | None = None) -> None:
        super().__init__(shared)
        self.machine = machine

    def value(self, shape: Shape) -> Any:
        """Return the value that the machine read last."""
        machine = self.machine
        self._go_to(machine.tape, machine.begin_at, machine.arena_begin)
        return self._value(shape)

    def decoded(self, encoded: EncodedFields) -> Any:
        """Return the value of a part taken from the machine's tape."""
        self.begin(encoded)
        return self._value(encoded.shape)

    def _value(self, shape: Shape) -> Any:  # noqa: C901 - one switch
        kind = shape.kind
        if kind == AS_NUMBER:
            return self.number()
        if kind == AS_TEXT:
            return self.text()
        if kind == AS_TUPLE:
            return self._tuple(shape)
        if kind == AS_ARRAY:
            size = self.number()
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
            return self.uuid()
        if kind == AS_RECORDS:
            return self._records()
        if kind == AS_BYTES:
            size = self.number()
            if size < 0:
                return None
            begin = self.arena_at + self.number()
            return bytes(self.arena[begin : begin + size])
        if kind == AS_NULLABLE:
            if self.number() < 0:
                return None
            return self._value(_inner(shape))
        if kind == AS_BOOL:
            return self.number() != 0
        return _float(self.number())

    def _tuple(self, shape: Shape) -> tuple[Any, ...]:
        keys, shapes = shape.keys, shape.shapes
        if shape.is_full and len(shapes) <= 4:
            return self._short(shapes)
        values = list(shape.defaults)
        if shape.has_lists:
            for index in range(len(values)):
                if isinstance(values[index], list):
                    values[index] = []  # the next message must not share this list
        for index in range(len(keys)):
            values[keys[index]] = self._value(shapes[index])
        if shape.tags is not None:
            count = self.number()
            for _i in range(count):
                place, inner = shape.tags[self.number()]
                values[place] = self._value(inner)
        return tuple(values)

    def _short(self, shapes: list[Shape]) -> tuple[Any, ...]:
        """Return a tuple of 1 to 4 values, all of which are on the tape, in their order."""
        count = len(shapes)
        if count == 1:
            return (self._value(shapes[0]),)
        first, second = self._value(shapes[0]), self._value(shapes[1])
        if count == 2:
            return (first, second)
        third = self._value(shapes[2])
        return (
            (first, second, third) if count == 3 else (first, second, third, self._value(shapes[3]))
        )

    def _dict(self, shape: Shape) -> dict[str, Any]:
        keys, shapes = shape.keys, shape.shapes
        values: dict[str, Any] = {}
        for index in range(len(keys)):
            values[keys[index]] = self._value(shapes[index])
        if shape.tags is not None:
            count = self.number()
            for _i in range(count):
                tag = self.number()
                key_and_shape = shape.tags.get(tag)
                if key_and_shape is not None:
                    values[key_and_shape[0]] = self._value(key_and_shape[1])
                    continue
                size = self.number()
                begin = self.arena_at + self.number()
                pair = (tag, bytes(self.arena[begin : begin + size]))
                values.setdefault(shape.unknown, []).append(pair)
        return values

    def _records(self) -> RecordsSummary | None:
        at = self.at
        size = self.number()
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
                SEEN_CODECS[tape[at + 3]],
                batches,
                _not_negative(tape[at + 5]),
                _not_negative(tape[at + 6]),
                flags & CONTROL != 0,
                flags & TRUNCATED_RECORDS != 0,
                flags & MALFORMED_RECORDS != 0,
                flags & MISSING_RECORDS != 0,
                offset if is_last else None,
                _not_negative(tape[at + 8]),
                _not_negative(tape[at + 9]),
                _not_negative(tape[at + 10]),
            ),
        )


def new_fields(reader: TapeReader, shape: Shape, tape: Tape) -> EncodedFields:
    """Make a :class:`EncodedFields`; fast from compiled modules."""
    encoded = EncodedFields.__new__(EncodedFields)
    encoded._begin(reader, shape, tape)
    return encoded


class CellChecker:
    """Reads cells as a :class:`TapeReader` does; raises ValueError if they do not fit a shape."""

    def __init__(self, cells: memoryview, arena_bytes: int) -> None:
        self.cells = cells
        self.at = 0
        self.end = len(cells)
        self.arena_bytes = arena_bytes
        self.records_cells = RECORDS_CELLS
        self.records_ends: list[int] = []

    def pass_value(self, shape: Shape) -> None:
        """Read the cells of a value."""
        kind = shape.kind
        if kind in (AS_TEXT, AS_BYTES):
            size = self._cell()
            if size >= 0:
                self._pass_bytes(size)
        elif kind in (AS_TUPLE, AS_DICT):
            self._pass_struct(shape, kind == AS_DICT)
        elif kind == AS_ARRAY:
            self._pass_array(_inner(shape))
        elif kind == AS_NULLABLE:
            if self._cell() >= 0:
                self.pass_value(_inner(shape))
        elif kind == AS_RECORDS:
            self._pass_records()
        else:
            self._cell()
            if kind == AS_UUID:
                self._cell()

    def _cell(self) -> int:
        if self.at >= self.end:
            raise ValueError("too few cells")
        value = self.cells[self.at]
        self.at += 1
        return value

    def _pass_bytes(self, size: int) -> None:
        begin = self._cell()
        if begin < 0 or begin > self.arena_bytes or size > self.arena_bytes - begin:
            raise ValueError("a text outside of the arena")

    def _pass_array(self, inner: Shape) -> None:
        size = self._cell()
        begin = self.at
        for _i in range(size):
            self.pass_value(inner)
            if self.at == begin and size > MAX_EMPTY_ELEMENTS:
                # The elements take no cells, so the tape does not bound their count.
                raise ValueError("too many elements that take no cells")

    def _pass_struct(self, shape: Shape, is_dict: bool) -> None:
        for inner in shape.shapes:
            self.pass_value(inner)
        if shape.tags is None:
            return
        count = self._cell()
        for _i in range(count):
            index_and_shape = shape.tags.get(self._cell())
            if index_and_shape is not None:
                self.pass_value(index_and_shape[1])
            elif is_dict:
                size = self._cell()
                if size < 0:
                    raise ValueError("a tagged field of negative size")
                self._pass_bytes(size)
            else:
                raise ValueError("a tagged field that the shape does not have")

    def _pass_records(self) -> None:
        begin = self.at
        if self._cell() < 0:
            return
        for _i in range(self.records_cells - 1):
            self._cell()
        self.records_ends.append(self.at)
        codecs = self.cells[begin + 3]
        if codecs < 0 or codecs > ALL_CODECS:
            raise ValueError("an unknown codec")


def _fixed_cells(shape: Shape) -> int:
    """Return how many cells a value of a shape takes; -1 if that depends on the value."""
    if shape.kind in (AS_NUMBER, AS_BOOL, AS_FLOAT):
        return 1
    if shape.kind == AS_UUID:
        return 2
    if shape.kind != AS_TUPLE or shape.tags is not None:
        return -1
    cells = [inner.cells for inner in shape.shapes]
    return -1 if -1 in cells else sum(cells)


def _inner(shape: Shape) -> Shape:
    assert shape.inner is not None
    return shape.inner


def _not_negative(value: int) -> int | None:
    return value if value >= 0 else None


def _float(bits: int) -> float:
    return float(_DOUBLE.unpack(_INT64.pack(bits))[0])


_TAPE_CELLS, _TAPE_BYTES = 1 << 14, 1 << 14
"""Size of a tape that many bodies share: 128 KiB of cells, and 16 KiB of texts."""


def shared_tape(cells: int = 0, arena_bytes: int = 0) -> Tape:
    """Make a tape for many bodies, with room for at least these."""
    return Tape(max(cells, _TAPE_CELLS), max(arena_bytes, _TAPE_BYTES))


class BodyDecoder:
    """Decodes bodies of one message in one version; not from several threads at once."""

    def __init__(
        self, program: Program, programs: Programs, shared: TapeCursor | None = None
    ) -> None:
        """Add a program to a table of programs.

        Repeated texts are the same objects as those of the cursor ``shared``, if there is one.
        """
        self.address = programs.add(program.words, program.relocations)
        self.stack_cells = program.stack_cells
        self.shape = program.shape
        self.machine = Machine(programs)
        self.reader = TapeReader(self.machine, shared)
        self.end = 0

    def __call__(self, view: bytes | memoryview, pos: int) -> tuple[Any, int]:
        r"""Decode the body that starts at ``view[pos]``; return its values and where it ends.

        ``view`` has no bytes after the body's frame. The values are a tuple of the selected fields
        in the order of the definition, the same for every version: a field that the version doesn't
        have gets its default. A struct becomes such a tuple, an array a list, null None, a UUID 16
        bytes, text a ``str`` (bytes that are no UTF-8 as ``\xNN``), records a
        :class:`~kanalyze.kafka.records.types.RecordsSummary` or their bytes.

        With ``Projection.ALL``, the values are a dict of the fields that the version has, by
        Kafka's JSON names. Tagged fields are in it only if they are on the wire; those that the
        definition doesn't know are ``(tag, bytes)`` pairs under ``_taggedFields``.

        Raises Truncated if the bytes end first, Malformed if they break the grammar; no other
        exception, whatever the bytes.
        """
        end = self.read(view, pos)
        return self.reader.value(self.shape), end

    def read(self, view: bytes | memoryview, pos: int, tape: Tape | None = None) -> int:
        """Decode a complete body; the values stay on the tape, the machine's own if it is None.

        Returns where it ended, and raises, as ``__call__`` does.
        """
        machine = self.machine
        limit = len(view)
        machine.begin(self.address, self.stack_cells, limit - pos, tape)
        machine.feed(view, pos, limit)
        if machine.status != DONE:
            raise self._failure()
        return limit - machine.remaining_bytes

    def of_frame(self, frame: Frame, at: int) -> Any:
        """Decode the body at offset ``at`` of a frame; return its values.

        Sets ``end`` to the frame offset after the body. Raises as ``__call__`` does.
        """
        error = self.run(frame, at)
        if error is not None:
            raise error
        return self.reader.value(self.shape)

    def take(self, tape: Tape | None) -> EncodedFields:
        """Copy the last decoded values to the tape if it has room, else to a new one."""
        machine = self.machine
        if tape is None or not tape.has_room(machine.used, machine.arena_used):
            tape = shared_tape(machine.used, machine.arena_used)
        encoded, own = new_fields(self.reader, self.shape, tape), machine.tape
        begin, size = machine.arena_begin, machine.arena_used
        encoded.take(own.cells, machine.begin_at, machine.used, own.arena, begin, size)
        return encoded

    def fields_from_state(self, state: object, *, is_older: bool = False) -> EncodedFields:
        """Return decoded values from their state; raises ValueError for any other value."""
        return EncodedFields.from_state(state, self.reader, self.shape, is_older=is_older)

    def run(self, frame: Frame, at: int, tape: Tape | None = None) -> WireError | None:
        """Decode as :meth:`of_frame`; the values stay on the tape, as with :meth:`read`.

        Returns the error, or None if the body was read. It is not raised: some clients write every
        body wrong, and raising takes longer than reading.
        """
        machine = self.machine
        frame_bytes = frame.length
        if at > frame_bytes:
            return Truncated("the frame ends before the body")
        machine.begin(self.address, self.stack_cells, frame_bytes - at, tape)
        segments = frame.segments
        if segments is not None and at <= frame.contiguous_bytes:
            machine.feed(segments.data, frame.begin + at, frame.begin + frame.contiguous_bytes)
        while machine.status == RUNNING:
            try:
                part = frame.contiguous(machine.next_at(frame_bytes))
            except MissingBytes as error:
                if not machine.skip_missing_records():
                    return error
                continue
            machine.feed(part, 0, len(part))
        self.end = frame_bytes - machine.remaining_bytes
        return None if machine.status == DONE else self._failure()

    def _failure(self) -> WireError:
        """Return the error that says why the machine did not reach the end of a body."""
        if self.machine.status == TRUNCATED:
            return Truncated("the bytes end within the body")
        return Malformed("the bytes do not fit the message's definition")
