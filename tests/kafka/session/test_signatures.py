"""Protocols by their first bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.signatures import PROTOCOLS, describe_size, guess_protocol
from tests.support import kafka as k
from tests.support.work import calls_of

ZOOKEEPER = struct.pack(">iiqiqi", 44, 0, 0, 30_000, 0, 16) + bytes(16)
MYSQL = b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0\xff\xff\xff\x02\0" + bytes(60)
MONGO = struct.pack("<iiii", 60, 7, 0, 2013) + bytes(44)
CQL = b"\x04\0\0\0\x01\0\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.0.0"
DNS = b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\7example\3com\0\0\1\0\1"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (bytes.fromhex("16030100c8010000c40303"), "tls"),
        (b"GET /index.html HTTP/1.1\r\n", "http"),
        (b"GET /" + b"x" * 250, "http"),
        (b"HTTP/1.0 404 Not Found\r\n", "http"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http"),
        # RFC 2743 section 3.1, in a frame; without its size it is of another protocol.
        (bytes.fromhex("0000005a605806062b0601050502a04e") + bytes(78), "gssapi"),
        (bytes.fromhex("605806062b0601050502a04e") + bytes(78), "unknown"),
        (bytes.fromhex("0000005a605806062b0601050503a04e") + bytes(78), "unknown"),
        (ZOOKEEPER, "zookeeper"),
        (struct.pack(">iiiqi", 37, 0, 30_000, 5, 16) + bytes(17), "zookeeper"),
        (b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b", "zookeeper"),
        (b"ruok", "zookeeper"),
        (struct.pack(">ii", 41, 196_608) + b"user\0postgres\0", "postgresql"),
        (struct.pack(">ii", 8, 80_877_103), "postgresql"),
        (b"R\0\0\0\x08\0\0\0\0S\0\0\0\x0bTZ\0UTC\0", "postgresql"),
        (MYSQL, "mysql"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (b"AMQP\0\0\x09\x01", "amqp"),
        (MONGO, "mongodb"),
        (CQL, "cassandra"),
        (b'INFO {"server_id":"N1","version":"2.10"}\r\n', "nats"),
        (b"*1\r\n$4\r\nPING\r\n", "redis"),
        (b"-ERR unknown command\r\n", "redis"),
        (b"get key1\r\n", "memcached"),
        (b"220 mail.example.org ESMTP ready\r\n", "smtp"),
        (b"220 (vsFTPd 3.0.3) FTP\r\n", "ftp"),
        (DNS, "dns"),
        (bytes(20), "zeros"),
        (b"", "none"),
        (b"\x05" * 40, "unknown"),
        (k.heartbeat(1), "unknown"),
        (k.produce(1, 1), "unknown"),
        (k.api_versions(1), "unknown"),
    ],
)
def test_a_protocol_is_recognized_in_either_direction(head: bytes, name: str) -> None:
    assert guess_protocol(head, b"") == guess_protocol(b"", head) == name


def test_a_postgresql_connection_that_requests_tls_keeps_its_name() -> None:
    ssl_request = struct.pack(">ii", 8, 80_877_103)
    assert guess_protocol(ssl_request, b"S") == "postgresql"


def test_zeros_in_one_direction_alone_are_unknown() -> None:
    assert guess_protocol(bytes(20), b"\x01" * 20) == "unknown"


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_have_a_name(first: bytes, second: bytes) -> None:
    assert guess_protocol(first, second) in PROTOCOLS


def test_names_of_protocols_are_unique_and_in_lower_case() -> None:
    assert len(set(PROTOCOLS)) == len(PROTOCOLS)
    assert all(name.islower() for name in PROTOCOLS)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1213486160, ', the text "HTTP": the server speaks HTTP'),
        (int.from_bytes(b"GET "), ', the text "GET ": the server speaks HTTP'),
        (int.from_bytes(b"SSH-"), ', the text "SSH-": the server speaks SSH'),
        (int.from_bytes(b"PROX"), ', the text "PROX": the server speaks PROXY protocol'),
        (int.from_bytes(b"\r\n\r\n"), ", two empty lines: the server speaks PROXY protocol"),
        (0x16030100, ", the beginning of a TLS record: the server speaks TLS"),
        (0x15030300, ", the beginning of a TLS record: the server speaks TLS"),
        (0x16040100, ""),
        (int.from_bytes(b"pass"), ""),
        *((size, "") for size in (-1, -(2**31), 2**31 - 1, 0, 4)),
    ],
)
def test_a_size_that_is_known_text_is_described(size: int, text: str) -> None:
    """Text that may be of a record or a password is not."""
    assert describe_size(size, "the server") == text
    assert describe_size(size, None) == text.partition(":")[0]


@pytest.mark.parametrize("size", range(4))
def test_fewer_bytes_than_any_protocol_needs_are_compared_with_none(size: int) -> None:
    assert calls_of(lambda: guess_protocol(b"\1" * size, b"")) < 12
    assert guess_protocol(b"\1" * size, b"") == ("unknown" if size else "none")
