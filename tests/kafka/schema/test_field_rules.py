from __future__ import annotations

import pytest

from kanalyze.kafka.schema.field_rules import check_fields, parse_default
from kanalyze.kafka.schema.schema_ast import ZERO_UUID, Field, Struct
from kanalyze.kafka.schema.versions import NONE, VersionRange

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


def problem(*fields: Field) -> str | None:
    name_and_rule = check_fields(fields, VALID_VERSIONS, V2)
    return None if name_and_rule is None else name_and_rule[1]


def test_fields_that_keep_the_rules_have_no_problem() -> None:
    fields = (
        Field("A", "string", V0, nullable_versions=V2, has_null_default=True),
        Field("B", "int32", V2, tag=1, tagged_versions=V2),
        Field("C", "int32", V0, tag=0, tagged_versions=V2, entity_type="brokerId"),
        Field("D", "bytes", V0, flexible_versions=NONE, map_key=True),
    )
    assert problem(*fields) is None


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
    name_and_rule = problem(field)
    assert name_and_rule is not None
    assert reason in name_and_rule


def test_two_fields_may_not_share_a_name_in_json() -> None:
    assert problem(Field("Name", "int8", V0), Field("name", "int8", V0)) is not None


def test_two_fields_may_not_share_a_tag() -> None:
    fields = [Field(name, "int8", V2, tag=0, tagged_versions=V2) for name in "AB"]
    assert problem(*fields) == "tag 0 is taken by A"


def test_tags_may_not_leave_numbers_out() -> None:
    fields = [Field(f"F{tag}", "int8", V2, tag=tag, tagged_versions=V2) for tag in (0, 2)]
    assert check_fields(fields, VALID_VERSIONS, V2) == ("F2", "tag 2 is used before tag 1")
