"""Plans how to walk the body of one version of a message: its fields as steps.

In: definitions. Out: :data:`Steps`. This module must not see any bytes.

A step is a tuple of a code and its operands:

- ``FIXED``, numbers: their size in bytes.
- ``SIZED``, content with a length: the form of the length, the rule of the content.
- ``ARRAY``: the form of the count, the steps of an element.
- ``FIXED_ARRAY``, an array of numbers: the form of the count, the size of an element in bytes.
- ``STRUCT``: its steps, which are merged into the steps around it.
- ``NULLABLE``, a struct that may be null: its steps.
- ``TAGS``, a section of tagged fields: the steps of each field, by tag.
- ``ID``, 16 bytes: no operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.anonymization.rules import Rule, rule_of
from kanalyze.kafka.schema.schema_ast import FIXED_SIZES

if TYPE_CHECKING:
    from kanalyze.kafka.schema.layout import Layout
    from kanalyze.kafka.schema.schema_ast import Field, Struct

__all__ = [
    "ARRAY",
    "COMPACT",
    "FIXED",
    "FIXED_ARRAY",
    "ID",
    "NULLABLE",
    "SHORT",
    "SIZED",
    "STRUCT",
    "TAGS",
    "WIDE",
    "Step",
    "Steps",
    "steps_of",
]

FIXED, SIZED, ARRAY, FIXED_ARRAY, STRUCT, NULLABLE, TAGS, ID = range(8)
SHORT, WIDE, COMPACT = range(3)
"""Forms of a length or count: 2 bytes, 4 bytes, a varint."""
Step: TypeAlias = tuple[Any, ...]
Steps: TypeAlias = "tuple[Step, ...]"


def steps_of(layout: Layout, struct: Struct) -> Steps:
    """Return the steps of a struct."""
    steps: list[Step] = []
    for field in layout.untagged(struct):
        field_step = _field(layout, struct.name, field)
        for step in field_step[1] if field_step[0] == STRUCT else (field_step,):
            _add(steps, step)
    if layout.flexible:
        tagged = {
            field.tag: (_field(layout, struct.name, field),) for field in layout.tagged(struct)
        }
        steps.append((TAGS, tagged))
    return tuple(steps)


def _add(steps: list[Step], step: Step) -> None:
    """Append a step, or merge it with the last one if both are numbers of a fixed size."""
    if step[0] == FIXED and steps and steps[-1][0] == FIXED:
        steps[-1] = (FIXED, steps[-1][1] + step[1])
    else:
        steps.append(step)


def _field(layout: Layout, struct: str, field: Field) -> Step:
    form = COMPACT if layout.is_flexible(field) else WIDE
    if field.is_array:
        rule = rule_of(struct, field)
        size = layout.fixed_element_size(field)
        has_rules = rule is not None or (
            field.struct is not None and _has_rules(layout, field.struct)
        )
        if size is not None and not has_rules:
            return FIXED_ARRAY, form, size
        if field.struct is not None:
            return ARRAY, form, steps_of(layout, field.struct)
        return ARRAY, form, (_one(layout, field, rule),)
    if field.struct is not None:
        inner = steps_of(layout, field.struct)
        return (NULLABLE, inner) if layout.is_nullable(field) else (STRUCT, inner)
    return _one(layout, field, rule_of(struct, field))


def _one(layout: Layout, field: Field, rule: Rule | None) -> Step:
    """Return the step for one primitive: a field, or an element of an array."""
    if rule is None:
        return FIXED, FIXED_SIZES[field.element_type]
    if rule is Rule.UUID:
        return (ID,)
    if layout.is_flexible(field):
        return SIZED, COMPACT, rule
    return SIZED, SHORT if field.element_type == "string" else WIDE, rule


def _has_rules(layout: Layout, struct: Struct) -> bool:
    return any(
        rule_of(struct.name, field) is not None
        or (field.struct is not None and _has_rules(layout, field.struct))
        for field in layout.untagged(struct)
    )
