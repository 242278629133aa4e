"""How the body of a message in one version is walked: its fields as steps.

In: definitions. Out: :data:`Steps`. This module must not see any bytes.

A step is a code and its operands: ``FIXED`` bytes of numbers; ``SIZED`` content, by the form of its
length and its rule; an ``ARRAY``, by the form of its count and the steps of an element; a
``FIXED_ARRAY`` of numbers, by the form and the size of an element; the steps of a ``NULLABLE``
struct, while those of another ``STRUCT`` are among the steps around it; ``TAGS``, with the steps of
each; an ``ID`` of 16 bytes.
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
"""Forms of a length: of 2 bytes, of 4, a varint."""
Step: TypeAlias = tuple[Any, ...]
Steps: TypeAlias = "tuple[Step, ...]"


def steps_of(layout: Layout, struct: Struct) -> Steps:
    """Return the steps of a struct."""
    made: list[Step] = []
    for field in layout.untagged(struct):
        step = _field(layout, struct.name, field)
        for each in step[1] if step[0] == STRUCT else (step,):
            _add(made, each)
    if layout.flexible:
        tagged = {
            field.tag: (_field(layout, struct.name, field),) for field in layout.tagged(struct)
        }
        made.append((TAGS, tagged))
    return tuple(made)


def _add(steps: list[Step], step: Step) -> None:
    """Add a step; numbers that follow each other are one."""
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
