"""One direction of a session: from its records to their contents, and to its plaintext stream.

In: chunks and gaps of what one end sent. Out: its plaintext, as
:class:`~kanalyze.model.streams.Chunk` and :class:`~kanalyze.model.streams.Gap`; handshake messages,
for the negotiation; alerts.

    RecordCutter -> RecordQueue -> Protection -> MessageAssembler, ApplicationData

A record may have to wait for a message of the other direction: then :meth:`TlsDirection.run`
returns, and continues with the next call. The waiting records are bounded by
:data:`MAX_WAITING_BYTES`: beyond that no record waits any more.

A content has the time and number of the packet that completed its record, because it cannot be
decrypted before. Only its first byte has those of the packet with the record's first byte, because
a message that begins there began to arrive then. Early data (0-RTT) is buffered until the server
says whether it accepts them: the client sends rejected ones again.
"""

from __future__ import annotations

from array import array
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, load, make, save
from kanalyze.model.streams import Chunk, Gap, Segments
from kanalyze.model.tls import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE_RECORD,
    HEADER_BYTES,
)
from kanalyze.tls.handshake import KEY_UPDATE, MessageAssembler, read_alert
from kanalyze.tls.keys import APPLICATION, EARLY, HANDSHAKE
from kanalyze.tls.negotiation import Decryption, MessageOrigin, TlsCounts
from kanalyze.tls.protection import Protection
from kanalyze.tls.records import LostRecords, RecordCutter, TlsRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem
    from kanalyze.tls.late_start import LateStarts
    from kanalyze.tls.negotiation import Negotiation
    from kanalyze.tls.protection import RecordOpener

MAX_WAITING_BYTES: Final = 1 << 18
_RECORD_BYTES: Final = 512
"""Memory of a waiting record without its body."""


class RecordQueue:
    """Passes records on until one has to wait.

    Attributes:
        is_patient: whether records may wait at all.
        waiting_bytes: memory of the records that wait from one step to the next.
    """

    _NOT_SAVED = ("_incoming", "_next", "waiting_bytes")

    def __init__(self) -> None:
        self._incoming: Iterator[TlsRecord | LostRecords | None] = iter(())
        self._next: TlsRecord | None = None
        """The record that has to wait."""
        self._waiting: deque[TlsRecord | LostRecords] = deque()
        self.is_patient = True
        self.waiting_bytes = 0

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, after :meth:`end_step`."""
        return self.is_patient, tuple([save(item) for item in self._waiting])

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        self.is_patient, waiting = fields(state, "bt")
        for item_state in items(waiting, "t"):
            # Of an older format, what is lost has fewer values; a record has always more.
            is_loss = len(item_state) <= len(LostRecords._fields)
            item = make(LostRecords, item_state) if is_loss else make(TlsRecord, item_state)
            self._waiting.append(item)
            self.waiting_bytes += _waiting_bytes(item)

    def add(self, records: Iterator[TlsRecord | LostRecords | None]) -> None:
        """Add the records that follow; ``records`` cuts them while it is read."""
        self._incoming = chain(self._popped(), records)

    def run(self, reader: TlsDirection) -> bool:
        """Pass records on until one has to wait, or a pause; return whether there were any."""
        has_read = False
        if self._next is not None:
            if self.is_patient and reader.must_wait(self._next):
                return False
            reader.take(self._next)
            self._next, has_read = None, True
        for item in self._incoming:
            if item is None:
                return True
            if isinstance(item, TlsRecord) and self.is_patient and reader.must_wait(item):
                self._next = item
                return has_read
            reader.take(item)
            has_read = True
        return has_read

    def end_step(self, reader: TlsDirection) -> None:
        """Keep the records that wait, or pass them on if they are too many."""
        remaining = self._incoming if self._next is None else chain((self._next,), self._incoming)
        waiting: deque[TlsRecord | LostRecords] = deque()
        self.waiting_bytes = 0
        for item in remaining:
            if item is None:
                continue
            if not self.is_patient:
                reader.take(item)
                continue
            waiting.append(item)
            self.waiting_bytes += _waiting_bytes(item)
            if self.waiting_bytes > MAX_WAITING_BYTES:
                self.is_patient = False
                self.waiting_bytes = 0
                while waiting:
                    reader.take(waiting.popleft())
        self._waiting, self._incoming, self._next = waiting, iter(()), None

    def _popped(self) -> Iterator[TlsRecord | LostRecords | None]:
        while self._waiting:
            yield self._waiting.popleft()


def _waiting_bytes(item: TlsRecord | LostRecords) -> int:
    return _RECORD_BYTES + (len(item.body) if isinstance(item, TlsRecord) else 0)


UNKNOWN_GAP_BYTES: Final = 1 << 30
"""Length of a gap whose real length is not known: larger than any message, so that no message
continues after it."""
_FIRST_ROOM = 16
"""Segments that fit before the columns grow."""
_NO_CELLS: Final = array("q")
"""Shared by all directions between two chunks: most of them are silent."""


class PlaintextWriter:
    """Writes the plaintext stream of one direction.

    Attributes:
        starts, lengths, times, packets: columns of the segments since the last chunk, with free
            space at the end.
    """

    _NOT_SAVED = (
        *("_chunk_offset", "_columns", "_count", "_data", "_items", "_room", "lengths", "packets"),
        *("starts", "times"),
    )
    _SAVED = Saved("_offset:count")

    def __init__(self) -> None:
        self._items: list[StreamItem] = []
        self._offset = 0
        self._chunk_offset = 0
        self._data = bytearray()
        """The contents since the last chunk."""
        self._drop_columns()

    def _drop_columns(self) -> None:
        self._columns: list[array[int]] | None = None
        self.starts = self.lengths = self.times = self.packets = _NO_CELLS
        self._room = 0
        """Number of segments that the columns have room for."""
        self._count = 0

    def _after_load(self) -> None:
        self._chunk_offset = self._offset

    @property
    def stream_offset(self) -> int:
        """Offset of the next byte; 0 is the first (known) byte of application data."""
        return self._offset

    def add(self, content: bytes | memoryview, record: TlsRecord) -> None:
        """Add the content of a record."""
        size = len(content)
        if not size:
            return
        at = len(self._data)
        self._data += content
        if record.first_packet != record.packet and size > 1:
            self._segment(at, 1, record.first_time_ns, record.first_packet)
            at += 1
            size -= 1
        self._segment(at, size, record.time_ns, record.packet)

    def add_gap(self, length: int | None, time_ns: int, packet: int) -> None:
        """Add missing bytes before a packet; None where their number is not known."""
        self._end_chunk()
        size = UNKNOWN_GAP_BYTES if length is None else length
        self._items.append(Gap(self._offset, size, time_ns, packet))
        self._offset += size
        self._chunk_offset = self._offset

    def take(self) -> list[StreamItem]:
        """Return the chunks and gaps since the last call."""
        self._end_chunk()
        items, self._items = self._items, []
        return items

    def _segment(self, start: int, size: int, time_ns: int, packet: int) -> None:
        at = self._count
        if at == self._room:
            self._make_room()
        self.starts[at], self.lengths[at] = start, size
        self.times[at], self.packets[at] = time_ns, packet
        self._count = at + 1
        self._offset += size

    def _make_room(self) -> None:
        """Make the columns twice as long: an array cannot grow while there is a view of it."""
        more = array("q", bytes(8 * max(self._room, _FIRST_ROOM)))
        columns = self._columns or [array("q")] * 4
        self._columns = [column + more for column in columns]
        self.starts, self.lengths, self.times, self.packets = self._columns
        self._room += len(more)

    def _end_chunk(self) -> None:
        count = self._count
        if not count:
            return
        buffer = memoryview(self._data).toreadonly()
        columns = self._columns or ()
        starts, lengths, times, packets = (column[:count] for column in columns)
        segments = Segments(buffer, starts, lengths, lengths, times, packets)
        self._items.append(Chunk(self._chunk_offset, segments, 0, count))
        self._chunk_offset = self._offset
        self._data = bytearray()
        self._drop_columns()


_MAX_EARLY_BYTES: Final = 1 << 16
_MAX_CONTENT_BYTES: Final = 1 << 14
_NONE_OPENED: Final = -1
_VARIES: Final = -2
"""In place of the overhead of records: before the first, and if it is not always the same."""


class ApplicationData:
    """Writes the plaintext stream of a direction.

    Attributes:
        plaintext_bytes: bytes written so far, without gaps.
        early_bytes: bytes of buffered early data.
    """

    _NOT_SAVED = ("_negotiation", "early_bytes")
    _SAVED = Saved(
        "_from_start:bool _writer:here _missing_bytes:count _has_data:bool plaintext_bytes:count "
        "_early:list[(bytes,TlsRecord)]",
        TlsRecord,
        added="_overhead:int _first_size:count _has_sizes:bool",
    )

    def __init__(self, negotiation: Negotiation, *, from_start: bool) -> None:
        self._negotiation = negotiation
        self._from_start = from_start
        self._writer = PlaintextWriter()
        self._early: list[tuple[bytes, TlsRecord]] = []
        self._missing_bytes = 0
        """Bytes of the records since the last one that was read."""
        self._has_data = False
        """Whether this epoch had application data yet."""
        self._overhead = _NONE_OPENED
        """Bytes of the body of each opened record beside its content: tag and any padding."""
        self._first_size = 0
        """Size of the content of the first of these records."""
        self._has_sizes = False
        """Whether contents of several sizes had this overhead."""
        self.early_bytes = 0
        self.plaintext_bytes = 0

    def _after_load(self) -> None:
        self.early_bytes = sum([len(content) for content, _ in self._early])

    def lose_keys(self, record: TlsRecord) -> None:
        """Put a gap before a record: neither it nor what follows can be read."""
        self._writer.add_gap(None, record.time_ns, record.packet)

    def begin_epoch(self, opener: RecordOpener, epoch: int) -> None:
        """Begin an epoch."""
        opener.begin(epoch)
        self._has_data = False
        if not self._negotiation.is_13:
            self._overhead = _NONE_OPENED  # of another suite, perhaps

    def add(self, content: bytes | memoryview, record: TlsRecord, is_early: bool) -> None:
        """Add the content of a record."""
        if is_early:
            if self.early_bytes + len(content) <= _MAX_EARLY_BYTES:
                self._early.append((bytes(content), record.without_body()))
                self.early_bytes += len(content)
            return
        if self._early:
            self.settle_early()
        self._has_data = True
        self._write(content, record)

    def settle_early(self) -> None:
        """Write the early data if the server accepted them; a gap if that is not known."""
        if not self._early:
            return
        early, self._early, self.early_bytes = self._early, [], 0
        accepted = self._negotiation.facts.accepted_early_data
        if accepted is None:
            first = early[0][1]
            self._writer.add_gap(None, first.time_ns, first.packet)
        elif accepted:
            for content, record in early:
                self._write(content, record)

    def note_opened(self, record: TlsRecord, size: int) -> None:
        """Note how large the content of a record is, whatever kind it has.

        Padding of TLS 1.3 is part of the overhead. Java pads each record with 16 bytes. If others
        pad to a multiple of a size, or at random, contents of several sizes show it.
        """
        overhead = len(record.body) - size
        if overhead == self._overhead:
            if size != self._first_size:
                self._has_sizes = True
        elif self._overhead == _NONE_OPENED:
            self._overhead, self._first_size, self._has_sizes = overhead, size, False
        else:
            self._overhead = _VARIES

    def miss(self, size: int) -> None:
        """Note bytes of records that are lost, or that could not be decrypted."""
        self._missing_bytes += size

    def note_missing(self, opener: RecordOpener, record: TlsRecord) -> None:
        """Put a gap before a record if missing records before it may have had application data."""
        missing_bytes, self._missing_bytes = self._missing_bytes, 0
        if not missing_bytes and not opener.missing:
            return
        if not self._has_data and not self._from_start and not self._writer.stream_offset:
            return  # the stream begins here
        count = self._missing_data(opener)
        if count == 0 or (opener.began_unseen and missing_bytes < 2 * opener.least_bytes):
            return
        length = None
        overhead = self._known_overhead(opener)
        if count is not None and self._has_data and overhead is not None:
            length = missing_bytes - count * overhead
            if not 0 < length <= count * _MAX_CONTENT_BYTES:
                length = None
        if opener.left_epoch is not None:
            length, self._has_data = None, False
        self.settle_early()
        self._writer.add_gap(length, record.time_ns, record.packet)

    def end(self, time_ns: int, packet: int, *, has_lost: bool) -> None:
        """End the stream, with a gap if bytes are missing at its end."""
        if has_lost or self._missing_bytes:
            self._writer.add_gap(None, time_ns, packet)

    def take(self) -> list[StreamItem]:
        """Return the plaintext since the last call."""
        return self._writer.take()

    def _write(self, content: bytes | memoryview, record: TlsRecord) -> None:
        self.plaintext_bytes += len(content)
        self._writer.add(content, record)

    def _known_overhead(self, opener: RecordOpener) -> int | None:
        """Return the overhead of every record, also of those missing; None if it may vary."""
        least, overhead = opener.overhead_bytes, HEADER_BYTES + self._overhead
        if least is None or self._overhead == _VARIES:
            return None
        return overhead if self._has_sizes or overhead == least else None

    def _missing_data(self, opener: RecordOpener) -> int | None:
        """Return how many missing records may have had application data; None if not known."""
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


class TlsDirection:
    """Reads what one end sends."""

    _NOT_SAVED = ("_negotiation", "_direction")

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
        return self._queue.run(self)

    def end_step(self, *, is_last: bool = False) -> None:
        """Keep the records that wait, up to a bound; beyond it no record waits any more."""
        self._queue.is_patient &= not is_last
        self._queue.end_step(self)
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

    def must_wait(self, record: TlsRecord) -> bool:
        """Return true if the keys to a record may depend on a hello that may still come.

        The directions of a batch are read one after the other, in any order. So a hello of the
        other end may come after records that depend on it. If its sender's later records come
        first, the hello is lost.
        """
        if self._protection.is_sealed or record.kind not in (APPLICATION_DATA, CHANGE_CIPHER_SPEC):
            return False
        negotiation, direction = self._negotiation, self._direction
        has_begun, client_index = negotiation.has_begun, negotiation.facts.client_index
        # A server of TLS 1.3 sends a ChangeCipherSpec after a HelloRetryRequest too.
        if record.kind == APPLICATION_DATA or not negotiation.facts.retried:
            has_begun[direction] = True
        if negotiation.handshakes and negotiation.server_hello is None:
            return client_index is not None and not has_begun[1 - client_index]
        if negotiation.handshakes or has_begun[1 - direction]:
            return False
        return negotiation.server_hello is None or negotiation.end_of(direction) == 1

    def take(self, item: TlsRecord | LostRecords) -> None:
        """Read a record that does not have to wait, or note lost ones."""
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
        self._bytes += HEADER_BYTES + len(record.body)
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
        kind, content = opened
        self._data.note_opened(record, len(content))
        self._data.note_missing(opener, record)
        self._read_content(kind, content, record, True)

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
                    epoch = opener.epoch + 1
                if epoch is not None and epoch > opener.epoch:
                    self._data.begin_epoch(opener, epoch)
