"""Why a message cannot be read: the field, its position, and the reason in words."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec.failures import json_path, locate_failure, unknown_version

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog

HEARTBEAT = struct.pack(">h5sih3s", 5, b"group", 1, 3, b"abc")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("Topics[0].Name", "topics[0].name"),
        ("GroupId", "groupId"),
        ("Topics[12].PartitionData[3].Records", "topics[12].partitionData[3].records"),
        ("", ""),
    ],
)
def test_a_path_has_the_names_that_kafkas_json_has(path: str, expected: str) -> None:
    assert json_path(path) == expected


@pytest.mark.parametrize(
    ("body", "field", "at"),
    [
        (HEARTBEAT[:1], "groupId", 0),
        (HEARTBEAT[:5], "groupId", 2),
        (HEARTBEAT[:9], "generationId", 7),
        (HEARTBEAT[:-1], "memberId", 13),
    ],
)
def test_the_field_that_cannot_be_read_is_found(
    catalog: Catalog, body: bytes, field: str, at: int
) -> None:
    definition = catalog.message(12, "request")
    path, position, reason = locate_failure(definition, 0, b"--" + body, 2, "the decoder's")
    assert (path, position) == (field, 2 + at)
    assert reason != "the decoder's"


def test_the_decoders_reason_stays_if_every_field_can_be_read(catalog: Catalog) -> None:
    definition = catalog.message(12, "request")
    assert locate_failure(definition, 0, HEARTBEAT, 0, "why") == (None, 0, "why")


def test_the_known_versions_are_named(catalog: Catalog) -> None:
    assert unknown_version(catalog.message(12, "request")) == "known are the versions 0-4"
