"""The layout of one version of a message on the wire.

In: definitions. Out: sizes and properties of fields and structs in one version.
"""

from __future__ import annotations

from kanalyze.kafka.schema.schema_ast import FIXED_SIZES, Field, MessageSpec, Struct

__all__ = ["Layout"]


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
