"""One direction of a session: from its records to their contents.

In: chunks and gaps of what one end sent. Out: its plaintext stream; handshake messages, for the
negotiation; alerts.

A record may have to wait for a message of the other direction: then :meth:`TlsDirection.run`
returns, and continues with the next call.

    RecordCutter -> RecordQueue -> Protection -> MessageAssembler, ApplicationData
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields
from kanalyze.common.saved import load, save
from kanalyze.model.tls import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE_RECORD,
    HEADER_BYTES,
)
from kanalyze.tls.alerts import read_alert
from kanalyze.tls.application_data import ApplicationData
from kanalyze.tls.epochs import APPLICATION, EARLY
from kanalyze.tls.facts import Decryption, TlsCounts
from kanalyze.tls.handshake import KEY_UPDATE, MessageAssembler
from kanalyze.tls.hello_order import note_begun, waits
from kanalyze.tls.negotiation import MessageOrigin
from kanalyze.tls.protection import Protection
from kanalyze.tls.record_queue import RecordQueue
from kanalyze.tls.records import LostRecords, RecordCutter

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    HEADER = 5  # HEADER_BYTES

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem
    from kanalyze.tls.alerts import TlsAlert
    from kanalyze.tls.late_start import LateStarts
    from kanalyze.tls.negotiation import Negotiation
    from kanalyze.tls.records import TlsRecord

__all__ = ["TlsDirection"]


class TlsDirection:
    """Reads what one end sends."""

    _NOT_SAVED = ("_alerts", "_negotiation", "_direction")

    def __init__(
        self,
        direction: int,
        negotiation: Negotiation,
        late_starts: LateStarts,
        *,
        from_start: bool,
    ) -> None:
        self._direction = direction
        self._negotiation = negotiation
        self._from_start = from_start
        self._cutter: RecordCutter | None = None
        self._queue = RecordQueue()
        self._protection = Protection(direction, negotiation, late_starts, from_start=from_start)
        self._messages = MessageAssembler()
        self._data = ApplicationData(negotiation, from_start=from_start)
        self._records = self._bytes = self._opened = self._unopened = self._lost_bytes = 0
        self._lost_before = 0
        """Lost bytes up to the latest record that is not encrypted."""
        self._alerts: list[TlsAlert] = []
        self.has_lost_keys = False
        """Whether records were decrypted with a secret that the key log does not have any more."""
        self._owes_gap = False
        """Whether the gap for these lost keys is not in the plaintext yet."""

    # -- state ------------------------------------------------------------------------------------

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, after :meth:`end_step`."""
        cutter, opener = self._cutter, self._protection.opener
        return (
            *(self._from_start, None if cutter is None else save(cutter)),
            *map(save, (self._queue, self._protection, self._messages, self._data)),
            *(self._records, self._bytes, self._opened, self._unopened, self._lost_bytes),
            *(opener is not None and opener.has_keys, self.has_lost_keys, self._owes_gap),
            self._lost_before,
        )

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state, with that of the negotiation; raises ValueError for any other."""
        self._from_start, cutter, *others = fields(state, "bTttttnnnnnbbbn", (0,))
        if cutter is not None:
            self._cutter = RecordCutter(self._protection.prove, 0, from_start=self._from_start)
            load(self._cutter, cutter)
        parts = self._queue, self._protection, self._messages, self._data
        for part, part_state in zip(parts, others[:4], strict=True):
            load(part, part_state)
        self._records, self._bytes, self._opened, self._unopened, self._lost_bytes = others[4:9]
        had_keys, self.has_lost_keys, self._owes_gap, self._lost_before = others[9:]
        opener = self._protection.opener
        has_keys = opener is not None and opener.has_keys
        # If the current epoch had no keys before either, nothing is lost.
        if self._opened and had_keys and not self.has_lost_keys and not has_keys:
            self.has_lost_keys = self._owes_gap = True

    # -- what comes in ----------------------------------------------------------------------------

    def add(self, items: list[StreamItem]) -> None:
        """Take the items that were added to the stream; :meth:`run` reads them."""
        if self._cutter is None:
            if not items:
                return
            self._cutter = RecordCutter(
                self._protection.prove, items[0].stream_offset, from_start=self._from_start
            )
        self._queue.add(self._cutter.feed(items))

    def run(self) -> bool:
        """Read records until one has to wait; return whether any was read."""
        return self._queue.run(self._take, self._must_wait)

    def end_step(self, *, is_last: bool = False) -> None:
        """Keep the records that wait, up to a bound; beyond it no record waits any more."""
        self._queue.is_patient &= not is_last
        self._queue.end_step(self._take)
        if is_last:
            self._data.settle_early()

    @property
    def latest(self) -> tuple[int, int]:
        """Time and number of the latest packet."""
        return (0, 0) if self._cutter is None else self._cutter.latest

    def end_stream(self, latest: tuple[int, int], *, gives_up: bool) -> None:
        """Put a gap at the end of the plaintext if bytes are missing there.

        Args:
            latest: time and number of the latest packet of both ends.
            gives_up: more of the connection may come, which is part of the gap.
        """
        has_lost = self._cutter is not None and self._cutter.has_lost
        self._data.end(*latest, has_lost=has_lost or gives_up)

    def keys_came(self) -> None:
        """Try again: the key log has grown."""
        self._queue.is_patient = True
        self._protection.keys_came()

    # -- what comes out ---------------------------------------------------------------------------

    def take_plaintext(self) -> list[StreamItem]:
        """Return the plaintext since the last call."""
        return self._data.take()

    def take_alerts(self) -> list[TlsAlert]:
        """Return the alerts since the last call."""
        alerts, self._alerts = self._alerts, []
        return alerts

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are buffered."""
        uncut = 0 if self._cutter is None else self._cutter.buffered_bytes
        waiting = self._messages.buffered_bytes + self._queue.waiting_bytes
        return uncut + waiting + self._data.early_bytes

    @property
    def counts(self) -> TlsCounts:
        """Sums so far."""
        return TlsCounts(
            self._records,
            self._bytes,
            self._opened,
            self._unopened,
            self._data.plaintext_bytes,
            self._lost_bytes,
        )

    @property
    def decryption(self) -> Decryption:
        """What became of the encrypted records."""
        negotiation, protection = self._negotiation, self._protection
        if self._opened:
            return Decryption.DECRYPTED
        if not protection.is_sealed and not self._unopened:
            return Decryption.NOTHING_SEALED
        if negotiation.server_hello is not None and negotiation.suite is None:
            return Decryption.UNSUPPORTED
        if protection.opener is None:
            return Decryption.NO_HELLO
        return Decryption.FAILED if protection.opener.has_keys else Decryption.NO_SECRET

    # -- records ----------------------------------------------------------------------------------

    def _must_wait(self, record: TlsRecord) -> bool:
        """Return true if reading a record may depend on a hello of the other direction."""
        if not self._protection.is_sealed and record.kind in (APPLICATION_DATA, CHANGE_CIPHER_SPEC):
            note_begun(self._negotiation, self._direction, record.kind)
            return waits(self._negotiation, self._direction)
        return False

    def _take(self, item: TlsRecord | LostRecords) -> None:
        if not isinstance(item, LostRecords):
            self._read(item)
            return
        cut, message = item.cut, None
        if cut is not None and cut.kind == HANDSHAKE_RECORD and not self._protection.is_sealed:
            message = self._messages.beginning(cut.body)
        if cut is not None and message is not None:
            # The first fields of a hello are enough to know it.
            is_gapless = not self._lost_bytes
            self._negotiation.read(
                message, MessageOrigin(self._direction, False, is_gapless, cut, True)
            )
        self._lost_bytes += item.length
        if message is not None and item.records == 1:
            self._lost_before = self._lost_bytes
        self._data.miss(item.length)
        self._messages.lose()
        self._protection.lose(item)

    def _read(self, record: TlsRecord) -> None:
        protection = self._protection
        self._records += 1
        self._bytes += HEADER + len(record.body)
        if protection.covers(record):
            if not protection.is_sealed:
                protection.seal()
            self._read_sealed(record)
        elif record.kind == CHANGE_CIPHER_SPEC:
            self._lost_before = self._lost_bytes
            if not self._negotiation.is_13:
                protection.seal()
        elif protection.began_unseen(record):
            protection.seal()
            self._read_sealed(record)
        else:
            self._lost_before = self._lost_bytes
            self._read_content(record.kind, record.body, record, False)

    def _read_sealed(self, record: TlsRecord) -> None:
        if not self._opened and not self._unopened:
            origin = MessageOrigin(self._direction, True, not self._lost_bytes, record)
            is_first = self._lost_bytes == self._lost_before
            self._negotiation.note_sealed(origin, is_first=is_first)
        opened = self._protection.open(record)
        if opened is None:
            self._unopened += 1
            self._data.miss(HEADER_BYTES + len(record.body))
            self._messages.lose()
            if self._owes_gap:
                self._owes_gap = False
                self._data.lose_keys(record)
            return
        self._opened += 1
        opener = self._protection.opener
        assert opener is not None
        self._data.note_opened(record, len(opened.content))
        self._data.note_missing(opener, record)
        self._read_content(opened.kind, opened.content, record, True)

    def _read_content(
        self, kind: int, content: bytes | memoryview, record: TlsRecord, is_sealed: bool
    ) -> None:
        if kind == APPLICATION_DATA:
            opener = self._protection.opener
            assert opener is not None
            self._data.add(content, record, opener.epoch == EARLY and opener.is_early)
        elif kind == HANDSHAKE_RECORD:
            self._read_messages(content, record, is_sealed=is_sealed)
        elif kind == ALERT:
            alert = read_alert(content, self._direction, record.time_ns, record.packet)
            if alert is not None:
                self._negotiation.facts.add_alert(alert)
                self._alerts.append(alert)
        elif kind == CHANGE_CIPHER_SPEC and is_sealed:
            opener = self._protection.opener
            assert opener is not None
            self._data.begin_epoch(opener, opener.epoch + 1)

    def _read_messages(
        self, content: bytes | memoryview, record: TlsRecord, *, is_sealed: bool
    ) -> None:
        negotiation, opener = self._negotiation, self._protection.opener
        for message in self._messages.feed(content):
            origin = MessageOrigin(self._direction, is_sealed, not self._lost_bytes, record)
            epoch = negotiation.read(message, origin)
            if is_sealed and opener is not None and negotiation.is_13:
                if message.kind == KEY_UPDATE and opener.epoch >= APPLICATION:
                    negotiation.facts.key_updates += 1
                    epoch = opener.epoch + 1
                if epoch is not None and epoch > opener.epoch:
                    self._data.begin_epoch(opener, epoch)
