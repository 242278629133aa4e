"""Definitions are read by the rules of Kafka's own language, and refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kanalyze.errors import DefinitionError
from kanalyze.kafka.schema.loader import (
    MAX_FIELDS,
    MAX_NESTING,
    check_fields,
    load_messages,
    parse_default,
)
from kanalyze.kafka.schema.schema_ast import NONE, ZERO_UUID, Field, Struct, VersionRange

V0 = VersionRange.parse("0+")
V2 = VersionRange.parse("2+")
VALID_VERSIONS = VersionRange(0, 5)


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


def problem_of(*fields: Field) -> str | None:
    name_and_rule = check_fields(fields, VALID_VERSIONS, V2)
    return None if name_and_rule is None else name_and_rule[1]


def test_fields_that_keep_the_rules_have_no_problem() -> None:
    fields = (
        Field("A", "string", V0, nullable_versions=V2, has_null_default=True),
        Field("B", "int32", V2, tag=1, tagged_versions=V2),
        Field("C", "int32", V0, tag=0, tagged_versions=V2, entity_type="brokerId"),
        Field("D", "bytes", V0, flexible_versions=NONE, map_key=True),
    )
    assert problem_of(*fields) is None


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (Field("A", "int32", V0, nullable_versions=V0), "cannot be nullable"),
        (
            Field("A", "string", V2, nullable_versions=VersionRange(0, 1)),
            "nullableVersions 0-1 lie outside",
        ),
        (Field("A", "string", V0, has_null_default=True), "no version is nullable"),
        (Field("A", "int32", V0, tagged_versions=V2), "taggedVersions without a tag"),
        (Field("A", "int32", V0, tag=0), "a tag without taggedVersions"),
        (
            Field("A", "int32", V0, tag=0, tagged_versions=VersionRange(2, 3)),
            "taggedVersions must be open-ended",
        ),
        (
            Field("A", "int32", VersionRange(0, 3), tag=0, tagged_versions=V2),
            "taggedVersions 2+ lie outside versions",
        ),
        (Field("A", "int32", V0, tag=0, tagged_versions=V0), "need flexible versions"),
        (
            Field(
                "A",
                "string",
                V2,
                tag=0,
                tagged_versions=V2,
                nullable_versions=VersionRange.parse("3+"),
            ),
            "either all tagged versions must be nullable, or none",
        ),
        (Field("A", "int32", V0, flexible_versions=NONE), "flexibleVersions of its own"),
        (Field("A", "[]string", V0, map_key=True), "cannot be a map key"),
        (Field("A", "S", V0, struct=Struct("S", ()), map_key=True), "cannot be a map key"),
        (Field("A", "int32", V0, entity_type="colour"), "unknown entityType"),
        (Field("A", "int32", V0, entity_type="topicName"), "entityType topicName is for"),
    ],
)
def test_a_field_that_breaks_a_rule_has_a_problem(field: Field, reason: str) -> None:
    name_and_rule = problem_of(field)
    assert name_and_rule is not None
    assert reason in name_and_rule


def test_two_fields_may_not_share_a_name_in_json() -> None:
    assert problem_of(Field("Name", "int8", V0), Field("name", "int8", V0)) is not None


def test_two_fields_may_not_share_a_tag() -> None:
    fields = [Field(name, "int8", V2, tag=0, tagged_versions=V2) for name in "AB"]
    assert problem_of(*fields) == "tag 0 is taken by A"


def test_tags_may_not_leave_numbers_out() -> None:
    fields = [Field(f"F{tag}", "int8", V2, tag=tag, tagged_versions=V2) for tag in (0, 2)]
    assert check_fields(fields, VALID_VERSIONS, V2) == ("F2", "tag 2 is used before tag 1")


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


def test_a_file_may_hold_several_messages() -> None:
    text = definition(name="One") + "\n// between\n" + definition(name="Two")
    assert [message.name for message in load_messages(text, "f")] == ["One", "Two"]


def test_slashes_inside_a_string_are_no_comment() -> None:
    text = definition(json_field(about='see https://kafka.apache.org and "//" too'))
    (message,) = load_messages(text, "f")
    assert message.struct.fields[0].about == 'see https://kafka.apache.org and "//" too'


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
    ],
)
def test_a_field_that_breaks_a_rule_is_refused(broken: Any, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        load_messages(definition(broken), "f")


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


def test_a_common_struct_and_a_declared_one_may_not_share_a_name() -> None:
    common = [{"name": "One", "fields": [json_field("A")]}]
    text = definition(json_field(kind="One", fields=[json_field("B")]), commonStructs=common)
    with pytest.raises(DefinitionError, match="struct One is declared in commonStructs already"):
        load_messages(text, "f")


def test_a_common_struct_may_not_be_declared_twice() -> None:
    common = [{"name": "One", "fields": [json_field("A")]}] * 2
    with pytest.raises(DefinitionError, match="of that name exists already"):
        load_messages(definition(commonStructs=common), "f")


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


def test_an_empty_file_holds_no_message() -> None:
    assert load_messages(" // nothing\n", "f") == ()
