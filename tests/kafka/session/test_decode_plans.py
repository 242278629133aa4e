"""Whether bytes are a message, also in a layout that only some releases had; where a token is."""

from __future__ import annotations

import struct

import pytest

from kanalyze.kafka.wire import WireError
from tests.support import kafka as k
from tests.support.cases import for_each
from tests.support.session import READER, frame_of

CHECKS = READER.checks
HEARTBEAT = k.heartbeat(7)
TOKEN = b"\0alice\0secret-word"


@for_each(
    "case",
    [
        (HEARTBEAT, HEARTBEAT, True),
        (HEARTBEAT, HEARTBEAT + k.heartbeat(8), True),
        (HEARTBEAT, HEARTBEAT[:-3], None),
        (frame := k.request(k.API_VERSIONS, 0, 1, bytes(4)), frame, True),
        (frame := k.request(k.API_VERSIONS, 0, 1, b"more"), frame, False),
        (frame := k.request(k.HEARTBEAT, 99, 1, tags=b"\0"), frame, None),
    ],
)
def test_a_request_fits_if_its_body_fills_the_frame(
    case: tuple[bytes, bytes, bool | None],
) -> None:
    frame, data, expected = case
    size = len(frame) - 4
    header = READER.parse_header(memoryview(data), size)
    assert CHECKS.request_fits(memoryview(data), header, size) is expected


def test_a_response_fits_the_api_and_version_of_its_request() -> None:
    view = memoryview(k.heartbeat_answer(7))
    assert CHECKS.response_fits(view, len(view) - 4, k.HEARTBEAT, 0) is True
    assert CHECKS.response_fits(view, len(view) - 4, k.HEARTBEAT, 1) is False
    assert CHECKS.response_fits(view[:9], len(view) - 4, k.HEARTBEAT, 0) is None
    assert CHECKS.response_fits(view, len(view) - 4, k.HEARTBEAT, 99) is None
    refused = memoryview(k.api_versions_answer_v0(1, error_code=35))
    assert CHECKS.response_fits(refused, len(refused) - 4, k.API_VERSIONS, 4) is True


def test_a_frame_is_confirmed_by_its_body() -> None:
    frame = frame_of(HEARTBEAT)
    assert CHECKS.confirms_request(frame, READER.request_header(frame))
    response = frame_of(k.heartbeat_answer(7))
    assert CHECKS.confirms_response(response, k.HEARTBEAT, 0)
    assert not CHECKS.confirms_response(response, k.METADATA, 0)
    # Nothing speaks against an unknown version.
    assert CHECKS.confirms_response(response, k.HEARTBEAT, 99)


@for_each("length", [4, 7])
def test_a_response_too_short_for_its_header_is_not_confirmed(length: int) -> None:
    frame = frame_of(bytes(3) + bytes([length]) + bytes(length))
    with pytest.raises(WireError):
        READER.request_header(frame)
    assert not CHECKS.confirms_response(frame, k.HEARTBEAT, 0)


def test_a_token_has_an_exact_position_or_else_that_of_the_whole_body() -> None:
    request = k.request(k.SASL_AUTHENTICATE, 0, 2, struct.pack(">i", len(TOKEN)) + TOKEN)
    frame = frame_of(request)
    header = READER.request_header(frame)
    begin, end = READER.fields.token_in_request(frame, header)
    assert request[begin:end] == TOKEN
    longer = frame_of(request[:3] + bytes([request[3] + 2]) + request[4:] + b"??")
    found = READER.fields.token_in_request(longer, READER.request_header(longer))
    assert found == (header.body, longer.length)
    response = k.response(2, struct.pack(">hhi", 0, -1, len(TOKEN)) + TOKEN)
    begin, end = READER.fields.token_in_response(frame_of(response), 0)
    assert response[begin:end] == TOKEN
