from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.live.feed.filter_values import (
    looks_like_value,
    read_host,
    read_length,
    read_network,
    read_ports,
    shown,
)


@pytest.mark.parametrize(("word", "port"), [("0", 0), ("1", 1), ("9092", 9092), ("65535", 65535)])
def test_a_port(word, port):
    assert read_ports(word, is_range=False) == (port, port)
    assert read_ports(word, is_range=True) == (port, port)


@pytest.mark.parametrize(
    "word",
    ["", "65536", "-1", "+1", "1.0", "0x10", "010", "http", "9092-9094", "1e3", "१", "1" * 99],
)
def test_what_is_no_port(word):
    with pytest.raises(UsageError, match=r"is not a number from 0 to 65535$"):
        read_ports(word, is_range=False)


def test_a_range_of_ports_may_be_written_either_way():
    assert read_ports("9092-9094", is_range=True) == (9092, 9094)
    assert read_ports("9094-9092", is_range=True) == (9092, 9094)
    for word in ("9092-", "-9094", "1-2-3", "1-65536", "a-b"):
        with pytest.raises(UsageError, match="is not a number from 0 to 65535"):
            read_ports(word, is_range=True)


def test_a_length():
    assert read_length("4294967295") == (1 << 32) - 1
    with pytest.raises(UsageError, match=r"^'4294967296' is not a number from 0 to 4294967295$"):
        read_length("4294967296")


@pytest.mark.parametrize(
    ("word", "network"),
    [
        ("10.0.0.1", "10.0.0.1/32"),
        ("::1", "::1/128"),
        ("fd00::1", "fd00::1/128"),
        ("::ffff:1.2.3.4", "::ffff:102:304/128"),
    ],
)
def test_a_host(word, network):
    assert str(read_host(word)) == network


@pytest.mark.parametrize(
    "word", ["", "10.1", "10", "10.0.0.256", "10.0.0.01", "10.0.0.0/8", "fe80::1%eth0", "a", ":::"]
)
def test_what_is_no_host(word):
    with pytest.raises(UsageError, match=r"is not an address \(names are not looked up\)$"):
        read_host(word)


@pytest.mark.parametrize(
    ("word", "network"),
    [
        ("10", "10.0.0.0/8"),
        ("10.1", "10.1.0.0/16"),
        ("10.1.2", "10.1.2.0/24"),
        ("10.1/15", None),
        ("10.2/15", "10.2.0.0/15"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("fd00::/16", "fd00::/16"),
        ("fd00::1", "fd00::1/128"),
        ("10.0.0.1/8", None),
        ("fd00::1/16", None),
        ("10.0.0.0/33", None),
        ("10.0.0.0/255.0.0.0", None),
        ("256.1", None),
        ("1.2.3.4.5", None),
        ("fe80::%eth0/64", None),
        ("", None),
        ("office", None),
    ],
)
def test_a_network_may_be_written_short(word, network):
    if network is not None:
        assert str(read_network(word)) == network
        return
    with pytest.raises(UsageError, match=r"is not a network, or has bits set behind its mask$"):
        read_network(word)


def test_what_can_be_no_word_of_a_language():
    for word in ("9092", "0x", "10.1", "1st", "::", "fd00::1", "a:b"):
        assert looks_like_value(word)
    for word in ("", "tcp", "fd00", "x:1", "-1", "(", "!"):
        assert not looks_like_value(word)


def test_what_is_shown_is_short_and_has_no_line_breaks():
    assert shown("a\nb\x1bü") == r"'a\nb\x1b\xfc'"
    assert len(shown("x" * 10_000)) < 70
