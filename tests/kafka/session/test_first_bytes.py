"""Verdicts on the first bytes of a stream, in any segments."""

from __future__ import annotations

import pytest

from kanalyze.kafka.session.first_bytes import FirstBytes
from kanalyze.kafka.session.replay_buffer import ReplayBuffer
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.streams import chunk
from tests.support.talk import Talk

READER = Talk().tracker._undecided._detector._first


@pytest.mark.parametrize(
    "frame",
    [
        k.heartbeat(1),
        k.api_versions(1),
        k.produce(1, 1),
        k.request(k.CONTROLLED_SHUTDOWN, 0, 1, bytes(4), client_id=None)[:12] + bytes(4),
        k.request(k.LIST_GROUPS, 0, 1, client_id=None),
        k.heartbeat(1, client_id="n" * 300),
    ],
)
def test_every_prefix_of_a_request_may_be_a_request(frame: bytes) -> None:
    frame = len(frame[4:]).to_bytes(4, "big") + frame[4:]
    for end in range(len(frame)):
        assert READER.verdict(memoryview(frame[:end])) == "perhaps", end
    assert READER.verdict(memoryview(frame)) == "yes"


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1", bytes(12), b"\xff" * 12, b"\0\0\0\x09" + bytes(9), b"\0\0\0\x20\x7f\x7f"],
)
def test_bytes_that_begin_no_request_are_rejected_early(data: bytes) -> None:
    assert READER.verdict(memoryview(data)) == "no"


def test_a_request_is_recognized_byte_by_byte() -> None:
    for frame in (k.heartbeat(1), old.fetch(0), k.produce(1, 1, records=k.record_batch(9, 3000))):
        first, buffer = FirstBytes(), ReplayBuffer()
        for index in range(len(frame)):
            buffer.add(chunk([frame[index : index + 1]], stream_offset=index), 0, 1)
            READER.look(first, buffer)
        assert "yes" in (first.new, first.old)


def test_the_heads_of_the_first_two_requests_are_read() -> None:
    first, buffer = FirstBytes(), ReplayBuffer()
    buffer.add(chunk([k.heartbeat(1) + k.heartbeat(2) + k.heartbeat(3)]), 0, 1 << 20)
    READER.look(first, buffer)
    assert [head.correlation_id[3] for head in first.heads] == [1, 2]


def test_a_large_request_is_checked_seldom_while_it_arrives() -> None:
    frame = k.produce(1, 1, records=k.record_batch(9, 30_000))
    first, buffer, looks = FirstBytes(), ReplayBuffer(), 0
    for index in range(4000):
        buffer.add(chunk([frame[index : index + 1]], stream_offset=index), 0, 1)
        looks += first.is_due(buffer, last=False)
        READER.look(first, buffer)
    assert looks < 64 + 30
