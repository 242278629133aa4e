"""Stand-ins have the length of their originals, and no two originals have the same one."""

from __future__ import annotations

import ipaddress
import itertools
import random
import re

from kanalyze.anonymization.stand_ins import (
    INTERNAL_TOPICS,
    Permutation,
    StandIns,
    new_key,
    random_bytes,
)
from tests.support.cases import for_each

STAND_INS = StandIns(b"k" * 32)
TOPIC_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
TOPIC_NAME = re.compile(rb"[a-zA-Z0-9._-]+")


def test_short_names_have_stand_ins_of_their_own() -> None:
    bytes_ = [bytes((byte,)) for byte in range(256)]
    assert sorted(map(STAND_INS.name, bytes_)) == bytes_
    names = {(one + other).encode() for one, other in itertools.product(TOPIC_CHARACTERS, "aZ0._-")}
    found = set(map(STAND_INS.name, names))
    assert len(found) == len(names)
    assert all(len(name) == 2 and TOPIC_NAME.fullmatch(name) for name in found)


@for_each("name", ["orders", "größe", "日本語-topic", "a@b:c", "𝄞𝄞", "tab\tname", "x" * 249, "é"])
def test_a_name_keeps_its_length_and_the_kinds_of_its_characters(name: str) -> None:
    found = STAND_INS.name(name.encode())
    assert len(found) == len(name.encode())
    pairs = zip(name, found.decode(), strict=True)
    for before, after in pairs:
        assert len(before.encode()) == len(after.encode())
        assert (before in TOPIC_CHARACTERS) == (after in TOPIC_CHARACTERS)
    assert found != name.encode() or len(name) < 3


def test_bytes_that_are_not_utf8_become_other_bytes_that_are_not() -> None:
    names = [b"\xff\xfe", b"abc\x80", b"\xc3", bytes(range(128, 160))]
    found = [STAND_INS.name(name) for name in names]
    assert [len(name) for name in found] == [len(name) for name in names]
    assert all(name.decode(errors="replace").count("\ufffd") for name in found)
    assert len({STAND_INS.name(bytes((0xC3, byte))) for byte in range(256)}) == 256


@for_each("name", [b"billing\0app\xff", "größe 1".encode("latin-1"), b"\x01\x80", b"\xff" * 300])
def test_ascii_in_bytes_that_are_not_utf8_keeps_its_kind(name: bytes) -> None:
    """A client id without control characters gets none; what separates names in tokens stays."""
    found = STAND_INS.name(name)
    for before, after in zip(name, found, strict=True):
        assert (before < 0x20) == (after < 0x20)
        assert (before < 0x80) == (after < 0x80)
        assert (before == 0) == (after == 0)
        assert (chr(before) in TOPIC_CHARACTERS) == (chr(after) in TOPIC_CHARACTERS)


def test_internal_topics_and_the_empty_name_stay() -> None:
    for name in (*INTERNAL_TOPICS, b""):
        assert STAND_INS.name(name) == name


def test_the_same_key_gives_the_same_stand_ins_and_another_key_others() -> None:
    again, other = StandIns(b"k" * 32), StandIns(new_key())
    assert again.name(b"orders") == STAND_INS.name(b"orders") != other.name(b"orders")
    assert again.uuid(b"u" * 16) == STAND_INS.uuid(b"u" * 16) != other.uuid(b"u" * 16)
    one = ipaddress.ip_address("203.0.113.7").packed
    assert again.address(one) == STAND_INS.address(one) != other.address(one)


def common_bits(one: bytes, other: bytes) -> int:
    bits = 8 * len(one)
    return bits - (int.from_bytes(one) ^ int.from_bytes(other)).bit_length()


@for_each("size", [4, 16])
def test_addresses_have_as_many_first_bits_in_common_as_before(size: int) -> None:
    chance = random.Random(size)
    for _ in range(300):
        one = chance.randbytes(size)
        bit = chance.randrange(8 * size)
        low = chance.getrandbits(8 * size) >> bit
        other = (int.from_bytes(one) ^ low).to_bytes(size)
        found = STAND_INS.address(one), STAND_INS.address(other)
        assert common_bits(*found) == common_bits(one, other)


@for_each(
    "text",
    [
        *("10.1.2.3", "172.20.1.1", "192.168.7.7", "169.254.3.3", "224.0.0.251", "239.1.2.3"),
        *("fe80::1234", "fd00::1", "ff02::fb", "2001:db8::1", "8.8.8.8", "::ffff:8.8.8.8"),
    ],
)
def test_special_networks_of_addresses_stay(text: str) -> None:
    before = ipaddress.ip_address(text)
    after = ipaddress.ip_address(STAND_INS.address(before.packed))
    assert after != before
    assert after.is_multicast == before.is_multicast
    assert after.is_link_local == before.is_link_local
    if before.is_private and not text.startswith("2001"):
        assert after.is_private
    if text.startswith("::ffff"):
        inner = STAND_INS.address(ipaddress.ip_address("8.8.8.8").packed)
        assert after.packed[-4:] == inner


def test_loopback_broadcast_and_unspecified_addresses_stay() -> None:
    for text in ("127.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "::"):
        packed = ipaddress.ip_address(text).packed
        assert STAND_INS.address(packed) == packed


def test_an_address_as_text_has_the_stand_in_of_packets_if_the_lengths_are_equal() -> None:
    seen = {True: 0, False: 0}
    for last in range(256):
        text = f"203.0.113.{last}".encode()
        packed = ipaddress.ip_address(text.decode()).packed
        mapped = str(ipaddress.ip_address(STAND_INS.address(packed))).encode()
        found = STAND_INS.host(text)
        assert len(found) == len(text)
        assert STAND_INS.host(b"/" + text) == b"/" + found
        seen[found == mapped] += 1
        assert (found == mapped) == (len(mapped) == len(text))
    assert seen[True]
    assert seen[False]
    assert STAND_INS.host(b"localhost") == b"localhost"
    assert STAND_INS.host(b"broker-1.example.com") == STAND_INS.name(b"broker-1.example.com")


def test_macs_keep_their_kind() -> None:
    chance = random.Random(1)
    macs = [chance.randbytes(6) for _ in range(500)]
    found = list(map(STAND_INS.mac, macs))
    assert len(set(found)) == len(set(macs))
    assert [each[0] & 3 for each in found] == [each[0] & 3 for each in macs]
    for mac in (bytes(6), b"\xff" * 6):
        assert STAND_INS.mac(mac) == mac


def test_reserved_ids_stay() -> None:
    for number in (0, 1, 99):
        assert STAND_INS.uuid(number.to_bytes(16)) == number.to_bytes(16)
    assert STAND_INS.uuid((100).to_bytes(16)) != (100).to_bytes(16)
    assert sorted(STAND_INS.checksums) == list(range(1 << 16))


@for_each(
    "text",
    [
        *("203.0.113.7", "1.2.3.4", "255.255.255.255", "0.0.0.0", "10.20.30.100", "2001:db8::7"),
        *("::", "::1", "fe80::ABCD", "::ffff:203.0.113.7", "2001:0db8::1"),
    ],
)
def test_an_address_as_text_becomes_one_of_the_same_length(text: str) -> None:
    found = STAND_INS.address_text(text.encode()).decode()
    assert (found == text) == (text == "::")
    sizes = [[len(part) for part in re.split("[:.]", each)] for each in (found, text)]
    assert sizes[0] == sizes[1]
    assert ipaddress.ip_address(found) is not None


def test_no_two_addresses_as_text_become_the_same() -> None:
    texts = [f"10.{one}.3.{other}".encode() for one in range(256) for other in range(0, 256, 5)]
    assert len(set(map(STAND_INS.address_text, texts))) == len(texts)
    digits = [f"1.2.3.{digit}".encode() for digit in range(10)]
    assert {len(STAND_INS.address_text(text)) for text in digits} == {7}


KEY = b"k" * 32


@for_each("size", [1, 2, 3, 10, 30, 33, 64, 65, 255, 256, 257, 1000])
def test_each_number_has_a_stand_in_of_its_own(size: int) -> None:
    permutation = Permutation(KEY, b"test", size)
    assert sorted(map(permutation.of, range(size))) == list(range(size))


def test_numbers_that_stay_are_the_stand_in_of_no_other() -> None:
    permutation = Permutation(KEY, b"test", 100)
    found = [permutation.of(number, lambda each: each % 7 == 0) for number in range(100)]
    assert sorted(found) == list(range(100))
    assert all(found[number] == number for number in range(0, 100, 7))


def test_keys_and_labels_have_permutations_of_their_own() -> None:
    made = {
        tuple(Permutation(key, label, 50).of(number) for number in range(50))
        for key in (KEY, b"o" * 32)
        for label in (b"a", b"b")
    }
    assert len(made) == 4


def test_large_domains_are_permuted_too() -> None:
    permutation = Permutation(KEY, b"test", 65**300)
    numbers = [*range(20), *(65**300 - each for each in range(1, 20))]
    found = [permutation.of(number) for number in numbers]
    assert len(set(found)) == len(numbers)
    assert all(0 <= each < 65**300 for each in found)


def test_random_bytes_have_the_requested_length() -> None:
    assert [len(random_bytes(KEY, b"x", size)) for size in (0, 1, 32, 33, 1000)] == [
        *(0, 1, 32, 33, 1000)
    ]
    assert random_bytes(KEY, b"x", 1000) != random_bytes(KEY, b"y", 1000)
