"""Messages of Kafka's own serializer keep all numbers and lengths, and no name."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.anonymization.messages import MessageAnonymizer
from kanalyze.anonymization.rules import WORDS
from kanalyze.anonymization.stand_ins import INTERNAL_TOPICS
from kanalyze.kafka.codec.interpreter import read_message
from kanalyze.kafka.schema.catalog import Catalog
from tests.support.anonymous import STAND_INS
from tests.support.vectors import definition_of, read_vectors

if TYPE_CHECKING:
    from tests.support.vectors import Vector

CATALOG = Catalog()
MOST = 1500


def frame_of(vector: Vector, client_id: bytes = b"the-client") -> bytes:
    """Return a frame with a test vector as its body."""
    key, version = vector.api_key or 0, vector.version
    if vector.kind == "request":
        header = struct.pack(">hhi", key, version, 7)
        kind = CATALOG.request_header_version(key, version)
        if kind:
            header += struct.pack(">h", len(client_id)) + client_id
        header += b"\0" if kind == 2 else b""
    else:
        header = struct.pack(">i", 7)
        header += b"\0" if CATALOG.response_header_version(key, version) else b""
    content = header + vector.content
    return struct.pack(">i", len(content)) + content


@pytest.fixture(scope="module")
def vectors() -> list[Vector]:
    """Return a sample of the test vectors that the definitions can read."""
    found = [each for each in read_vectors() if each.api_key is not None]
    random.Random(1).shuffle(found)
    return found[:MOST]


def shape(value: Any) -> Any:
    """Return a value with texts and bytes as their lengths."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shape(inner) for inner in value]
    if isinstance(value, str):
        return len(value.encode())
    return len(value) if isinstance(value, bytes) else value


def texts(value: Any) -> list[bytes]:
    if isinstance(value, dict):
        return [each for inner in value.values() for each in texts(inner)]
    if isinstance(value, list | tuple):
        return [each for inner in value for each in texts(inner)]
    if isinstance(value, str):
        return [value.encode()]
    return [value] if isinstance(value, bytes) else []


def test_vectors_keep_their_shape_and_lose_their_texts(vectors: list[Vector]) -> None:
    anonymizer = MessageAnonymizer(CATALOG, STAND_INS)
    read = 0
    for vector in vectors:
        frame = frame_of(vector)
        found = anonymizer.message(frame, vector.api_key, vector.version, vector.kind)  # type: ignore[arg-type]
        assert len(found.data) == len(frame)
        assert b"the-client" not in found.data
        if not found.is_read:
            continue
        read += 1
        at = len(frame) - len(vector.content)
        definition = definition_of(vector, CATALOG)
        if definition.valid_versions.contains(vector.version):
            before, end = read_message(definition, vector.version, frame, at)
            if end != len(frame):
                continue
            after, _ = read_message(definition, vector.version, found.data, at)
            assert shape(before) == shape(after)
            kept = WORDS | INTERNAL_TOPICS
            for text in texts(before):
                assert (
                    len(text) < 6 or text in kept or len(set(text)) == 1 or (text not in found.data)
                ), (vector.name, vector.version, text)
    assert read > len(vectors) * 0.95


def test_damaged_messages_keep_their_length_and_no_text(vectors: list[Vector]) -> None:
    """One byte is changed, the end is cut off, or bytes in the middle are missing."""
    anonymizer = MessageAnonymizer(CATALOG, STAND_INS)
    chance = random.Random(2)
    for vector in vectors[:300]:
        whole = frame_of(vector)
        changed = bytearray(whole)
        changed[chance.randrange(4, len(whole))] = chance.randrange(256)
        cut = bytes(changed[: chance.randrange(4, len(whole) + 1)])
        cases: list[tuple[bytes, list[tuple[int, int]]]] = [(bytes(changed), []), (cut, [])]
        if len(whole) >= 40:
            begin = chance.randrange(30, len(whole) - 1)
            end = chance.randrange(begin + 1, len(whole) + 1)
            holed = whole[:begin] + bytes(end - begin) + whole[end:]
            cases.append((holed, [(begin, end)]))
        kind: Any = vector.kind
        for data, holes in cases:
            found = anonymizer.message(data, vector.api_key, vector.version, kind, holes)
            assert len(found.data) == len(data)
            assert b"the-client" not in found.data


@pytest.mark.parametrize(
    ("rest", "expected"),
    [(bytes(4), bytes(4)), (bytes(5), bytes(5)), (b"\0\1", b"\xff\xff"), (b"text!", b"\xff" * 5)],
)
def test_only_padding_after_a_body_is_padding_in_its_place(rest: bytes, expected: bytes) -> None:
    content = struct.pack(">hhih", 18, 0, 7, -1)  # an ApiVersions request
    frame = struct.pack(">i", len(content + rest)) + content + rest
    found = MessageAnonymizer(CATALOG, STAND_INS).message(frame, 18, 0, "request")
    assert found.is_read
    assert found.data == frame[: -len(rest)] + expected


def test_an_unknown_api_keeps_only_its_header() -> None:
    content = struct.pack(">hhih", 999, 3, 7, 3) + b"abc" + b"secret body of an unknown API"
    frame = struct.pack(">i", len(content)) + content
    found = MessageAnonymizer(CATALOG, STAND_INS).message(frame, 999, 3, "request")
    assert found.data[:14] == frame[:14]
    assert found.data[14:17] == STAND_INS.name(b"abc")
    assert found.data[17:] == bytes(len(frame) - 17)
    assert not found.is_read


def test_an_orphan_response_keeps_only_its_correlation_id() -> None:
    frame = struct.pack(">ii", 20, 7) + b"what nobody knows"[:16]
    found = MessageAnonymizer(CATALOG, STAND_INS).message(frame, None, None, "response")
    assert found.data == frame[:8] + bytes(16)


def test_a_message_inside_an_envelope_is_anonymized_like_any_other() -> None:
    inner = struct.pack(">hhih", 3, 1, 9, 5) + b"admin" + struct.pack(">ih", 1, 6) + b"orders"
    body = bytes((len(inner) + 1,)) + inner + b"\x05User" + b"\x05\x7f\0\0\1" + b"\0"
    content = struct.pack(">hhih", 58, 0, 7, 6) + b"broker" + b"\0" + body
    frame = struct.pack(">i", len(content)) + content
    found = MessageAnonymizer(CATALOG, STAND_INS).message(frame, 58, 0, "request")
    assert found.is_read
    assert STAND_INS.name(b"orders") in found.data
    assert STAND_INS.name(b"admin") in found.data
    assert b"orders" not in found.data
    assert MessageAnonymizer(CATALOG, STAND_INS).forwarded(frame) == (3, 1)
