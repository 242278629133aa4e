"""TLS records made by hand, the same in each run: hellos, and data under fixed secrets."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kanalyze.tls.keys import DirectionKeys, cipher_suite, keys_12, keys_13

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT_RANDOM, SERVER_RANDOM = bytes(range(32)), bytes(range(32, 64))
SESSION_ID = bytes(range(64, 96))
MASTER = bytes(range(48))
TRAFFIC = (bytes(range(100, 132)), bytes(range(132, 164)))
HANDSHAKE = (bytes(range(164, 196)), bytes(range(196, 228)))
SUITE_13, SUITE_12, SUITE_CBC = 0x1301, 0xC02F, 0xC013
CHANGE = b"\x14\x03\x03\x00\x01\x01"
FINISHED = b"\x14\x00\x00\x0cfinished    "


def record(kind: int, body: bytes) -> bytes:
    return bytes((kind, 3, 3)) + len(body).to_bytes(2, "big") + body


def message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(3, "big") + body


def vector(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2, "big") + vector(2, data)


def client_hello(more: bytes = b"", random: bytes = CLIENT_RANDOM) -> bytes:
    names = extension(0, vector(2, b"\0" + vector(2, b"broker.example")))
    versions = extension(43, vector(1, b"\x7a\x7a\x03\x04\x03\x03"))
    protocols = extension(16, vector(2, vector(1, b"kafka")))
    suites = b"\x3a\x3a" + SUITE_13.to_bytes(2, "big") + SUITE_12.to_bytes(2, "big")
    body = b"\x03\x03" + random + vector(1, SESSION_ID) + vector(2, suites) + b"\x01\0"
    return record(22, message(1, body + vector(2, names + versions + protocols + more)))


def server_hello(suite: int, encrypt_then_mac: bool = False) -> bytes:
    is_13 = suite == SUITE_13
    chosen = extension(43, b"\x03\x04") if is_13 else b""
    if encrypt_then_mac:
        chosen += extension(22, b"")
    given = SESSION_ID if is_13 else SESSION_ID[::-1]
    body = b"\x03\x03" + SERVER_RANDOM + vector(1, given) + suite.to_bytes(2, "big") + b"\0"
    return record(22, message(2, body + vector(2, chosen)))


Padding: TypeAlias = "Callable[[int, int], int]"
"""Returns the padding of a record of TLS 1.3, by its number and the size of its content."""


def some_padding(number: int, _size: int) -> int:
    return number % 3


class Sealer:
    """Encrypts records of AES-GCM, as one end would."""

    def __init__(
        self, keys: DirectionKeys, *, is_13: bool, padding: Padding = some_padding
    ) -> None:
        self._aead, self._iv, self._is_13 = AESGCM(keys.key), keys.iv, is_13
        self._padding = padding
        self.number = 0

    def seal(self, kind: int, content: bytes) -> bytes:
        number, self.number = self.number, self.number + 1
        if not self._is_13:
            nonce = (1000 + number).to_bytes(8, "big")
            protected = number.to_bytes(8, "big") + record(kind, content)[:5]
            return record(kind, nonce + self._aead.encrypt(self._iv + nonce, content, protected))
        inner = content + bytes((kind,)) + bytes(self._padding(number, len(content)))
        header = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        nonce = (int.from_bytes(self._iv, "big") ^ number).to_bytes(12, "big")
        return header + self._aead.encrypt(nonce, inner, header)


class CbcSealer:
    """Encrypts records of AES-CBC as one end would, with the MAC inside or after (RFC 7366)."""

    def __init__(self, keys: DirectionKeys, *, mac_last: bool) -> None:
        self._keys, self._mac_last, self.number = keys, mac_last, 0

    def seal(self, kind: int, content: bytes) -> bytes:
        number, self.number = self.number, self.number + 1
        iv = hashlib.sha256(number.to_bytes(8, "big")).digest()[:16]
        if self._mac_last:
            sealed = iv + self._encrypted(iv, content)
            return record(kind, sealed + self._mac(number, kind, sealed))
        inner = content + self._mac(number, kind, content)
        return record(kind, iv + self._encrypted(iv, inner))

    def _mac(self, number: int, kind: int, data: bytes) -> bytes:
        protected = number.to_bytes(8, "big") + record(kind, data)
        return hmac.digest(self._keys.mac_key, protected, "sha1")

    def _encrypted(self, iv: bytes, data: bytes) -> bytes:
        padding = 15 - len(data) % 16 + 16 * (len(data) % 3)  # sometimes more than needed
        padded = data + bytes((padding,)) * (padding + 1)
        maker = Cipher(algorithms.AES(self._keys.key), modes.CBC(iv)).encryptor()
        return maker.update(padded) + maker.finalize()


class Made(NamedTuple):
    """A conversation as records, one for each part."""

    parts: list[tuple[int, bytes]]
    """(side, record); the client is 0."""
    keys: bytes
    contents: tuple[list[bytes], list[bytes]]
    """Application data by side, one for each record."""


def conversation(
    suite_number: int,
    contents: list[tuple[int, bytes]],
    *,
    encrypt_then_mac: bool = False,
    client_random: bytes = CLIENT_RANDOM,
    padding: Padding = some_padding,
) -> Made:
    suite = cipher_suite(suite_number)
    assert suite is not None
    sealers: list[Sealer | CbcSealer]
    hello = client_hello(random=client_random)
    parts = [(0, hello), (1, server_hello(suite_number, encrypt_then_mac))]
    if suite_number == SUITE_13:
        for end in (1, 0):
            sealer = Sealer(keys_13(suite, HANDSHAKE[end]), is_13=True, padding=padding)
            text = message(8, b"\0\0") + FINISHED if end else FINISHED
            parts += [(end, CHANGE), (end, sealer.seal(22, text))]
        keys = [keys_13(suite, secret) for secret in TRAFFIC]
        sealers = [Sealer(each, is_13=True, padding=padding) for each in keys]
    else:
        both = keys_12(suite, MASTER, SERVER_RANDOM, client_random)
        sealers = [
            CbcSealer(keys, mac_last=encrypt_then_mac)
            if suite.mode == "cbc"
            else Sealer(keys, is_13=False)
            for keys in both
        ]
        parts.append((1, record(22, message(14, b""))))
        for end in (0, 1):
            parts += [(end, CHANGE), (end, sealers[end].seal(22, FINISHED))]
    contents_by_side: tuple[list[bytes], list[bytes]] = ([], [])
    for side, content in contents:
        parts.append((side, sealers[side].seal(23, content)))
        contents_by_side[side].append(content)
    parts += [(side, sealers[side].seal(21, b"\x01\0")) for side in (0, 1)]
    return Made(parts, KEYS, contents_by_side)


def _line(label: str, secret: bytes) -> str:
    return f"{label} {CLIENT_RANDOM.hex()} {secret.hex()}\n"


KEYS = "".join(
    [
        _line("CLIENT_RANDOM", MASTER),
        _line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", HANDSHAKE[0]),
        _line("SERVER_HANDSHAKE_TRAFFIC_SECRET", HANDSHAKE[1]),
        _line("CLIENT_TRAFFIC_SECRET_0", TRAFFIC[0]),
        _line("SERVER_TRAFFIC_SECRET_0", TRAFFIC[1]),
    ]
).encode()
