"""Prefixes are recognized whole, however many of their bytes have come; nothing else is taken."""

from __future__ import annotations

from random import Random

import pytest

from kanalyze.net.proxy.grammar import MAX_HEAD_BYTES, Head, Prefix, may_have_secrets, read_prefix
from tests.support import proxied
from tests.support.cases import for_each
from tests.support.proxied import OTHER, PREFIXES, SENDER, Turn, sent

KAFKA = b"\0\0\0\x20\0\x12\0\3\0\0\0\0\0\4test"
NAMED = {
    "PROXY v1": (proxied.CLIENT, None),
    "PROXY v1, IPv6": (proxied.CLIENT_6, None),
    "PROXY v2": (proxied.CLIENT, None),
    "PROXY v2, IPv6": (proxied.CLIENT_6, None),
    "PROXY v2, long": (proxied.CLIENT, None),
    "HTTP CONNECT": (None, f"{proxied.TARGET}:9092"),
    "HTTP CONNECT, login": (None, f"{proxied.TARGET}:9092"),
    "SOCKS5": (None, f"{proxied.TARGET}:9092"),
    "SOCKS5, password": (None, "10.0.0.2:9092"),
    "SOCKS5, IPv6": (None, "[2001:db8::2]:9092"),
    "SOCKS4": (None, "10.0.0.2:9092"),
    "SOCKS4a": (None, f"{proxied.TARGET}:9092"),
    "PROXY v1, PROXY v2": (proxied.CLIENT, None),
    "SOCKS5, PROXY v1": (proxied.CLIENT, f"{proxied.TARGET}:9092"),
}


def read(sender: bytes, other: bytes = b"", over: tuple[bool, bool] = (False, False)):
    return read_prefix(Head(sender, over[0]), Head(other, over[1]))


def kinds(prefix: Prefix | None) -> list[str] | None:
    return None if prefix is None else [layer.kind for layer in prefix.layers]


def both(turns: list[Turn]) -> tuple[bytes, bytes]:
    return sent(turns, SENDER), sent(turns, OTHER)


@for_each("name", sorted(PREFIXES))
def test_a_prefix_ends_where_the_protocol_begins(name: str) -> None:
    sender, other = both(PREFIXES[name])
    prefix = read(sender + KAFKA, other + b"\0\0")
    assert prefix is not None
    assert "+".join(layer.kind for layer in prefix.layers) == proxied.kind_of(name)
    assert prefix.ends == (len(sender), len(other))
    clients = [layer.client for layer in prefix.layers if layer.client]
    targets = [layer.target for layer in prefix.layers if layer.target]
    named = (clients[-1] if clients else None, targets[-1] if targets else None)
    assert named == NAMED.get(name, (None, None))


@for_each("name", sorted(set(PREFIXES) - {"PROXY v2, long"}))
def test_more_bytes_are_waited_for_at_every_byte(name: str) -> None:
    """Nothing is decided before the next byte behind the prefix, whichever end is late."""
    sender, other = both(PREFIXES[name])
    for size in range(1, len(sender) + 1):
        assert read(sender[:size], other) is None, size
    for size in range(len(other)):
        assert read(sender + KAFKA, other[:size]) is None, size


@for_each("name", sorted(set(PREFIXES) - {"PROXY v2, long"}))
def test_an_end_at_any_byte_raises_nothing_and_keeps_within_the_bytes(name: str) -> None:
    sender, other = both(PREFIXES[name])
    for size in range(len(sender) + 1):
        for replied in {0, len(other) // 2, len(other)}:
            prefix = read(sender[:size], other[:replied], (True, True))
            assert prefix is not None
            for side, length in ((0, size), (1, replied)):
                assert all(part.begin < part.end for part in prefix.parts[side])
                inside = [part.end for part in prefix.parts[side]]
                assert max(inside, default=0) <= max(prefix.ends[side], length)


@for_each("name", sorted(PREFIXES))
def test_parts_are_in_order_and_secrets_are_among_them(name: str) -> None:
    sender, other = both(PREFIXES[name])
    prefix = read(sender + KAFKA, other)
    assert prefix is not None
    for parts in prefix.parts:
        edges = [edge for part in parts for edge in (part.begin, part.end)]
        assert edges == sorted(edges)
    secrets = b"".join(sender[p.begin : p.end] for p in prefix.parts[0] if p.kind == "secret")
    assert (proxied.PASSWORD in secrets) == (name == "SOCKS5, password")
    assert (b"YWxpY2U6aHVudGVyMi1zZWNyZXQ=" in secrets) == (name == "HTTP CONNECT, login")
    assert may_have_secrets(sender) == (name.partition(",")[0] in ("HTTP CONNECT", "SOCKS5"))


NOT_PREFIXES: dict[str, tuple[bytes, bytes]] = {
    "Kafka": (KAFKA, b""),
    "TLS": (b"\x16\3\1\2\0\1", b"\x16\3\3"),
    "POST": (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    "a line that is too long": (b"PROXY TCP4 " + b"1" * 107, b""),
    "a line with another family": (b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", b""),
    "a family of the other addresses": (b"PROXY TCP4 ::1 ::2 1 2\r\n", b""),
    "an address with leading zeros": (b"PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n", b""),
    "an address of a zone": (b"PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n", b""),
    "a port above 65535": (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", b""),
    "no ports": (b"PROXY TCP4 1.2.3.4 1.2.3.4\r\n", b""),
    "another version": (proxied.SIGNATURE + b"\x31\x11\0\x0c" + bytes(12), b""),
    "another command": (proxied.SIGNATURE + b"\x22\x11\0\x0c" + bytes(12), b""),
    "a signature with a difference": (b"\r\n\r\n\0\r\nQUIT\r", b""),
    "CONNECT of no HTTP": (b"CONNECT to me\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    "headers that do not end": (b"CONNECT a:1 HTTP/1.1\r\n" + b"a: b\r\n" * 3000, b""),
    "an answer that is no HTTP": (proxied.connect(), b"220 ready\r\n"),
    "SOCKS without methods": (b"\5\0", b""),
    "SOCKS, a method that was not offered": (b"\5\1\0\5\1\0", b"\5\2"),
    "SOCKS with GSSAPI": (b"\5\1\1\1\1\0\5token", b"\5\1"),
    "SOCKS, BIND": (b"\5\1\0\5\2\0\1\1\2\3\4\0\1", b"\5\0"),
    "SOCKS, an unknown address": (b"\5\1\0\5\1\0\2\1\2\3\4\0\1", b"\5\0"),
    "SOCKS, a name with a line feed": (b"\5\1\0\5\1\0\3\2a\n\0\1", b"\5\0"),
    "a reply of another version": (b"\5\1\0\5\1\0\1\1\2\3\4\0\1", b"\5\0\4\0\0\1"),
    "SOCKS4, BIND": (b"\4\2\0\1\1\2\3\4\0", b""),
    "SOCKS4, a user with control characters": (b"\4\1\0\1\1\2\3\4a\1b\0", b""),
    "SOCKS4, a user without an end": (b"\4\1\0\1\1\2\3\4" + b"a" * 300, b""),
    "SOCKS4a without a name": (b"\4\1\0\1\0\0\0\x09\0\0", b""),
    "SOCKS4, another reply": (b"\4\1\0\1\1\2\3\4\0", b"\0\x59\0\1\1\2\3\4"),
    "Kafka of 67 MB, answered": (b"\4\1\0\0\0\0\0\x09\0\0\0\1\0\4test", b"\0\0\0\x20"),
    "Kafka of 84 MB": (b"\5\1\0\0\0\0\0\x09\0\0\0\1\0\4test", b"\0\0\0\x20"),
}


@for_each("name", sorted(NOT_PREFIXES))
def test_nothing_else_is_taken_for_a_prefix(name: str) -> None:
    sender, other = NOT_PREFIXES[name]
    assert kinds(read(sender, other, (True, True))) == []
    assert kinds(read(sender + bytes(200), other + bytes(200))) == []


def test_a_refusal_without_another_request_is_http() -> None:
    assert kinds(read(proxied.connect(), proxied.REFUSED)) is None
    assert kinds(read(proxied.connect(), proxied.REFUSED, (True, True))) == []
    assert kinds(read(proxied.connect() + b"GET / HTTP/1.1\r\n", proxied.REFUSED)) == []


def test_a_proxy_of_socks_that_refuses_is_named() -> None:
    for turns in (proxied.socks5(reply=5), proxied.socks4(reply=0x5B)):
        found = read(*both(turns), (True, True))
        assert found is not None
        assert found.ends == tuple(map(len, both(turns)))
    refused = read(b"\5\1\0", b"\5\xff", (True, True))
    assert (kinds(refused), refused and refused.ends) == (["socks5"], (3, 2))
    turns = proxied.socks5(password=proxied.PASSWORD)
    refused = read(sent(turns[:3], SENDER), b"\5\2\1\1", (True, True))
    assert kinds(refused) == ["socks5"]


@pytest.mark.parametrize("name", ["HTTP CONNECT", "SOCKS5", "SOCKS5, password"])
def test_one_direction_alone_is_enough_once_nothing_else_comes(name: str) -> None:
    sender, _ = both(PREFIXES[name])
    assert read(sender + KAFKA) is None
    prefix = read(sender + KAFKA, b"", (False, True))
    assert prefix is not None
    assert (kinds(prefix), prefix.ends) == ([proxied.kind_of(name)], (len(sender), 0))


def test_a_prefix_with_a_hole_ends_there() -> None:
    for begun, kind in (
        (b"PROXY TCP4 203.0", "proxy-v1"),
        (proxied.SIGNATURE + b"\x21", "proxy-v2"),
    ):
        prefix = read(begun, b"", (True, False))
        assert prefix is not None
        assert (kinds(prefix), prefix.ends[0]) == ([kind], len(begun))
        assert prefix.layers[0].client is None


def test_what_the_snap_length_cut_off_is_skipped_by_the_length_of_version_2() -> None:
    whole = proxied.v2(tlvs=bytes(500))
    for captured, client in ((60, proxied.CLIENT), (28, proxied.CLIENT), (20, None), (16, None)):
        prefix = read(whole[:captured], b"", (True, False))
        assert prefix is not None
        assert (prefix.ends[0], prefix.layers[0].client) == (len(whole), client)


@for_each("case", ["shorter than addresses", "unix", "longest", "IPv4-mapped"])
def test_odd_headers_of_version_2(case: str) -> None:
    mapped = bytes(10) + b"\xff\xff" + bytes((203, 0, 113, 7))
    data, client = {
        "shorter than addresses": (proxied.SIGNATURE + b"\x21\x11\0\x04abcd", None),
        "unix": (proxied.SIGNATURE + b"\x21\x31\0\xd8" + b"/run/x".ljust(216, b"\0"), None),
        "longest": (proxied.SIGNATURE + b"\x21\x11\xff\xff" + bytes(0xFFFF), ("0.0.0.0", 0)),
        "IPv4-mapped": (
            proxied.SIGNATURE + b"\x21\x21\0\x24" + 2 * mapped + b"\0\7\0\x09",
            ("::ffff:203.0.113.7", 7),
        ),
    }[case]
    prefix = read(data + KAFKA)
    assert prefix is not None
    assert (prefix.ends[0], prefix.layers[0].client) == (len(data), client)
    assert len(data) < MAX_HEAD_BYTES


def test_the_layers_are_bounded() -> None:
    prefix = read(proxied.v1() * 40)
    assert prefix is not None
    assert len(prefix.layers) == 4
    assert prefix.ends[0] == 4 * len(proxied.v1())


def test_a_user_before_the_host_of_connect_is_a_secret() -> None:
    sender = proxied.connect(target="alice:hunter2@b:9092")
    prefix = read(sender + KAFKA, proxied.ESTABLISHED)
    assert prefix is not None
    assert prefix.layers[0].target == "b:9092"
    secrets = [sender[p.begin : p.end] for p in prefix.parts[0] if p.kind == "secret"]
    assert secrets == [b"alice:hunter2@"]


@for_each("seed", range(40))
def test_damaged_prefixes_raise_nothing(seed: int) -> None:
    dice = Random(seed)
    for turns in PREFIXES.values():
        heads = [bytearray(data[:400]) for data in both(turns)]
        for _ in range(dice.randint(1, 4)):
            head = dice.choice([head for head in heads if head])
            head[dice.randrange(len(head))] = dice.randrange(256)
        over = dice.random() < 0.5, dice.random() < 0.5
        prefix = read(bytes(heads[0]) + KAFKA, bytes(heads[1]), over)
        assert prefix is None or len(prefix.layers) <= 4
