"""Reads descriptions of JSON values: a line of text for each field.

In: text. Out: :class:`JsonField` values, from which JSON Schemas and tables for people are made.

A line is ``NAME KIND MEANING``; the fields of an object, or of the objects in a list, are indented
below it. ``NAME?`` may be missing, and ``KIND?`` may be null, which the meaning explains. A unit
stands in brackets. A line ``...NAME`` stands for the lines that are shared under that name, and
``...NAME?`` for the same fields, which may be missing. The field ``-`` describes the items of a
list that are no objects.

Kinds: ``text``, ``text(one|another)``, ``bool``, ``integer``, ``count`` (0 or more), ``number``,
``number(0..1)``, ``time`` (Unix time in ns), ``constant(1)``, ``texts``, ``integers``, ``object``,
``list``, ``list(what an item is)``, ``pair`` (a list of two), ``series(count)`` (a value for each
bucket of time), ``map`` (counts by name), ``map(what a value is)``, ``column`` (a column of the
rows of requests with the same name), ``@NAME`` (a value that is described elsewhere).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LINE = re.compile(
    r"""
    (?P<name> \w+ | - | @\w+ )  (?P<optional> \?? )  \ +
    (?P<kind> @?\w+ )  (?: \( (?P<detail> [^)]* ) \) )?  (?: \[ (?P<unit> \w+ ) \] )?
    (?P<nullable> \?? )  (?: \ + (?P<meaning> .* ) )?
    """,
    re.VERBOSE,
)
_SPREAD = "..."


class JsonField(NamedTuple):
    """A field of a JSON object, or the items of a list."""

    name: str
    kind: str
    meaning: str
    """In words; for a nullable field also what null means."""
    detail: str = ""
    """What stands in parentheses behind the kind."""
    unit: str = ""
    nullable: bool = False
    optional: bool = False
    fields: tuple[JsonField, ...] = ()

    def at(self, path: str) -> JsonField:
        """Return the field inside this one that is named by a path like ``a.b``."""
        found = self
        for name in path.split("."):
            (found,) = (field for field in found.fields if field.name == name)
        return found


def fields_of(text: str, shared: Mapping[str, str] | None = None) -> tuple[JsonField, ...]:
    """Return the fields that a text describes. Raises ValueError for a line that is no field."""
    return _nested(list(_lines(text, shared or {})))


def _lines(text: str, shared: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield each line with its indentation, with shared lines in place."""
    for line in text.splitlines():
        content = line.strip()
        indent = len(line) - len(line.lstrip())
        if content.startswith(_SPREAD):
            name = content.removeprefix(_SPREAD)
            common = list(_lines(shared[name.removesuffix("?")], shared))
            for inner, each in common:
                is_optional = name.endswith("?") and inner == common[0][0]
                yield (
                    indent + inner - common[0][0],
                    each.replace(" ", "? ", 1) if is_optional else each,
                )
        elif content:
            yield indent, content


def _nested(lines: list[tuple[int, str]]) -> tuple[JsonField, ...]:
    """Return the outermost fields of lines, each with the deeper lines that follow it."""
    starts = [number for number, (indent, _) in enumerate(lines) if indent == lines[0][0]]
    ends = [*starts[1:], len(lines)]
    return tuple(
        _field(lines[start][1])._replace(fields=_nested(lines[start + 1 : end]))
        for start, end in zip(starts, ends, strict=False)
    )


def _field(line: str) -> JsonField:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"no field: {line}")
    return JsonField(
        name=match["name"],
        kind=match["kind"],
        meaning=" ".join((match["meaning"] or "").split()),
        detail=match["detail"] or "",
        unit=match["unit"] or "",
        nullable=bool(match["nullable"]),
        optional=bool(match["optional"]),
    )
