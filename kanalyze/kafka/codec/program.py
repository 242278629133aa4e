"""Writes the program that reads the selected fields of a message in one version.

In: a message's layout in one version, and the tree of selected fields. Out: :class:`Program`, for
the machine, with the shape of its output. This module must not see any bytes.

Consecutive fixed-size fields that are not selected become one SKIP instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.codec import opcodes as op
from kanalyze.kafka.codec.values import KINDS, Shape
from kanalyze.kafka.schema.schema_ast import FIXED_SIZES, Field, Struct

if TYPE_CHECKING:
    from kanalyze.kafka.codec.projection import Projection, Selection
    from kanalyze.kafka.schema.layout import Layout

__all__ = ["UNKNOWN_TAGS", "Program", "write_program"]

UNKNOWN_TAGS = "_taggedFields"
"""Key of the tagged fields that no definition knows, in the dicts of :data:`Projection.ALL`."""

_TAG_CELLS = 5
"""Cells of the stack that a tag section takes while it is read; a loop takes one."""

_NUMBERS = {
    "bool": (op.UINT8, "bool"),
    "int8": (op.INT8, "number"),
    "int16": (op.INT16, "number"),
    "uint16": (op.UINT16, "number"),
    "int32": (op.INT32, "number"),
    "uint32": (op.UINT32, "number"),
    "int64": (op.INT64, "number"),
    "float64": (op.INT64, "float"),
    "uuid": (op.UUID, "uuid"),
}
"""Opcode and kind of shape, by type."""


class Program(NamedTuple):
    """Instructions, to be put into tables of programs."""

    words: tuple[int, ...]
    relocations: tuple[int, ...]
    """Indices of the words that hold addresses, counted from the first word."""
    stack_cells: int
    """How many cells of the machine's stack it needs at most."""
    shape: Shape
    """The shape of the values that it puts on the tape."""


def write_program(layout: Layout, selection: Selection, projection: Projection) -> Program:
    """Write the program that reads the selected fields of a message."""
    writer = _Writer(layout, projection)
    shape = writer.struct(layout.message.struct, selection)
    writer.end()
    assert shape is not None
    return Program(tuple(writer.words), tuple(writer.relocations), writer.stack_cells, shape)


class _Writer:
    def __init__(self, layout: Layout, projection: Projection) -> None:
        self._layout = layout
        self._as_dicts = projection.everything
        self._raw_records = projection.raw_records
        self._skipped = 0
        self._depth = 0
        self.words: list[int] = []
        self.relocations: list[int] = []
        self.stack_cells = 0

    def end(self) -> None:
        """Write the end of the program."""
        self._write(op.END)

    # -- words ------------------------------------------------------------------------------------

    def _write(self, *words: int) -> None:
        """Write an instruction, after a SKIP of the bytes not selected before it."""
        if self._skipped:
            self.words += (op.SKIP, self._skipped)
            self._skipped = 0
        self.words += words

    def _here(self) -> int:
        """Return the address of the next instruction."""
        self._write()
        return len(self.words)

    def _address(self, index: int, address: int) -> None:
        """Set the word at an index to an address."""
        self.words[index] = address
        self.relocations.append(index)

    def _enter(self, cells: int) -> None:
        self._depth += cells
        self.stack_cells = max(self.stack_cells, self._depth)

    def _leave(self, cells: int) -> None:
        self._depth -= cells

    # -- structs ----------------------------------------------------------------------------------

    def struct(self, struct: Struct, selection: Selection | None) -> Shape | None:
        """Write the instructions for a struct; return its shape, None if nothing is selected."""
        read = [
            (field, shape)
            for field in self._layout.untagged(struct)
            if (shape := self._field(field, _inner(selection, field))) is not None
        ]
        tags = self._tags(struct, selection) if self._layout.flexible else None
        if selection is None:
            return None
        if self._as_dicts:
            return Shape(
                KINDS["dict"],
                keys=[field.json_name for field, _ in read],
                shapes=[shape for _, shape in read],
                tags=None if tags is None else _by_tag(tags, lambda field: field.json_name),
                unknown=UNKNOWN_TAGS,
            )
        selected = [field for field in struct.fields if field.name in selection]
        index_of = {field.name: index for index, field in enumerate(selected)}
        return Shape(
            KINDS["tuple"],
            keys=[index_of[field.name] for field, _ in read],
            shapes=[shape for _, shape in read],
            defaults=[default_of(field, selection[field.name]) for field in selected],
            tags=None if not tags else _by_tag(tags, lambda field: index_of[field.name]),
        )

    def _tags(self, struct: Struct, selection: Selection | None) -> list[tuple[Field, Shape]]:
        """Write the instructions for a tag section; return its fields that go to the tape."""
        selected = [
            (field, inner)
            for field in self._layout.tagged(struct)
            if (inner := _inner(selection, field)) is not None
        ]
        flags = 0
        if selection is not None and self._as_dicts:
            flags = op.WANTED | op.KEEP_UNKNOWN
        elif selected:
            flags = op.WANTED
        self._write(op.TAGS, flags, len(selected))
        table = len(self.words)
        for field, _ in selected:
            assert field.tag is not None
            self.words += (field.tag, 0)
        self._enter(_TAG_CELLS)
        if not selected:
            self._leave(_TAG_CELLS)
            return []
        return self._tagged_fields(table, selected)

    def _tagged_fields(
        self, table: int, selected: list[tuple[Field, Selection]]
    ) -> list[tuple[Field, Shape]]:
        """Write the instructions for tagged fields, out of line: the program jumps over them."""
        # When the section is over, the machine continues after the table, at a jump.
        read = []
        jump = self._jump()
        for index, (field, inner) in enumerate(selected):
            self._address(table + 2 * index + 1, self._here())
            shape = self._field(field, inner)
            assert shape is not None
            self._write(op.TAG_END)
            read.append((field, shape))
        self._address(jump, self._here())
        self._leave(_TAG_CELLS)
        return read

    def _jump(self) -> int:
        """Write a jump; return the index of the word for its target."""
        self._write(op.JUMP, 0)
        return len(self.words) - 1

    # -- fields -----------------------------------------------------------------------------------

    def _field(self, field: Field, selection: Selection | None) -> Shape | None:
        """Write the instructions for a field; return its shape, None if it is not selected."""
        if field.is_array:
            return self._array(field, selection)
        if field.struct is not None:
            return self._nested(field, field.struct, selection)
        selected = selection is not None
        if field.type in FIXED_SIZES:
            return self._number(field.type, selected=selected)
        nullable = self._layout.is_nullable(field)
        return self._sized(field, field.type, selected=selected, nullable=nullable)

    def _number(self, kind: str, *, selected: bool) -> Shape | None:
        if not selected:
            self._skipped += FIXED_SIZES[kind]
            return None
        code, shape = _NUMBERS[kind]
        self._write(code)
        return Shape(KINDS[shape])

    def _nested(self, field: Field, struct: Struct, selection: Selection | None) -> Shape | None:
        if not self._layout.is_nullable(field):
            return self.struct(struct, selection)
        self._write(op.NULLABLE, 0 if selection is None else op.WANTED, 0)
        after_at = len(self.words) - 1
        shape = self.struct(struct, selection)
        self._address(after_at, self._here())
        return None if shape is None else Shape(KINDS["nullable"], inner=shape)

    def _sized(self, field: Field, kind: str, *, selected: bool, nullable: bool) -> Shape | None:
        """Write the instructions for a string, for bytes or for records."""
        flags = self._flags(field, selected=selected, nullable=nullable)
        if kind != "string" and not flags & op.COMPACT:
            flags |= op.WIDE
        if kind == "records" and not self._raw_records:
            self._write(op.RECORDS, flags)
            return Shape(KINDS["records"]) if selected else None
        self._write(op.TEXT, flags)
        return Shape(KINDS["text" if kind == "string" else "bytes"]) if selected else None

    def _array(self, field: Field, selection: Selection | None) -> Shape | None:
        selected = selection is not None
        nullable = self._layout.is_nullable(field)
        flags = self._flags(field, selected=selected, nullable=nullable)
        if not flags & op.COMPACT:
            flags |= op.WIDE
        fixed = self._layout.fixed_element_size(field)
        if fixed and not selected:
            self._write(op.ELEMENTS, flags, fixed)
            return None
        self._write(op.ARRAY, flags, self._layout.min_element_size(field), 0)
        after_at = len(self.words) - 1
        body = len(self.words)
        self._enter(1)
        inner = self._element(field, selection)
        self._write(op.LOOP, 0)
        self._leave(1)
        self._address(len(self.words) - 1, body)
        self._address(after_at, len(self.words))
        return Shape(KINDS["array"], inner=inner) if selected else None

    def _element(self, field: Field, selection: Selection | None) -> Shape | None:
        if field.struct is not None:
            return self.struct(field.struct, selection)
        kind, selected = field.element_type, selection is not None
        if kind in FIXED_SIZES:
            return self._number(kind, selected=selected)
        return self._sized(field, kind, selected=selected, nullable=False)

    def _flags(self, field: Field, *, selected: bool, nullable: bool) -> int:
        flags = op.COMPACT if self._layout.is_flexible(field) else 0
        if nullable:
            flags |= op.NULLS
        return flags | op.WANTED if selected else flags


def default_of(field: Field, selection: Selection) -> Any:
    """Return the value of a field that is not on the wire."""
    if field.has_null_default:
        return None
    if field.is_array:
        return []
    if field.struct is not None:
        return tuple(
            default_of(inner, selection[inner.name])
            for inner in field.struct.fields
            if inner.name in selection
        )
    return field.default


def _inner(selection: Selection | None, field: Field) -> Selection | None:
    return None if selection is None else selection.get(field.name)


def _by_tag(read: list[tuple[Field, Shape]], key_of: Any) -> dict[int, tuple[Any, Shape]]:
    return {field.tag: (key_of(field), shape) for field, shape in read if field.tag is not None}
