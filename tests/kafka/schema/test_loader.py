"""Definitions are read by the rules of Kafka's own language, and refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kanalyze.errors import DefinitionError
from kanalyze.kafka.schema.loader import (
    MAX_FIELDS,
    MAX_NESTING,
    load_messages,
    parse_default,
)
from kanalyze.kafka.schema.schema_ast import NONE, ZERO_UUID, VersionRange


@pytest.mark.parametrize(
    ("kind", "declared", "value"),
    [
        ("int8", "-128", -128),
        ("int32", "0x7fffffff", 2**31 - 1),
        ("int64", "9223372036854775807", 2**63 - 1),
        ("uint16", 65535, 65535),
        ("bool", "true", True),
        ("bool", False, False),
        ("float64", "1.5", 1.5),
        ("string", "", ""),
        ("string", "abc", "abc"),
        ("bytes", "", b""),
        ("uuid", "", ZERO_UUID),
    ],
)
def test_a_default_is_read_as_a_value_of_its_type(
    kind: str, declared: object, value: object
) -> None:
    assert parse_default(kind, declared) == (value, False)


@pytest.mark.parametrize("kind", ["string", "bytes", "records", "[]int32", "Struct", "[]Struct"])
def test_the_default_of_a_nullable_type_may_be_null(kind: str) -> None:
    assert parse_default(kind, "null") == (None, True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int16", 0),
        ("bool", False),
        ("float64", 0.0),
        ("string", ""),
        ("bytes", b""),
        ("uuid", ZERO_UUID),
        ("[]int8", None),
    ],
)
def test_a_type_has_a_default_if_none_is_declared(kind: str, value: object) -> None:
    assert parse_default(kind, None) == (value, False)


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        ("int8", "128"),
        ("int8", "null"),
        ("int16", "1.0"),
        ("uint32", "-1"),
        ("int32", "٣"),
        ("int64", "9" * 10_000),
        ("int32", True),
        ("bool", "yes"),
        ("float64", "nan"),
        ("float64", "x"),
        ("bytes", "abc"),
        ("uuid", "abc"),
        ("[]int32", "1"),
        ("Struct", "x"),
    ],
)
def test_a_default_that_does_not_fit_its_type_is_refused(kind: str, declared: object) -> None:
    with pytest.raises(ValueError, match="is no value of type"):
        parse_default(kind, declared)


def definition(*fields: dict[str, Any], **keys: Any) -> str:
    """Return the text of a message with these fields; None removes a key."""
    made = {
        "type": "data",
        "name": "Sample",
        "validVersions": "0-3",
        "flexibleVersions": "2+",
        "fields": list(fields),
        **keys,
    }
    return json.dumps({key: value for key, value in made.items() if value is not None})


def json_field(name: str = "F", kind: str = "int32", versions: str = "0+", **keys: Any) -> Any:
    return {"name": name, "type": kind, "versions": versions, **keys}


TAG_0 = {"tag": 0, "taggedVersions": "2+"}


def test_every_key_of_the_language_is_read() -> None:
    text = """
    // Licensed to nobody.
    { "apiKey": 7, "type": "request", "name": "SampleRequest", // a comment
      "listeners": ["broker", "controller"], "validVersions": "1-4", "deprecatedVersions": "1",
      "flexibleVersions": "3+", "latestVersionUnstable": true, "about": "with // in it",
      "fields": [
        { "name": "Name", "type": "string", "versions": "1+", "nullableVersions": "2+",
          "default": "null", "ignorable": true, "entityType": "topicName", "about": "The name.",
          "flexibleVersions": "none" },
        { "name": "Parts", "type": "[]Part", "versions": "3+", "tag": 0, "taggedVersions": "3+" }
      ],
      "commonStructs": [ { "name": "Part", "versions": "3+", "fields": [
        { "name": "Index", "type": "int32", "versions": "3+", "mapKey": true, "default": "0x10" }
      ]}]
    }
    """
    (message,) = load_messages(text, "sample.json")
    assert (message.name, message.kind, message.api_key) == ("SampleRequest", "request", 7)
    assert message.listeners == ("broker", "controller")
    assert message.valid_versions == (1, 4)
    assert message.deprecated_versions == (1, 1)
    assert message.flexible_versions == VersionRange.parse("3+")
    assert message.latest_version_unstable
    name, parts = message.struct.fields
    assert (name.nullable_versions, name.default, name.has_null_default) == (
        VersionRange.parse("2+"),
        None,
        True,
    )
    assert (name.ignorable, name.entity_type, name.about) == (True, "topicName", "The name.")
    assert name.flexible_versions == NONE
    assert (parts.tag, parts.tagged_versions) == (0, VersionRange.parse("3+"))
    assert parts.struct is not None
    (index,) = parts.struct.fields
    assert (index.map_key, index.default) == (True, 16)


def test_a_file_has_messages_and_comments() -> None:
    about = 'see https://kafka.apache.org and "//" too'
    text = definition(json_field(about=about)) + "\n// between\n" + definition(name="Two")
    one, two = load_messages(text, "f")
    assert (one.struct.fields[0].about, two.name) == (about, "Two")
    assert load_messages(" // nothing\n", "f") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "a message must be a JSON object"),
        ("{", "not the JSON of a message"),
        ('{"name": "A", "name": "B"}', "duplicate key 'name'"),
        ("[" * 100_000, "nested too deeply"),
        (definition(name=None), "name must be a text"),
        (definition(name="1x"), "not a name"),
        (definition(type=None), "type must be a text"),
        (definition(type="letter"), "unknown message type 'letter'"),
        (definition(colour="red"), "unknown key 'colour'"),
        (definition(validVersions=None), "validVersions is missing"),
        (definition(validVersions="0+"), "validVersions must have an upper end"),
        (definition(validVersions="3-1"), "versions fall"),
        (definition(flexibleVersions="2"), "flexibleVersions must be none or open-ended"),
        (definition(apiKey=3), "a message of type data has no apiKey"),
        (definition(type="request"), "apiKey must be a number"),
        (definition(type="request", apiKey=-1), "apiKey must be a number"),
        (definition(listeners="broker"), "listeners must be a list"),
        (definition(latestVersionUnstable=1.5), "latestVersionUnstable must be true or false"),
        (definition(fields=None), "fields must be a list of objects"),
        (definition(fields=[1]), "fields must be a list of objects"),
    ],
)
def test_a_message_that_breaks_a_rule_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason) as caught:
        load_messages(text, "some.json")
    assert str(caught.value).startswith("some.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (json_field(versions=None), "not a version: 'None'"),
        (json_field(kind="int33"), "unknown type 'int33'"),
        (json_field(kind="[][]int32"), "unknown type"),
        (json_field(kind="[]records"), "records cannot stand in an array"),
        (json_field(colour=1), "unknown key 'colour'"),
        (json_field(fields=[]), "a field of type int32 has no fields"),
        (json_field(versions="4"), "versions 4 lie outside validVersions 0-3"),
        (json_field(versions="2-5"), "versions 2-5 lie outside validVersions 0-3"),
        (json_field(versions="4+"), r"versions 4\+ lie outside validVersions 0-3"),
        (json_field(tag="0x1"), "tag must be a number"),
        (json_field(tag=-1), "tag must be a number"),
        (json_field(mapKey="perhaps"), "mapKey must be true or false"),
        (json_field(about=3), "about must be a text"),
        (json_field(default="1.5"), "default '1.5' is no value of type int32"),
        (json_field("F-G"), "not a name"),
        (json_field(kind="Sub", fields=[json_field("G", "nope")]), "unknown type 'nope'"),
        (json_field(nullableVersions="0+"), "a field of type int32 cannot be nullable"),
        (
            json_field(kind="string", versions="2+", nullableVersions="0-1"),
            "nullableVersions 0-1 lie outside",
        ),
        (json_field(kind="string", default="null"), "no version is nullable"),
        (json_field(taggedVersions="2+"), "taggedVersions without a tag"),
        (json_field(tag=0), "a tag without taggedVersions"),
        (json_field(tag=0, taggedVersions="2-3"), "taggedVersions must be open-ended"),
        (json_field(versions="0-2", **TAG_0), r"taggedVersions 2\+ lie outside versions"),
        (json_field(tag=0, taggedVersions="0+"), "need flexible versions"),
        (
            json_field(kind="string", versions="2+", nullableVersions="3+", **TAG_0),
            "either all tagged versions must be nullable, or none",
        ),
        (json_field(flexibleVersions="none"), "flexibleVersions of its own"),
        (json_field(kind="[]string", mapKey=True), "cannot be a map key"),
        (json_field(kind="Sub", fields=[], mapKey=True), "cannot be a map key"),
        (json_field(entityType="colour"), "unknown entityType"),
        (json_field(entityType="topicName"), "entityType topicName is for"),
    ],
)
def test_a_field_that_breaks_a_rule_is_refused(broken: Any, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        load_messages(definition(broken), "f")


COMMON = {"name": "One", "fields": [json_field("A")]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            definition(json_field("Name"), json_field("name")),
            "name: a field of that name stands in the struct already",
        ),
        (definition(json_field("A", **TAG_0), json_field("B", **TAG_0)), "B: tag 0 is taken by A"),
        (
            definition(json_field("A", **TAG_0), json_field("B", tag=2, taggedVersions="2+")),
            "B: tag 2 is used before tag 1",
        ),
        (
            definition(json_field(kind="One", fields=[json_field("B")]), commonStructs=[COMMON]),
            "struct One is declared in commonStructs already",
        ),
        (definition(commonStructs=[COMMON, COMMON]), "of that name exists already"),
    ],
)
def test_two_of_one_name_or_tag_are_refused(text: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        load_messages(text, "f")


def test_an_error_names_file_and_field_path() -> None:
    inner = json_field("Inner", "[]Sub", fields=[json_field("Bad", "string", default="x", tag=0)])
    text = definition(json_field("Outer", "Top", fields=[inner]))
    with pytest.raises(DefinitionError) as caught:
        load_messages(text, "dir/some.json")
    assert str(caught.value) == (
        "dir/some.json: Sample.Outer.Inner.Bad: a tag without taggedVersions"
    )


def test_a_struct_that_contains_itself_is_refused() -> None:
    common = [
        {"name": "One", "fields": [json_field("A", "[]Two")]},
        {"name": "Two", "fields": [json_field("B", "Three", fields=[json_field("C", "One")])]},
    ]
    with pytest.raises(DefinitionError, match="the struct contains itself"):
        load_messages(definition(json_field(kind="One"), commonStructs=common), "f")


def test_the_nesting_of_structs_is_bounded() -> None:
    def nested(depth: int) -> Any:
        inner = json_field("Leaf") if depth == 0 else nested(depth - 1)
        return json_field(f"N{depth}", f"[]S{depth}", fields=[inner])

    (message,) = load_messages(definition(nested(MAX_NESTING - 1)), "f")
    assert message.struct.fields
    with pytest.raises(DefinitionError, match="structs nest too deeply"):
        load_messages(definition(nested(MAX_NESTING)), "f")


def test_the_nesting_of_common_structs_has_the_same_bound() -> None:
    common = [
        {"name": f"S{n}", "fields": [json_field(f"F{k}", f"S{n + 1}") for k in range(9)]}
        for n in range(30)
    ]
    common.append({"name": "S30", "fields": [json_field()]})
    with pytest.raises(DefinitionError, match="structs nest too deeply"):
        load_messages(definition(json_field(kind="S0"), commonStructs=common), "f")


def test_irregularities_of_kafkas_own_definitions_are_accepted() -> None:
    text = definition(
        json_field("Nulls", "string", "1+", nullableVersions="0+"),
        json_field("Left", versions="0"),
        json_field("Tagged", versions="2+", tag="0", taggedVersions="2+"),
        validVersions="1-3",
    )
    text = text.replace('"versions": "0",', '"versions": "0", "versions": "0",')
    (message,) = load_messages(text, "f")
    nulls, left, tagged = message.struct.fields
    assert nulls.is_nullable(1)
    assert str(left.versions) == "0"
    assert tagged.tag == 0
    gone = definition(validVersions="none", flexibleVersions=None, fields=None)
    (message,) = load_messages(gone, "f")
    assert message.struct.fields == ()


def test_the_number_of_fields_with_common_structs_is_bounded() -> None:
    common = [
        {"name": f"S{n}", "fields": [json_field(f"F{k}", f"S{n + 1}") for k in range(40)]}
        for n in range(6)
    ]
    common.append({"name": "S6", "fields": [json_field()]})
    with pytest.raises(DefinitionError, match=f"the message has more than {MAX_FIELDS} fields"):
        load_messages(definition(json_field(kind="S0"), commonStructs=common), "f")
    (message,) = load_messages(definition(json_field(kind="S5"), commonStructs=common), "f")
    assert message.struct.fields[0].struct is not None
