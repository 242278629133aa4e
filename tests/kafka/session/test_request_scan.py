"""Requests in bytes that begin anywhere."""

from __future__ import annotations

import random
import struct

import pytest

from kanalyze.kafka.session.replay_buffer import ReplayBuffer
from kanalyze.kafka.session.request_scan import ScanState
from kanalyze.model.streams import Gap
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.streams import TIME_NS, chunk
from tests.support.talk import Talk

SCANNER = Talk().tracker._undecided._detector._scanner
LOTS = 1 << 30


def held(*pieces: bytes | int, snap: int | None = None) -> ReplayBuffer:
    """Buffer segments; a number is a gap."""
    stream, offset = ReplayBuffer(), 0
    for piece in pieces:
        if isinstance(piece, int):
            stream.add(Gap(offset, piece, TIME_NS, 1), -1, LOTS)
            offset += piece
        else:
            stream.add(chunk([piece], stream_offset=offset, snap=snap), 0, LOTS)
            offset += len(piece)
    return stream


def look(
    stream: ReplayBuffer, other: ReplayBuffer | None = None, *, last: bool = False
) -> str | None:
    return SCANNER.look(ScanState(), stream, other or ReplayBuffer(), last=last)


def test_a_named_request_is_enough() -> None:
    assert look(held(b"\xee" * 99 + k.heartbeat(1))) == "kafka"
    assert look(held(b"\xee" * 99 + old.produce())) == "kafka-0.7"


def test_a_request_without_a_name_needs_two_answers() -> None:
    requests = held(*(k.heartbeat(n, client_id="") for n in (5, 6)))
    assert look(requests, held(k.heartbeat_answer(5), k.heartbeat_answer(6))) == "kafka"
    assert look(requests, held(k.heartbeat_answer(5))) is None
    assert look(requests, held(k.heartbeat_answer(5)), last=True) is None


def test_requests_in_a_row_are_enough_where_the_other_end_was_not_captured() -> None:
    for many, found in ((3, "kafka"), (2, None)):
        requests = held(*(k.heartbeat(n, client_id="") for n in range(many)))
        assert look(requests) is None
        assert look(requests, last=True) == found
    repeated = held(*[k.heartbeat(4, client_id="")] * 4)
    assert look(repeated, last=True) is None


def test_after_a_loss_the_search_goes_on_behind_it() -> None:
    big = k.produce(1, 1, records=k.record_batch(9, 3000))
    assert look(held(big[100:900], 500, k.heartbeat(2))) == "kafka"


def test_a_request_that_the_snap_length_cut_needs_an_answer() -> None:
    frame = k.produce(9, 1, records=k.record_batch(9, 600))
    assert look(held(frame, snap=60), last=True) is None
    assert look(held(frame, snap=60), held(k.produce_answer(9), snap=20), last=True) == "kafka"
    assert look(held(b"x" + frame, snap=60), held(k.produce_answer(9)), last=True) is None


def test_a_request_that_has_only_begun_hides_none_behind_it() -> None:
    begun = b"\0\x10\0\0" + k.produce(1, 1)[4:]
    assert look(held(begun + k.heartbeat(2))) == "kafka"


# Requests larger than what is held of a direction.

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
    """Return the protocol found in a direction, which comes and is dropped in small steps."""
    buffered_bytes, search, offset = ReplayBuffer(), ScanState(), skip
    answers = held(other) if other else ReplayBuffer()
    while offset < len(data):
        piece = data[offset : offset + 16_000]
        buffered_bytes.add(chunk([piece], stream_offset=offset), 0, LOTS)
        offset += len(piece)
        wire = SCANNER.look(search, buffered_bytes, answers, last=offset == len(data))
        if wire is not None:
            return wire
        buffered_bytes.bound()
    return None


@pytest.mark.parametrize("size", [100, 70_000, 300_000, 3_000_000])
def test_a_request_of_any_size_is_followed_by_one_of_the_same_name(size: int) -> None:
    requests = [join_group(number, size) for number in (3, 9, 10)]
    assert stream(b"".join(requests), skip=50) == "kafka"
    # Its own number again, another name, no name: that may be another protocol's message.
    for other in (join_group(9, size), join_group(10, size, "someone"), NOISE.randbytes(size)):
        if size >= 300_000:  # of a smaller one all is held: it fits to the byte
            assert stream(requests[1] + other[:1000], skip=0) is None


@pytest.mark.parametrize("size", [70_000, 300_000])
def test_a_request_of_any_size_is_answered_to_the_byte(size: int) -> None:
    data, answer = join_group(9, size) + b"?" * 20, join_group_answer(9)
    assert stream(data, answer) == "kafka"
    for other in (answer[:-1], join_group_answer(8), answer[:3] + b"\xff" + answer[4:], b""):
        assert stream(data, other) is None


def test_a_request_whose_last_byte_never_came_was_not_answered() -> None:
    request, answer = join_group(9, 300), held(join_group_answer(9))
    # Behind a hole in its place, the last byte was sent.
    for rest, found in (((), None), ((1,), "kafka")):
        requests, search = held(request[:-1], *rest), ScanState()
        assert SCANNER.look(search, requests, answer) is None
        assert SCANNER.look(search, requests, answer, last=True) == found


@pytest.mark.parametrize("client_id", ["test", "", None])
@pytest.mark.parametrize("version", [0, 3, 8])
def test_the_head_of_its_records_is_enough_of_a_request(
    version: int, client_id: str | None
) -> None:
    records = k.record_batch(9, 90_000_000 >> 10)
    request = k.produce(9, 1, version=version, records=records)
    if client_id != "test":
        size = len(request) - 4 - (4 if client_id is None or not client_id else 0)
        null = b"\xff\xff" if client_id is None else b"\0\0"
        request = size.to_bytes(4, "big") + request[4:12] + null + request[18:]
    at = request.index(records[:61])
    assert look(held(b"\xee" * 99 + request[: at + 61])) == "kafka"
    for place, value in ((16, 3), (8, 0x7F), (21, 0x80), (26, 1)):
        wrong = bytearray(request[: at + 61])
        wrong[at + place] = value
        assert look(held(b"\xee" * 99 + bytes(wrong))) is None
