"""Single fields that a connection needs, and the position of a token."""

from __future__ import annotations

import struct

from tests.kafka.session.test_message_reader import READER, frame_of
from tests.support import kafka as k

TOKEN = b"\0alice\0secret-word"


def test_named_fields_are_read_apart_from_the_selected_ones() -> None:
    frame = frame_of(k.api_versions(1, name="lib", number="1.2"))
    header = READER.request_header(frame)
    read = READER.fields.of_request
    assert read(frame, header, "ClientSoftwareName", "ClientSoftwareVersion") == ("lib", "1.2")
    response = frame_of(k.heartbeat_answer(7))
    assert READER.fields.of_response(response, k.HEARTBEAT, 0, "ErrorCode") == (0,)
    assert READER.fields.of_response(response, k.HEARTBEAT, 99, "ErrorCode") is None
    broken = frame_of(k.request(k.HEARTBEAT, 0, 2, b"\x7f\xff"))
    assert read(broken, READER.request_header(broken), "GroupId") is None


def test_a_token_has_an_exact_position_or_else_that_of_the_whole_body() -> None:
    request = k.request(k.SASL_AUTHENTICATE, 0, 2, struct.pack(">i", len(TOKEN)) + TOKEN)
    frame = frame_of(request)
    header = READER.request_header(frame)
    begin, end = READER.fields.token_in_request(frame, header)
    assert request[begin:end] == TOKEN
    longer = frame_of(request[:3] + bytes([request[3] + 2]) + request[4:] + b"??")
    assert READER.fields.token_in_request(longer, READER.request_header(longer)) == (
        *(header.body, longer.length),
    )
    response = k.response(2, struct.pack(">hhi", 0, -1, len(TOKEN)) + TOKEN)
    begin, end = READER.fields.token_in_response(frame_of(response), 0)
    assert response[begin:end] == TOKEN
