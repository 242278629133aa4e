"""Why a message cannot be read, in words, and the error code that it probably has."""

from __future__ import annotations

import struct

import pytest

from kanalyze.kafka.codec.failures import (
    json_path,
    locate_failure,
    with_probable_error,
)
from kanalyze.kafka.schema.catalog import Catalog
from tests.support import kafka as k
from tests.support.vectors import read_vectors

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


CATALOG = Catalog()
UNKNOWN = 10_000


def guessed(api_key: int, version: int, frame: bytes, length: int | None = None) -> str:
    words = with_probable_error(
        "why", CATALOG, api_key, version, frame, len(frame) if length is None else length
    )
    assert words.startswith("why")
    return words.removeprefix("why").removeprefix("; probably error ")


def int16(code: int) -> bytes:
    return struct.pack(">h", code)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("", ""),
        ("throttle", ""),
        ("tags", ""),
        ("tags throttle", ""),
        ("tags throttle", "Cluster authorization failed."),
        ("tags", "no"),
    ],
)
@pytest.mark.parametrize("throttle_ms", [0, 1, 250])
def test_a_failed_request_of_an_unknown_api_has_nothing_but_a_code(layout, message, throttle_ms):
    body = struct.pack(">i", throttle_ms) if "throttle" in layout else b""
    body += int16(31) + (k.compact(message) if message else b"")
    tags = b"\0" if "tags" in layout else b""
    for rest in (b"", b"\0", b"\xff\xff", b"\0\0\0\0\0"):
        frame = k.response(7, body + rest, tags=tags)
        assert guessed(UNKNOWN, 0, frame) == "31 CLUSTER_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        bytes(12),
        int16(0) + struct.pack(">i", 3) + k.string("a") * 3,  # a list of three names
        int16(0) + struct.pack(">i", 1) + k.string("orders"),  # of one, which is no message
        int16(9999),
        int16(31) + b"data",
        b"\xff" * 8,
        b"\x7f" * 40,
        int16(31) + bytes(2000),
    ],
)
def test_other_answers_of_an_unknown_api_say_nothing(body):
    for tags in (b"", b"\0"):
        assert guessed(UNKNOWN, 0, k.response(7, body, tags=tags)) == ""


def test_an_incomplete_answer_of_an_unknown_api_says_nothing():
    frame = k.response(7, int16(31) + bytes(100))
    assert guessed(UNKNOWN, 0, frame[:12], len(frame)) == ""


def test_a_newer_version_has_its_code_where_the_newest_known_one_has_it():
    answer = bytes(4) + int16(25) + b"and what is new"
    assert guessed(k.HEARTBEAT, 9, k.response(7, answer, tags=b"\0")) == "25 UNKNOWN_MEMBER_ID"
    assert guessed(k.HEARTBEAT, -3, k.response(7, int16(25))) == "25 UNKNOWN_MEMBER_ID"
    for code in (0, 4711, -2):
        frame = k.response(7, bytes(4) + int16(code), tags=b"\0")
        assert guessed(k.HEARTBEAT, 9, frame) == ""
    # These do not begin with a code in any version.
    for api_key in (k.PRODUCE, k.METADATA):
        assert guessed(api_key, 99, k.response(7, bytes(4) + int16(25), tags=b"\0")) == ""


def test_bytes_that_end_before_the_code_say_nothing():
    frame = k.response(7, bytes(4) + int16(25), tags=b"\0")
    for end in range(4, len(frame)):
        assert guessed(k.HEARTBEAT, 9, frame[:end], len(frame)) == ""
        assert guessed(UNKNOWN, 9, frame[:end], end) == ""


def test_messages_of_kafka_have_the_code_that_is_guessed():
    """The vectors have every version of every response, with all kinds of codes."""
    checked = 0
    for vector in read_vectors():
        if (
            vector.kind != "response"
            or vector.api_key is None
            or CATALOG.api(vector.api_key) is None
        ):
            continue
        tags = b"\0" * CATALOG.response_header_version(vector.api_key, vector.version)
        words = guessed(vector.api_key, vector.version, k.response(7, vector.content, tags=tags))
        if words:
            assert int(words.split()[0]) == vector.json["errorCode"]
            checked += 1
    assert checked > 50
