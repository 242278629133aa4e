from __future__ import annotations

import numpy as np

from kanalyze.live.recorder.packet_ring import SegmentPayloads, TokenRedactor
from kanalyze.model.streams import TokenBytes
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.support.packets import START_NS, tcp

SENDER = (1, 2)
NS_PER_S = 1_000_000_000


def connection(serial: int = 1) -> TcpConnection:
    ends = (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", 9092))
    tcp_connection = TcpConnection(serial, ends, 1, 0, START_NS, START_NS)
    tcp_connection.first_sequence = [100, 500]
    return tcp_connection


def token(
    offset: int, length: int | None = 4, of_connection: TcpConnection | None = None
) -> TokenBytes:
    end = None if length is None else offset + length
    return TokenBytes(of_connection or CONNECTION, 0, offset, offset, end, START_NS)


CONNECTION = connection()


def redacted(
    redactor: TokenRedactor, sequence: int, payload: bytes, time_ns: int = START_NS
) -> bytes:
    """Return the payload of a segment after redaction."""
    data = bytearray(b"\xee" * 3 + tcp(seq=sequence, payload=payload))
    start = len(data) - len(payload)
    segments = SegmentPayloads(
        np.array([time_ns]),
        np.array([sequence]),
        np.array([start]),
        np.array([len(payload)]),
        np.array([50000 << 16 | 9092], np.uint32),
    )
    redactor.redact(memoryview(data), segments, SENDER)
    return bytes(data[start:])


def test_a_new_length_of_a_token_replaces_the_earlier_one() -> None:
    redactor = TokenRedactor()
    redactor.add(SENDER, token(2, None), 0)
    assert redacted(redactor, 100, b"12345678") == b"12" + bytes(6)
    assert redacted(redactor, 90, b"12345678") == b"12345678"
    assert redacted(redactor, 5000, b"12345678") == bytes(8)
    redactor.add(SENDER, token(2, 3), 0)
    assert redacted(redactor, 100, b"12345678") == b"12\0\0\x00678"
    redactor.add(SENDER, token(2, 0), 0)
    assert redacted(redactor, 100, b"12345678") == b"12345678"
    assert not redactor


def test_segments_of_other_senders_are_not_redacted() -> None:
    redactor = TokenRedactor()
    redactor.add((1, 3), token(0), 0)
    assert redacted(redactor, 100, b"12345678") == b"12345678"


def test_tokens_are_kept_for_a_minute_of_possible_retransmissions() -> None:
    redactor = TokenRedactor()
    redactor.add(SENDER, token(0), 10 * NS_PER_S)
    redactor.drop(70 * NS_PER_S)
    assert redactor
    redactor.drop(70 * NS_PER_S + 1)
    assert not redactor
    assert len(redactor.connections) == 0


def test_a_segment_long_after_the_end_of_a_connection_is_not_redacted() -> None:
    ended = connection()
    ended.end = "fin"
    redactor = TokenRedactor()
    redactor.add(SENDER, token(0, 4, ended), 0)
    assert redacted(redactor, 100, b"1234", START_NS + 60 * NS_PER_S) == bytes(4)
    assert redacted(redactor, 100, b"1234", START_NS + 61 * NS_PER_S) == b"1234"


def test_everything_from_a_sender_with_too_many_tokens_is_redacted() -> None:
    redactor = TokenRedactor()
    for offset in range(0, 8 * 257, 8):
        redactor.add(SENDER, token(offset), 0)
    assert redacted(redactor, 5, b"1234") == bytes(4)
    assert redacted(redactor, 1 << 31, b"1234") == bytes(4)
    redactor.drop(61 * NS_PER_S)
    assert not redactor


def test_the_older_half_of_too_many_tokens_is_dropped() -> None:
    redactor = TokenRedactor()
    for number in range((1 << 14) + 1):
        assert not redactor.is_full
        redactor.add((number, 2), token(0), number)
    assert redactor.is_full
    redactor.drop_half()
    assert not redactor.is_full
    assert min(redactor.connections) > (1 << 14) // 3
