"""Evidence that bytes are a request."""

from __future__ import annotations

import pytest

from kanalyze.kafka.session.heuristics import has_answer, is_answered_first, names_client, read_head
from kanalyze.kafka.session.replay_buffer import ReplayBuffer
from tests.support import kafka as k
from tests.support.streams import chunk
from tests.support.talk import Talk

READER = Talk().reader


def buffered(*pieces: bytes) -> ReplayBuffer:
    stream = ReplayBuffer()
    stream.add(chunk(pieces), 0, 1 << 30)
    return stream


@pytest.mark.parametrize(
    ("name", "length"),
    [
        *((None, 0), ("", 0), ("abc", 3), ("rdkafka", 7), ("a\x01bcd", 0), ("abcd\x7f", 0)),
        *(("\N{MAN}\u200d\N{WOMAN}\u200d", 4), ("\U000e0fff\ue000\u2028\x85", 4)),
    ],
)
def test_a_head_has_the_client_id(name: str | None, length: int) -> None:
    head = read_head(READER, memoryview(k.heartbeat(7, client_id=name)))
    assert head is not None
    assert (head.api_key, head.correlation_id) == (k.HEARTBEAT, b"\0\0\0\x07")
    assert (len(head.name), head.is_named) == (length, length >= 4)
    frame = memoryview(k.heartbeat(7, client_id=name))
    assert names_client(frame, READER.parse_header(frame, len(frame) - 4)) == head.is_named


def test_bytes_that_are_no_text_are_no_client_id() -> None:
    frame = k.heartbeat(7, client_id="abcdefgh").replace(b"abcdefgh", b'\xf5\xb1e"JX\xb7\x91')
    head = read_head(READER, memoryview(frame))
    assert head is not None
    assert not head.is_named


@pytest.mark.parametrize("frame", [b"", bytes(20), b"\xff" * 20, k.heartbeat(1)[:11]])
def test_bytes_that_begin_no_request_have_no_head(frame: bytes) -> None:
    assert read_head(READER, memoryview(frame)) is None


def is_answered(
    name: str | None, response: bytes, number: int = 7, *, may_grow: bool = False
) -> bool | None:
    head = read_head(READER, memoryview(k.heartbeat(number, client_id=name)))
    assert head is not None
    return is_answered_first(READER, head, memoryview(response), fits=True, may_grow=may_grow)


def test_the_first_response_must_have_the_id() -> None:
    assert is_answered("", k.heartbeat_answer(7)) is True
    assert is_answered("", k.heartbeat_answer(8)) is False
    assert is_answered("", k.heartbeat_answer(7)[:7]) is None
    assert is_answered("", b"\x7f\xff\xff\xff\0\0\0\x07") is False


def test_an_id_of_zero_is_no_evidence_without_a_body_that_fits() -> None:
    assert is_answered("", k.heartbeat_answer(0), 0) is True
    assert is_answered("", k.response(0, bytes(30)), 0) is False


def test_an_incomplete_response_to_an_id_of_zero_is_awaited() -> None:
    incomplete = k.heartbeat_answer(0)[:-1]
    assert is_answered("", incomplete, 0, may_grow=True) is None
    assert is_answered("", incomplete, 0) is True
    assert is_answered("", k.heartbeat_answer(7)[:-1], may_grow=True) is True


def test_a_response_is_found_at_the_start_of_any_segment() -> None:
    head = read_head(READER, memoryview(k.heartbeat(7, client_id="")))
    assert head is not None
    response = k.heartbeat_answer(7)
    assert has_answer(READER, head, buffered(b"noise", response), 0)
    assert not has_answer(READER, head, buffered(b"noise" + response), 0)
    assert not has_answer(READER, head, buffered(b"noise", k.response(7, bytes(9))), 0)
    assert not has_answer(READER, head, buffered(b"noise", k.heartbeat_answer(8)), 0)
