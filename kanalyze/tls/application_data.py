"""The application data of one direction: its plaintext stream, and the gaps in it.

In: contents of records, and how many bytes are missing between them. Out: the plaintext stream.

Early data (0-RTT) is buffered until the server says whether it accepts them: the client sends
rejected ones again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.tls import HEADER_BYTES
from kanalyze.tls.epochs import APPLICATION, EARLY, HANDSHAKE
from kanalyze.tls.plaintext import PlaintextWriter
from kanalyze.tls.records import TlsRecord

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem
    from kanalyze.tls.negotiation import Negotiation
    from kanalyze.tls.opener import RecordOpener

__all__ = ["ApplicationData"]

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
