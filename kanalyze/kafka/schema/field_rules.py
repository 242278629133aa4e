"""The rules that fields of a message definition keep: defaults, nulls, tags, map keys.

In: fields as read, a default as written. Out: the parsed default, or the first rule that is broken,
as data.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kanalyze.kafka.schema.schema_ast import FIXED_SIZES, ZERO_UUID, Default, Field
from kanalyze.kafka.schema.versions import VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["check_fields", "parse_default"]

_INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
_INTEGER_TEXT = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})\Z")
_ENTITY_TYPES = {
    "transactionalId": "string",
    "producerId": "int64",
    "groupId": "string",
    "topicName": "string",
    "brokerId": "int32",
}
_IMPLIED: dict[str, Default] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}


def parse_default(kind: str, declared: object) -> tuple[Default, bool]:
    """Return the default of a field of type ``kind`` and whether it is null.

    ``declared`` is the definition's ``default``: a text, a JSON number or boolean, or None if there
    is none. Raises ValueError if it is no value of the type.
    """
    if declared is None:
        return (0 if kind in _INTEGERS else _IMPLIED.get(kind)), kind == "records"
    text = str(declared).lower() if isinstance(declared, bool) else str(declared)
    is_null = text == "null"
    if is_null and kind not in FIXED_SIZES:
        return None, True
    value = _parse_value(kind, text)
    return value, False


def _parse_value(kind: str, text: str) -> Default:
    if kind in _INTEGERS:
        return _parse_integer(kind, text)
    if kind == "string":
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "float64" and _is_float(text):
        return float(text)
    if text == "" and kind in ("bytes", "uuid"):
        return _IMPLIED[kind]
    raise ValueError(f"default {text!r} is no value of type {kind}")


def _parse_integer(kind: str, text: str) -> int:
    lowest, highest = _INTEGERS[kind]
    if _INTEGER_TEXT.match(text):
        value = int(text, 16 if "x" in text.lower() else 10)
        if lowest <= value <= highest:
            return value
    raise ValueError(f"default {text!r} is no value of type {kind}")


def _is_float(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def check_fields(
    fields: Sequence[Field], struct_versions: VersionRange, flexible: VersionRange
) -> tuple[str, str] | None:
    """Return the name of the first field that breaks a rule, and the rule; None if none does.

    ``struct_versions`` are the versions that have the struct, ``flexible`` the message's flexible
    ones.
    """
    problems = (*_repeated_names(fields), *_tag_gaps(fields))
    for problem in problems:
        return problem
    for field in fields:
        for reason in _field_problems(field, struct_versions, flexible):
            return field.name, reason
    return None


def _repeated_names(fields: Sequence[Field]) -> Iterator[tuple[str, str]]:
    names: set[str] = set()
    for field in fields:
        if field.json_name in names:
            yield field.name, "a field of that name stands in the struct already"
        names.add(field.json_name)


def _tag_gaps(fields: Sequence[Field]) -> Iterator[tuple[str, str]]:
    tags: dict[int, str] = {}
    for field in fields:
        if field.tag is None:
            continue
        if field.tag in tags:
            yield field.name, f"tag {field.tag} is taken by {tags[field.tag]}"
        tags[field.tag] = field.name
    for expected, tag in enumerate(sorted(tags)):
        if tag != expected:
            yield tags[tag], f"tag {tag} is used before tag {expected}"
            return


def _field_problems(
    field: Field, struct_versions: VersionRange, flexible: VersionRange
) -> Iterator[str]:
    yield from _null_problems(field)
    yield from _tag_problems(field, struct_versions, flexible)
    if field.flexible_versions is not None and field.type not in ("string", "bytes"):
        yield "only a field of type string or bytes may have flexibleVersions of its own"
    if field.map_key and (field.is_array or field.struct is not None):
        yield f"a field of type {field.type} cannot be a map key"
    yield from _entity_problems(field)


def _null_problems(field: Field) -> Iterator[str]:
    nullable = field.nullable_versions
    if not nullable.is_empty and field.element_type in FIXED_SIZES and not field.is_array:
        yield f"a field of type {field.type} cannot be nullable"
    if not nullable.is_empty and field.versions.intersect(nullable).is_empty:
        # Kafka's own definitions sometimes go beyond ``versions``, which has no effect.
        yield f"nullableVersions {nullable} lie outside versions {field.versions}"
    if field.has_null_default and field.type != "records" and nullable.is_empty:
        yield "the default is null, but no version is nullable"


def _tag_problems(
    field: Field, struct_versions: VersionRange, flexible: VersionRange
) -> Iterator[str]:
    tagged = field.tagged_versions
    if field.tag is None:
        if not tagged.is_empty:
            yield "taggedVersions without a tag"
        return
    if tagged.is_empty:
        yield "a tag without taggedVersions"
    if not tagged.is_open:
        yield "taggedVersions must be open-ended"
    if not field.versions.covers(tagged):
        yield f"taggedVersions {tagged} lie outside versions {field.versions}"
    if not flexible.covers(tagged.intersect(struct_versions)):
        yield f"taggedVersions {tagged} need flexible versions, which are {flexible}"
    nullable = field.nullable_versions.intersect(tagged)
    if nullable not in (tagged, field.nullable_versions.intersect(VersionRange(0, -1))):
        yield "either all tagged versions must be nullable, or none"


def _entity_problems(field: Field) -> Iterator[str]:
    if field.entity_type is None:
        return
    expected = _ENTITY_TYPES.get(field.entity_type)
    if expected is None:
        yield f"unknown entityType {field.entity_type!r}"
    elif field.element_type != expected:
        yield f"entityType {field.entity_type} is for type {expected}, not {field.type}"
