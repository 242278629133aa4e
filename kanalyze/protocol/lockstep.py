"""Decodes thousands of messages of one kind and version at a time.

In: a definition, a version, a projection; then a buffer and the places of message bodies in it.
Out: columns (:mod:`kanalyze.protocol.lockstep_columns`), and which messages they hold for. Must not
know where the bytes come from.

For a message that is *sound* the columns say exactly what the compiled decoder of the same
projection gives (:mod:`kanalyze.protocol.compiler`), and its body ends where it should. The others
are for that decoder, which is the truth: whatever is wrong with them, it says. Not sound are all
that the compiled decoder refuses, and of what it reads these, which are rare or long:

- a tag section with wanted fields in it that is not empty; any that is not empty in elements which
  are otherwise of fixed size; one of more than :data:`MOST_TAGS` tags,
- an array of more than :data:`MOST_ELEMENTS` elements, unless they are of fixed size,
- records of magic 0 or 1, in more than 64 batches, or with a header that is wrong,
- a message with far more elements or batches than those beside it, for a few cost as much time as
  many: of four at most in each array and records field, no message is left out for this,
- every message, where a float, or a text with a default of its own, is wanted, or with
  :data:`Projection.ALL`: there are no columns for them.

How it is done: a message's definition becomes a list of steps. Each begins with a *run* of fields
of fixed size, read in one gather over all messages; its last is the length of what comes next.
Elements of variable size go in rounds: the first of every array, then the second of those that have
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.errors import UsageError
from kanalyze.protocol.language import FIXED_SIZES
from kanalyze.protocol.layout import Layout
from kanalyze.protocol.lockstep_columns import (
    CODECS,
    NO_CODEC,
    PLAIN,
    Elements,
    Fields,
    Ids,
    Numbers,
    RecordSets,
    Texts,
    Values,
    without,
)
from kanalyze.protocol.lockstep_defaults import Default, has_columns
from kanalyze.protocol.lockstep_entries import Call, Entries
from kanalyze.protocol.lockstep_steps import (
    MOST_ELEMENTS,
    MOST_TAGS,
    ByteString,
    EmptyTags,
    Head,
    InlineStruct,
    Length,
    Member,
    Plan,
    Presence,
    Records,
    Repeated,
    Run,
    Step,
    Tags,
)
from kanalyze.protocol.projection import select

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.protocol.language import Field, Message, Struct
    from kanalyze.protocol.projection import Projection, Selection

__all__ = [
    "CODECS",
    "MOST_ELEMENTS",
    "MOST_TAGS",
    "NO_CODEC",
    "PLAIN",
    "Elements",
    "Fields",
    "Ids",
    "LockstepDecoder",
    "Numbers",
    "RecordSets",
    "Texts",
    "Values",
]

_CODES: Final = {
    "bool": "u1",
    "int8": "i1",
    "int16": ">i2",
    "uint16": ">u2",
    "int32": ">i4",
    "uint32": ">u4",
    "int64": ">i8",
}
_BYTE: Final = Head("u1", 1)
_MARK: Final = Head("i1", 1)
_SHORT: Final = Head(">i2", 2)
_WIDE: Final = Head(">i4", 4)


class LockstepDecoder:
    """Decodes messages of one definition and version; keeps nothing between calls."""

    def __init__(self, message: Message, version: int, projection: Projection) -> None:
        """Find the steps; raises UsageError as :func:`.compiler.compile_decoder` does."""
        if not message.valid_versions.contains(version):
            known = message.valid_versions
            raise UsageError(f"{message.name} has no version {version}; there are: {known}")
        selection = select(message, projection)
        self._plan: Plan | None = None
        if not projection.everything and has_columns(message.struct, selection):
            planner = _Planner(Layout(message, version), raw_records=projection.raw_records)
            self._plan = planner.struct(message.struct, selection, is_element=False)

    def __call__(
        self, data: NDArray[np.uint8], pos: NDArray[np.int64], end: NDArray[np.int64]
    ) -> tuple[Fields, NDArray[np.bool_]]:
        """Decode the bodies ``data[pos[i]:end[i]]``; return the wanted fields and who is sound.

        ``data`` is contiguous, and holds all of each body. Fields that the version doesn't have
        are their defaults, as in the compiled decoder. A message that is not sound has an entry in
        each column of the message, of no meaning, and no elements. Without columns for what is
        wanted, there are no fields and nothing is sound.

        Raises nothing for what the bytes say, and takes time and memory in proportion to the
        messages.
        """
        count = len(pos)
        if self._plan is None:
            return {}, np.zeros(count, np.bool_)
        call = Call(data, count)
        if not count:
            return self._plan.nothing(), call.sound
        entries = Entries(call, pos, end, np.arange(count))
        fields = self._plan.read(entries)
        sound = call.sound & (entries.pos == entries.end)
        return (fields if sound.all() else without(fields, sound)), sound


class _Planner:
    """Writes the steps of one struct, or of an array's elements."""

    def __init__(self, layout: Layout, *, raw_records: bool) -> None:
        self._layout = layout
        self._raw_records = raw_records
        self._steps: list[Step] = []
        self._members: list[Member] = []

    def struct(self, struct: Struct, selection: Selection | None, *, is_element: bool) -> Plan:
        """Return the steps of a struct; nothing of it is wanted where ``selection`` is None."""
        self._fields(struct, selection)
        self._tags(struct, selection, may_be_fixed=is_element)
        self._flush()
        wanted = {
            field.name: Default(field, selection[field.name], self._raw_records)
            for field in struct.fields
            if selection is not None and field.name in selection
        }
        on_wire = {field.name for field in self._layout.untagged(struct)}
        return Plan(self._steps, wanted, frozenset(wanted.keys() - on_wire))

    def plain(self, field: Field, *, wanted: bool) -> Plan:
        """Return the steps of an array's element that is no struct."""
        name = PLAIN if wanted else None
        self._value(field, name, is_nullable=False)
        self._flush()
        return Plan(self._steps, {}, frozenset())

    # Runs.

    def _flush(self) -> None:
        if self._members:
            self._steps.append(self._run(None))

    def _run(self, head: Head | None) -> Run:
        members, self._members = self._members, []
        return Run(members, head)

    def _length(self, field: Field, *, is_short: bool, is_nullable: bool) -> Length:
        is_varint = self._layout.is_flexible(field)
        head = _BYTE if is_varint else _SHORT if is_short else _WIDE
        return Length(self._run(head), is_varint=is_varint, is_nullable=is_nullable)

    # Structs.

    def _fields(self, struct: Struct, selection: Selection | None) -> None:
        for field in self._layout.untagged(struct):
            inner = None if selection is None else selection.get(field.name)
            if field.is_array:
                self._array(field, inner)
            elif field.struct is not None:
                self._nested(field, field.struct, inner)
            else:
                name = field.name if inner is not None else None
                self._value(field, name, is_nullable=self._layout.is_nullable(field))

    def _tags(self, struct: Struct, selection: Selection | None, *, may_be_fixed: bool) -> None:
        if not self._layout.flexible:
            return
        is_fixed = may_be_fixed and not self._steps
        run = self._run(_BYTE)
        is_wanted = selection is not None and any(
            field.name in selection for field in self._layout.tagged(struct)
        )
        self._steps.append(EmptyTags(run) if is_fixed or is_wanted else Tags(run))

    def _nested(self, field: Field, struct: Struct, selection: Selection | None) -> None:
        if self._layout.is_nullable(field):
            presence = Presence(self._run(_MARK))
            self._repeated(field, presence, selection, self._layout.min_struct_size(struct))
        elif selection is None:
            self._fields(struct, None)
            self._tags(struct, None, may_be_fixed=False)
        else:
            self._flush()
            plan = self._planner().struct(struct, selection, is_element=False)
            self._steps.append(InlineStruct(field.name, plan))

    # Fields.

    def _value(self, field: Field, name: str | None, *, is_nullable: bool) -> None:
        """Write the reading of a value that is neither array nor struct."""
        kind = field.element_type
        size = FIXED_SIZES.get(kind)
        if size is not None:
            self._members.append(Member(name, size, _CODES.get(kind), is_bool=kind == "bool"))
            return
        length = self._length(field, is_short=kind == "string", is_nullable=is_nullable)
        if kind == "records" and name is not None and not self._raw_records:
            self._steps.append(Records(length, name))
        else:
            self._steps.append(ByteString(length, name))

    def _array(self, field: Field, selection: Selection | None) -> None:
        is_nullable = self._layout.is_nullable(field)
        length = self._length(field, is_short=False, is_nullable=is_nullable)
        self._repeated(field, length, selection, self._layout.min_element_size(field))

    def _repeated(
        self, field: Field, count: Length, selection: Selection | None, least_size: int
    ) -> None:
        planner = self._planner()
        if field.struct is not None:
            plan = planner.struct(field.struct, selection, is_element=True)
        else:
            plan = planner.plain(field, wanted=selection is not None)
        default = None if selection is None else Default(field, selection, self._raw_records)
        self._steps.append(Repeated(count, plan, least_size, default))

    def _planner(self) -> _Planner:
        return _Planner(self._layout, raw_records=self._raw_records)
