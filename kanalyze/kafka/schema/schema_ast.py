"""The values that a message definition is made of, and the layout of one of its versions.

In: text such as ``0-12``, ``3+``, ``4`` or ``none``; what :mod:`kanalyze.kafka.schema.loader` has
read and checked. Out: :class:`VersionRange`; :class:`MessageSpec`, :class:`Struct`,
:class:`Field`; sizes and properties of fields in one version (:class:`Layout`).

The language is Kafka's own (clients/src/main/resources/common/message/README.md in its source).
It imports little: it is loaded at every start.
"""

from __future__ import annotations

from typing import TypeAlias

from kanalyze.common.named_tuples import NamedTuple

MAX_VERSION = 32767
"""The largest version the wire has room for (an int16); stands for the open end of ``3+``."""


class VersionRange(NamedTuple):
    """Consecutive versions ``lowest`` to ``highest``, both included; empty when they cross.

    There is one empty range, :data:`NONE` (text ``none``): (0, -1).
    """

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read ``N``, ``N-M``, ``N+`` or ``none``; raises ValueError on anything else."""
        if text == "none":
            return NONE
        low, dash, high = text.partition("-")
        if dash:
            lowest, highest = _version(low), _version(high)
        elif text.endswith("+"):
            lowest, highest = _version(text[:-1]), MAX_VERSION
        else:
            lowest = highest = _version(text)
        if lowest > highest:
            raise ValueError(f"versions fall: {text!r}")
        return cls(lowest, highest)

    @property
    def is_empty(self) -> bool:
        """Whether no version is in the range."""
        return self.lowest > self.highest

    @property
    def is_open(self) -> bool:
        """Whether the range has no upper end (``3+``)."""
        return self.highest == MAX_VERSION

    def contains(self, version: int) -> bool:
        """Whether ``version`` is in the range."""
        return self.lowest <= version <= self.highest

    def covers(self, other: VersionRange) -> bool:
        """Whether every version of ``other`` is in this range."""
        return other.is_empty or (self.lowest <= other.lowest and other.highest <= self.highest)

    def intersect(self, other: VersionRange) -> VersionRange:
        """Return the versions that are in both ranges."""
        both = VersionRange(max(self.lowest, other.lowest), min(self.highest, other.highest))
        return NONE if both.is_empty else both

    def each(self) -> range:
        """Return the versions, rising; meant for ranges with an upper end."""
        return range(self.lowest, self.highest + 1)

    def __str__(self) -> str:
        if self.is_empty:
            return "none"
        if self.is_open:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NONE = VersionRange(0, -1)
"""The empty range."""


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= MAX_VERSION):
        raise ValueError(f"not a version: {text!r}")
    return int(text)


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


class Layout:
    """One version of one message."""

    def __init__(self, message: MessageSpec, version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        """Whether structs end with a tag section."""

    def untagged(self, struct: Struct) -> tuple[Field, ...]:
        """Return the fields of the struct's body, in wire order."""
        version = self.version
        return tuple(
            field
            for field in struct.fields
            if field.is_present(version) and not field.is_tagged(version)
        )

    def tagged(self, struct: Struct) -> tuple[Field, ...]:
        """Return the fields that may be in the struct's tag section."""
        if not self.flexible:
            return ()
        version = self.version
        return tuple(
            field
            for field in struct.fields
            if field.is_present(version) and field.is_tagged(version)
        )

    def is_flexible(self, field: Field) -> bool:
        """Whether the field's length is a varint."""
        return field.is_flexible(self.version, self.message.flexible_versions)

    def is_nullable(self, field: Field) -> bool:
        """Whether the field may be null."""
        return field.is_nullable(self.version)

    def fixed_size(self, field: Field) -> int | None:
        """Return the bytes an untagged field always takes; None if its size varies."""
        if field.is_array:
            return None
        if field.struct is None:
            return FIXED_SIZES.get(field.type)
        return None if self.is_nullable(field) else self.fixed_struct_size(field.struct)

    def fixed_struct_size(self, struct: Struct) -> int | None:
        """Return the bytes the struct always takes; None if its size varies."""
        if self.flexible:
            return None
        total = 0
        for field in self.untagged(struct):
            size = self.fixed_size(field)
            if size is None:
                return None
            total += size
        return total

    def fixed_element_size(self, field: Field) -> int | None:
        """Return the bytes each element of an array takes; None if its size varies."""
        if field.struct is not None:
            return self.fixed_struct_size(field.struct)
        return FIXED_SIZES.get(field.element_type)

    def min_element_size(self, field: Field) -> int:
        """Return the fewest bytes an element of the array takes, at least 1.

        An element of no bytes counts as one of 1: no message has an array of them, and a count
        of 2^31 needs a bound.
        """
        if field.struct is not None:
            return max(1, self.min_struct_size(field.struct))
        fixed = FIXED_SIZES.get(field.element_type)
        return self._min_length_size(field, field.element_type) if fixed is None else fixed

    def min_struct_size(self, struct: Struct) -> int:
        """Return the fewest bytes the struct takes."""
        least = sum(self._min_size(field) for field in self.untagged(struct))
        return least + 1 if self.flexible else least

    def _min_size(self, field: Field) -> int:
        if field.is_array:
            return self._min_length_size(field, "array")
        if field.struct is not None:
            return 1 if self.is_nullable(field) else self.min_struct_size(field.struct)
        fixed = FIXED_SIZES.get(field.type)
        return self._min_length_size(field, field.type) if fixed is None else fixed

    def _min_length_size(self, field: Field, kind: str) -> int:
        if self.is_flexible(field):
            return 1
        return 2 if kind == "string" else 4
