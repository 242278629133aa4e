"""The values a message definition is made of, once it has been read and checked.

In: nothing (see :mod:`kanalyze.kafka.schema.loader`, which makes them). Out: :class:`MessageSpec`,
:class:`Struct`, :class:`Field`.

The language is Kafka's own (clients/src/main/resources/common/message/README.md in its source).
"""

from __future__ import annotations

from typing import TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.schema.versions import NONE, VersionRange

__all__ = [
    "FIXED_SIZES",
    "PRIMITIVES",
    "ZERO_UUID",
    "Default",
    "Field",
    "MessageSpec",
    "Struct",
]

FIXED_SIZES = {
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
"""Bytes that a value of each fixed-size type takes."""

PRIMITIVES = frozenset(FIXED_SIZES) | {"string", "bytes", "records"}

ZERO_UUID = bytes(16)
"""The UUID that means "no UUID"."""

Default: TypeAlias = bool | int | float | str | bytes | None
"""A default value; None is null. Of an array or a struct it is None: see :attr:`Field.default`."""


class Field(NamedTuple):
    """One field of a struct."""

    name: str
    """As in Kafka's definitions, mostly UpperCamelCase."""
    type: str
    """A primitive, a struct's name, or either with ``[]`` before it."""
    versions: VersionRange
    nullable_versions: VersionRange = NONE
    tag: int | None = None
    """Number in the tag section, where the field is tagged."""
    tagged_versions: VersionRange = NONE
    flexible_versions: VersionRange | None = None
    """None if those of the message apply."""
    default: Default = None
    """The value if the field is not on the wire. None means null if ``has_null_default``;
    otherwise an empty array, or a struct whose fields have their defaults."""
    has_null_default: bool = False
    struct: Struct | None = None
    """The struct, or the struct in the array."""
    map_key: bool = False
    ignorable: bool = False
    entity_type: str | None = None
    about: str = ""

    @property
    def is_array(self) -> bool:
        """Whether the field is an array."""
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type without ``[]``."""
        return self.type.removeprefix("[]")

    @property
    def json_name(self) -> str:
        """The name in Kafka's JSON: the first letter in lower case."""
        return self.name[:1].lower() + self.name[1:]

    def is_present(self, version: int) -> bool:
        """Whether ``version`` has the field, tagged or not."""
        return self.versions.contains(version)

    def is_tagged(self, version: int) -> bool:
        """Whether ``version`` has the field in the tag section."""
        return self.tagged_versions.contains(version)

    def is_nullable(self, version: int) -> bool:
        """Whether ``version`` allows null."""
        return self.nullable_versions.contains(version)

    def is_flexible(self, version: int, message_versions: VersionRange) -> bool:
        """Whether lengths are varints, given the message's ``flexibleVersions``."""
        own = self.flexible_versions
        return (message_versions if own is None else own).contains(version)


class Struct(NamedTuple):
    """A named run of fields."""

    name: str
    fields: tuple[Field, ...]

    def field(self, name: str) -> Field | None:
        """Return the field of that name; None when there is none."""
        return next((field for field in self.fields if field.name == name), None)


class MessageSpec(NamedTuple):
    """One message: a request, a response, a header, or data that travels inside another."""

    name: str
    kind: str
    """``request``, ``response``, ``header`` or ``data``; Kafka's other kinds are kept as read."""
    api_key: int | None
    """None unless a request or a response."""
    valid_versions: VersionRange
    deprecated_versions: VersionRange
    flexible_versions: VersionRange
    struct: Struct
    """The message's own fields; its name is the message's."""
    listeners: tuple[str, ...] = ()
    latest_version_unstable: bool = False
    releases: tuple[str, ...] = ()
    """The only releases that used this layout; empty if the layout is the current one."""

    def is_flexible(self, version: int) -> bool:
        """Whether ``version`` has tag sections and varint lengths."""
        return self.flexible_versions.contains(version)
