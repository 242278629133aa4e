"""Every field with content has an explicit rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.anonymization.rules import RULES, Rule, rule_of
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.schema_ast import Field, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.schema_ast import Struct

NUMBERS = frozenset(
    ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"),
)


def fields(struct: Struct) -> Iterator[tuple[str, Field]]:
    for field in struct.fields:
        yield struct.name, field
        if field.struct is not None:
            yield from fields(field.struct)


def all_fields() -> Iterator[tuple[str, Field]]:
    catalog = Catalog()
    for api in catalog.apis:
        for kind in ("request", "response"):
            yield from fields(catalog.message(api.key, kind).struct)
            for version in range(api.versions.lowest, api.versions.highest + 1):
                superseded = catalog.superseded(api.key, kind, version)
                if superseded is not None:
                    yield from fields(superseded.struct)


def test_every_field_with_content_has_a_rule_of_its_own() -> None:
    met = set()
    for struct, field in all_fields():
        rule = rule_of(struct, field)
        if field.struct is not None or field.element_type in NUMBERS:
            assert rule is None
        else:
            assert rule is not None
            named = {f"{struct}.{field.name}", field.name} & RULES.keys()
            assert named, (struct, field.name, field.type)
            met |= named
    assert RULES.keys() - met == set()


def test_only_kafkas_own_words_may_stay() -> None:
    found = {rule_of(struct, field) for struct, field in all_fields()}
    assert found == {None, *Rule}


def test_an_unknown_field_is_treated_by_its_type() -> None:
    versions = VersionRange.parse("0+")
    made = {
        kind: rule_of("Any", Field("Unheard", kind, versions))
        for kind in ("string", "[]string", "bytes", "uuid", "records", "int32")
    }
    assert made == {
        "string": Rule.NAME,
        "[]string": Rule.NAME,
        "bytes": Rule.BLANK,
        "uuid": Rule.UUID,
        "records": Rule.BLANK,
        "int32": None,
    }
    assert rule_of("Any", Field("Records", "string", versions)) is Rule.NAME
