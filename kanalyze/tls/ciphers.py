"""Record protection: decrypts the records of one direction, each by its sequence number.

In: the keys of a direction, records. Out: their content, if tag or MAC are right.

To open (decrypt and verify) a record takes its sequence number. Where records are missing,
:meth:`RecordCipher.number` finds it. For AES-GCM of TLS 1.3, it follows from the tag and the key.
For GCM and CCM of TLS 1.2, the explicit nonce gives the distance to the last record. For all other
suites, numbers are tried in turn.

TLS 1.3: RFC 8446 section 5.2 and 5.3. TLS 1.2: RFC 5246 section 6.2.3, GCM RFC 5288, CCM RFC 6655,
ChaCha20-Poly1305 RFC 7905, encrypt-then-MAC RFC 7366.

Most of the time is spent in ``cryptography``, which is called once per record.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from kanalyze.model.tls import APPLICATION_DATA
from kanalyze.tls.cipher_suites import TLS_1_3
from kanalyze.tls.record_cipher import RecordCipher

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.byte_copies import copy_from_array
    from kanalyze.tls.record_cipher import opened_record

    APPLICATION = 23  # APPLICATION_DATA
    FEW_BYTES = 1024  # up to this size, a copy is faster than a memoryview

if TYPE_CHECKING:
    from kanalyze.tls.cipher_suites import CipherSuite
    from kanalyze.tls.key_schedule import DirectionKeys
    from kanalyze.tls.record_cipher import Opened
    from kanalyze.tls.records import TlsRecord, TrialRange

__all__ = ["record_cipher"]

NUMBERS = (1 << 64) - 1
"""Mask of the 64 bits of a sequence number."""
_TAG_BYTES = 16
_SHORT_TAG_BYTES = 8
_BLOCK_BYTES = 16
_EXPLICIT_NONCE_BYTES = 8
_PROTECTED_BYTES, _NONCE_BYTES = 13, 12
_Aead: TypeAlias = "AESGCM | AESCCM | ChaCha20Poly1305"


def record_cipher(
    suite: CipherSuite, keys: DirectionKeys, *, encrypt_then_mac: bool = False
) -> RecordCipher:
    """Return the cipher of a suite with the keys of a direction."""
    if suite.mode == "cbc":
        return _CbcCipher(keys, suite.mac, mac_last=encrypt_then_mac)
    aead = _aead(suite.mode, keys.key)
    tag_bytes = _SHORT_TAG_BYTES if suite.mode == "ccm-8" else _TAG_BYTES
    if suite.version == TLS_1_3:
        if suite.mode == "gcm":
            return _Gcm13Cipher(aead, keys, tag_bytes)
        return _Aead13Cipher(aead, keys, tag_bytes)
    if suite.mode == "chacha20":
        return _ImplicitNonceCipher(aead, keys, tag_bytes)
    return _ExplicitNonceCipher(aead, keys, tag_bytes)


def _aead(mode: str, key: bytes) -> _Aead:
    if mode == "gcm":
        return AESGCM(key)
    if mode == "chacha20":
        return ChaCha20Poly1305(key)
    return AESCCM(key, _SHORT_TAG_BYTES if mode == "ccm-8" else _TAG_BYTES)


class _Aead13Cipher(RecordCipher):
    """TLS 1.3. The nonce is the IV and the record's number; the header is protected too."""

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(tag_bytes + 1, tag_bytes + 1)
        self._decrypt = aead.decrypt
        self._iv = int.from_bytes(keys.iv, "big")
        self._iv_number = self._iv & NUMBERS
        self._nonce = bytearray(keys.iv)

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return what is in a record."""
        if record.kind != APPLICATION or len(record.body) < self.least_bytes:
            return None
        _write_number(self._nonce, 4, self._iv_number ^ number)
        nonce = copy_from_array(self._nonce, 0, _NONCE_BYTES)
        try:
            inner = self._decrypt(nonce, record.body, record.header)
        except InvalidTag:
            return None
        end = len(inner) - 1
        if not inner[end]:  # padding
            end = len(inner.rstrip(b"\0")) - 1
            if end < 0:
                return None
        content = inner[:end] if end <= FEW_BYTES else memoryview(inner)[:end]
        return opened_record(inner[end], content)


class _Gcm13Cipher(_Aead13Cipher):
    """AES-GCM of TLS 1.3: the number is computed.

    A tag is the GHASH of header and ciphertext, xor the encrypted first counter block. GHASH does
    not depend on the nonce, so it is computed from a tag made with another nonce. The record's tag
    xor GHASH is the encrypted counter block; decrypted, it contains the nonce.
    """

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes)
        assert isinstance(aead, AESGCM)
        self.tries_numbers = False
        self._encrypt = aead.encrypt
        self._key = keys.key

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        """Return the number that follows from the tag."""
        if record.kind != APPLICATION_DATA or len(record.body) < self.least_bytes:
            return None
        sealed, tag = record.body[:-_TAG_BYTES], record.body[-_TAG_BYTES:]
        nonce = bytes(12)
        algorithm = algorithms.AES(self._key)
        counter = modes.CTR(nonce + b"\0\0\0\2")
        content = Cipher(algorithm, counter).decryptor().update(sealed)
        own_tag = self._encrypt(nonce, content, record.header)[-_TAG_BYTES:]
        blocks = Cipher(algorithm, modes.ECB())  # noqa: S305 - of one block
        own_mask = blocks.encryptor().update(nonce + b"\0\0\0\1")
        mask = _xor(_xor(own_tag, own_mask), tag)
        first = blocks.decryptor().update(mask)
        number = int.from_bytes(first[:12], "big") ^ self._iv
        if first[12:] != b"\0\0\0\1" or not within.lowest <= number <= within.highest:
            return None
        return number


class _Aead12Cipher(RecordCipher):
    """Base of the AEAD suites of TLS 1.2: the number is part of the additional data."""

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int, explicit: int) -> None:
        super().__init__(explicit + tag_bytes, explicit + tag_bytes)
        self._decrypt = aead.decrypt
        self._iv = keys.iv
        self._explicit_bytes = explicit
        self._protected = bytearray(_PROTECTED_BYTES)

    def nonce(self, body: bytes, number: int) -> bytes:
        """Return the nonce of a record."""
        raise NotImplementedError

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return what is in a record."""
        body = record.body
        length = len(body) - self.least_bytes
        if length < 0:
            return None
        _protect(self._protected, number, record.header, length)
        begin = self._explicit_bytes
        sealed = body[begin:] if length <= FEW_BYTES else memoryview(body)[begin:]
        protected = copy_from_array(self._protected, 0, _PROTECTED_BYTES)
        try:
            content = self._decrypt(self.nonce(body, number), sealed, protected)
        except InvalidTag:
            return None
        return opened_record(record.kind, content)


class _ImplicitNonceCipher(_Aead12Cipher):
    """ChaCha20-Poly1305 of TLS 1.2."""

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes, 0)
        self._iv_number = int.from_bytes(keys.iv, "big")

    def nonce(self, body: bytes, number: int) -> bytes:  # noqa: ARG002 - as all of them
        """Return the nonce of a record."""
        return (self._iv_number ^ number).to_bytes(12, "big")


class _ExplicitNonceCipher(_Aead12Cipher):
    """AES-GCM and AES-CCM of TLS 1.2: 8 bytes of the nonce are in the record.

    All implementations count them up by one per record, from 0 (Java, Go) or from a random number
    (OpenSSL).
    """

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes, _EXPLICIT_NONCE_BYTES)
        self._last_explicit = bytes(_EXPLICIT_NONCE_BYTES)
        self._last_number = 0
        """Number of the record that was opened last."""

    def nonce(self, body: bytes, number: int) -> bytes:  # noqa: ARG002 - as all of them
        """Return the nonce of a record."""
        return self._iv + body[:_EXPLICIT_NONCE_BYTES]

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return what is in a record."""
        opened = _Aead12Cipher.open(self, record, number)
        if opened is not None:
            self._last_explicit, self._last_number = record.body[:_EXPLICIT_NONCE_BYTES], number
        return opened

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        """Return the number; the one at the explicit nonce's distance is tried first."""
        if len(record.body) < self.least_bytes:
            return None
        explicit = int.from_bytes(record.body[:_EXPLICIT_NONCE_BYTES], "big")
        ahead = explicit - int.from_bytes(self._last_explicit, "big")
        likely = (self._last_number + ahead) % (1 << 64)
        if within.lowest <= likely <= within.highest and self.open(record, likely) is not None:
            return likely
        return RecordCipher.number(self, record, within)


class _CbcCipher(RecordCipher):
    """AES-CBC of TLS 1.2, with the MAC inside of the ciphertext or after it (RFC 7366).

    In CBC, the plaintext of a block depends only on that block and the one before it. So one
    decryptor is used for all records: each begins with its IV, whose decrypted block is dropped.
    """

    def __init__(self, keys: DirectionKeys, mac: str, *, mac_last: bool) -> None:
        mode = modes.CBC(bytes(_BLOCK_BYTES))
        self._decrypt = Cipher(algorithms.AES(keys.key), mode).decryptor().update
        self._inner, self._outer = _hmac_halves(keys.mac_key, mac)
        self._mac_bytes: int = self._inner.digest_size
        self._mac_last = mac_last
        behind = self._mac_bytes if mac_last else _BLOCK_BYTES
        super().__init__(None, 2 * _BLOCK_BYTES + behind)
        self._protected = bytearray(_PROTECTED_BYTES)

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return what is in a record."""
        parts = self._parts(record)
        if parts is None or not self._is_proven(record, parts, number):
            return None
        return self._opened(record, parts)

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        """Return the number whose MAC is right; None without one, or if the padding is wrong."""
        parts = self._parts(record)
        if parts is None:
            return None
        highest = min(within.highest, within.lowest + within.most_trials - 1)
        for number in range(within.lowest, highest + 1):
            if self._is_proven(record, parts, number):
                return None if self._opened(record, parts) is None else number
        return None

    def _parts(self, record: TlsRecord) -> tuple[bytes, bytes] | None:
        """Return the bytes that the MAC covers, and the MAC; None if the sizes are impossible."""
        body, mac_bytes = record.body, self._mac_bytes
        end = len(body) - mac_bytes
        if self._mac_last:
            if end < 2 * _BLOCK_BYTES or end % _BLOCK_BYTES:
                return None
            return body[:end], body[end:]
        if len(body) < self.least_bytes or len(body) % _BLOCK_BYTES:
            return None
        content = self._content(body)
        if content is None or len(content) < mac_bytes:
            return None
        end = len(content) - mac_bytes
        return content[:end], content[end:]

    def _opened(self, record: TlsRecord, parts: tuple[bytes, bytes]) -> Opened | None:
        """Return the content of a record whose MAC is right."""
        content = self._content(parts[0]) if self._mac_last else parts[0]
        return None if content is None else opened_record(record.kind, content)

    def _content(self, body: bytes) -> bytes | None:
        """Decrypt a body and remove IV and padding; None if the padding is wrong."""
        plaintext = self._decrypt(body)
        last = plaintext[len(plaintext) - 1]
        end = len(plaintext) - last - 1
        if end < _BLOCK_BYTES:
            return None
        for at in range(end, len(plaintext)):
            if plaintext[at] != last:
                return None
        return plaintext[_BLOCK_BYTES:end]

    def _is_proven(self, record: TlsRecord, parts: tuple[bytes, bytes], number: int) -> bool:
        data, mac = parts
        _protect(self._protected, number, record.header, len(data))
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(self._protected)
        inner.update(data)
        outer.update(inner.digest())
        # No constant-time comparison: a sender cannot measure how long this takes.
        return bool(outer.digest() == mac)


def _hmac_halves(key: bytes, name: str) -> tuple[hashlib._Hash, hashlib._Hash]:
    """Return the inner and outer hash of an HMAC (RFC 2104) after the key, to be copied."""
    inner = hashlib.new(name, usedforsecurity=False)
    outer = inner.copy()
    padded = key.ljust(inner.block_size, b"\0")
    inner.update(bytes(byte ^ 0x36 for byte in padded))
    outer.update(bytes(byte ^ 0x5C for byte in padded))
    return inner, outer


def _protect(protected: bytearray, number: int, header: bytes, length: int) -> None:
    """Write the additional data of TLS 1.2: number, kind, version, length."""
    _write_number(protected, 0, number)
    protected[8], protected[9], protected[10] = header[0], header[1], header[2]
    protected[11], protected[12] = length >> 8, length & 0xFF


def _write_number(target: bytearray, at: int, number: int) -> None:
    """Write a number of eight bytes."""
    for index in range(8):
        target[at + 7 - index] = number & 0xFF
        number >>= 8


def _xor(a: bytes, b: bytes) -> bytes:
    mixed = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
    return mixed.to_bytes(len(a), "big")
