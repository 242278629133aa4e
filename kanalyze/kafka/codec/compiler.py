"""From the selected fields of a message to the decoder that reads them.

In: a definition, a version, and field paths (:class:`Projection`). Out: a :class:`Program` for the
machine, with the shape of its output, and the :class:`BodyDecoder` that runs it. No byte is seen
here.

Consecutive fixed-size fields that are not selected become one SKIP instruction.
:mod:`kanalyze.kafka.codec.interpreter` gives the same values, slowly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.kafka.codec import opcodes as op
from kanalyze.kafka.codec.machine import Programs
from kanalyze.kafka.codec.values import BodyDecoder, Program, Shape, TapeCursor
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.schema_ast import FIXED_SIZES, NONE, Field, Layout, Struct

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.schema.schema_ast import MessageSpec

Selection: TypeAlias = dict[str, "Selection"]
"""The selected fields of a struct by name; the value of a field that is no struct is empty."""


class _SelectedPaths(NamedTuple):
    paths: tuple[str, ...]
    """Sorted, each once: ``Acks``, ``TopicData.PartitionData.Index``."""
    everything: bool = False
    """Every field, as dicts; ``paths`` is empty."""
    raw_records: bool = False
    """Records fields give their bytes, not a summary."""
    newer: frozenset[str] = frozenset()
    """Those of the paths that were not selected yet when the last format of states was written."""


class Projection(_SelectedPaths):
    """A set of selected fields that is quick to hash. Made by :meth:`of`, or :data:`ALL`."""

    __slots__ = ()

    ALL: ClassVar[Projection]
    """Every field of the version, as nested dicts, records as bytes."""

    @classmethod
    def of(
        cls, *paths: str, raw_records: bool = False, newer: frozenset[str] = frozenset()
    ) -> Projection:
        """Select the fields that ``paths`` name, from the message down, as in its definition.

        The path of a struct, or of an array of structs, selects all its fields. Without paths no
        field is selected: the decoder skips the whole message and gives ``()``. Whether the paths
        exist is checked when the decoder is made.
        """
        return cls(tuple(sorted(set(paths))), raw_records=raw_records, newer=newer)


Projection.ALL = Projection((), everything=True, raw_records=True)


def select(message: MessageSpec, projection: Projection) -> Selection:
    """Return the tree of fields that the projection selects in the message, of any version.

    Raises UsageError for a path that the message doesn't have.
    """
    if projection.everything:
        return _all_fields(message.struct)
    selection: Selection = {}
    for path in projection.paths:
        _add(selection, message, path)
    return selection


def _add(selection: Selection, message: MessageSpec, path: str) -> None:
    struct: Struct | None = message.struct
    at = selection
    names = path.split(".")
    for depth, name in enumerate(names):
        field = None if struct is None else struct.field(name)
        if field is None:
            fields = () if struct is None else struct.fields
            field_names = ", ".join(field.name for field in fields) or "nothing"
            unknown = ".".join(names[: depth + 1])
            raise UsageError(f"{message.name} has no field {unknown!r}; there is: {field_names}")
        struct = field.struct
        at = at.setdefault(name, {})
    if struct is not None:
        at.update(_all_fields(struct))


def _all_fields(struct: Struct) -> Selection:
    return {
        field.name: {} if field.struct is None else _all_fields(field.struct)
        for field in struct.fields
    }


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
                "dict",
                keys=[field.json_name for field, _ in read],
                shapes=[shape for _, shape in read],
                tags=None if tags is None else _by_tag(tags, lambda field: field.json_name),
                unknown=UNKNOWN_TAGS,
            )
        selected = [field for field in struct.fields if field.name in selection]
        index_of = {field.name: index for index, field in enumerate(selected)}
        return Shape(
            "tuple",
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
        self._write(op.JUMP, 0)
        jump = len(self.words) - 1
        for index, (field, inner) in enumerate(selected):
            self._address(table + 2 * index + 1, self._here())
            shape = self._field(field, inner)
            assert shape is not None
            self._write(op.TAG_END)
            read.append((field, shape))
        self._address(jump, self._here())
        self._leave(_TAG_CELLS)
        return read

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
        return Shape(shape)

    def _nested(self, field: Field, struct: Struct, selection: Selection | None) -> Shape | None:
        if not self._layout.is_nullable(field):
            return self.struct(struct, selection)
        self._write(op.NULLABLE, 0 if selection is None else op.WANTED, 0)
        after_at = len(self.words) - 1
        shape = self.struct(struct, selection)
        self._address(after_at, self._here())
        return None if shape is None else Shape("nullable", inner=shape)

    def _sized(self, field: Field, kind: str, *, selected: bool, nullable: bool) -> Shape | None:
        """Write the instructions for a string, for bytes or for records."""
        flags = self._flags(field, selected=selected, nullable=nullable)
        if kind != "string" and not flags & op.COMPACT:
            flags |= op.WIDE
        if kind == "records" and not self._raw_records:
            self._write(op.RECORDS, flags)
            return Shape("records") if selected else None
        self._write(op.TEXT, flags)
        return Shape("text" if kind == "string" else "bytes") if selected else None

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
        return Shape("array", inner=inner) if selected else None

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


_BUILT_IN = Catalog()
_MAX_PROGRAMS = 1 << 12
"""Number of cached programs of built-in messages: all versions of all messages, with about two
projections."""


class Decoders:
    """The decoders made so far; to be used from one thread.

    The programs of built-in messages, which cannot be changed, are written once in a process: all
    tables of decoders share them.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._programs = Programs()
        self._shared_texts = TapeCursor()
        self._decoders: dict[tuple[int, Kind, int, Projection], BodyDecoder] = {}
        self._superseded: dict[tuple[int, Kind, int, Projection], BodyDecoder | None] = {}
        self._older: dict[tuple[int, Kind, int, Projection, bool], BodyDecoder] = {}

    def get(self, api_key: int, kind: Kind, version: int, projection: Projection) -> BodyDecoder:
        """Return the decoder for an API's requests or responses in one version.

        Made on the first call. Raises UsageError for an API or a version that the catalog doesn't
        have, and for a path that the message doesn't have.
        """
        key = (api_key, kind, version, projection)
        decoder = self._decoders.get(key)
        if decoder is None:
            if self._catalog.api(api_key) is None:
                raise UsageError(f"no API has the key {api_key}")
            if self._catalog.is_built_in(api_key, kind):
                program = _built_in_program(api_key, kind, version, projection)
            else:
                message = self._catalog.message(api_key, kind)
                program = program_of(message, version, projection)
            decoder = self._decoders[key] = self._make(program)
        return decoder

    def superseded(
        self, api_key: int, kind: Kind, version: int, projection: Projection
    ) -> BodyDecoder | None:
        """Return the decoder for the layout of :meth:`Catalog.superseded`; None if it has none."""
        key = (api_key, kind, version, projection)
        if key not in self._superseded:
            exists = self._catalog.superseded(api_key, kind, version) is not None
            self._superseded[key] = self._make(_superseded_program(*key)) if exists else None
        return self._superseded[key]

    def older(
        self, api_key: int, kind: Kind, version: int, projection: Projection, *, is_superseded: bool
    ) -> BodyDecoder:
        """Return what loads the bodies in states of the last format; it decodes no message.

        Its values are those of :meth:`get` or :meth:`superseded`, with the defaults of the fields
        that were not selected yet.
        """
        superseded = self._catalog.superseded(api_key, kind, version) if is_superseded else None
        key = (api_key, kind, version, projection, is_superseded)
        if key not in self._older:
            message = superseded or self._catalog.message(api_key, kind)
            older = _without_newer(message, projection)
            self._older[key] = self._make(program_of(older, version, projection))
        return self._older[key]

    def _make(self, program: Program) -> BodyDecoder:
        return BodyDecoder(program, self._programs, self._shared_texts)


def compile_decoder(message: MessageSpec, version: int, projection: Projection) -> BodyDecoder:
    """Make the decoder of one message; raises as :meth:`Decoders.get` does."""
    return BodyDecoder(program_of(message, version, projection), Programs())


@lru_cache(maxsize=_MAX_PROGRAMS)
def _built_in_program(api_key: int, kind: Kind, version: int, projection: Projection) -> Program:
    return program_of(_BUILT_IN.message(api_key, kind), version, projection)


@lru_cache(maxsize=_MAX_PROGRAMS)
def _superseded_program(api_key: int, kind: Kind, version: int, projection: Projection) -> Program:
    message = _BUILT_IN.superseded(api_key, kind, version)
    assert message is not None  # users cannot define superseded layouts: all are built in
    return program_of(message, version, projection)


def _without_newer(message: MessageSpec, projection: Projection) -> MessageSpec:
    """Return a message of which no version has the fields that are newly selected."""
    before = Projection.of(*(path for path in projection.paths if path not in projection.newer))
    struct = _without(message.struct, select(message, projection), select(message, before))
    return message._replace(struct=struct)


def _without(struct: Struct, selection: Selection, before: Selection) -> Struct:
    fields = []
    for field in struct.fields:
        if field.name not in selection:
            fields.append(field)
        elif field.name not in before:
            fields.append(field._replace(versions=NONE))
        elif field.struct is None:
            fields.append(field)
        else:
            inner = _without(field.struct, selection[field.name], before[field.name])
            fields.append(field._replace(struct=inner))
    return struct._replace(fields=tuple(fields))


def program_of(message: MessageSpec, version: int, projection: Projection) -> Program:
    """Write the program of one message; raises as :meth:`Decoders.get` does."""
    if not message.valid_versions.contains(version):
        known = message.valid_versions
        raise UsageError(f"{message.name} has no version {version}; there are: {known}")
    writer = _Writer(Layout(message, version), projection)
    shape = writer.struct(message.struct, select(message, projection))
    writer.end()
    assert shape is not None
    return Program(tuple(writer.words), tuple(writer.relocations), writer.stack_cells, shape)
