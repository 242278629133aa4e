"""Which records of one direction are encrypted, and what opens them.

In: the negotiation, records in order, what is missing between them. Out: the content of encrypted
records. Must not know: what a content means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields
from kanalyze.model.tls_record import APPLICATION_DATA, HANDSHAKE_RECORD, HEADER_BYTES
from kanalyze.tls.epochs import APPLICATION, EARLY, HANDSHAKE
from kanalyze.tls.handshake import is_hello
from kanalyze.tls.opener import ANY_NUMBER, RecordOpener

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.tls.ciphers import Opened
    from kanalyze.tls.late_start import LateStarts
    from kanalyze.tls.negotiation import Negotiation
    from kanalyze.tls.records import LostRecords, TlsRecord

__all__ = ["LATE_RECORDS", "Protection"]

LATE_RECORDS: Final = 8
"""So many records of a direction are tried with all secrets of the key log."""


class Protection:
    """Opens the records of a direction from where on they are encrypted.

    Attributes:
        is_sealed: whether records are encrypted from here on.
        opener: opens them; None where the keys cannot be known.
    """

    __slots__ = (
        *("_late_records", "_late_starts", "_may_be_missing", "_negotiation", "_side"),
        *("is_sealed", "opener"),
    )
    _LEFT_OUT = ("_late_starts", "_side")

    def __init__(self, side: int, negotiation: Negotiation, late_starts: LateStarts) -> None:
        self._side = side
        self._negotiation = negotiation
        self._late_starts = late_starts
        self._late_records = LATE_RECORDS
        self._may_be_missing = 0
        """How many records before the next one, as long as no keys are known."""
        self.is_sealed = False
        self.opener: RecordOpener | None = None

    def state(self) -> State:
        """Return what :meth:`load_state` takes. No secret is in it, nor a key."""
        opener = self.opener
        epochs = None if opener is None else self._negotiation.epochs_state(opener.epochs)
        return (
            *(self._late_records, self._may_be_missing, self.is_sealed, epochs),
            None if opener is None else opener.state(),
        )

    def load_state(self, state: object) -> None:
        """Continue from a state, with that of the negotiation; raises ValueError for any other."""
        late, self._may_be_missing, self.is_sealed, epochs, opener = fields(state, "nnbTT")
        self._late_records = min(late, LATE_RECORDS)
        if opener is not None:
            known = self._negotiation.epochs_from_state(epochs, self._side)
            self.opener = RecordOpener.from_state(opener, known)

    @property
    def lacks_keys(self) -> bool:
        """Whether the session is known, and the key log has no secret for what comes next."""
        return self.opener is not None and not self.opener.has_keys

    def keys_came(self) -> None:
        """Try again: the key log has grown."""
        self._late_records = max(self._late_records, 1)
        if self.opener is not None:
            self.opener.refresh()

    def seal(self) -> None:
        """Note that records are encrypted from here on, and find the keys."""
        self.is_sealed = True
        self.opener = self._new_opener()

    def covers(self, record: TlsRecord) -> bool:
        """Tell whether a record is encrypted."""
        if record.kind == APPLICATION_DATA:
            return True
        return self.is_sealed and not self._negotiation.is_13

    def began_unseen(self, record: TlsRecord) -> bool:
        """Tell whether the record of TLS 1.2 is missing that says that the next are encrypted.

        A record that can be opened proves it.
        """
        if not self._may_be_missing or self._negotiation.is_13:
            return False
        opener = self._new_opener()
        return opener is not None and opener.find(record)

    def open(self, record: TlsRecord) -> Opened | None:
        """Return what is in an encrypted record; None if that cannot be known."""
        if self.opener is None:
            self._find_late(record)
        opened = None if self.opener is None else self.opener.open(record)
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
        """Tell whether a record may come next, after so many bytes that are in no record."""
        if not self.is_sealed and record.kind == HANDSHAKE_RECORD and is_hello(record.body):
            return True
        opener = self.opener
        if opener is None and self._may_be_missing:
            opener = self._new_opener()
        if opener is None or not opener.has_keys:
            return None
        if opener.find(record, lost_bytes // opener.least_bytes + 1):
            return True
        return False if self.is_sealed else None

    def _new_opener(self) -> RecordOpener | None:
        negotiation, side = self._negotiation, self._side
        if negotiation.is_13:
            epochs = negotiation.epochs_13(side)
            if negotiation.is_late:
                return None if epochs is None else RecordOpener(epochs, APPLICATION, ANY_NUMBER)
            is_early = negotiation.end_of(side) == 0 and negotiation.may_have_early_data
            begin = EARLY if is_early else HANDSHAKE
            return None if epochs is None else RecordOpener(epochs, begin, self._may_be_missing)
        epochs_12 = negotiation.epochs_12(side)
        return None if epochs_12 is None else RecordOpener(epochs_12, 0, self._may_be_missing)

    def _find_late(self, record: TlsRecord) -> None:
        """Look for the session in the key log, where the ClientHello is not in the capture."""
        negotiation = self._negotiation
        if not negotiation.is_late:
            return
        if negotiation.client_random is None:
            if not self._late_records or record.kind != APPLICATION_DATA:
                return
            self._late_records -= 1
            found = self._late_starts.find(record)
            if found is None:
                return
            negotiation.adopt(found.client_random, self._side ^ found.end)
        self.opener = self._new_opener()
