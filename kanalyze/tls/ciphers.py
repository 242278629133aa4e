"""Record protection: opens the records of one direction, each by its number.

In: the keys of a direction, records. Out: what was in them, if it is what the sender protected.
Must not know: where a record comes from, nor what its content means.

A record is opened with its sequence number. Where records are missing, :meth:`RecordCipher.number`
finds it: the tag of AES-GCM and the key together say it; the explicit nonce of TLS 1.2 says how far
it is from the one before; for all others numbers are tried in turn.

TLS 1.3: RFC 8446 section 5.2 and 5.3. TLS 1.2: RFC 5246 section 6.2.3, GCM RFC 5288, CCM RFC 6655,
ChaCha20-Poly1305 RFC 7905, encrypt-then-MAC RFC 7366.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Protocol, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tls_record import APPLICATION_DATA
from kanalyze.tls.cipher_suites import TLS_1_3

if TYPE_CHECKING:
    from kanalyze.tls.cipher_suites import CipherSuite
    from kanalyze.tls.key_schedule import DirectionKeys
    from kanalyze.tls.records import TlsRecord, TrialRange

__all__ = ["Opened", "RecordCipher", "record_cipher"]

_TAG_BYTES = 16
_SHORT_TAG_BYTES = 8
_BLOCK_BYTES = 16
_EXPLICIT_NONCE_BYTES = 8
_Aead: TypeAlias = "AESGCM | AESCCM | ChaCha20Poly1305"


class Opened(NamedTuple):
    """What was in a record."""

    kind: int
    """Content type, of TLS 1.3 the inner one."""
    content: bytes | memoryview


class RecordCipher(Protocol):
    """Opens the records of one direction."""

    overhead_bytes: int | None
    """What a record has beside its content, without the header; None where that varies."""
    least_bytes: int
    """Of the body of a record."""
    tries_numbers: bool
    """Whether :meth:`number` tries them in turn."""

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return what is in a record; None if it is not what the sender protected."""
        ...

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        """Return the number with which a record can be opened; None if there is none."""
        ...


def record_cipher(
    suite: CipherSuite, keys: DirectionKeys, *, encrypt_then_mac: bool = False
) -> RecordCipher:
    """Return what opens the records of a suite."""
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


def _first_that_opens(cipher: RecordCipher, record: TlsRecord, within: TrialRange) -> int | None:
    highest = min(within.highest, within.lowest + within.most_trials - 1)
    for number in range(within.lowest, highest + 1):
        if cipher.open(record, number) is not None:
            return number
    return None


class _Aead13Cipher:
    """TLS 1.3. The nonce is the IV and the record's number; the header is protected too."""

    tries_numbers = True

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        self._decrypt = aead.decrypt
        self._iv = int.from_bytes(keys.iv, "big")
        self.overhead_bytes: int | None = tag_bytes + 1
        self.least_bytes = tag_bytes + 1

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        if record.kind != APPLICATION_DATA or len(record.body) < self.least_bytes:
            return None
        nonce = (self._iv ^ number).to_bytes(12, "big")
        try:
            inner = self._decrypt(nonce, record.body, record.header)
        except InvalidTag:
            return None
        end = len(inner) - 1
        if not inner[end]:  # padding
            end = len(inner.rstrip(b"\0")) - 1
            if end < 0:
                return None
        return Opened(inner[end], memoryview(inner)[:end])

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        return _first_that_opens(self, record, within)


class _Gcm13Cipher(_Aead13Cipher):
    """AES-GCM of TLS 1.3: the number is computed.

    The tag is GHASH of header and ciphertext, xor the encrypted first counter block. GHASH does not
    depend on the nonce, so it follows from a tag made with any nonce; what is left of the record's
    own tag is decrypted, and gives the nonce.
    """

    tries_numbers = False

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes)
        assert isinstance(aead, AESGCM)
        self._encrypt = aead.encrypt
        self._key = keys.key

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
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
        found = int.from_bytes(first[:12], "big") ^ self._iv
        if first[12:] != b"\0\0\0\1" or not within.lowest <= found <= within.highest:
            return None
        return found


class _Aead12Cipher:
    """What the AEAD suites of TLS 1.2 have in common: the number is protected, not only used."""

    tries_numbers = True

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int, explicit: int) -> None:
        self._decrypt = aead.decrypt
        self._iv = keys.iv
        self._explicit_bytes = explicit
        self.overhead_bytes: int | None = explicit + tag_bytes
        self.least_bytes = explicit + tag_bytes

    def nonce(self, body: memoryview, number: int) -> bytes:
        raise NotImplementedError

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        body = record.body
        length = len(body) - self.least_bytes
        if length < 0:
            return None
        protected = number.to_bytes(8, "big") + record.header[:3] + length.to_bytes(2, "big")
        sealed = body[self._explicit_bytes :]
        try:
            content = self._decrypt(self.nonce(body, number), sealed, protected)
        except InvalidTag:
            return None
        return Opened(record.kind, content)


class _ImplicitNonceCipher(_Aead12Cipher):
    """ChaCha20-Poly1305 of TLS 1.2."""

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes, 0)
        self._iv_number = int.from_bytes(keys.iv, "big")

    def nonce(self, body: memoryview, number: int) -> bytes:  # noqa: ARG002 - as all of them
        return (self._iv_number ^ number).to_bytes(12, "big")

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        return _first_that_opens(self, record, within)


class _ExplicitNonceCipher(_Aead12Cipher):
    """AES-GCM and AES-CCM of TLS 1.2: half of the nonce is in the record.

    Everyone counts it up by one a record, from 0 (Java, Go) or from anywhere (OpenSSL).
    """

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes, _EXPLICIT_NONCE_BYTES)
        self._ahead = 0
        """What the explicit nonce is ahead of the number, by the last record that was opened."""

    def nonce(self, body: memoryview, number: int) -> bytes:  # noqa: ARG002 - as all of them
        return self._iv + body[:_EXPLICIT_NONCE_BYTES]

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        opened = super().open(record, number)
        if opened is not None:
            self._ahead = _explicit(record) - number
        return opened

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        if len(record.body) < self.least_bytes:
            return None
        likely = (_explicit(record) - self._ahead) % (1 << 64)
        if within.lowest <= likely <= within.highest and self.open(record, likely) is not None:
            return likely
        return _first_that_opens(self, record, within)


class _CbcCipher:
    """AES-CBC of TLS 1.2, with the MAC inside, or behind what is encrypted (RFC 7366)."""

    overhead_bytes: int | None = None
    tries_numbers = True

    def __init__(self, keys: DirectionKeys, mac: str, *, mac_last: bool) -> None:
        self._key = algorithms.AES(keys.key)
        self._mac = hmac.new(keys.mac_key, digestmod=mac)
        self._mac_bytes: int = hashlib.new(mac, usedforsecurity=False).digest_size
        self._mac_last = mac_last
        self.least_bytes = 2 * _BLOCK_BYTES + (self._mac_bytes if mac_last else _BLOCK_BYTES)

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        return self._opened(record, range(number, number + 1))[1]

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        highest = min(within.highest, within.lowest + within.most_trials - 1)
        return self._opened(record, range(within.lowest, highest + 1))[0]

    def _opened(self, record: TlsRecord, numbers: range) -> tuple[int | None, Opened | None]:
        """Return the number whose MAC is right, and what is in the record."""
        body = record.body
        if self._mac_last:
            end = len(body) - self._mac_bytes
            if end < 2 * _BLOCK_BYTES or end % _BLOCK_BYTES:
                return None, None
            number = self._proven(record.header, body[:end], body[end:], numbers)
            content = None if number is None else self._content(body[:end])
            return (None, None) if content is None else (number, Opened(record.kind, content))
        if len(body) < self.least_bytes or len(body) % _BLOCK_BYTES:
            return None, None
        content = self._content(body)
        if content is None or len(content) < self._mac_bytes:
            return None, None
        content, mac = content[: -self._mac_bytes], content[-self._mac_bytes :]
        number = self._proven(record.header, content, mac, numbers)
        return (None, None) if number is None else (number, Opened(record.kind, content))

    def _content(self, body: memoryview) -> memoryview | None:
        """Decrypt; take the padding off. None where it is no padding."""
        mode = modes.CBC(bytes(body[:_BLOCK_BYTES]))
        plain = Cipher(self._key, mode).decryptor().update(body[_BLOCK_BYTES:])
        padding = plain[-1] + 1
        if padding > len(plain) or plain[-padding:] != bytes((plain[-1],)) * padding:
            return None
        return memoryview(plain)[:-padding]

    def _proven(
        self, header: bytes, data: memoryview, mac: memoryview, numbers: range
    ) -> int | None:
        behind = header[:3] + len(data).to_bytes(2, "big")
        for number in numbers:
            maker = self._mac.copy()
            maker.update(number.to_bytes(8, "big") + behind)
            maker.update(data)
            if hmac.compare_digest(maker.digest(), mac):
                return number
        return None


def _explicit(record: TlsRecord) -> int:
    return int.from_bytes(record.body[:_EXPLICIT_NONCE_BYTES], "big")


def _xor(one: bytes, other: bytes | memoryview) -> bytes:
    mixed = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return mixed.to_bytes(len(one), "big")
