"""Programs: fields that are not selected cost as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec import opcodes as op
from kanalyze.kafka.codec.compiler import program_of
from kanalyze.kafka.codec.projection import Projection
from tests.support.messages import every_message

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog

OPERANDS = {
    op.SKIP: 1,
    op.TEXT: 1,
    op.RECORDS: 1,
    op.ARRAY: 3,
    op.ELEMENTS: 2,
    op.LOOP: 1,
    op.NULLABLE: 2,
    op.JUMP: 1,
}


def instructions(words: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Divide words into instructions."""
    divided, at = [], 0
    while at < len(words):
        count = 2 + 2 * words[at + 2] if words[at] == op.TAGS else OPERANDS.get(words[at], 0)
        divided.append(tuple(words[at : at + 1 + count]))
        at += 1 + count
    return divided


def program(
    catalog: Catalog, key: int, kind: str, version: int, *paths: str
) -> list[tuple[int, ...]]:
    message = catalog.message(key, "request" if kind == "request" else "response")
    return instructions(program_of(message, version, Projection.of(*paths)).words)


def test_unselected_fixed_fields_are_one_step(catalog: Catalog) -> None:
    steps = program(catalog, 1, "request", 4, "Topics.Topic")
    assert steps[0] == (op.SKIP, 4 * 4 + 1)


def test_unselected_arrays_of_fixed_elements_are_one_step(catalog: Catalog) -> None:
    steps = program(catalog, 2, "response", 1)
    assert (op.ELEMENTS, op.WIDE, 22) in steps


def test_unselected_text_is_not_put_on_the_tape(catalog: Catalog) -> None:
    steps = program(catalog, 1, "response", 11, "ErrorCode")
    assert not any(step[0] == op.TEXT and step[1] & op.WANTED for step in steps)


@pytest.mark.parametrize("projection", [Projection.ALL, Projection.of()])
def test_every_program_has_valid_addresses_and_a_bounded_stack(
    catalog: Catalog, projection: Projection
) -> None:
    """Every address is that of an instruction, and the program ends with END."""
    count = 0
    for message, version in every_message(catalog):
        written = program_of(message, version, projection)
        starts, at = set(), 0
        for step in instructions(written.words):
            starts.add(at)
            at += len(step)
        assert all(written.words[index] in starts for index in written.relocations)
        assert written.words[-1] == op.END
        assert written.stack_cells <= 64
        count += 1
    assert count > 700
