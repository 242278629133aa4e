"""Stand-ins for names, ids and addresses: of the same length, and never the same for two of them.

In: a key; a name, an id, an address. Out: its stand-in.

A name keeps its length in bytes, and the kind of each character. The kinds are characters that
topic names may have (letters, digits, ``.``, ``_``, ``-``), other printable ones, control
characters, those of two, three or four bytes in UTF-8, and NUL, which separates names in tokens; if
a name is not UTF-8, each byte beyond ASCII is a character of one more kind. The characters together
are one number, which is permuted. So valid names stay valid, what recognizes a client id finds in
its stand-in what it found in the original, and no two names become the same.

Addresses keep their common beginnings (Xu, Fan, Ammar and Moon, "Prefix-preserving IP address
anonymization", 2002): two addresses have as many first bits in common as before. Prefixes that say
nothing about a network stay: loopback, private, link-local, multicast.

A Feistel network over HMAC-SHA-256 (Luby and Rackoff) permutes numbers of an even number of bits,
as many as the size needs. A result that is not below the size is permuted again until one is (cycle
walking, Black and Rogaway); that too is a permutation. So no table is needed, and two numbers never
get the same stand-in.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from kanalyze.common.caches import remember
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS: Final = 10
_DIGEST: Final = "sha256"
_DIGEST_BYTES: Final = 32


def random_bytes(key: bytes, label: bytes, count: int) -> bytes:
    """Return ``count`` pseudorandom bytes, which depend only on the key and the label."""
    if count <= _DIGEST_BYTES:
        return hmac.digest(key, label, _DIGEST)[:count]
    seed = hmac.digest(key, label, _DIGEST)
    blocks = -(-count // _DIGEST_BYTES)
    parts = [hmac.digest(seed, index.to_bytes(4), _DIGEST) for index in range(blocks)]
    return b"".join(parts)[:count]


class Permutation:
    """A permutation of the numbers from 0 up to, but not including, a size."""

    def __init__(self, key: bytes, label: bytes, size: int) -> None:
        """Make one; each ``label`` has a permutation of its own. ``size`` is 1 or more."""
        self._size = size
        self._half_bits = max((size - 1).bit_length() + 1 >> 1, 1)
        self._half_bytes = self._half_bits + 7 >> 3
        self._mask = (1 << self._half_bits) - 1
        self._key = hmac.digest(key, b"permutation %d " % size.bit_length() + label, _DIGEST)

    def of(self, number: int, stays: Callable[[int], bool] | None = None) -> int:
        """Return the stand-in of a number.

        A number for which ``stays`` returns true is its own stand-in, and that of no other number.
        """
        if stays is not None and stays(number):
            return number
        while True:
            number = self._once(number)
            if number < self._size and (stays is None or not stays(number)):
                return number

    def _once(self, number: int) -> int:
        left, right = number >> self._half_bits, number & self._mask
        for turn in range(_ROUNDS):
            label = bytes((turn,)) + right.to_bytes(self._half_bytes)
            noise = random_bytes(self._key, label, self._half_bytes)
            left, right = right, left ^ (int.from_bytes(noise) & self._mask)
        return left << self._half_bits | right


INTERNAL_TOPICS: Final = frozenset(
    (
        *(b"__consumer_offsets", b"__transaction_state", b"__share_group_state"),
        *(b"__cluster_metadata", b"__remote_log_metadata"),
    )
)
"""Names of topics that Kafka itself creates; they stay."""
_K = TypeVar("_K")
_V = TypeVar("_V")

_MAX_KNOWN: Final = 1 << 18
"""Number of stand-ins of each kind that are cached."""
_LONGEST_REMEMBERED: Final = 512

_TOPIC_CHARACTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
_PRINTABLE: Final = "".join(
    chr(code) for code in range(0x20, 0x7F) if chr(code) not in _TOPIC_CHARACTERS
)
_CONTROL: Final = "".join(map(chr, (*range(1, 0x20), 0x7F)))
_SURROGATES: Final = range(0xD800, 0xE000)
_KEPT_UUIDS: Final = 100
"""Ids below this have a meaning in Kafka: no id, lost directories, the metadata topic (KIP-516)."""
_KEPT_MACS: Final = frozenset((bytes(6), b"\xff" * 6))


def new_key() -> bytes:
    """Return a random key."""
    return secrets.token_bytes(32)


def _character_numbers() -> dict[str, tuple[int, int]]:
    """Return the kind of each ASCII character, and its number among those of the kind."""
    numbers = {
        character: (kind, number)
        for kind, characters in enumerate((_TOPIC_CHARACTERS, _PRINTABLE, _CONTROL))
        for number, character in enumerate(characters)
    }
    return {**numbers, "\0": (_NUL, 0)}


_NUL: Final = 6
_BYTE: Final = 7
_NUMBERS: Final = _character_numbers()
_SIZES: Final = (
    *(len(_TOPIC_CHARACTERS), len(_PRINTABLE), len(_CONTROL)),
    *(0x800 - 0x80, 0x10000 - 0x800 - len(_SURROGATES), 0x110000 - 0x10000),
    *(1, 0x100 - 0x80),
)
"""How many characters there are of each kind."""


def _number_of(character: str) -> tuple[int, int]:
    number = _NUMBERS.get(character)
    if number is not None:
        return number
    code = ord(character)
    if code < 0x800:
        return 3, code - 0x80
    if code >= 0x10000:
        return 5, code - 0x10000
    return 4, code - 0x800 - (len(_SURROGATES) if code >= _SURROGATES.stop else 0)


def _numbers_of(name: bytes) -> list[tuple[int, int]]:
    """Return kind and number of each character, or of each byte if the name is not UTF-8."""
    try:
        return [_number_of(character) for character in name.decode()]
    except UnicodeDecodeError:
        return [_NUMBERS.get(chr(byte)) or (_BYTE, byte - 0x80) for byte in name]


def _character(kind: int, number: int) -> bytes:
    return bytes((number + 0x80,)) if kind == _BYTE else _utf8_character(kind, number).encode()


def _utf8_character(kind: int, number: int) -> str:
    if kind < 3:
        return (_TOPIC_CHARACTERS, _PRINTABLE, _CONTROL)[kind][number]
    if kind == _NUL:
        return "\0"
    if kind == 4:
        code = number + 0x800
        return chr(code + len(_SURROGATES) if code >= _SURROGATES.start else code)
    return chr(number + (0x80 if kind == 3 else 0x10000))


class StandIns:
    """The stand-ins of one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: dict[bytes, bytes] = {}
        self._permutations: dict[tuple[int, ...], Permutation] = {}
        self._uuids: dict[bytes, bytes] = {}
        self._uuid = Permutation(key, b"uuid", 1 << 128)
        self._macs: dict[bytes, bytes] = {}
        self._mac = Permutation(key, b"mac", 1 << 46)
        self._addresses: dict[bytes, bytes] = {}

    @cached_property
    def checksums(self) -> list[int]:
        """Stand-ins by checksum, for checksums over missing bytes, which cannot be calculated."""
        checksums = list(range(1 << 16))
        Random(random_bytes(self._key, b"checksums", 32)).shuffle(checksums)  # noqa: S311 - seeded so
        return checksums

    # -- names ------------------------------------------------------------------------------------

    def name(self, name: bytes) -> bytes:
        """Return the stand-in of a name; internal topics and the empty name stay."""
        stand_in = self._names.get(name)
        if stand_in is None:
            stand_in = self.name_but(name, INTERNAL_TOPICS)
            if len(name) <= _LONGEST_REMEMBERED:
                remember(self._names, name, stand_in, _MAX_KNOWN)
        return stand_in

    def name_but(self, name: bytes, unchanged: frozenset[bytes]) -> bytes:
        """Return the stand-in of a name.

        A name in ``unchanged`` is its own stand-in, and that of no other name.
        """
        if not name or name in unchanged:
            return name
        pairs = _numbers_of(name)
        kinds = tuple([kind for kind, _ in pairs])
        permutation = self._permutation(kinds)
        number = 0
        for kind, index in pairs:
            number = number * _SIZES[kind] + index

        def stays(number: int) -> bool:
            candidate = _name(number, kinds)
            # As UTF-8, bytes would be characters of other kinds.
            return candidate in unchanged or (_BYTE in kinds and _is_text(candidate))

        return _name(permutation.of(number, stays), kinds)

    def _permutation(self, kinds: tuple[int, ...]) -> Permutation:
        permutation = self._permutations.get(kinds)
        if permutation is None:
            size = 1
            for kind in kinds:
                size *= _SIZES[kind]
            label = b"name " + bytes(kinds)
            permutation = Permutation(self._key, label, size)
            if len(kinds) <= _LONGEST_REMEMBERED:
                remember(self._permutations, kinds, permutation, _MAX_KNOWN)
        return permutation

    # -- ids --------------------------------------------------------------------------------------

    def uuid(self, uuid: bytes) -> bytes:
        """Return the stand-in of 16 bytes; the few ids that have a meaning in Kafka stay."""
        stand_in = self._uuids.get(uuid)
        if stand_in is None:
            stand_in = self._uuid.of(int.from_bytes(uuid), _is_kept_uuid).to_bytes(16)
            remember(self._uuids, uuid, stand_in, _MAX_KNOWN)
        return stand_in

    def mac(self, mac: bytes) -> bytes:
        """Return the stand-in of a MAC address, with the same multicast and local bits.

        The zero address and broadcast stay.
        """
        if mac in _KEPT_MACS:
            return mac
        stand_in = self._macs.get(mac)
        if stand_in is None:
            stand_in = self._new_mac(mac)
            remember(self._macs, mac, stand_in, _MAX_KNOWN)
        return stand_in

    def _new_mac(self, mac: bytes) -> bytes:
        flag_bits, mac_number = mac[0] & 3, int.from_bytes(mac)

        def value(number: int) -> bytes:
            return (number >> 40 << 42 | flag_bits << 40 | number & (1 << 40) - 1).to_bytes(6)

        number = mac_number >> 42 << 40 | mac_number & (1 << 40) - 1
        return value(self._mac.of(number, lambda candidate: value(candidate) in _KEPT_MACS))

    # -- addresses --------------------------------------------------------------------------------

    def address(self, address: bytes) -> bytes:
        """Return the stand-in of an address of 4 or 16 bytes."""
        stand_in = self._addresses.get(address)
        if stand_in is None:
            stand_in = self._new_address(address)
            remember(self._addresses, address, stand_in, _MAX_KNOWN)
        return stand_in

    def _new_address(self, address: bytes) -> bytes:
        if len(address) == 16 and address.startswith(_MAPPED):
            return _MAPPED + self.address(address[len(_MAPPED) :])
        bits = 8 * len(address)
        kept_prefixes = _KEPT_PREFIXES[bits]
        number = int.from_bytes(address)
        flips = 0
        for length in range(bits):
            prefix = number >> (bits - length)
            if (length, prefix) not in kept_prefixes:
                label = b"address %d %d %x" % (bits, length, prefix)
                flips |= (random_bytes(self._key, label, 1)[0] & 1) << (bits - 1 - length)
        return (number ^ flips).to_bytes(len(address))

    def address_text(self, text: bytes) -> bytes:
        """Return the stand-in of an address as text: an address as text of the same length.

        It is not that of the address in packets, whose text may have another length. Each number in
        it keeps its number of digits.
        """
        decimal_at = text.rfind(b":") + 1 if b"." in text else len(text)
        groups = [
            _DigitGroup.of(match[0], 10 if match.start() >= decimal_at else 16)
            for match in _DIGITS.finditer(text)
        ]
        size, number, label = 1, 0, b"address text"
        for group in groups:
            size, number = size * group.choices, number * group.choices + group.number
            label += b" %d %d %d" % (group.base, group.least, group.digits)
        number = Permutation(self._key, label, size).of(number)
        texts = []
        for group in reversed(groups):
            number, own = divmod(number, group.choices)
            texts.append(group.text(own))
        return _DIGITS.sub(lambda _: texts.pop(), text)

    def host(self, host: bytes) -> bytes:
        """Return the stand-in of a host name, or of an address as text.

        An address becomes the text of its stand-in in packets if that has the same length;
        otherwise it is treated like a name. A leading slash, which Java writes, stays.
        """
        if host.startswith(b"/"):
            return b"/" + self.host(host[1:])
        if host in _KEPT_HOSTS:
            return host
        try:
            address = ipaddress.ip_address(host.decode("ascii"))
        except (UnicodeDecodeError, ValueError):
            return self.name(host)
        stand_in = str(ipaddress.ip_address(self.address(address.packed))).encode()
        return stand_in if len(stand_in) == len(host) else self.name(host)


_DIGITS: Final = re.compile(rb"[0-9A-Fa-f]+")


class _DigitGroup(NamedTuple):
    """A number in the text of an address, and the numbers that are written with as many digits."""

    number: int
    """Counted from ``least`` on."""
    base: int
    least: int
    choices: int
    """How many such numbers there are."""
    digits: int

    @classmethod
    def of(cls, text: bytes, base: int) -> _DigitGroup:
        digits, most = len(text), 256 if base == 10 else 1 << 16
        if text.startswith(b"0"):
            least, end = 0, base ** max(digits - 1, 1)
        else:
            least, end = 0 if digits == 1 else base ** (digits - 1), base**digits
        return cls(int(text, base) - least, base, least, min(end, most) - least, digits)

    def text(self, number: int) -> bytes:
        """Return another of these numbers as text."""
        digits = b"%d" if self.base == 10 else b"%x"
        return (digits % (self.least + number)).rjust(self.digits, b"0")


_MAPPED: Final = bytes(10) + b"\xff\xff"
"""The prefix of an IPv6 address that contains an IPv4 address."""
_KEPT_HOSTS: Final = frozenset((b"localhost", b"127.0.0.1", b"::1", b"0.0.0.0", b"::"))
_KEPT_NETWORKS: Final = {
    32: (
        *("0.0.0.0/32", "10.0.0.0/8", "127.0.0.1/32", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.168.0.0/16", "224.0.0.0/4", "255.255.255.255/32"),
    ),
    128: ("::/128", "::1/128", "::ffff:0:0/96", "fc00::/7", "fe80::/10", "ff00::/8"),
}
"""Prefixes that addresses keep, by the number of bits in an address."""


def _kept_prefixes(bits: int) -> frozenset[tuple[int, int]]:
    """Return the length and the value of each prefix after which the next bit stays."""
    prefixes = set()
    for text in _KEPT_NETWORKS[bits]:
        network = ipaddress.ip_network(text)
        number = int(network.network_address)
        prefixes |= {(length, number >> (bits - length)) for length in range(network.prefixlen)}
    return frozenset(prefixes)


_KEPT_PREFIXES: Final = {bits: _kept_prefixes(bits) for bits in _KEPT_NETWORKS}


def _name(number: int, kinds: tuple[int, ...]) -> bytes:
    characters = []
    for kind in reversed(kinds):
        number, place = divmod(number, _SIZES[kind])
        characters.append(_character(kind, place))
    return b"".join(reversed(characters))


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_kept_uuid(number: int) -> bool:
    return number < _KEPT_UUIDS
