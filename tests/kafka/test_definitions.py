"""The packaged definitions agree with the tables of facts, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.schema.loader import parse_default
from kanalyze.kafka.schema.schema_ast import NONE, VersionRange
from tests.support.cases import for_each
from tests.support.facts import FieldFact, MessageFact, bounds, message_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

FACTS = message_facts()


def definition_of(catalog: Catalog, fact: MessageFact) -> MessageSpec:
    if fact.kind in ("request", "response"):
        key = int(fact.extras["apiKey"])
        return catalog.message(key, "request" if fact.kind == "request" else "response")
    if fact.kind == "header":
        return catalog.header("request" if fact.name == "RequestHeader" else "response")
    return catalog.data(fact.name)


def flattened(
    struct: Struct, around: VersionRange, before: str = ""
) -> Iterator[tuple[str, Field, VersionRange]]:
    """Give path, field and versions of each field that exists in the versions ``around``."""
    for field in struct.fields:
        versions = field.versions.intersect(around)
        if versions.is_empty:
            continue
        yield before + field.name, field, versions
        if field.struct is not None:
            yield from flattened(field.struct, versions, f"{before}{field.name}.")


def expected_range(text: str | None, around: VersionRange) -> VersionRange:
    return NONE if text is None else VersionRange(*bounds(text)).intersect(around)


def test_there_are_as_many_messages_as_facts() -> None:
    assert len(FACTS) == 203


@for_each("fact", FACTS)
def test_a_definition_agrees_with_its_fact(catalog: Catalog, fact: MessageFact) -> None:
    message = definition_of(catalog, fact)
    assert (message.name, message.kind) == (fact.name, fact.kind)
    assert message.api_key == (int(fact.extras["apiKey"]) if "apiKey" in fact.extras else None)
    assert message.valid_versions == bounds(fact.extras["validVersions"])
    flexible = fact.extras["flexibleVersions"]
    assert message.flexible_versions == (NONE if flexible == "none" else bounds(flexible))
    assert ",".join(message.listeners) == fact.extras.get("listeners", "")
    assert message.latest_version_unstable == ("latestVersionUnstable" in fact.extras)
    definition_fields = list(flattened(message.struct, message.valid_versions))
    assert [path for path, _, _ in definition_fields] == [field.path for field in fact.fields]
    for (_, field, versions), expected in zip(definition_fields, fact.fields, strict=True):
        compare_field(field, versions, expected, message.valid_versions)


def compare_field(
    field: Field, versions: VersionRange, fact: FieldFact, valid: VersionRange
) -> None:
    extras = fact.extras
    assert field.type == fact.type
    assert versions == VersionRange(*bounds(fact.versions)).intersect(valid)
    nullable = field.nullable_versions.intersect(versions)
    assert nullable == expected_range(extras.get("nullable"), versions)
    tagged = field.tagged_versions.intersect(versions)
    assert tagged == expected_range(extras.get("taggedVersions"), versions)
    assert field.tag == (int(extras["tag"]) if "tag" in extras else None)
    assert field.map_key == ("mapKey" in extras)
    assert field.entity_type == extras.get("entityType")
    assert (field.default, field.has_null_default) == parse_default(
        fact.type, extras.get("default")
    )
    own_flexible = None if field.flexible_versions is None else str(field.flexible_versions)
    assert own_flexible == extras.get("flexibleVersions")
    known = {"nullable", "taggedVersions", "tag", "mapKey", "entityType", "default"}
    assert set(extras) <= known | {"flexibleVersions"}


def test_the_table_of_apis_agrees_with_the_definitions(catalog: Catalog) -> None:
    for api in catalog.apis:
        request, response = (catalog.message(api.key, kind) for kind in ("request", "response"))
        assert request.valid_versions == response.valid_versions == api.versions
        for version in api.versions.each():
            assert request.is_flexible(version) == (version >= api.request_flexible_from)
            assert response.is_flexible(version) == (version >= api.response_flexible_from)
        assert ",".join(request.listeners) == ",".join(api.listeners)
