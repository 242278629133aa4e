"""Parts of a JSON Schema (draft 2020-12), each with a description.

In: descriptions, units. Out: schemas as plain values.

Every object is closed: a field without a description makes it invalid. ``null`` says when a value
is null. It is empty if the description says so itself, and None if the value is never null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "UNIX_TIME",
    "Schema",
    "by_name",
    "count",
    "document",
    "integer",
    "listed",
    "number",
    "ref",
    "struct",
    "text",
    "time_ns",
    "truth",
]

Schema: TypeAlias = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
UNIX_TIME = "ns since 1970-01-01 00:00 UTC"


def text(
    meaning: str, *, null: str | None = None, choices: Iterable[str] = (), form: str | None = None
) -> Schema:
    """Return the schema of a text: one of ``choices``, or in JSON Schema's format ``form``."""
    constraints: Schema = {}
    if values := list(choices):
        constraints["enum"] = values if null is None else [*values, None]
    if form is not None:
        constraints["format"] = form
    return {**_value("string", meaning, null), **constraints}


def integer(meaning: str, *, unit: str = "", null: str | None = None) -> Schema:
    """Return the schema of a whole number."""
    return _value("integer", meaning, null, unit)


def count(meaning: str, *, unit: str = "", null: str | None = None) -> Schema:
    """Return the schema of a whole number of 0 or more."""
    return {**integer(meaning, unit=unit, null=null), "minimum": 0}


def number(meaning: str, *, unit: str = "", null: str | None = None) -> Schema:
    """Return the schema of a number."""
    return _value("number", meaning, null, unit)


def time_ns(meaning: str, *, null: str | None = None) -> Schema:
    """Return the schema of a Unix time in ns."""
    return integer(meaning, unit=UNIX_TIME, null=null)


def truth(meaning: str, *, null: str | None = None) -> Schema:
    """Return the schema of a boolean."""
    return _value("boolean", meaning, null)


def listed(meaning: str, items: Schema, *, null: str | None = None, length: int = -1) -> Schema:
    """Return the schema of a list, of exactly ``length`` items unless that is -1."""
    size = {} if length < 0 else {"minItems": length, "maxItems": length}
    return {**_value("array", meaning, null), "items": items, **size}


def by_name(meaning: str, values: Schema) -> Schema:
    """Return the schema of an object whose keys are names from the capture."""
    return {**_value("object", meaning, None), "additionalProperties": values}


def struct(
    meaning: str,
    fields: Mapping[str, Schema],
    *,
    optional: Iterable[str] = (),
    null: str | None = None,
) -> Schema:
    """Return the schema of an object with these fields and no others."""
    optional_names = set(optional)
    return {
        **_value("object", meaning, null),
        "properties": dict(fields),
        "required": [name for name in fields if name not in optional_names],
        "additionalProperties": False,
    }


def ref(name: str, meaning: str) -> Schema:
    """Return the schema of a value that is described under ``name`` in the same document."""
    return {"$ref": f"#/$defs/{name}", "description": _sentence(meaning)}


def document(title: str, schema: Schema, parts: Mapping[str, Schema] | None = None) -> Schema:
    """Return a complete schema; ``parts`` are the schemas that :func:`ref` refers to."""
    return {
        "$schema": _DRAFT,
        "title": title,
        **schema,
        **({"$defs": dict(parts)} if parts else {}),
    }


def _value(kind: str, meaning: str, null: str | None, unit: str = "") -> Schema:
    words = f"{meaning}; null: {null}." if null else _sentence(meaning)
    return {
        "type": kind if null is None else [kind, "null"],
        "description": f"{words} Unit: {unit}." if unit else words,
    }


def _sentence(words: str) -> str:
    return f"{words.rstrip('.')}."
