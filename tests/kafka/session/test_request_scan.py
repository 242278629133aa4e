"""Requests in bytes that begin anywhere."""

from __future__ import annotations

import random
import struct

import pytest

from kanalyze.kafka.session.replay_buffer import ReplayBuffer
from kanalyze.kafka.session.request_scan import FirstBytes, ScanState
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.session import NO_LIMIT, buffered
from tests.support.streams import chunk
from tests.support.talk import Talk
from tests.support.work import calls_of

SCANNER = Talk().tracker._undecided._detector._scanner
FIRST_BYTES = Talk().tracker._undecided._detector._first


def look(
    stream: ReplayBuffer, other: ReplayBuffer | None = None, *, last: bool = False
) -> str | None:
    return SCANNER.look(ScanState(), stream, other or ReplayBuffer(), last=last)


def test_one_request_with_a_client_id_is_enough() -> None:
    assert look(buffered(b"\xee" * 99 + k.heartbeat(1))) == "kafka"
    assert look(buffered(b"\xee" * 99 + old.produce())) == "kafka-0.7"


def test_requests_without_a_client_id_need_two_responses() -> None:
    requests = buffered(*(k.heartbeat(n, client_id="") for n in (5, 6)))
    assert look(requests, buffered(k.heartbeat_answer(5), k.heartbeat_answer(6))) == "kafka"
    assert look(requests, buffered(k.heartbeat_answer(5))) is None
    assert look(requests, buffered(k.heartbeat_answer(5)), last=True) is None


def test_three_requests_in_a_row_are_enough_if_the_other_end_was_not_captured() -> None:
    for count, protocol in ((3, "kafka"), (2, None)):
        requests = buffered(*(k.heartbeat(n, client_id="") for n in range(count)))
        assert look(requests) is None
        assert look(requests, last=True) == protocol
    repeated = buffered(*[k.heartbeat(4, client_id="")] * 4)
    assert look(repeated, last=True) is None


def test_the_search_continues_after_a_loss() -> None:
    big = k.produce(1, 1, records=k.record_batch(9, 3000))
    assert look(buffered(big[100:900], 500, k.heartbeat(2))) == "kafka"


def test_a_request_that_the_snap_length_cut_needs_a_response() -> None:
    frame = k.produce(9, 1, records=k.record_batch(9, 600))
    assert look(buffered(frame, snap=60), last=True) is None
    answer = buffered(k.produce_answer(9), snap=20)
    assert look(buffered(frame, snap=60), answer, last=True) == "kafka"
    assert look(buffered(b"x" + frame, snap=60), buffered(k.produce_answer(9)), last=True) is None


def test_an_incomplete_request_hides_no_later_request() -> None:
    begun = b"\0\x10\0\0" + k.produce(1, 1)[4:]
    assert look(buffered(begun + k.heartbeat(2))) == "kafka"


# Requests larger than the buffer of a direction.

NOISE = random.Random(1)


def join_group(number: int, size: int, client_id: str | None = "test") -> bytes:
    """JoinGroup v0, with metadata of so many bytes."""
    body = k.string("g") + struct.pack(">i", 9000) + k.string("") + k.string("consumer")
    body += struct.pack(">i", 1) + k.string("range") + struct.pack(">i", size)
    return k.request(11, 0, number, body + NOISE.randbytes(size), client_id=client_id)


def join_group_answer(number: int) -> bytes:
    strings = k.string("range") + k.string("m") + k.string("m")
    return k.response(number, struct.pack(">hi", 0, 1) + strings + struct.pack(">i", 0))


def stream(data: bytes, other: bytes = b"", *, skip: int = 0) -> str | None:
    """Return the protocol of a direction whose bytes come, and are dropped, in small steps."""
    replay_buffer, search, offset = ReplayBuffer(), ScanState(), skip
    responses = buffered(other) if other else ReplayBuffer()
    while offset < len(data):
        piece = data[offset : offset + 16_000]
        replay_buffer.add(chunk([piece], stream_offset=offset), 0, NO_LIMIT)
        offset += len(piece)
        wire = SCANNER.look(search, replay_buffer, responses, last=offset == len(data))
        if wire is not None:
            return wire
        replay_buffer.bound()
    return None


@pytest.mark.parametrize("size", [100, 70_000, 300_000, 3_000_000])
def test_two_requests_of_any_size_with_the_same_client_id_are_enough(size: int) -> None:
    requests = [join_group(number, size) for number in (3, 9, 10)]
    assert stream(b"".join(requests), skip=50) == "kafka"
    # With the same id, another client id, or noise, it may be a message of another protocol.
    for other in (join_group(9, size), join_group(10, size, "someone"), NOISE.randbytes(size)):
        if size >= 300_000:  # a smaller request is buffered whole, and its body fits
            assert stream(requests[1] + other[:1000], skip=0) is None


@pytest.mark.parametrize("size", [70_000, 300_000])
def test_a_request_of_any_size_is_recognized_by_a_response_that_fits(size: int) -> None:
    data, response = join_group(9, size) + b"?" * 20, join_group_answer(9)
    assert stream(data, response) == "kafka"
    for other in (response[:-1], join_group_answer(8), response[:3] + b"\xff" + response[4:], b""):
        assert stream(data, other) is None


def test_a_request_whose_last_byte_was_not_sent_was_not_answered() -> None:
    request, response = join_group(9, 300), buffered(join_group_answer(9))
    # A gap in place of the last byte shows that it was sent.
    for rest, found in (((), None), ((1,), "kafka")):
        requests, search = buffered(request[:-1], *rest), ScanState()
        assert SCANNER.look(search, requests, response) is None
        assert SCANNER.look(search, requests, response, last=True) == found


@pytest.mark.parametrize("client_id", ["test", "", None])
@pytest.mark.parametrize("version", [0, 3, 8])
def test_a_request_is_recognized_by_the_header_of_its_records(
    version: int, client_id: str | None
) -> None:
    records = k.record_batch(9, 90_000_000 >> 10)
    request = k.produce(9, 1, version=version, records=records)
    if client_id != "test":
        size = len(request) - 4 - (4 if client_id is None or not client_id else 0)
        null = b"\xff\xff" if client_id is None else b"\0\0"
        request = size.to_bytes(4, "big") + request[4:12] + null + request[18:]
    at = request.index(records[:61])
    assert look(buffered(b"\xee" * 99 + request[: at + 61])) == "kafka"
    for position, value in ((16, 3), (8, 0x7F), (21, 0x80), (26, 1)):
        wrong = bytearray(request[: at + 61])
        wrong[at + position] = value
        assert look(buffered(b"\xee" * 99 + bytes(wrong))) is None


@pytest.mark.parametrize("size", range(8))
def test_a_few_bytes_are_not_searched(size: int) -> None:
    """A flood of connections has a byte or two each: that they are no request is known at once."""
    look(buffered(k.heartbeat(1)))  # modules are imported with the first search
    requests, nothing = buffered(k.heartbeat(1)[:size]), ReplayBuffer()
    assert calls_of(lambda: SCANNER.look(ScanState(), requests, nothing)) < 20
    assert look(requests, last=True) is None


# -- the first bytes of a stream -------------------------------------------------------------------


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
        assert FIRST_BYTES.verdict(memoryview(frame[:end])) == "perhaps", end
    assert FIRST_BYTES.verdict(memoryview(frame)) == "yes"


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1", bytes(12), b"\xff" * 12, b"\0\0\0\x09" + bytes(9), b"\0\0\0\x20\x7f\x7f"],
)
def test_bytes_that_begin_no_request_are_rejected_early(data: bytes) -> None:
    assert FIRST_BYTES.verdict(memoryview(data)) == "no"


def test_the_heads_of_the_first_two_requests_are_read() -> None:
    first, buffer = FirstBytes(), ReplayBuffer()
    buffer.add(chunk([k.heartbeat(1) + k.heartbeat(2) + k.heartbeat(3)]), 0, 1 << 20)
    FIRST_BYTES.look(first, buffer)
    assert [head.correlation_id[3] for head in first.heads] == [1, 2]


def test_a_large_request_is_checked_seldom_while_it_arrives() -> None:
    frame = k.produce(1, 1, records=k.record_batch(9, 30_000))
    first, buffer, looks = FirstBytes(), ReplayBuffer(), 0
    for index in range(4000):
        buffer.add(chunk([frame[index : index + 1]], stream_offset=index), 0, 1)
        looks += first.is_due(buffer, last=False)
        FIRST_BYTES.look(first, buffer)
    assert looks < 64 + 30
