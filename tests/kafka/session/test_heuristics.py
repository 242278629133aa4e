"""Evidence that bytes are a request, and what its header may say."""

from __future__ import annotations

import pytest

from kanalyze.kafka.session.heuristics import (
    LONGEST_CLIENT_ID_BYTES,
    has_answer,
    is_answered_first,
    is_plausible_client_id,
    names_client,
    read_head,
)
from kanalyze.kafka.session.resync import RequestCandidates
from tests.support import kafka as k
from tests.support.cases import for_each
from tests.support.session import CATALOG, READER, buffered
from tests.support.talk import Talk

FIRST_BYTES = Talk().tracker._undecided._detector._first


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


@for_each("frame", [b"", bytes(20), b"\xff" * 20, k.heartbeat(1)[:11]])
def test_bytes_that_begin_no_request_have_no_head(frame: bytes) -> None:
    assert read_head(READER, memoryview(frame)) is None


@for_each(
    "case",
    [
        # The first response must have the id.
        (7, k.heartbeat_answer(7), False, True),
        (7, k.heartbeat_answer(8), False, False),
        (7, k.heartbeat_answer(7)[:7], False, None),
        (7, b"\x7f\xff\xff\xff\0\0\0\x07", False, False),
        (7, k.heartbeat_answer(7)[:-1], True, True),
        # An id of zero is no evidence without a body that fits.
        (0, k.heartbeat_answer(0), False, True),
        (0, k.response(0, bytes(30)), False, False),
        (0, k.heartbeat_answer(0)[:-1], True, None),
        (0, k.heartbeat_answer(0)[:-1], False, True),
    ],
)
def test_the_first_response_shows_that_bytes_are_a_request(
    case: tuple[int, bytes, bool, bool | None],
) -> None:
    number, response, may_grow, expected = case
    head = read_head(READER, memoryview(k.heartbeat(number, client_id="")))
    assert head is not None
    found = is_answered_first(READER, head, memoryview(response), fits=True, may_grow=may_grow)
    assert found is expected


def test_a_response_is_found_at_the_start_of_any_segment() -> None:
    head = read_head(READER, memoryview(k.heartbeat(7, client_id="")))
    assert head is not None
    response = k.heartbeat_answer(7)
    assert has_answer(READER, head, buffered(b"noise", response), 0)
    for other in (
        buffered(b"noise" + response),
        buffered(b"noise", k.response(7, bytes(9))),
        buffered(b"noise", k.heartbeat_answer(8)),
    ):
        assert not has_answer(READER, head, other, 0)


def test_a_client_id_is_short_text_without_control_characters_or_null() -> None:
    assert is_plausible_client_id(None)
    assert not is_plausible_client_id("é" * (LONGEST_CLIENT_ID_BYTES // 4 + 1))
    assert not is_plausible_client_id("consumer\n")
    # Kafka allows all of these, and what is printable depends on the version of Unicode.
    for text in ("", "a\u200db", "\U000e0fff", "\ue000", "\u202eb", "a\u00a0b", "a\x85b"):
        assert is_plausible_client_id(text)


def test_the_longest_client_id_is_accepted_before_and_after_its_last_byte() -> None:
    client_id = "\N{GRINNING FACE}" * (LONGEST_CLIENT_ID_BYTES // 4)
    request = k.heartbeat(1, client_id=client_id)
    # A candidate is looked for in bytes that have come, so there the header has to be complete.
    assert RequestCandidates(CATALOG).find(memoryview(request), 1) == [0]
    assert FIRST_BYTES.verdict(memoryview(request[:100])) == "perhaps"
    assert FIRST_BYTES.verdict(memoryview(request)) == "yes"
