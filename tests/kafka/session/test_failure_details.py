"""The position at which a malformed body cannot be read, found within bounds of time."""

from __future__ import annotations

import struct

from kanalyze.kafka.session.failure_details import FailureDetails
from tests.kafka.session.test_decode_plans import new_plans
from tests.kafka.session.test_message_reader import READER, frame_of
from tests.support import kafka as k

PLAN = new_plans().request(k.METADATA, 1)


def explained(details: FailureDetails, body: bytes) -> str:
    frame = frame_of(k.request(k.METADATA, 1, 1, body))
    return details.explain(frame, READER.request_header(frame).body, PLAN, "why")


def test_the_position_is_reported_and_remembered_for_an_equal_message() -> None:
    details = FailureDetails()
    body = struct.pack(">i", 2) + k.string("t")
    assert explained(details, body) == "topics[1].name, byte 25: the bytes end too early"
    explained_bytes = details._explained_bytes
    assert explained(details, body) == "topics[1].name, byte 25: the bytes end too early"
    assert details._explained_bytes == explained_bytes


def test_a_large_message_has_only_the_reason_of_its_decoder() -> None:
    assert explained(FailureDetails(), struct.pack(">i", 1 << 24) + bytes(20_000)) == "why"
