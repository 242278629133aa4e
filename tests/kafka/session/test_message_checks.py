"""Checks whether bytes are a message, also in a layout that only some releases had."""

from __future__ import annotations

import pytest

from kanalyze.kafka.wire import WireError
from tests.kafka.session.test_message_reader import READER, frame_of
from tests.support import kafka as k

CHECKS = READER.checks
HEARTBEAT = k.heartbeat(7)


def fits(data: bytes, size: int | None = None) -> bool | None:
    view = memoryview(data)
    header = READER.parse_header(view, len(HEARTBEAT) - 4 if size is None else size)
    return CHECKS.request_fits(view, header, len(HEARTBEAT) - 4 if size is None else size)


def test_a_request_fits_if_its_body_fills_the_frame() -> None:
    assert fits(HEARTBEAT) is True
    assert fits(HEARTBEAT + k.heartbeat(8)) is True
    assert fits(HEARTBEAT[:-3]) is None
    padded = k.request(k.API_VERSIONS, 0, 1, bytes(4))
    assert fits(padded, len(padded) - 4) is True
    longer = k.request(k.API_VERSIONS, 0, 1, b"more")
    assert fits(longer, len(longer) - 4) is False
    unknown = k.request(k.HEARTBEAT, 99, 1, tags=b"\0")
    assert fits(unknown, len(unknown) - 4) is None


def test_a_response_fits_the_api_and_version_of_its_request() -> None:
    view = memoryview(k.heartbeat_answer(7))
    assert CHECKS.response_fits(view, len(view) - 4, k.HEARTBEAT, 0) is True
    assert CHECKS.response_fits(view, len(view) - 4, k.HEARTBEAT, 1) is False
    assert CHECKS.response_fits(view[:9], len(view) - 4, k.HEARTBEAT, 0) is None
    assert CHECKS.response_fits(view, len(view) - 4, k.HEARTBEAT, 99) is None
    refused = memoryview(k.api_versions_answer_v0(1, error_code=35))
    assert CHECKS.response_fits(refused, len(refused) - 4, k.API_VERSIONS, 4) is True


def test_a_complete_frame_is_checked_in_place() -> None:
    frame = frame_of(HEARTBEAT)
    header = READER.request_header(frame)
    assert CHECKS.whole_request_fits(frame, header)
    broken = frame_of(k.request(k.HEARTBEAT, 0, 2, b"\x7f\xff"))
    assert not CHECKS.whole_request_fits(broken, READER.request_header(broken))


def test_a_frame_is_confirmed_by_its_body() -> None:
    frame = frame_of(HEARTBEAT)
    assert CHECKS.confirms_request(frame, READER.request_header(frame))
    response = frame_of(k.heartbeat_answer(7))
    assert CHECKS.confirms_response(response, k.HEARTBEAT, 0)
    assert not CHECKS.confirms_response(response, k.METADATA, 0)
    # Nothing speaks against an unknown version.
    assert CHECKS.confirms_response(response, k.HEARTBEAT, 99)


@pytest.mark.parametrize("length", [4, 7])
def test_a_response_too_short_for_its_header_is_not_confirmed(length: int) -> None:
    frame = frame_of(bytes(3) + bytes([length]) + bytes(length))
    with pytest.raises(WireError):
        READER.request_header(frame)
    assert not CHECKS.confirms_response(frame, k.HEARTBEAT, 0)
