"""Writes the source of a decoder.

In: a message's layout in one version and the tree of wanted fields. Out: the text of a function
``decode(view, pos, base, source)`` (see :data:`kanalyze.protocol.compiler.Decoder`) and the struct
formats it uses. Must not compile or run anything.

How the text is made: fixed-size fields gather in a *run* until something of variable size comes.
The run is then one unpack, or one addition when nothing of it is wanted; the length of what comes
next is its last member. In the text, ``pos`` is where the next byte stands, ``limit`` the end of
``view``. Steps may carry ``pos`` beyond ``limit``: the next read fails then, and the last line
looks.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kanalyze.protocol.language import FIXED_SIZES, Field, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.protocol.layout import Layout
    from kanalyze.protocol.projection import Projection, Selection

__all__ = ["UNKNOWN_TAGS", "DecoderSource"]

UNKNOWN_TAGS = "_taggedFields"
"""Key of the tags that no definition knows, in the dicts of :data:`Projection.ALL`."""

_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_LENGTH_CODES = {"string": ("h", 2)}
_WIDE_LENGTH = ("i", 4)


class DecoderSource:
    """The source of one decoder."""

    def __init__(self, layout: Layout, selection: Selection, projection: Projection) -> None:
        self._layout = layout
        self._as_dicts = projection.everything
        self._raw_records = projection.raw_records
        self._lines: list[str] = []
        self._indent = 0
        self._names = 0
        self._run: list[tuple[str, int, str | None]] = []
        self._inside_tag = 0
        self.formats: dict[str, str] = {}
        """Struct format by the name that the text calls its ``unpack_from``."""
        self._write(selection)
        self.text = "\n".join(self._lines) + "\n"

    # The function and what all of it uses.

    def _write(self, selection: Selection) -> None:
        with self._block("def decode(view, pos, base, source):"):
            self._line("limit = len(view)")
            with self._block("try:"):
                values = self._struct(self._layout.message.struct, selection)
                self._flush()
                self._truncated_if("pos > limit", "the body")
                self._line(f"return {values}, base + pos")
            with self._block("except (StructError, IndexError):"):
                self._line(f"raise Truncated({_ends_within('the body')!r}) from None")

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(head)
        self._indent += 1
        yield
        self._flush()
        self._indent -= 1

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _format(self, text: str) -> str:
        for name, known in self.formats.items():
            if known == text:
                return name
        name = f"unpack{len(self.formats)}"
        self.formats[name] = text
        return name

    def _truncated_if(self, condition: str, what: str) -> None:
        self._line(f"if {condition}: raise Truncated({_ends_within(what)!r})")

    def _malformed(self, reason: str) -> str:
        return f"raise Malformed({reason!r})"

    # Runs of fixed-size values.

    def _fixed(self, code: str, size: int, *, wanted: bool) -> str:
        name = self._name() if wanted else None
        self._run.append((code, size, name))
        return name or ""

    def _flush(self) -> None:
        """Write the run that has gathered."""
        run, self._run = self._run, []
        named = [index for index, (_, _, name) in enumerate(run) if name is not None]
        if named:
            first, last = named[0], named[-1]
            lead = sum(size for _, size, _ in run[:first])
            self._unpack(run[first : last + 1], f"pos + {lead}" if lead else "pos")
        total = sum(size for _, size, _ in run)
        if total:
            self._line(f"pos += {total}")

    def _unpack(self, run: list[tuple[str, int, str | None]], at: str) -> None:
        if len(run) == 1 and run[0][0] == "B":
            self._line(f"{run[0][2]} = view[{at}]")
            return
        names = [name for _, _, name in run if name is not None]
        layout = ">" + "".join(code if name is not None else f"{size}x" for code, size, name in run)
        self._line(f"{', '.join(names)}, = {self._format(layout)}(view, {at})")

    def _byte_or_varint(self) -> str:
        """Write the reading of an unsigned varint, nearly always one byte; ends the run."""
        name = self._fixed("B", 1, wanted=True)
        self._flush()
        self._line(f"if {name} > 127: {name}, pos = varint(view, pos - 1)")
        return name

    # Structs.

    def _struct(self, struct: Struct, selection: Selection | None) -> str:
        """Write the reading of a struct; return the expression of its value.

        The expression holds once the run is flushed. ``selection`` is None when nothing is wanted.
        """
        values = {
            field.name: self._field(field, _inner(selection, field))
            for field in self._layout.untagged(struct)
        }
        if self._layout.flexible:
            if selection is not None and self._as_dicts:
                return self._dict_with_tags(struct, selection, values)
            values.update(self._tags(struct, selection))
        return "" if selection is None else self._made(struct, selection, values)

    def _made(self, struct: Struct, selection: Selection, values: dict[str, str]) -> str:
        if self._as_dicts:
            named = {field.name: field.json_name for field in struct.fields}
            pairs = (f"{named[name]!r}: {value}" for name, value in values.items())
            return "{" + ", ".join(pairs) + "}"
        return _tuple(
            values[field.name] if field.name in values else _default(field, selection[field.name])
            for field in struct.fields
            if field.name in selection
        )

    def _nested(self, field: Field, struct: Struct, selection: Selection | None) -> str:
        if not self._layout.is_nullable(field):
            return self._struct(struct, selection)
        marker = self._fixed("b", 1, wanted=True)
        self._flush()
        name = self._name()
        with self._block(f"if {marker} == 1:"):
            value = self._struct(struct, selection)
            self._flush()
            self._line(f"{name} = {value or None}")
        with self._block(f"elif {marker} == -1:"):
            self._line(f"{name} = None")
        with self._block("else:"):
            self._line(self._malformed(f"{field.name}: neither null nor present"))
        return name

    # Tag sections.

    def _tags(self, struct: Struct, selection: Selection | None) -> dict[str, str]:
        """Write the reading of a tag section; return the wanted fields' expressions."""
        names: dict[str, str] = {}
        wanted = [
            (field, inner)
            for field in self._layout.tagged(struct)
            if (inner := _inner(selection, field)) is not None
        ]
        count = self._fixed("B", 1, wanted=True)
        self._flush()
        if not wanted:
            self._line(f"if {count}: pos = skip_tags(view, pos - 1, limit)")
            return names
        for field, inner in wanted:
            names[field.name] = self._name()
            self._line(f"{names[field.name]} = {_default(field, inner)}")
        self._tag_loop(count, wanted, lambda field: names[field.name], unknown=None)
        return names

    def _dict_with_tags(self, struct: Struct, selection: Selection, values: dict[str, str]) -> str:
        count = self._fixed("B", 1, wanted=True)
        self._flush()
        made = self._name()
        self._line(f"{made} = {self._made(struct, selection, values)}")
        wanted = [(field, selection[field.name]) for field in self._layout.tagged(struct)]
        if not wanted:
            tags = self._name()
            with self._block(f"if {count}:"):
                self._line(f"{tags}, pos = read_tags(view, pos - 1, limit)")
                self._line(f"if {tags}: {made}[{UNKNOWN_TAGS!r}] = {tags}")
            return made
        self._tag_loop(count, wanted, lambda field: f"{made}[{field.json_name!r}]", unknown=made)
        return made

    def _tag_loop(
        self,
        count: str,
        wanted: list[tuple[Field, Selection]],
        target: Callable[[Field], str],
        unknown: str | None,
    ) -> None:
        """Write the loop over tags; ``unknown`` is the dict that unknown ones go into."""
        last, end = self._name(), self._name()
        self._inside_tag += 1
        with self._block(f"if {count}:"):
            self._line(f"if {count} > 127: {count}, pos = varint(view, pos - 1)")
            self._line(f"{last} = -1")
            with self._block(f"for _ in range({count}):"):
                tag = self._byte_or_varint()
                self._line(f"if {tag} <= {last}: {self._malformed('tags do not rise')}")
                self._line(f"{last} = {tag}")
                size = self._byte_or_varint()
                self._line(f"{end} = pos + {size}")
                self._truncated_if(f"{end} > limit", "a tagged field")
                branch = "if"
                for field, selection in wanted:
                    with self._block(f"{branch} {tag} == {field.tag}:"):
                        self._tagged_field(field, selection, target(field), end)
                    branch = "elif"
                self._unknown_tag(tag, end, unknown)
        self._inside_tag -= 1

    def _tagged_field(self, field: Field, selection: Selection, target: str, end: str) -> None:
        value = self._field(field, selection)
        self._flush()
        reason = f"{field.name}: its bytes are not those its size says"
        self._line(f"if pos != {end}: {self._malformed(reason)}")
        self._line(f"{target} = {value}")

    def _unknown_tag(self, tag: str, end: str, unknown: str | None) -> None:
        with self._block("else:"):
            if unknown is not None:
                pair = f"({tag}, bytes(view[pos:{end}]))"
                self._line(f"{unknown}.setdefault({UNKNOWN_TAGS!r}, []).append({pair})")
            self._line(f"pos = {end}")

    # Fields.

    def _field(self, field: Field, selection: Selection | None) -> str:
        """Write the reading of a field; return the expression of its value, "" if not wanted."""
        if field.is_array:
            return self._array(field, selection)
        if field.struct is not None:
            return self._nested(field, field.struct, selection)
        size = FIXED_SIZES.get(field.type)
        wanted = selection is not None
        if size is not None:
            return self._fixed(_CODES[field.type], size, wanted=wanted)
        nullable = self._layout.is_nullable(field)
        return self._sized(field, field.type, wanted=wanted, nullable=nullable)

    def _sized(self, field: Field, kind: str, *, wanted: bool, nullable: bool) -> str:
        """Write the reading of a string, bytes or records."""
        if not wanted:
            self._skip_sized(field, kind, nullable=nullable)
            return ""
        name = self._name()

        def value(length: str) -> None:
            if kind == "records":
                self._records(name, length)
            else:
                self._slice(name, length, kind)

        self._with_length(field, kind, name, value, nullable=nullable)
        return name

    def _slice(self, name: str, length: str, kind: str) -> None:
        end = self._name()
        self._line(f"{end} = pos + {length}")
        self._truncated_if(f"{end} > limit", "text" if kind == "string" else kind)
        if kind == "string":
            self._line(f"{name} = str(view[pos:{end}], 'utf-8', 'backslashreplace')")
        else:
            self._line(f"{name} = bytes(view[pos:{end}])")
        self._line(f"pos = {end}")

    def _records(self, name: str, length: str) -> None:
        if self._raw_records:
            self._line(f"{name} = read_raw_records(view, pos, {length}, base, source)")
        else:
            self._truncated_if(f"source is None and pos + {length} > limit", "records")
            self._line(f"{name} = peek_records(view, pos, {length}, base, source)")
        self._line(f"pos += {length}")
        self._next_window("records")

    def _next_window(self, kind: str) -> None:
        """Write the step to the frame's next bytes, where what was stepped over went past these.

        Not in a tag section, whose end is known by its position in this view.
        """
        if self._inside_tag:
            self._truncated_if("pos > limit", kind)
            return
        with self._block("if pos >= limit:"):
            with self._block("if source is not None:"):
                self._line("base += pos; view = source.window(base); pos = 0; limit = len(view)")
            self._line(f"elif pos > limit: raise Truncated({_ends_within(kind)!r})")

    def _skip_sized(self, field: Field, kind: str, *, nullable: bool) -> None:
        if self._layout.is_flexible(field):
            length = self._byte_or_varint()
            self._line(f"if {length}: pos += {length} - 1")
            if not nullable:
                self._line(f"else: {self._malformed(f'{field.name}: null')}")
        else:
            code, size = _LENGTH_CODES.get(kind, _WIDE_LENGTH)
            length = self._fixed(code, size, wanted=True)
            self._flush()
            self._line(f"if {length} > 0: pos += {length}")
            reason = self._malformed(f"{field.name}: negative length")
            self._line(f"elif {length} < {-1 if nullable else 0}: {reason}")
        if kind != "string":
            self._next_window(kind)

    def _with_length(
        self,
        field: Field,
        kind: str,
        name: str | None,
        value: Callable[[str], None],
        *,
        nullable: bool,
    ) -> None:
        """Write the reading of a length, and what ``value`` writes for one that is not null.

        ``name`` is what becomes None for null; None when nobody wants to know.
        """
        if self._layout.is_flexible(field):
            length = self._byte_or_varint()
            with self._block(f"if {length}:"):
                self._line(f"{length} -= 1")
                value(length)
            if not nullable:
                self._line(f"else: {self._malformed(f'{field.name}: null')}")
            elif name is not None:
                self._line(f"else: {name} = None")
            return
        code, size = _LENGTH_CODES.get(kind, _WIDE_LENGTH)
        length = self._fixed(code, size, wanted=True)
        self._flush()
        with self._block(f"if {length} >= 0:"):
            value(length)
        if nullable and name is not None:
            self._line(f"elif {length} == -1: {name} = None")
        below = f"elif {length} != -1:" if nullable and name is None else "else:"
        self._line(f"{below} {self._malformed(f'{field.name}: negative length')}")

    # Arrays.

    def _array(self, field: Field, selection: Selection | None) -> str:
        name = self._name()
        wanted = selection is not None

        def value(length: str) -> None:
            fixed = self._layout.fixed_element_size(field)
            if fixed and not wanted:
                self._line(f"pos += {length} * {fixed}")
                return
            self._check_count(field, length)
            if fixed and field.struct is None:
                self._fixed_elements(field, name, length, fixed)
            else:
                self._elements(field, name, length, selection)

        nullable = self._layout.is_nullable(field)
        self._with_length(field, "array", name if wanted else None, value, nullable=nullable)
        return name if wanted else ""

    def _check_count(self, field: Field, length: str) -> None:
        """Write the look whether there are bytes for so many elements, before there is a list."""
        least = self._layout.min_element_size(field)
        need = length if least == 1 else f"{length} * {least}"
        if self._layout.holds_records(field) and not self._inside_tag:
            check = f"check_frame_holds({need}, pos, base, source)"
            self._line(f"if {need} > limit - pos: {check}")
        else:
            self._truncated_if(f"{need} > limit - pos", "an array")

    def _fixed_elements(self, field: Field, name: str, length: str, size: int) -> None:
        if field.element_type == "uuid":
            self._line(f"{name} = read_uuids(view, pos, {length})")
        else:
            code = _CODES[field.element_type]
            self._line(f"{name} = list(unpack_from(f'>{{{length}}}{code}', view, pos))")
        self._line(f"pos += {length} * {size}")

    def _elements(self, field: Field, name: str, length: str, selection: Selection | None) -> None:
        wanted = selection is not None
        if wanted:
            self._line(f"{name} = []")
        # Most arrays on this wire have one element: no range and no iterator to be made for it.
        with self._block(f"while {length}:"):
            self._line(f"{length} -= 1")
            if field.struct is not None:
                value = self._struct(field.struct, selection)
            else:
                value = self._sized(field, field.element_type, wanted=wanted, nullable=False)
            self._flush()
            if wanted:
                self._line(f"{name}.append({value})")


def _ends_within(what: str) -> str:
    return f"the bytes end within {what}"


def _inner(selection: Selection | None, field: Field) -> Selection | None:
    return None if selection is None else selection.get(field.name)


def _default(field: Field, selection: Selection) -> str:
    """Return the expression of a field that is not on the wire."""
    if field.has_null_default:
        return "None"
    if field.is_array:
        return "[]"
    if field.struct is not None:
        return _tuple(
            _default(inner, selection[inner.name])
            for inner in field.struct.fields
            if inner.name in selection
        )
    return repr(field.default)


def _tuple(values: Iterator[str]) -> str:
    made = list(values)
    return f"({made[0]},)" if len(made) == 1 else f"({', '.join(made)})"
