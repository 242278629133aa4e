"""Which records of one direction are encrypted, which keys and numbers open them, and the ciphers.

In: the negotiation, records in stream order, and how many are missing between them. Out: the
content of encrypted (sealed) records, decrypted and verified.

To open (decrypt and verify) a record takes its sequence number. Where records are missing,
:meth:`RecordCipher.number` finds it. For AES-GCM of TLS 1.3, it follows from the tag and the key.
For GCM and CCM of TLS 1.2, the explicit nonce gives the distance to the last record. For all other
suites, numbers are tried in turn.

TLS 1.3: RFC 8446 section 5.2 and 5.3. TLS 1.2: RFC 5246 section 6.2.3, GCM RFC 5288, CCM RFC 6655,
ChaCha20-Poly1305 RFC 7905, encrypt-then-MAC RFC 7366. Most of the time is spent in
``cryptography``, which is called once per record, and imported with the first secret that fits: a
module with types for others imports no optional package at its head.

Records are numbered from 0 in each epoch, and the number is not in the record. So after missing
records, the numbers are uncertain within bounds. :meth:`RecordOpener.find` finds the right one: the
record's tag or MAC proves it. The work for trials that fail is bounded.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.common.saved import Saved, load, save
from kanalyze.model.tls import APPLICATION_DATA, HANDSHAKE_RECORD, HEADER_BYTES
from kanalyze.tls.handshake import is_hello
from kanalyze.tls.keylog import require_ciphers
from kanalyze.tls.keys import APPLICATION, EARLY, HANDSHAKE, TLS_1_3, Epochs13
from kanalyze.tls.negotiation import RecordPlace
from kanalyze.tls.records import ANY_NUMBER, TrialRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

    from kanalyze.common.plain_values import State
    from kanalyze.tls.keys import DirectionKeys, Epochs
    from kanalyze.tls.late_start import Candidate, FittingSession, LateStarts
    from kanalyze.tls.negotiation import Negotiation
    from kanalyze.tls.records import LostRecords, TlsRecord

# -- ciphers --------------------------------------------------------------------------------------

_TAG_BYTES = 16
_SHORT_TAG_BYTES = 8
_BLOCK_BYTES = 16
_EXPLICIT_NONCE_BYTES = 8
_PROTECTED_BYTES, _NONCE_BYTES = 13, 12
_FEW_BYTES = 1024
"""Up to this size, a copy is faster than a memoryview."""
_T = TypeVar("_T")
_Aead: TypeAlias = "AESGCM | AESCCM | ChaCha20Poly1305"
Opened: TypeAlias = tuple[int, "bytes | memoryview"]
"""The content type of an opened record (in TLS 1.3 the inner one), and its plaintext without
padding and tag."""


class RecordCipher:
    """Opens the records of one direction.

    Attributes:
        overhead_bytes: bytes of a record's body beside the content; None where that varies.
        least_bytes: least size of a record's body.
        tries_numbers: whether :meth:`number` tries numbers in turn.
    """

    def __init__(self, overhead_bytes: int | None, least_bytes: int) -> None:
        self.overhead_bytes, self.least_bytes = overhead_bytes, least_bytes
        self.tries_numbers = True

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return the content of a record; None if its tag or MAC is wrong."""
        raise NotImplementedError

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        """Return the sequence number that opens a record; None if none ``within`` does."""
        highest = min(within.highest, within.lowest + within.most_trials - 1)
        for number in range(within.lowest, highest + 1):
            if self.open(record, number) is not None:
                return number
        return None


def record_cipher(keys: DirectionKeys) -> RecordCipher:
    """Return the cipher of a suite with the keys of a direction.

    Raises UsageError if the package with the ciphers is missing. Only here is it needed: there is a
    secret that fits a session, or one to be tried.
    """
    require_ciphers()
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

    suite = keys.suite
    if suite.mode == "cbc":
        return _CbcCipher(keys)
    tag_bytes = _SHORT_TAG_BYTES if suite.mode == "ccm-8" else _TAG_BYTES
    aead: _Aead
    if suite.mode == "gcm":
        aead = AESGCM(keys.key)
    elif suite.mode == "chacha20":
        aead = ChaCha20Poly1305(keys.key)
    else:
        aead = AESCCM(keys.key, tag_bytes)
    if suite.tells_number:
        return _Gcm13Cipher(aead, keys, tag_bytes)
    if suite.version == TLS_1_3:
        return _Aead13Cipher(aead, keys, tag_bytes)
    if suite.mode == "chacha20":
        return _ImplicitNonceCipher(aead, keys, tag_bytes)
    return _ExplicitNonceCipher(aead, keys, tag_bytes)


def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag


class _Aead13Cipher(RecordCipher):
    """TLS 1.3. The nonce is the IV and the record's number; the header is protected too."""

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(tag_bytes + 1, tag_bytes + 1)
        self._decrypt, self._invalid_tag = aead.decrypt, _invalid_tag()
        self._iv = int.from_bytes(keys.iv, "big")

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return what is in a record."""
        body = record.body
        if record.kind != APPLICATION_DATA or len(body) < self.least_bytes:
            return None
        nonce = (self._iv ^ number).to_bytes(_NONCE_BYTES, "big")
        try:
            inner = self._decrypt(nonce, body, record.header)
        except self._invalid_tag:
            return None
        end = len(inner) - 1
        if not inner[end]:  # padding
            end = len(inner.rstrip(b"\0")) - 1
            if end < 0:
                return None
        return inner[end], inner[:end] if end <= _FEW_BYTES else memoryview(inner)[:end]


class _Gcm13Cipher(_Aead13Cipher):
    """AES-GCM of TLS 1.3: the number is computed.

    A tag is the GHASH of header and ciphertext, xor the encrypted first counter block. GHASH does
    not depend on the nonce, so it is computed from a tag made with another nonce. The record's tag
    xor GHASH is the encrypted counter block; decrypted, it contains the nonce.
    """

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes)
        self.tries_numbers = False
        self._encrypt = aead.encrypt
        self._key = keys.key

    def number(self, record: TlsRecord, within: TrialRange) -> int | None:
        """Return the number that follows from the tag."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        if record.kind != APPLICATION_DATA or len(record.body) < self.least_bytes:
            return None
        sealed, tag = record.body[:-_TAG_BYTES], record.body[-_TAG_BYTES:]
        nonce = bytes(_NONCE_BYTES)
        algorithm = algorithms.AES(self._key)
        counter = modes.CTR(nonce + b"\0\0\0\2")
        content = Cipher(algorithm, counter).decryptor().update(sealed)
        own_tag = self._encrypt(nonce, content, record.header)[-_TAG_BYTES:]
        blocks = Cipher(algorithm, modes.ECB())  # noqa: S305 - of one block
        own_mask = blocks.encryptor().update(nonce + b"\0\0\0\1")
        mask = _xor(_xor(own_tag, own_mask), tag)
        first = blocks.decryptor().update(mask)
        number = int.from_bytes(first[:_NONCE_BYTES], "big") ^ self._iv
        if first[_NONCE_BYTES:] != b"\0\0\0\1" or not within.lowest <= number <= within.highest:
            return None
        return number


class _Aead12Cipher(RecordCipher):
    """Base of the AEAD suites of TLS 1.2: the number is part of the additional data."""

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int, explicit: int) -> None:
        super().__init__(explicit + tag_bytes, explicit + tag_bytes)
        self._decrypt, self._invalid_tag = aead.decrypt, _invalid_tag()
        self._iv = keys.iv
        self._explicit_bytes = explicit

    def nonce(self, body: bytes, number: int) -> bytes:
        """Return the nonce of a record."""
        raise NotImplementedError

    def open(self, record: TlsRecord, number: int) -> Opened | None:
        """Return what is in a record."""
        body = record.body
        length = len(body) - self.least_bytes
        if length < 0:
            return None
        begin = self._explicit_bytes
        sealed = body[begin:] if length <= _FEW_BYTES else memoryview(body)[begin:]
        protected = _protected(number, record.header, length)
        try:
            return record.kind, self._decrypt(self.nonce(body, number), sealed, protected)
        except self._invalid_tag:
            return None


class _ImplicitNonceCipher(_Aead12Cipher):
    """ChaCha20-Poly1305 of TLS 1.2."""

    def __init__(self, aead: _Aead, keys: DirectionKeys, tag_bytes: int) -> None:
        super().__init__(aead, keys, tag_bytes, 0)
        self._iv_number = int.from_bytes(keys.iv, "big")

    def nonce(self, body: bytes, number: int) -> bytes:  # noqa: ARG002 - as all of them
        """Return the nonce of a record."""
        return (self._iv_number ^ number).to_bytes(_NONCE_BYTES, "big")


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

    def __init__(self, keys: DirectionKeys) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        mode = modes.CBC(bytes(_BLOCK_BYTES))
        self._decrypt = Cipher(algorithms.AES(keys.key), mode).decryptor().update
        self._inner, self._outer = _hmac_halves(keys.mac_key, keys.suite.mac)
        self._mac_bytes: int = self._inner.digest_size
        self._mac_last = keys.encrypt_then_mac
        behind = self._mac_bytes if self._mac_last else _BLOCK_BYTES
        super().__init__(None, 2 * _BLOCK_BYTES + behind)

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
        return None if content is None else (record.kind, content)

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
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(_protected(number, record.header, len(data)))
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


def _protected(number: int, header: bytes, length: int) -> bytearray:
    """Return the additional data of TLS 1.2: number, kind, version, length."""
    data = bytearray(_PROTECTED_BYTES)
    for index in range(8):
        data[7 - index] = number & 0xFF
        number >>= 8
    data[8], data[9], data[10] = header[0], header[1], header[2]
    data[11], data[12] = length >> 8, length & 0xFF
    return data


def _xor(a: bytes, b: bytes) -> bytes:
    mixed = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
    return mixed.to_bytes(len(a), "big")


# -- keys and numbers -----------------------------------------------------------------------------

_MAX_TRIALS: Final = 1 << 16
_MAX_BLIND_TRIALS: Final = 1 << 12
"""Trials for one record if the number of missing records is unknown; the next record is tried
too."""
_MAX_WORK_BYTES: Final = 64 << 20
"""Budget for failed trials, in decrypted bytes: 20 to 200 ms."""
_WORK_PER_BYTE: Final = 16
"""How much the budget grows again with each byte of a record."""
_TRIAL_BYTES: Final = 1024
"""Fixed cost of a trial, as bytes that could be decrypted in that time."""
_DERIVATION_BYTES: Final = 1 << 14
"""Cost of deriving the keys of another epoch, likewise in bytes."""


class _RecordPlace(NamedTuple):
    """Epoch and number of a record, and the cipher that opens it."""

    epoch: int
    cipher: RecordCipher
    number: int


class RecordOpener:
    """Opens the records of one direction.

    Attributes:
        epochs: the epochs whose keys it uses.
        epoch: epoch of the next record, as :mod:`~kanalyze.tls.keys` counts them.
        uncertain: how many records may be missing before the next one.
        missing: how many records of its epoch were missing before the one that was opened last.
        first_missing: the number of the first of these.
        left_epoch: the epoch that ended unseen before that record, within missing records; or None.
    """

    _NOT_SAVED = ("_ciphers", "epochs", "_found", "_found_offset")
    _SAVED = Saved(
        "epoch:count _number:count uncertain:count missing:count first_missing:count "
        "left_epoch:count? _work_left:int"
    )

    def __init__(self, epochs: Epochs, epoch: int, uncertain: int = 0) -> None:
        self.epochs = epochs
        self._ciphers: list[RecordCipher] | None = None
        """Ciphers of the current epoch. Without any, they are looked up for each record: the key
        log may have grown, or the other direction shows which session is resumed."""
        self._number = 0
        self._found: _RecordPlace | None = None
        self._found_offset = -1
        """Stream offset of the record of ``_found``, which may be opened after waiting ones."""
        self._work_left = _MAX_WORK_BYTES
        self.epoch = epoch
        self.uncertain = uncertain
        self.missing = self.first_missing = 0
        self.left_epoch: int | None = None

    def _after_load(self) -> None:
        self._work_left = min(self._work_left, _MAX_WORK_BYTES)

    @property
    def is_early(self) -> bool:
        """Whether the next record is early data (0-RTT)."""
        return self.epoch == EARLY and isinstance(self.epochs, Epochs13)

    @property
    def has_keys(self) -> bool:
        """Whether there are keys for this epoch, or for one that may follow."""
        if self._current():
            return True
        following = self.epochs.after(self.epoch, is_uncertain=self.uncertain > 0)
        return any(self.epochs.keys(epoch) for epoch in following)

    @property
    def began_unseen(self) -> bool:
        """Whether the record opened last is the first one after a missing KeyUpdate."""
        return self.left_epoch is not None and self.epoch > APPLICATION and not self.missing

    @property
    def overhead_bytes(self) -> int | None:
        """Bytes of each record beside its content, with the header; None where that varies."""
        ciphers = self._current()
        overhead = ciphers[0].overhead_bytes if ciphers else None
        return None if overhead is None else overhead + HEADER_BYTES

    @property
    def least_bytes(self) -> int:
        """The size of the smallest record, with the header."""
        ciphers = self._current()
        return HEADER_BYTES + (ciphers[0].least_bytes if ciphers else 1)

    def begin(self, epoch: int) -> None:
        """Begin an epoch: the next record is its first."""
        self.epoch, self.uncertain, self._number = epoch, 0, 0
        self._ciphers, self._found = None, None

    def open(self, record: TlsRecord) -> Opened | None:
        """Return the content of the next record; None if it cannot be decrypted."""
        ciphers = self._current()
        if not self.uncertain and len(ciphers) == 1:
            cipher = ciphers[0]
            opened = cipher.open(record, self._number)
            if opened is not None:
                self._number += 1
                self.missing, self.left_epoch = 0, None
                return opened
        if not self.find(record):
            self.uncertain += 1
            return None
        assert self._found is not None
        matched, self._found = self._found, None
        is_same = matched.epoch == self.epoch
        self.first_missing = self._number if is_same else 0
        self.missing = matched.number - self.first_missing
        self.left_epoch = None if is_same else self.epoch
        self.epoch, self._number = matched.epoch, matched.number + 1
        self._ciphers = [matched.cipher]
        self.uncertain = 0
        self._work_left = _MAX_WORK_BYTES
        return matched.cipher.open(record, matched.number)

    def find(self, record: TlsRecord, more_missing: int = 0) -> bool:
        """Return true if a record may come next: some key and number open it, which are remembered.

        ``more_missing`` is how many records may be missing beside :attr:`uncertain`.
        """
        if self._found is None or self._found_offset != record.stream_offset:
            self._found_offset = record.stream_offset
            gained = _WORK_PER_BYTE * len(record.body)
            self._work_left = min(_MAX_WORK_BYTES, self._work_left + gained)
            within = self.uncertain + more_missing
            self._found = next(self._places(record, within), None)
        return self._found is not None

    def _places(self, record: TlsRecord, missing: int) -> Iterator[_RecordPlace]:
        yield from self._in_epoch(record, self.epoch, self._current(), (self._number, missing))
        for epoch in self.epochs.after(self.epoch, is_uncertain=missing > 0):
            if self._work_left <= 0:
                return
            self._work_left -= _DERIVATION_BYTES
            yield from self._in_epoch(
                record,
                epoch,
                [record_cipher(keys) for keys in self.epochs.keys(epoch)],
                (0, missing),
            )

    def _in_epoch(
        self, record: TlsRecord, epoch: int, ciphers: list[RecordCipher], bounds: tuple[int, int]
    ) -> Iterator[_RecordPlace]:
        lowest, missing = bounds
        cost = len(record.body) + _TRIAL_BYTES
        most = _MAX_TRIALS if missing < ANY_NUMBER else _MAX_BLIND_TRIALS
        for cipher in ciphers:
            if self._work_left <= 0:
                return
            trials = min(most, missing + 1, self._work_left // cost + 1)
            number = cipher.number(record, TrialRange(lowest, lowest + missing, trials))
            if number is not None:
                yield _RecordPlace(epoch, cipher, number)
            self._work_left -= cost * (trials if cipher.tries_numbers else 1)

    def _current(self) -> list[RecordCipher]:
        if not self._ciphers:
            self._ciphers = [record_cipher(keys) for keys in self.epochs.keys(self.epoch)]
        return self._ciphers


LATE_RECORDS: Final = 8
"""How many records of a direction are tried with all secrets of the key log."""


class Protection:
    """Opens the encrypted records of a direction.

    Attributes:
        is_sealed: whether records are encrypted from here on.
        opener: opens them; None if the keys cannot be known.
    """

    _NOT_SAVED = (
        *("_from_start", "_late_starts", "_negotiation", "_prospect", "_prospect_of", "_direction"),
    )

    def __init__(
        self, direction: int, negotiation: Negotiation, late_starts: LateStarts, *, from_start: bool
    ) -> None:
        self._direction = direction
        self._from_start = from_start
        self._negotiation = negotiation
        self._late_starts = late_starts
        self._late_records = LATE_RECORDS
        self._may_be_missing = 0
        """How many records may be missing before the next one, as long as no keys are known."""
        self._prospect: RecordOpener | None = None
        """Tries whether a record is encrypted, before encryption is known to have begun."""
        self._prospect_of: object = None
        """The client random and ServerHello that the keys of ``_prospect`` depend on."""
        self._is_first = True
        """Whether no record was opened yet."""
        self.is_sealed = False
        self.opener: RecordOpener | None = None

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes. No secret is in it, nor a key."""
        opener = self.opener
        epochs = None if opener is None else opener.epochs
        # The epochs of TLS 1.2 are in the state of the negotiation.
        state_13 = save(epochs) if isinstance(epochs, Epochs13) else None
        return (
            *(self._late_records, self._may_be_missing, self.is_sealed, state_13),
            *(None if opener is None else save(opener), self._is_first),
        )

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state, with that of the negotiation; raises ValueError for any other."""
        late, self._may_be_missing, *others = fields(state, "nnbTTb", (True,))
        self.is_sealed, epochs, opener, self._is_first = others
        self._late_records = min(late, LATE_RECORDS)
        if opener is not None:
            negotiation, end = self._negotiation, self._negotiation.end_of(self._direction)
            if end is None:
                raise ValueError("keys of nobody knows which end")
            keys: Epochs = negotiation.both_epochs_12[end]
            if epochs is not None:
                keys = Epochs13.from_state(epochs, negotiation.log)
            self.opener = RecordOpener(keys, 0)
            load(self.opener, opener)

    def keys_came(self) -> None:
        """Try secrets again, because the key log has grown."""
        self._late_records = max(self._late_records, 1)

    def seal(self) -> None:
        """Note that records are encrypted from here on, and find the keys."""
        self.is_sealed = True
        self.opener, self._prospect = self._prospective(), None

    def covers(self, record: TlsRecord) -> bool:
        """Return true if a record is encrypted."""
        if record.kind == APPLICATION_DATA:
            return True
        return self.is_sealed and not self._negotiation.is_13

    def began_unseen(self, record: TlsRecord) -> bool:
        """Return true if encryption of TLS 1.2 began with a ChangeCipherSpec that is missing.

        It did if the record can be opened.
        """
        if not self._may_be_missing or self._negotiation.is_13:
            return False
        opener = self._prospective()
        return opener is not None and opener.find(record)

    def open(self, record: TlsRecord) -> Opened | None:
        """Return the content of an encrypted record; None if it cannot be decrypted."""
        if self.opener is None:
            self._find_keys(record)
        if self._is_first:
            self._find_earlier_session(record)
        opened = None if self.opener is None else self.opener.open(record)
        if self._is_first and opened is not None:
            self._note_first()
        self._may_be_missing = 0 if opened is not None else self._may_be_missing + 1
        return opened

    def lose(self, lost: LostRecords) -> None:
        """Note that records are missing."""
        opener = self.opener
        least = HEADER_BYTES + 1 if opener is None else opener.least_bytes
        count = lost.length // least + 1 if lost.records is None else lost.records
        self._may_be_missing += count
        if opener is not None:
            opener.uncertain += count

    def prove(self, record: TlsRecord, lost_bytes: int) -> bool | None:
        """Return true if what looks like a record is one; None if that cannot be decided.

        ``lost_bytes`` are the bytes before it that are in no record.
        """
        if not self.is_sealed and record.kind == HANDSHAKE_RECORD and is_hello(record.body):
            return True
        if self.opener is None and self._negotiation.client_hello is None:
            self._find_keys(record)
        opener = self._prospective() if self.opener is None else self.opener
        if opener is None or not opener.has_keys:
            return None
        if opener.find(record, lost_bytes // opener.least_bytes + 1):
            return True
        return False if self.is_sealed else None

    def _prospective(self) -> RecordOpener | None:
        """Return the opener for the next record, in case it is encrypted.

        It is kept until the hellos change, so that its budget of work holds.
        """
        negotiation = self._negotiation
        depends_on = (negotiation.client_random, negotiation.server_hello)
        if self._prospect is None or self._prospect_of != depends_on:
            self._prospect, self._prospect_of = self._new_opener(), depends_on
        else:
            self._prospect.uncertain = self._uncertain()
        return self._prospect

    def _new_opener(self) -> RecordOpener | None:
        negotiation, direction = self._negotiation, self._direction
        if negotiation.is_13:
            epochs = negotiation.epochs_13(direction)
            is_early = negotiation.end_of(direction) == 0 and negotiation.may_have_early_data
            begin = EARLY if is_early else HANDSHAKE
            if negotiation.client_hello is None and negotiation.server_hello is None:
                begin = APPLICATION
            return None if epochs is None else RecordOpener(epochs, begin, self._uncertain())
        epochs_12 = negotiation.epochs_12(direction)
        return None if epochs_12 is None else RecordOpener(epochs_12, 0, self._uncertain())

    def _uncertain(self) -> int:
        """Return how many records may be missing before the next one."""
        negotiation = self._negotiation
        is_begin_known = self._from_start or negotiation.server_hello is not None
        if negotiation.end_of(self._direction) == 0:
            is_begin_known = self._from_start or negotiation.handshakes > 0
        return self._may_be_missing if is_begin_known else ANY_NUMBER

    def _find_keys(self, record: TlsRecord) -> None:
        """Look for keys again; without a ClientHello, by trying the secrets of the key log."""
        negotiation = self._negotiation
        if negotiation.client_random is None:
            session = self._find_session(record)
            if session is None:
                return
            negotiation.adopt(session.client_random, self._direction ^ session.end, session.suite)
        self.opener = self._new_opener()

    def _find_earlier_session(self, record: TlsRecord) -> None:
        """Find the keys if the key log has none, and the session may be a resumed one."""
        negotiation, opener = self._negotiation, self.opener
        end, client_random = negotiation.end_of(self._direction), negotiation.client_random
        handshake = None if client_random is None else negotiation.handshake_12(client_random)
        if opener is None or end is None or handshake is None or not self._late_records:
            return
        is_new = negotiation.facts.resumed is False or negotiation.handshakes != 1
        if not is_new and not opener.has_keys:
            self._late_records -= 1
            place = RecordPlace(negotiation.ends, opener.uncertain)
            name = _fitting(record, self._late_starts.earlier.candidates(end, handshake, place))
            if name is not None:
                for epochs in negotiation.both_epochs_12:
                    epochs.resume(0, name)

    def _note_first(self) -> None:
        """Note that a record was opened, and with which master secret."""
        self._is_first = False
        name = self._negotiation.both_epochs_12[0].master_name(0)
        if name is not None:
            self._late_starts.earlier.note(self._negotiation.ends, name)

    def _find_session(self, record: TlsRecord) -> FittingSession | None:
        negotiation = self._negotiation
        if not self._late_records:
            return None
        end, handshake = negotiation.end_of(self._direction), negotiation.handshake_12(b"")
        if handshake is not None and end is not None:
            self._late_records -= 1
            return _fitting(record, self._late_starts.candidates_12(record, end, handshake))
        if record.kind != APPLICATION_DATA or (negotiation.server_hello and not negotiation.suite):
            return None
        self._late_records -= 1
        return _fitting(record, self._late_starts.candidates_13(record, end, negotiation.suite))


def _fitting(record: TlsRecord, candidates: Iterator[Candidate[_T]]) -> _T | None:
    """Return the first candidate whose keys open a record; None if there is none."""
    for found, keys, within in candidates:
        if record_cipher(keys).number(record, within) is not None:
            return found
    return None
