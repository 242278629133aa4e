from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.kafka.codec.compiler import Projection, compile_decoder, program_of
from kanalyze.kafka.schema.loader import load_messages
from kanalyze.kafka.schema.overlay import Conflict, overlay
from tests.support.definitions import field, message
from tests.support.messages import Generator, Writer, every_message

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec


def sample(
    *fields: dict[str, Any], versions: str, flexible: str = "2+", **keys: Any
) -> MessageSpec:
    keys = {"validVersions": versions, "flexibleVersions": flexible, **keys}
    (made,) = load_messages(message("Sample", *fields, key=None, **keys), "f")
    return made


LOWER = sample(
    field("Old", versions="0-1"),
    field("Name", "string", nullableVersions="1+"),
    field("Parts", "[]Part", fields=[field("Index"), field("Gone", versions="0-2")]),
    field("Tagged", versions="2+", tag=0, taggedVersions="2+"),
    versions="0-3",
)
UPPER = sample(
    field("Name", "string"),
    field("New", "int64", versions="4+"),
    field("Parts", "[]Piece", fields=[field("Index"), field("Mood", "string", versions="4+")]),
    versions="2-4",
)


def test_every_version_is_read_by_the_definition_that_applies_to_it() -> None:
    both = overlay(UPPER, LOWER)
    assert (both.name, both.valid_versions) == ("Sample", (0, 4))
    for version in range(5):
        origin = UPPER if version >= 2 else LOWER
        for seed in range(20):
            values = Generator(origin, version, Random(seed)).values()
            content = Writer(origin, version).write(values)
            decode = compile_decoder(both, version, Projection.ALL)
            alone = compile_decoder(origin, version, Projection.ALL)
            assert decode(content, 0) == alone(content, 0)


def test_the_fields_of_both_definitions_keep_their_orders() -> None:
    both = overlay(UPPER, LOWER)
    names = [one.name for one in both.struct.fields]
    assert names == ["Old", "Name", "New", "Parts", "Tagged"]
    parts = both.struct.field("Parts")
    assert parts is not None
    assert parts.struct is not None
    assert [one.name for one in parts.struct.fields] == ["Index", "Mood", "Gone"]


def test_a_field_has_its_versions_of_both_definitions() -> None:
    fields = {one.name: one for one in overlay(UPPER, LOWER).struct.fields}
    assert {name: str(one.versions) for name, one in fields.items()} == {
        "Old": "0-1",
        "Name": "0+",
        "New": "4+",
        "Parts": "0+",
        "Tagged": "none",
    }
    assert str(fields["Name"].nullable_versions) == "1"
    assert fields["Tagged"].tagged_versions.is_empty


def test_a_definition_laid_over_itself_is_itself(catalog: Catalog) -> None:
    for built_in in {one.name: one for one, _ in every_message(catalog)}.values():
        both = overlay(built_in, built_in)
        for version in built_in.valid_versions.each():
            assert words_of(both, version) == words_of(built_in, version)


def words_of(definition: MessageSpec, version: int) -> tuple[int, ...]:
    return program_of(definition, version, Projection.ALL).words


@pytest.mark.parametrize(
    ("upper", "reason"),
    [
        (
            sample(field("Name", "int32"), versions="2-4"),
            r"Sample\.Name: type int32 is not the built-in string",
        ),
        (
            sample(field("Parts", "[]int32"), versions="2-4"),
            r"Sample\.Parts: type \[\]int32 is not the built-in \[\]Part",
        ),
        (
            sample(field("Parts", "Part", fields=[field("Index")]), versions="2-4"),
            r"Sample\.Parts: type Part is not the built-in \[\]Part",
        ),
        (
            sample(field("Parts", "[]Part", fields=[field("Index", "int64")]), versions="2-4"),
            r"Sample\.Parts\.Index: type int64 is not the built-in int32",
        ),
        (
            sample(
                field("Parts", "[]Part", fields=[field("Index")]),
                field("Name", "string"),
                versions="2-4",
            ),
            r"Sample\.Name: stands before Parts in the built-in definition",
        ),
        (
            sample(
                field("A", versions="2+", tag=0, taggedVersions="2+"),
                field("Tagged", versions="2+", tag=1, taggedVersions="2+"),
                versions="2-4",
            ),
            r"Sample\.Tagged: tag 1 is not the built-in 0",
        ),
        (
            sample(field("Name", "string", flexibleVersions="none"), versions="2-4"),
            r"Sample\.Name: flexibleVersions are not the built-in ones",
        ),
        (
            sample(field("Old", versions="4+"), versions="2-4"),
            r"Sample\.Old: versions: with the built-in ones there is a gap in 0-4",
        ),
        (sample(versions="6-7"), r"Sample: validVersions: .* there is a gap in 0-7"),
    ],
)
def test_a_definition_that_conflicts_with_the_built_in_one_is_refused(
    upper: MessageSpec, reason: str
) -> None:
    with pytest.raises(Conflict, match=reason):
        overlay(upper, LOWER)


def test_a_version_that_becomes_inflexible_moves_the_first_flexible_version() -> None:
    both = overlay(sample(versions="1-2", flexible="none"), sample(versions="0-3"))
    assert str(both.flexible_versions) == "3+"
    with pytest.raises(Conflict, match=r"flexibleVersions: .* there is a gap in 2-4"):
        overlay(sample(versions="3", flexible="none"), sample(versions="0-4"))


def test_fields_that_share_no_version_may_be_in_any_order() -> None:
    upper = sample(
        field("Two", versions="2+"), field("One", versions="0-1"), versions="0-3", flexible="none"
    )
    lower = sample(
        field("One", versions="0-1"), field("Two", versions="2+"), versions="0-3", flexible="none"
    )
    assert [one.name for one in overlay(upper, lower).struct.fields] == ["One", "Two"]
