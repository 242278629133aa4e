"""One direction of a session: from records to what was in them.

In: chunks and gaps of what one end sent. Out: its plaintext stream; handshake messages, for the
negotiation; alerts. Must not know: the other direction, except through the negotiation.

A record may have to wait for what the other direction says, or for a key log that grows: then
:meth:`TlsDirection.run` returns, and goes on with the next call.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.tls.alerts import read_alert
from kanalyze.tls.epochs import APPLICATION, EARLY, HANDSHAKE
from kanalyze.tls.facts import Decryption, TlsCounts
from kanalyze.tls.handshake import KEY_UPDATE, MessageAssembler, is_hello
from kanalyze.tls.negotiation import MessageOrigin
from kanalyze.tls.opener import ANY_NUMBER, RecordOpener
from kanalyze.tls.plaintext import PlaintextWriter
from kanalyze.tls.records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE_RECORD,
    HEADER_BYTES,
    LostRecords,
    RecordCutter,
    TlsRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem
    from kanalyze.tls.alerts import TlsAlert
    from kanalyze.tls.late_start import LateStarts
    from kanalyze.tls.negotiation import Negotiation

__all__ = ["LATE_RECORDS", "MOST_WAITING_BYTES", "TlsDirection"]

MOST_WAITING_BYTES: Final = 1 << 18
"""Of records that wait for keys."""
_MOST_EARLY_BYTES: Final = 1 << 16
"""Of early data, held until the server has said whether it takes it."""
LATE_RECORDS: Final = 8
"""So many records of a direction are tried with all secrets of the key log."""
_MOST_CONTENT_BYTES: Final = 1 << 14
_WAITING_BYTES: Final = 512
"""What a record that waits takes besides its body."""


class TlsDirection:
    """Reads what one end sends."""

    _LEFT_OUT = (
        *("_alerts", "_early_bytes", "_hand", "_incoming", "_keys_may_come", "_late_starts"),
        *("_side", "_waiting_bytes"),
    )

    def __init__(
        self,
        side: int,
        negotiation: Negotiation,
        late_starts: LateStarts,
        *,
        from_start: bool,
        keys_may_come: bool,
    ) -> None:
        self._side = side
        self._negotiation = negotiation
        self._late_starts = late_starts
        self._late_records = LATE_RECORDS
        self._from_start = from_start
        self._keys_may_come = keys_may_come
        self._cutter: RecordCutter | None = None
        self._messages = MessageAssembler()
        self._opener: RecordOpener | None = None
        self._is_sealed = False
        """Whether records are encrypted from here on."""
        self._is_patient = True
        """Whether records wait for keys."""
        self._incoming: Iterator[TlsRecord | LostRecords] = iter(())
        self._hand: TlsRecord | None = None
        """The record that has to wait."""
        self._waiting: deque[TlsRecord | LostRecords] = deque()
        self._waiting_bytes = 0
        self._early: list[tuple[bytes, TlsRecord]] = []
        self._early_bytes = 0
        self._missing_bytes = 0
        """Of records since the last one that was opened, or clear."""
        self._may_be_missing = 0
        """How many records those may be, as long as no keys are known."""
        self._has_data = False
        """Whether application data came in this epoch."""
        self._has_lost_keys = self._owes_gap = False
        """Whether the key log had the secret before the state was loaded, and has it no more; and
        whether the plaintext does not say so yet."""
        self._plaintext = PlaintextWriter()
        self._records = self._bytes = self._opened = self._unopened = self._lost_bytes = 0
        self._plaintext_bytes = 0
        self._alerts: list[TlsAlert] = []

    # -- state ------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return what :meth:`load_state` takes, after :meth:`end_step`."""
        cutter, opener = self._cutter, self._opener
        waiting = [each.state() if isinstance(each, TlsRecord) else each for each in self._waiting]
        keys = None if opener is None else self._negotiation.epochs_state(opener.epochs)
        return (
            *(self._late_records, self._from_start, None if cutter is None else cutter.state()),
            *(self._messages.state(), keys, None if opener is None else opener.state()),
            *(self._is_sealed, self._is_patient, tuple(map(tuple, waiting))),
            tuple([(content, record.state()) for content, record in self._early]),
            *(self._missing_bytes, self._may_be_missing, self._has_data),
            *(self._has_lost_keys, self._owes_gap),
            *(self._plaintext.state(), self._records, self._bytes, self._opened, self._unopened),
            *(self._lost_bytes, self._plaintext_bytes),
        )

    def load_state(self, state: object) -> None:
        """Continue from a state, with that of the negotiation; raises ValueError for any other."""
        late, self._from_start, cutter, messages, *others = fields(state, "nbTtTTbbttnnbbbtnnnnnn")
        self._late_records = min(late, LATE_RECORDS)
        if cutter is not None:
            self._cutter = RecordCutter(self._prove, 0, from_start=self._from_start)
            self._cutter.load_state(cutter)
        self._messages.load_state(messages)
        keys, opener, self._is_sealed, self._is_patient, waiting, early, *others = others
        if opener is not None:
            epochs = self._negotiation.epochs_from_state(keys, self._side)
            self._opener = RecordOpener.from_state(opener, epochs)
        for each in items(waiting, "t"):
            is_lost = len(each) == len(LostRecords._fields)
            self._waiting.append((LostRecords if is_lost else TlsRecord).from_state(each))
        for each in items(early, "t"):
            content, record = fields(each, "yt")
            self._early.append((content, TlsRecord.from_state(record)))
            self._early_bytes += len(content)
        self._missing_bytes, self._may_be_missing, self._has_data, *others = others
        self._has_lost_keys, self._owes_gap, *others = others
        plaintext, self._records, self._bytes, self._opened, self._unopened, *others = others
        self._plaintext.load_state(plaintext)
        self._lost_bytes, self._plaintext_bytes = others
        is_readable = self._opener is not None and self._opener.has_keys
        if self._opened and not is_readable and not self._has_lost_keys:
            self._has_lost_keys = self._owes_gap = True

    @property
    def has_lost_keys(self) -> bool:
        """Whether records were opened with a secret that the key log does not have any more."""
        return self._has_lost_keys

    # -- what comes in ----------------------------------------------------------------------------

    def add(self, items: list[StreamItem]) -> None:
        """Take in what was added to the stream; :meth:`run` reads it."""
        if self._cutter is None:
            if not items:
                return
            self._cutter = RecordCutter(
                self._prove, items[0].stream_offset, from_start=self._from_start
            )
        self._incoming = chain(self._popped(), self._cutter.feed(items))

    def run(self) -> bool:
        """Read records until one has to wait; tell whether any was read."""
        has_read = False
        if self._hand is not None:
            if self._must_wait(self._hand):
                return False
            self._take(self._hand)
            self._hand, has_read = None, True
        for each in self._incoming:
            if isinstance(each, TlsRecord) and self._must_wait(each):
                self._hand = each
                return has_read
            self._take(each)
            has_read = True
        return has_read

    def end_step(self, *, is_last: bool = False) -> None:
        """Keep the records that wait, up to a bound; beyond it none waits any more."""
        self._is_patient &= not is_last
        rest = self._incoming if self._hand is None else chain((self._hand,), self._incoming)
        kept: deque[TlsRecord | LostRecords] = deque()
        self._waiting_bytes = 0
        for each in rest:
            if not self._is_patient:
                self._take(each)
                continue
            kept.append(_copied(each))
            self._waiting_bytes += _WAITING_BYTES
            if isinstance(each, TlsRecord):
                self._waiting_bytes += len(each.body)
            if self._waiting_bytes > MOST_WAITING_BYTES:
                self._is_patient = False
                self._waiting_bytes = 0
                while kept:
                    self._take(kept.popleft())
        self._waiting, self._incoming, self._hand = kept, iter(()), None
        if is_last and self._early:
            self._settle_early()

    def keys_came(self) -> None:
        """Try again: the key log has grown."""
        self._is_patient = True
        self._late_records = max(self._late_records, 1)
        if self._opener is not None:
            self._opener.refresh()

    # -- what comes out ---------------------------------------------------------------------------

    def take_plaintext(self) -> list[StreamItem]:
        """Return the plaintext since the last call."""
        return self._plaintext.take()

    def take_alerts(self) -> list[TlsAlert]:
        """Return the alerts since the last call."""
        taken, self._alerts = self._alerts, []
        return taken

    @property
    def buffered_bytes(self) -> int:
        """Bytes held."""
        cut = 0 if self._cutter is None else self._cutter.buffered_bytes
        return cut + self._messages.buffered_bytes + self._waiting_bytes + self._early_bytes

    @property
    def counts(self) -> TlsCounts:
        """Sums so far."""
        return TlsCounts(
            self._records,
            self._bytes,
            self._opened,
            self._unopened,
            self._plaintext_bytes,
            self._lost_bytes,
        )

    @property
    def decryption(self) -> Decryption:
        """What became of the encrypted records."""
        negotiation = self._negotiation
        if self._opened:
            return Decryption.DECRYPTED
        if not self._is_sealed and not self._unopened:
            return Decryption.NOTHING_SEALED
        if negotiation.server_hello is not None and negotiation.suite is None:
            return Decryption.UNSUPPORTED
        if self._opener is None:
            return Decryption.NO_HELLO
        return Decryption.FAILED if self._opener.has_keys else Decryption.NO_SECRET

    # -- records ----------------------------------------------------------------------------------

    def _must_wait(self, record: TlsRecord) -> bool:
        """Tell whether the other direction, or the key log, may still say how to read a record."""
        if not self._is_patient:
            return False
        if self._negotiation.waits_for_server and not self._is_sealed:
            return record.kind in (APPLICATION_DATA, CHANGE_CIPHER_SPEC)
        if not self._keys_may_come or not self._is_sealed_record(record):
            return False
        opener = self._opener
        return opener is not None and not opener.has_keys

    def _is_sealed_record(self, record: TlsRecord) -> bool:
        if record.kind == APPLICATION_DATA:
            return True
        return self._is_sealed and not self._negotiation.is_13

    def _take(self, each: TlsRecord | LostRecords) -> None:
        if isinstance(each, LostRecords):
            self._lose(each)
        else:
            self._read(each)

    def _read(self, record: TlsRecord) -> None:
        self._records += 1
        self._bytes += HEADER_BYTES + len(record.body)
        if self._is_sealed_record(record):
            if not self._is_sealed:
                self._seal()
            self._read_sealed(record)
        elif record.kind == CHANGE_CIPHER_SPEC:
            if not self._negotiation.is_13:
                self._seal()
        elif self._may_be_missing and not self._negotiation.is_13 and self._was_sealed(record):
            self._seal()
            self._read_sealed(record)
        else:
            self._read_content(record.kind, bytes(record.body), record, is_sealed=False)

    def _seal(self) -> None:
        """Note that records are encrypted from here on, and find the keys."""
        self._is_sealed = True
        self._opener = self._new_opener()

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

    def _was_sealed(self, record: TlsRecord) -> bool:
        """Tell whether the record that says that all later ones are encrypted was missing."""
        opener = self._new_opener()
        return opener is not None and opener.find(record)

    def _read_sealed(self, record: TlsRecord) -> None:
        if not self._opened and not self._unopened:
            self._negotiation.note_sealed(self._side, record)
        if self._opener is None:
            self._find_late(record)
        opener = self._opener
        opened = None if opener is None else opener.open(record)
        if opener is None or opened is None:
            self._unopened += 1
            self._missing_bytes += HEADER_BYTES + len(record.body)
            self._may_be_missing += 1
            self._messages.lose()
            if self._owes_gap:
                self._owes_gap = False
                self._plaintext.add_gap(None, record)
            return
        self._opened += 1
        self._may_be_missing = 0
        if self._missing_bytes or opener.missing:
            self._note_missing(opener, record)
        self._read_content(opened.kind, opened.content, record, is_sealed=True)

    def _read_content(
        self, kind: int, content: bytes | memoryview, record: TlsRecord, *, is_sealed: bool
    ) -> None:
        if kind == APPLICATION_DATA:
            self._read_data(content, record)
        elif kind == HANDSHAKE_RECORD:
            self._read_messages(content, record, is_sealed=is_sealed)
        elif kind == ALERT:
            alert = read_alert(content, self._side, record.time_ns, record.packet)
            if alert is not None:
                self._negotiation.facts.add_alert(alert)
                self._alerts.append(alert)
        elif kind == CHANGE_CIPHER_SPEC and is_sealed:
            assert self._opener is not None
            self._begin_epoch(self._opener.epoch + 1)

    def _read_messages(
        self, content: bytes | memoryview, record: TlsRecord, *, is_sealed: bool
    ) -> None:
        negotiation, opener = self._negotiation, self._opener
        for message in self._messages.feed(content):
            origin = MessageOrigin(self._side, is_sealed, not self._lost_bytes, record)
            epoch = negotiation.read(message, origin)
            if is_sealed and opener is not None and negotiation.is_13:
                if message.kind == KEY_UPDATE and opener.epoch >= APPLICATION:
                    negotiation.facts.key_updates += 1
                    epoch = opener.epoch + 1
                if epoch is not None and epoch > opener.epoch:
                    self._begin_epoch(epoch)

    def _begin_epoch(self, epoch: int) -> None:
        assert self._opener is not None
        self._opener.begin(epoch)
        self._has_data = False

    # -- application data -------------------------------------------------------------------------

    def _read_data(self, content: bytes | memoryview, record: TlsRecord) -> None:
        assert self._opener is not None
        if self._negotiation.is_13 and self._opener.epoch == EARLY:
            if self._early_bytes + len(content) <= _MOST_EARLY_BYTES:
                self._early.append((bytes(content), record._replace(body=memoryview(b""))))
                self._early_bytes += len(content)
            return
        if self._early:
            self._settle_early()
        self._has_data = True
        self._plaintext_bytes += len(content)
        self._plaintext.add(content, record)

    def _settle_early(self) -> None:
        """Take early data if the server did; what it rejects the client sends again."""
        early, self._early, self._early_bytes = self._early, [], 0
        accepted = self._negotiation.facts.accepted_early_data
        if accepted is None:
            self._plaintext.add_gap(None, early[0][1])
        elif accepted:
            for content, record in early:
                self._plaintext_bytes += len(content)
                self._plaintext.add(content, record)

    # -- missing records --------------------------------------------------------------------------

    def _lose(self, lost: LostRecords) -> None:
        self._lost_bytes += lost.length
        self._missing_bytes += lost.length
        self._messages.lose()
        opener = self._opener
        least = HEADER_BYTES + 1 if opener is None else opener.least_bytes
        count = lost.length // least + 1 if lost.records is None else lost.records
        self._may_be_missing += count
        if opener is not None:
            opener.uncertain += count

    def _note_missing(self, opener: RecordOpener, record: TlsRecord) -> None:
        """Put a gap into the plaintext for the records before one, if any had application data."""
        missing_bytes, self._missing_bytes = self._missing_bytes, 0
        if not self._has_data and not self._from_start and not self._plaintext.stream_offset:
            return  # the stream begins here
        count = self._missing_data(opener)
        if count == 0:
            return
        length = None
        overhead = opener.overhead_bytes
        if count is not None and self._has_data and overhead is not None:
            length = missing_bytes - count * overhead
            if not 0 < length <= count * _MOST_CONTENT_BYTES:
                length = None
        if opener.left_epoch is not None:
            length, self._has_data = None, False
        if self._early:
            self._settle_early()
        self._plaintext.add_gap(length, record)

    def _missing_data(self, opener: RecordOpener) -> int | None:
        """Return how many missing records may have had application data; None: not known."""
        negotiation = self._negotiation
        if negotiation.is_13:
            if opener.left_epoch == EARLY and negotiation.facts.accepted_early_data is not False:
                return None
            if opener.epoch == HANDSHAKE:
                return 0
            is_known = opener.left_epoch is None or opener.left_epoch < APPLICATION
            return opener.missing if is_known else None
        if opener.left_epoch is not None:
            return None
        # The first record of all has the Finished.
        return opener.missing - (opener.missing > 0 and opener.first_missing == 0)

    def _prove(self, record: TlsRecord, lost_bytes: int) -> bool | None:
        """Tell whether a record may come next, after so many bytes that are in no record."""
        if not self._is_sealed and _is_hello(record):
            return True
        opener = self._opener
        if opener is None and self._may_be_missing:
            opener = self._new_opener()
        if opener is None or not opener.has_keys:
            return None
        if opener.find(record, lost_bytes // opener.least_bytes + 1):
            return True
        return False if self._is_sealed else None

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
        self._opener = self._new_opener()

    def _popped(self) -> Iterator[TlsRecord | LostRecords]:
        while self._waiting:
            yield self._waiting.popleft()


def _is_hello(record: TlsRecord) -> bool:
    return record.kind == HANDSHAKE_RECORD and is_hello(record.body)


def _copied(each: TlsRecord | LostRecords) -> TlsRecord | LostRecords:
    """Return what stays valid."""
    if isinstance(each, LostRecords):
        return each
    return each._replace(body=memoryview(bytes(each.body)))
