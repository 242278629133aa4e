"""Combines two definitions of a message: where both define a version, the upper one decides.

In: two sound definitions. Out: one. In it, every version of the upper definition has the upper
fields, and every other version the lower fields.

Code that reads messages of Kafka's own APIs relies on their fields. So the result has every field
of the lower definition, with the same type and in the same order, even if no version has it any
more. An upper definition that contradicts this is refused.
"""

from __future__ import annotations

from kanalyze.kafka.schema.schema_ast import (
    MAX_VERSION,
    NONE,
    Field,
    MessageSpec,
    Struct,
    VersionRange,
)


class Conflict(ValueError):
    """Two definitions that don't fit together; the text begins with the field's path."""


def overlay(upper: MessageSpec, lower: MessageSpec) -> MessageSpec:
    """Return ``upper`` with the versions of ``lower`` that it doesn't have.

    Raises Conflict if a field has another type, tag or position in ``upper``, or if a range of
    versions would have a gap.
    """
    combined = _Overlay(upper, lower)
    struct = combined.struct(upper.struct, lower.struct, upper.name)
    return upper._replace(
        valid_versions=_closed(combined.all_versions, f"{upper.name}: validVersions"),
        deprecated_versions=_within(upper.deprecated_versions, combined.upper_versions),
        flexible_versions=combined.range_of(
            upper.flexible_versions, lower.flexible_versions, f"{upper.name}: flexibleVersions"
        ),
        struct=struct,
        listeners=upper.listeners or lower.listeners,
    )


class _Overlay:
    """The versions of two definitions, and how ranges of them are put together."""

    def __init__(self, upper: MessageSpec, lower: MessageSpec) -> None:
        self.upper_versions = frozenset(upper.valid_versions.each())
        self.lower_versions = frozenset(lower.valid_versions.each()) - self.upper_versions
        self.all_versions = self.upper_versions | self.lower_versions
        self._newest = max(self.all_versions)

    def range_of(self, upper: VersionRange, lower: VersionRange, label: str) -> VersionRange:
        """Combine two ranges: ``upper`` counts for the upper versions, ``lower`` for the others."""
        versions = {version for version in self.upper_versions if upper.contains(version)}
        versions |= {version for version in self.lower_versions if lower.contains(version)}
        combined = _closed(versions, label)
        if combined.highest == self._newest:
            return combined._replace(highest=MAX_VERSION)  # later versions have it too
        return combined

    def struct(self, upper: Struct, lower: Struct, at: str) -> Struct:
        """Return a struct with the fields of both, each in its order."""
        names = _in_both_orders(upper, lower)
        self._check_order(upper, names, at)
        upper_fields = {field.name: field for field in upper.fields}
        lower_fields = {field.name: field for field in lower.fields}
        fields = []
        for name in names:
            if name not in upper_fields:
                fields.append(self._one_sided(lower_fields[name], at, is_upper=False))
            elif name not in lower_fields:
                fields.append(self._one_sided(upper_fields[name], at, is_upper=True))
            else:
                both = upper_fields[name], lower_fields[name]
                fields.append(self._field(*both, f"{at}.{name}"))
        return Struct(upper.name, tuple(fields))

    def _check_order(self, upper: Struct, names: list[str], at: str) -> None:
        """Refuse an order of fields that is not the one ``upper`` has on the wire."""
        positions = {name: position for position, name in enumerate(names)}
        for version in sorted(self.upper_versions):
            last = -1
            for field in upper.fields:
                if not field.is_present(version) or field.is_tagged(version):
                    continue
                if positions[field.name] < last:
                    before = names[last]
                    raise Conflict(
                        f"{at}.{field.name}: stands before {before} in the built-in definition"
                    )
                last = positions[field.name]

    def _one_sided(self, field: Field, at: str, *, is_upper: bool) -> Field:
        """Return a field that only one of the definitions has, in that one's versions."""
        at = f"{at}.{field.name}"

        def combined(versions: VersionRange) -> VersionRange:
            both = (versions, NONE) if is_upper else (NONE, versions)
            return self.range_of(*both, f"{at}: versions")

        struct = field.struct
        if struct is not None:
            inner = tuple(self._one_sided(child, at, is_upper=is_upper) for child in struct.fields)
            struct = Struct(struct.name, inner)
        return field._replace(
            versions=combined(field.versions),
            nullable_versions=combined(field.nullable_versions),
            tagged_versions=combined(field.tagged_versions),
            struct=struct,
        )

    def _field(self, upper: Field, lower: Field, at: str) -> Field:
        _check_alike(upper, lower, at)
        struct = None
        if upper.struct is not None and lower.struct is not None:
            struct = self.struct(upper.struct, lower.struct, at)
        return upper._replace(
            versions=self.range_of(upper.versions, lower.versions, f"{at}: versions"),
            nullable_versions=self.range_of(
                upper.nullable_versions, lower.nullable_versions, f"{at}: nullableVersions"
            ),
            tag=lower.tag if upper.tag is None else upper.tag,
            tagged_versions=self.range_of(
                upper.tagged_versions, lower.tagged_versions, f"{at}: taggedVersions"
            ),
            struct=struct,
            entity_type=upper.entity_type or lower.entity_type,
        )


def _in_both_orders(upper: Struct, lower: Struct) -> list[str]:
    """Return the names of all fields: ``lower``'s in its order, ``upper``'s own between them."""
    names = [field.name for field in lower.fields]
    position = 0
    for field in upper.fields:
        if field.name in names:
            position = names.index(field.name) + 1
        else:
            names.insert(position, field.name)
            position += 1
    return names


def _check_alike(upper: Field, lower: Field, at: str) -> None:
    if upper.struct is not None and lower.struct is not None:
        is_alike = upper.is_array == lower.is_array
    else:
        is_alike = upper.type == lower.type
    if not is_alike:
        raise Conflict(f"{at}: type {upper.type} is not the built-in {lower.type}")
    if upper.flexible_versions != lower.flexible_versions:
        raise Conflict(f"{at}: flexibleVersions are not the built-in ones")
    if upper.tag != lower.tag and None not in (upper.tag, lower.tag):
        raise Conflict(f"{at}: tag {upper.tag} is not the built-in {lower.tag}")


def _closed(versions: set[int] | frozenset[int], label: str) -> VersionRange:
    if not versions:
        return NONE
    version_range = VersionRange(min(versions), max(versions))
    if len(versions) != version_range.highest - version_range.lowest + 1:
        raise Conflict(f"{label}: with the built-in ones there is a gap in {version_range}")
    return version_range


def _within(versions: VersionRange, bounds: frozenset[int]) -> VersionRange:
    return versions.intersect(VersionRange(min(bounds), max(bounds)))
