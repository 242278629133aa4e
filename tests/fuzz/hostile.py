"""Small bodies with very many elements: one array of a message, full of its smallest elements.

In: a definition and a version. Out: for each array in it, and for its tag section, a valid body in
which only that array is filled, so that a decoder builds as many objects a byte as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kanalyze.kafka.schema.schema_ast import FIXED_SIZES
from tests.support.messages import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

_SMALLEST = {"bool": True, "float64": 1.5, "string": "", "bytes": b"", "records": b""}
_MIN_UNKNOWN_TAG = 1 << 14
"""Greater than all known tags; each takes three bytes, as do all up to 2^21."""


class HostileBody(NamedTuple):
    """A body, and the path of the array that fills it."""

    path: str
    """The path of the array, or of the struct whose tag section is full."""
    body: bytes


def hostile_bodies(message: MessageSpec, version: int, elements: int) -> Iterator[HostileBody]:
    """Give one body for each array of the message, and one for its tag section."""
    write = Writer(message, version).write
    for steps in _arrays(message.struct, version):
        path = ".".join(step.name for step in steps)
        yield HostileBody(path, write(_values(message.struct, version, steps, elements)))
    if message.is_flexible(version):
        tags = range(_MIN_UNKNOWN_TAG, _MIN_UNKNOWN_TAG + elements)
        values = _values(message.struct, version, (), 0)
        yield HostileBody(
            "_taggedFields", write({**values, "_taggedFields": dict.fromkeys(tags, b"")})
        )


def _arrays(
    struct: Struct, version: int, steps: tuple[Field, ...] = ()
) -> Iterator[tuple[Field, ...]]:
    """Give the fields that lead to each array."""
    for field in struct.fields:
        if field.is_present(version):
            if field.is_array:
                yield (*steps, field)
            if field.struct is not None:
                yield from _arrays(field.struct, version, (*steps, field))


def _values(
    struct: Struct, version: int, steps: tuple[Field, ...], elements: int
) -> dict[str, Any]:
    """Return a struct whose fields are all empty except for the first of ``steps``."""
    return {
        field.json_name: _value(field, version, steps[1:] if is_step else None, elements)
        for field in struct.fields
        if (is_step := field in steps[:1]) or not field.is_tagged(version)
        if field.is_present(version)
    }


def _value(field: Field, version: int, rest: tuple[Field, ...] | None, elements: int) -> Any:
    """Return a value of a field; ``rest`` are the steps after it, None if it is none of them."""
    if field.struct is not None:
        value: Any = _values(field.struct, version, rest or (), elements)
    else:
        kind = field.element_type
        number = b"\x7f" * FIXED_SIZES.get(kind, 0)
        value = _SMALLEST.get(kind, number if kind == "uuid" else int.from_bytes(number, "big"))
    if not field.is_array:
        return value
    return [value] * (0 if rest is None else 1 if rest else elements)
