"""Opens (decrypts and verifies) the records of one direction, with the right keys and numbers.

In: sealed (encrypted) records in stream order, and how many are missing between them. Out: their
contents.

Records are numbered from 0 in each epoch, and the number is not in the record. So after missing
records, the numbers are uncertain within bounds. :meth:`RecordOpener.find` finds the right one: the
record's tag or MAC proves it. The work for trials that fail is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.tls import HEADER_BYTES
from kanalyze.tls.epochs import APPLICATION, EARLY, Epochs13
from kanalyze.tls.records import TrialRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.tls.epochs import Epochs
    from kanalyze.tls.record_cipher import Opened, RecordCipher
    from kanalyze.tls.records import TlsRecord

__all__ = ["ANY_NUMBER", "RecordOpener"]

ANY_NUMBER: Final = 1 << 48
"""Upper bound of record numbers: no connection sends so many records."""
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
        epoch: epoch of the next record, as :mod:`~kanalyze.tls.epochs` counts them.
        uncertain: how many records may be missing before the next one.
        missing: how many records of its epoch were missing before the one that was opened last.
        first_missing: the number of the first of these.
        left_epoch: the epoch that ended unseen before that record, within missing records; or None.
    """

    _NOT_SAVED = ("_ciphers", "_epochs", "_found", "_found_offset")
    _SAVED = Saved(
        "epoch:count _number:count uncertain:count missing:count first_missing:count "
        "left_epoch:count? _work_left:int"
    )

    def __init__(self, epochs: Epochs, epoch: int, uncertain: int = 0) -> None:
        self._epochs = epochs
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

    @property
    def epochs(self) -> Epochs:
        """The epochs whose keys it uses."""
        return self._epochs

    def _after_load(self) -> None:
        self._work_left = min(self._work_left, _MAX_WORK_BYTES)

    @property
    def is_early(self) -> bool:
        """Whether the next record is early data (0-RTT)."""
        return self.epoch == EARLY and isinstance(self._epochs, Epochs13)

    @property
    def has_keys(self) -> bool:
        """Whether there are keys for this epoch, or for one that may follow."""
        if self._current():
            return True
        following = self._epochs.after(self.epoch, is_uncertain=self.uncertain > 0)
        return any(self._epochs.ciphers(epoch) for epoch in following)

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
        for epoch in self._epochs.after(self.epoch, is_uncertain=missing > 0):
            if self._work_left <= 0:
                return
            self._work_left -= _DERIVATION_BYTES
            yield from self._in_epoch(record, epoch, self._epochs.ciphers(epoch), (0, missing))

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
            self._ciphers = self._epochs.ciphers(self.epoch)
        return self._ciphers
