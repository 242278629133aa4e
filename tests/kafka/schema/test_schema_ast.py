from __future__ import annotations

import pytest

from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct
from kanalyze.kafka.schema.versions import NONE, VersionRange

ALL_VERSIONS = VersionRange.parse("0+")


@pytest.mark.parametrize(
    ("name", "json_name"),
    [
        ("TopicData", "topicData"),
        ("isKRaftController", "isKRaftController"),
        ("KRaftVersionFeature", "kRaftVersionFeature"),
        ("V0Host", "v0Host"),
    ],
)
def test_only_the_first_letter_of_a_json_name_is_lowered(name: str, json_name: str) -> None:
    assert Field(name, "int8", ALL_VERSIONS).json_name == json_name


def test_an_array_knows_the_type_of_its_elements() -> None:
    array, single = (Field("F", kind, ALL_VERSIONS) for kind in ("[]int32", "int32"))
    assert (array.is_array, array.element_type) == (True, "int32")
    assert (single.is_array, single.element_type) == (False, "int32")


def test_flexible_versions_of_a_field_override_those_of_its_message() -> None:
    follows = Field("F", "string", ALL_VERSIONS)
    never = Field("F", "string", ALL_VERSIONS, flexible_versions=NONE)
    assert follows.is_flexible(2, VersionRange.parse("2+"))
    assert not follows.is_flexible(1, VersionRange.parse("2+"))
    assert not never.is_flexible(2, VersionRange.parse("2+"))


def test_a_field_may_change_to_tagged_between_versions() -> None:
    field = Field(
        "F", "int32", VersionRange.parse("1+"), tag=0, tagged_versions=VersionRange.parse("3+")
    )
    assert [field.is_present(version) for version in range(4)] == [False, True, True, True]
    assert [field.is_tagged(version) for version in range(4)] == [False, False, False, True]


def test_a_struct_finds_its_fields_by_name() -> None:
    field = Field("A", "int8", ALL_VERSIONS)
    struct = Struct("S", (field, Field("B", "int8", ALL_VERSIONS)))
    assert struct.field("A") is field
    assert struct.field("C") is None


def test_a_message_is_flexible_from_a_version_on() -> None:
    flexible = VersionRange.parse("2+")
    message = MessageSpec("M", "data", None, VersionRange(0, 3), NONE, flexible, Struct("M", ()))
    assert [message.is_flexible(version) for version in range(4)] == [False, False, True, True]
