from __future__ import annotations

import json
from typing import Any

import pytest

from kanalyze.errors import DefinitionError
from kanalyze.kafka.schema.loader import MAX_FIELDS, MAX_NESTING, load_messages
from kanalyze.kafka.schema.versions import NONE, VersionRange


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


def field(name: str = "F", kind: str = "int32", versions: str = "0+", **keys: Any) -> Any:
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
    text = definition(field(about='see https://kafka.apache.org and "//" too'))
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
        (field(versions=None), "not a version: 'None'"),
        (field(kind="int33"), "unknown type 'int33'"),
        (field(kind="[][]int32"), "unknown type"),
        (field(kind="[]records"), "records cannot stand in an array"),
        (field(colour=1), "unknown key 'colour'"),
        (field(fields=[]), "a field of type int32 has no fields"),
        (field(versions="4"), "versions 4 lie outside validVersions 0-3"),
        (field(versions="2-5"), "versions 2-5 lie outside validVersions 0-3"),
        (field(versions="4+"), r"versions 4\+ lie outside validVersions 0-3"),
        (field(tag="0x1"), "tag must be a number"),
        (field(tag=-1), "tag must be a number"),
        (field(mapKey="perhaps"), "mapKey must be true or false"),
        (field(about=3), "about must be a text"),
        (field(default="1.5"), "default '1.5' is no value of type int32"),
        (field("F-G"), "not a name"),
        (field(kind="Sub", fields=[field("G", "nope")]), "unknown type 'nope'"),
    ],
)
def test_a_field_that_breaks_a_rule_is_refused(broken: Any, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        load_messages(definition(broken), "f")


def test_an_error_names_file_and_field_path() -> None:
    inner = field("Inner", "[]Sub", fields=[field("Bad", "string", default="x", tag=0)])
    text = definition(field("Outer", "Top", fields=[inner]))
    with pytest.raises(DefinitionError) as caught:
        load_messages(text, "dir/some.json")
    assert str(caught.value) == (
        "dir/some.json: Sample.Outer.Inner.Bad: a tag without taggedVersions"
    )


def test_a_struct_that_contains_itself_is_refused() -> None:
    common = [
        {"name": "One", "fields": [field("A", "[]Two")]},
        {"name": "Two", "fields": [field("B", "Three", fields=[field("C", "One")])]},
    ]
    with pytest.raises(DefinitionError, match="the struct contains itself"):
        load_messages(definition(field(kind="One"), commonStructs=common), "f")


def test_a_common_struct_and_a_declared_one_may_not_share_a_name() -> None:
    common = [{"name": "One", "fields": [field("A")]}]
    text = definition(field(kind="One", fields=[field("B")]), commonStructs=common)
    with pytest.raises(DefinitionError, match="struct One is declared in commonStructs already"):
        load_messages(text, "f")


def test_a_common_struct_may_not_be_declared_twice() -> None:
    common = [{"name": "One", "fields": [field("A")]}] * 2
    with pytest.raises(DefinitionError, match="of that name exists already"):
        load_messages(definition(commonStructs=common), "f")


def test_the_nesting_of_structs_is_bounded() -> None:
    def nested(depth: int) -> Any:
        inner = field("Leaf") if depth == 0 else nested(depth - 1)
        return field(f"N{depth}", f"[]S{depth}", fields=[inner])

    (message,) = load_messages(definition(nested(MAX_NESTING - 1)), "f")
    assert message.struct.fields
    with pytest.raises(DefinitionError, match="structs nest too deeply"):
        load_messages(definition(nested(MAX_NESTING)), "f")


def test_the_nesting_of_common_structs_has_the_same_bound() -> None:
    common = [
        {"name": f"S{n}", "fields": [field(f"F{k}", f"S{n + 1}") for k in range(9)]}
        for n in range(30)
    ]
    common.append({"name": "S30", "fields": [field()]})
    with pytest.raises(DefinitionError, match="structs nest too deeply"):
        load_messages(definition(field(kind="S0"), commonStructs=common), "f")


def test_irregularities_of_kafkas_own_definitions_are_accepted() -> None:
    text = definition(
        field("Nulls", "string", "1+", nullableVersions="0+"),
        field("Left", versions="0"),
        field("Tagged", versions="2+", tag="0", taggedVersions="2+"),
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
        {"name": f"S{n}", "fields": [field(f"F{k}", f"S{n + 1}") for k in range(40)]}
        for n in range(6)
    ]
    common.append({"name": "S6", "fields": [field()]})
    with pytest.raises(DefinitionError, match=f"the message has more than {MAX_FIELDS} fields"):
        load_messages(definition(field(kind="S0"), commonStructs=common), "f")
    (message,) = load_messages(definition(field(kind="S5"), commonStructs=common), "f")
    assert message.struct.fields[0].struct is not None


def test_an_empty_file_holds_no_message() -> None:
    assert load_messages(" // nothing\n", "f") == ()
