"""Small bodies with very many elements: one array of a message, full of its smallest elements.

In: a definition and a version. Out: for each array in it, and for its tag section, a valid body in
which only that array is filled, so that a decoder builds as many objects a byte as possible. Must
not share code with the decoders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

__all__ = ["HostileBody", "hostile_bodies"]

_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
_MIN_UNKNOWN_TAG = 1 << 14
"""Greater than all known tags; each takes three bytes, as do all up to 2^21."""


class HostileBody(NamedTuple):
    """A body, and the path of the array that fills it."""

    path: str
    """The path of the array, or of the struct whose tag section is full."""
    body: bytes


def hostile_bodies(message: MessageSpec, version: int, elements: int) -> Iterator[HostileBody]:
    """Give one body for each array of the message, and one for its tag section."""
    writer = _Writer(message, version)
    for path, steps in writer.arrays(message.struct):
        yield HostileBody(path, writer.struct(message.struct, steps, elements))
    if writer.flexible:
        body = writer.untagged(message.struct, (), 0)
        tags = range(_MIN_UNKNOWN_TAG, _MIN_UNKNOWN_TAG + elements)
        sections = b"".join(_varint(tag) + b"\0" for tag in tags)
        yield HostileBody("_taggedFields", body + _varint(elements) + sections)


class _Writer:
    def __init__(self, message: MessageSpec, version: int) -> None:
        self._message = message
        self._version = version
        self.flexible = message.is_flexible(version)

    def arrays(
        self, struct: Struct, path: str = "", steps: tuple[Field, ...] = ()
    ) -> Iterator[tuple[str, tuple[Field, ...]]]:
        """Give the path to each array, as text and as the fields that lead to it."""
        for field in struct.fields:
            if not field.is_present(self._version):
                continue
            here, inner = f"{path}{field.name}", (*steps, field)
            if field.is_array:
                yield here, inner
            if field.struct is not None:
                yield from self.arrays(field.struct, f"{here}.", inner)

    def struct(self, struct: Struct, steps: tuple[Field, ...], elements: int) -> bytes:
        """Write a struct whose fields are all empty except for the first of ``steps``."""
        made = self.untagged(struct, steps, elements)
        if not self.flexible:
            return made
        step = steps[0] if steps else None
        if step is None or not step.is_tagged(self._version) or step not in struct.fields:
            return made + b"\0"
        assert step.tag is not None
        value = self._field(step, steps, elements)
        return made + b"\x01" + _varint(step.tag) + _varint(len(value)) + value

    def untagged(self, struct: Struct, steps: tuple[Field, ...], elements: int) -> bytes:
        """Write the fields before the tag section."""
        return b"".join(
            self._field(field, steps if steps and steps[0] is field else (), elements)
            for field in struct.fields
            if field.is_present(self._version) and not field.is_tagged(self._version)
        )

    def _field(self, field: Field, steps: tuple[Field, ...], elements: int) -> bytes:
        flexible = field.is_flexible(self._version, self._message.flexible_versions)
        if field.is_array:
            count = 0 if not steps else elements if len(steps) == 1 else 1
            length = _varint(count + 1) if flexible else count.to_bytes(4, "big")
            return length + count * self._element(field, steps[1:], elements)
        if field.struct is not None:
            marker = b"\x01" if field.is_nullable(self._version) else b""
            return marker + self.struct(field.struct, steps[1:], elements)
        return self._primitive(field.type, flexible=flexible)

    def _element(self, field: Field, steps: tuple[Field, ...], elements: int) -> bytes:
        if field.struct is not None:
            return self.struct(field.struct, steps, elements)
        flexible = field.is_flexible(self._version, self._message.flexible_versions)
        return self._primitive(field.element_type, flexible=flexible)

    @staticmethod
    def _primitive(kind: str, *, flexible: bool) -> bytes:
        """Write a number that is not 0, or a text or bytes that are empty but not null."""
        size = _SIZES.get(kind)
        if size is not None:
            return b"\x7f" * size
        return b"\x01" if flexible else bytes(2 if kind == "string" else 4)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
