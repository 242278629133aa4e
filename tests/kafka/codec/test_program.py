"""Programs: what nobody wants costs as little as it can."""

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
    found, at = [], 0
    while at < len(words):
        count = 2 + 2 * words[at + 2] if words[at] == op.TAGS else OPERANDS.get(words[at], 0)
        found.append(tuple(words[at : at + 1 + count]))
        at += 1 + count
    return found


def program(
    catalog: Catalog, key: int, kind: str, version: int, *paths: str
) -> list[tuple[int, ...]]:
    message = catalog.message(key, "request" if kind == "request" else "response")
    return instructions(program_of(message, version, Projection.of(*paths)).words)


def test_unselected_fixed_fields_are_one_step(catalog: Catalog) -> None:
    found = program(catalog, 1, "request", 4, "Topics.Topic")
    assert found[0] == (op.SKIP, 4 * 4 + 1)


def test_unselected_arrays_of_fixed_elements_are_one_step(catalog: Catalog) -> None:
    found = program(catalog, 2, "response", 1)
    assert (op.ELEMENTS, op.WIDE, 22) in found


def test_unselected_text_is_not_put_on_the_tape(catalog: Catalog) -> None:
    found = program(catalog, 1, "response", 11, "ErrorCode")
    assert not any(one[0] == op.TEXT and one[1] & op.WANTED for one in found)


@pytest.mark.parametrize("projection", [Projection.ALL, Projection.of()])
def test_every_program_is_closed(catalog: Catalog, projection: Projection) -> None:
    """Addresses are those of instructions of the program; the stack holds what it takes."""
    seen = 0
    for message, version in every_message(catalog):
        made = program_of(message, version, projection)
        starts, at = set(), 0
        for one in instructions(made.words):
            starts.add(at)
            at += len(one)
        assert all(made.words[index] in starts for index in made.relocations)
        assert made.words[-1] == op.END
        assert made.stack_cells <= 64
        seen += 1
    assert seen > 700
