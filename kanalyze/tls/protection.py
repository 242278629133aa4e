"""Which records of one direction are encrypted, and which keys open them.

In: the negotiation, records in order, and how many are missing between them. Out: the content of
encrypted records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields
from kanalyze.common.saved import load, save
from kanalyze.model.tls import APPLICATION_DATA, HANDSHAKE_RECORD, HEADER_BYTES
from kanalyze.tls.earlier_sessions import RecordPlace
from kanalyze.tls.epochs import APPLICATION, EARLY, HANDSHAKE, Epochs13
from kanalyze.tls.handshake import is_hello
from kanalyze.tls.hello_order import has_hello_of
from kanalyze.tls.negotiation import may_be_resumed_12
from kanalyze.tls.opener import ANY_NUMBER, RecordOpener

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.tls.epochs import Epochs
    from kanalyze.tls.late_start import FittingSession, LateStarts
    from kanalyze.tls.negotiation import Negotiation
    from kanalyze.tls.record_cipher import Opened
    from kanalyze.tls.records import LostRecords, TlsRecord

__all__ = ["LATE_RECORDS", "Protection"]

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
        is_begin_known = self._from_start or has_hello_of(self._negotiation, self._direction)
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
        if may_be_resumed_12(negotiation) and not opener.has_keys:
            self._late_records -= 1
            place = RecordPlace(negotiation.ends, opener.uncertain)
            name = self._late_starts.earlier.find(record, end, handshake, place)
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
            return self._late_starts.find_12(record, end, handshake)
        if record.kind != APPLICATION_DATA or (negotiation.server_hello and not negotiation.suite):
            return None
        self._late_records -= 1
        return self._late_starts.find_13(record, end, negotiation.suite)
