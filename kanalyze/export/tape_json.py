"""Decoded bodies as JSON.

In: :class:`~kanalyze.kafka.codec.values.EncodedFields` and the :class:`Form` of their shape. Out:
text.
"""

from __future__ import annotations

import base64
import json
import math
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from kanalyze.decoding.secrets import HIDDEN, hidden_in, hide
from kanalyze.decoding.values import uuid_text
from kanalyze.export.text import TextBuffer
from kanalyze.kafka.codec.values import EncodedFields, TapeCursor

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.opcodes import RECORDS_CELLS
    from kanalyze.kafka.codec.values import (
        AS_ARRAY,
        AS_BOOL,
        AS_DICT,
        AS_NULLABLE,
        AS_NUMBER,
        AS_RECORDS,
        AS_TEXT,
        AS_UUID,
    )

QUOTE, BACKSLASH, COMMA = 0x22, 0x5C, 0x2C
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = 0x7B, 0x7D, 0x5B, 0x5D
FIRST_PLAIN, LAST_PLAIN = 0x20, 0x7E

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.decoding.secrets import RedactionPlan
    from kanalyze.kafka.codec.values import Shape

json_line: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
"""Convert a value to one line of ASCII JSON."""

_PAIR = Struct(">qq").pack


def bytes_text(value: bytes | str) -> str:
    """Return bytes as a JSON string of base64. A text replaces bytes that are hidden."""
    return value if isinstance(value, str) else base64.b64encode(value).decode("ascii")


class Form:
    """How a value on the tape is written.

    Attributes:
        kind: the kind of its shape.
        name: of a field: its key in decoded values.
        key: of a field: the JSON in front of its value; ``null_key``: in front of null.
        place: of a field: its index among all fields of its struct.
        inner: the form of an array's elements, or of a struct that may be null.
        fields: of a struct: its fields in the order of the tape; ``tags``: its tagged fields by
            tag, None if it has no tag section.
        is_default: of a tagged field: a function that returns true for the default value, which is
            not written.
        secrets: of a struct: the secrets in it; None if it has none.
    """

    def __init__(self, shape: Shape, secrets: RedactionPlan | None = None) -> None:
        self.shape = shape
        self.kind = shape.kind
        self.secrets = secrets
        self.inner: Form | None = None
        self.fields: list[Form] = []
        self.tags: dict[int, Form] | None = None
        self.name = ""
        self.place = 0
        self.key = self.null_key = b""
        self.is_default: Callable[[Any], bool] | None = None

    def become_field(self, name: str, written: str, place: int) -> None:
        """Make this a field's form: ``name`` in decoded values, ``written`` in the JSON text."""
        self.name = name
        self.place = place
        self.key = f"{json_line(written)}:".encode("ascii")
        self.null_key = f"{json_line(name)}:".encode("ascii")


@lru_cache(4096)  # few topics, by the hundred thousand
def _uuid_json(high: int, low: int) -> bytes:
    """Return the text of a UUID, given its two 64-bit halves."""
    return _any(uuid_text(_PAIR(high, low)))


_NULL, _TRUE, _FALSE = b"null", b"true", b"false"


class TapeJson(TapeCursor):
    """Writes values as JSON. It must not be used by several threads at once."""

    def __init__(self) -> None:
        super().__init__()
        self._text: TextBuffer = TextBuffer()
        self._hides = False

    def written(self, encoded: EncodedFields, form: Form) -> str:
        """Return a decoded body as JSON in the given form."""
        self._encoded = encoded
        self.begin(encoded)
        self._hides = False
        self._text.used = 0
        self._value(form)
        return str(self._text.drain(), "ascii")

    # -- values -----------------------------------------------------------------------------------

    def _value(self, form: Form) -> None:  # noqa: C901 - one switch
        kind = form.kind
        if kind == AS_NUMBER:
            self._text.put_number(self.number())
        elif kind == AS_TEXT:
            size = self.number()
            if size < 0:
                self._text.put_bytes(_NULL)
            else:
                self._quoted(self.arena_at + self.number(), size)
        elif kind == AS_DICT:
            if form.secrets is None:
                self._struct(form)
            else:
                self._struct_slowly(form)
        elif kind == AS_ARRAY:
            self._array(form)
        elif kind == AS_UUID:
            high = self.number()
            self._text.put_bytes(_uuid_json(high, self.number()))
        elif kind == AS_RECORDS:
            size = self.number()
            if size < 0:
                self._text.put_bytes(_NULL)
            else:
                self._text.put_number(size)
                self.at += RECORDS_CELLS - 1
        elif kind == AS_NULLABLE:
            if self.number() < 0:
                self._text.put_bytes(_NULL)
            else:
                self._value(_inner(form))
        elif kind == AS_BOOL:
            self._text.put_bytes(_TRUE if self.number() != 0 else _FALSE)
        else:
            self._text.put_bytes(_any(_plain(self._python(form.shape))))

    def _array(self, form: Form) -> None:
        size = self.number()
        if size < 0:
            self._text.put_bytes(_NULL)
            return
        inner = _inner(form)
        self._text.put_byte(OPEN_LIST)
        for i in range(size):
            if i > 0:
                self._text.put_byte(COMMA)
            self._value(inner)
        self._text.put_byte(CLOSE_LIST)

    def _struct(self, form: Form) -> None:
        """Write a struct that has nothing to hide."""
        begin, used = self.at, self._text.used
        fields = form.fields
        self._text.put_byte(OPEN)
        for i in range(len(fields)):
            field = fields[i]
            if i > 0:
                self._text.put_byte(COMMA)
            self._field(field)
        if form.tags is not None and self.number() > 0:
            # Tagged fields are written in the order of the definition: start the struct again.
            self.at, self._text.used = begin, used
            self._struct_slowly(form)
            return
        self._text.put_byte(CLOSE)

    def _field(self, form: Form) -> None:
        is_null = form.kind == AS_RECORDS and self.tape[self.at] < 0
        self._text.put_bytes(form.null_key if is_null else form.key)
        self._value(form)

    def _struct_slowly(self, form: Form) -> None:
        """Write a struct with its secrets hidden, and its tagged fields in order."""
        outer_hides = self._hides
        hidden = self._hidden_in(form)
        pieces = [(field.place, self._piece(field, hidden)) for field in form.fields]
        unknown: list[dict[str, Any]] = []
        if form.tags is not None:
            for _ in range(self.number()):
                tag = self.number()
                field_form = form.tags.get(tag)
                if field_form is None:
                    unknown.append(self._unknown(tag, form))
                elif not self._passes_default(field_form, hidden):
                    pieces.append((field_form.place, self._piece(field_form, hidden)))
        self._hides = outer_hides
        texts = [text for _, text in sorted(pieces)]
        if unknown:
            texts.append(f'"unknownTaggedFields":{json_line(unknown)}'.encode("ascii"))
        self._text.put_bytes(b"{%b}" % b",".join(texts))

    def _hidden_in(self, form: Form) -> frozenset[str]:
        """Return the names of fields to hide in a struct; sets ``_hides`` for inner structs."""
        if form.secrets is None:
            return frozenset()
        begin = self.at
        hidden, self._hides = hidden_in(
            self._python(form.shape), form.secrets, force=bool(self._hides)
        )
        self.at = begin
        return hidden

    def _piece(self, form: Form, hidden: frozenset[str]) -> bytes:
        """Read a field from the tape; return its key and its value as JSON."""
        text = self._text
        begin = text.used
        if form.name in hidden:
            self._python(form.shape)
            return form.key + _any(HIDDEN)
        self._field(form)
        piece = bytes(text.data[begin : text.used])
        text.used = begin
        return piece

    def _passes_default(self, form: Form, hidden: frozenset[str]) -> bool:
        """Skip a tagged field with its default value; return true if it was skipped."""
        begin = self.at
        value = self._python(form.shape)
        if form.name not in hidden:
            inner = form if form.inner is None else form.inner
            if inner.secrets is not None:
                hide(value, inner.secrets, force=bool(self._hides))
            if form.is_default is not None and form.is_default(value):
                return True
        self.at = begin
        return False

    def _unknown(self, tag: int, form: Form) -> dict[str, Any]:
        """Read an unknown tagged field from the tape."""
        size = self.number()
        begin = self.arena_at + self.number()
        data = bytes(self.arena[begin : begin + size])
        return {"tag": tag, "data": bytes_text(data if form.secrets is None else HIDDEN)}

    def _python(self, shape: Shape) -> Any:
        """Read a value from the tape as a Python value."""
        encoded = self._encoded
        reader = encoded.reader
        part = EncodedFields(reader, shape, encoded.tape)
        part.at, part.arena_at = self.at, self.arena_at
        value = part.values()
        self.at = reader.at
        return value

    # -- texts ------------------------------------------------------------------------------------

    def _quoted(self, begin: int, size: int) -> None:
        """Write bytes of the arena as a JSON string; they are copied unless one must be escaped."""
        text = self._text
        text.make_room(size + 2)
        at = text.used + 1
        for i in range(size):
            byte = self.arena[begin + i]
            if byte < FIRST_PLAIN or byte > LAST_PLAIN or byte in (QUOTE, BACKSLASH):
                data = bytes(self.arena[begin : begin + size])
                text.put_bytes(_any(str(data, "utf-8", "backslashreplace")))
                return
            text.data[at + i] = byte
        text.data[at - 1] = QUOTE
        text.data[at + size] = QUOTE
        text.used = at + size + 1


def _any(value: Any) -> bytes:
    return json_line(value).encode("ascii")


def _inner(form: Form) -> Form:
    assert form.inner is not None
    return form.inner


def _plain(value: Any) -> Any:
    """Return bytes or a float as a value that JSON can represent."""
    if isinstance(value, bytes):
        return bytes_text(value)
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
