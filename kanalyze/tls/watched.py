"""One connection with TLS, watched without keys.

In: new items of both streams of a connection. Out: what is known of its TLS, written into a
:class:`~kanalyze.model.tls.TlsConnection`.

The handshake is read by a :class:`~kanalyze.tls.session.TlsSession` without secrets, until both
ends have sent encrypted data, or too many bytes were read. Of all records the headers are read.
A batch may have a whole connection, so the handshake is read in steps.

The times of encrypted data give an estimate of the number and duration of requests
(:class:`RequestEstimate`). Data of the client followed by data of the server count as a request
with its response. Requests that a client sends before the response comes count as one. The response
time is from the last byte of the client's last record to the first byte of the response.

In TLS 1.3, handshake messages look like application data. Those of the client end with its
Finished, which is recognized by its size, or when the server sends something. After that, the
server sends session tickets. So its last record before the client's second request is taken for the
first response.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.packets import NO_TIME
from kanalyze.model.streams import Chunk, first_packet
from kanalyze.model.tls import ALERT, ENCRYPTED, SentAlert, TlsConnection
from kanalyze.tls.handshake import SEALED_ALERT_BYTES
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.keys import TLS_1_3
from kanalyze.tls.late_start import LateStarts
from kanalyze.tls.negotiation import MAX_ALERTS
from kanalyze.tls.records import RecordHeaders, SealedData
from kanalyze.tls.session import TlsSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.model.streams import BothItems, StreamItem, StreamUpdate
    from kanalyze.model.tcp import TcpConnection

_FINISHED_BYTES: Final = (53, 69, 85)
"""Sizes of the body of a TLS 1.3 record with only a Finished: 4 bytes, the hash (32 or 48), 1, the
tag; Java adds 16 bytes of padding."""
_MAX_FLIGHT_RECORDS: Final = 8
"""Most records of the client's handshake: certificates, CertificateVerify, Finished."""
_FINE_BITS: Final = 4
"""Each power of two is divided into sixteen classes, so a time is known to 1/32."""
_LOWEST_BITS: Final = 10
_HIGHEST_BITS: Final = 42
_CLASSES: Final = (_HIGHEST_BITS - _LOWEST_BITS) << _FINE_BITS
"""Number of classes, from a microsecond to an hour."""


class RequestEstimate:
    """Counts the requests of one connection, and its response times by class."""

    __slots__ = ("_first_answer_ns", "_flight", "_request_end_ns", "_times", "requests")
    _SAVED = Saved(
        "requests:count _request_end_ns:int? _flight:int _first_answer_ns:int? _classes:bytes?"
    )

    def __init__(self) -> None:
        self.requests = 0
        self._request_end_ns: int | None = None
        """End of the client's latest record without a response yet."""
        self._flight = 0
        """Records of the client's handshake so far; -1 after its Finished."""
        self._first_answer_ns: int | None = None
        """In TLS 1.3, until the client's second request: time of the server's latest record."""
        self._times: array[int] | None = None
        """Number of response times by class."""

    def client_sent(self, end_ns: int, body_bytes: int, *, is_13: bool) -> None:
        """Take a record of the client."""
        if is_13 and self._flight >= 0:
            self._flight += 1
            if body_bytes in _FINISHED_BYTES or self._flight > _MAX_FLIGHT_RECORDS:
                self._flight = -1
            return
        self._settle_first()
        self._request_end_ns = end_ns

    def server_sent(self, begin_ns: int, *, is_13: bool) -> None:
        """Take a record of the server."""
        if self._flight > 0:
            self._flight = -1  # the server sends nothing within the client's flight
        if self._request_end_ns is None:
            return
        if is_13 and not self.requests:
            self._first_answer_ns = begin_ns
            return
        self._answer(begin_ns)

    def write(self, tls: TlsConnection) -> None:
        """Write the estimates so far into ``tls``."""
        self._settle_first()
        tls.estimated_requests = self.requests
        if self._times is not None:
            tls.estimated_median_ns = self._quantile(50)
            tls.estimated_p99_ns = self._quantile(99)

    def _settle_first(self) -> None:
        if self._first_answer_ns is not None:
            begin_ns, self._first_answer_ns = self._first_answer_ns, None
            self._answer(begin_ns)

    def _answer(self, begin_ns: int) -> None:
        assert self._request_end_ns is not None
        end_ns, self._request_end_ns = self._request_end_ns, None
        self.requests += 1
        if NO_TIME in (begin_ns, end_ns):
            return
        if self._times is None:
            self._times = array("Q", bytes(8 * _CLASSES))
        self._times[_class_of(begin_ns - end_ns)] += 1

    def _quantile(self, percent: int) -> int:
        """Return a percentile by nearest rank: the middle of its class, in ns."""
        assert self._times is not None
        rank = -(-sum(self._times) * percent // 100)
        index = 0
        while rank > self._times[index]:
            rank -= self._times[index]
            index += 1
        return _middle_ns(index)

    def _after_load(self) -> None:
        if self._request_end_ns is None and self._first_answer_ns is not None:
            raise ValueError("an answer to nothing")
        times = self._times
        if times is not None and (len(times) != _CLASSES or sum(times) != self.requests):
            raise ValueError("other classes of times, or another sum")

    @property
    def _classes(self) -> bytes | None:
        return None if self._times is None else self._times.tobytes()

    @_classes.setter
    def _classes(self, times: bytes | None) -> None:
        self._times = None if times is None else array("Q", times)


def _class_of(took_ns: int) -> int:
    bits = took_ns.bit_length() - 1 if took_ns > 0 else 0
    if bits < _LOWEST_BITS:
        return 0
    fine = (took_ns >> (bits - _FINE_BITS)) & ((1 << _FINE_BITS) - 1)
    return min((bits - _LOWEST_BITS << _FINE_BITS) + fine, _CLASSES - 1)


def _middle_ns(index: int) -> int:
    octave, fine = index >> _FINE_BITS, index & ((1 << _FINE_BITS) - 1)
    width = 1 << (octave + _LOWEST_BITS - _FINE_BITS)
    return ((1 << _FINE_BITS) + fine) * width + width // 2


_MAX_HANDSHAKE_BYTES: Final = 1 << 18
"""A handshake with long chains of certificates takes a tenth."""
_STEP_SEGMENTS: Final = 32
"""More than a usual handshake has."""
_SESSION_BYTES: Final = 1 << 13
"""Memory of a session without the bytes that it buffers."""
_MAX_HELD: Final = 16
"""Records that are held while the first of them may be an alert. Those after it are of the other
end, and of a longer run only the first ones and the last count for the estimate."""
_MAX_UNDECIDED: Final = 64
"""Out of order, records may come before the hellos; if so many do, a hello is lost."""
_NO_KEYS: Final = KeyLog()
_NO_LATE_STARTS: Final = LateStarts(_NO_KEYS)


class WatchedConnection:
    """The state of one watched connection."""

    __slots__ = (
        *("_client_index", "_estimate", "_fed_bytes", "_headers", "_hidden_alerts", "_is_13"),
        "_is_sealed",
        *("_held", "_session", "_undecided", "tls"),
    )

    _NOT_SAVED = ("tls",)
    _SAVED = Saved(
        "_session:here? _fed_bytes:count _client_index:end? _is_13:bool _is_sealed:2*bool "
        "_hidden_alerts:list[count] _held:list[(count,*SealedData)] "
        "_undecided:list[(count,*SealedData)] _headers:(RecordHeaders,RecordHeaders) "
        "_estimate:RequestEstimate",
        SealedData,
        RecordHeaders,
        RequestEstimate,
    )

    def __init__(self, tcp: TcpConnection) -> None:
        self.tls = tcp.tls = tcp.tls or TlsConnection()
        from_start = (tcp.start_seen[0], tcp.start_seen[1])
        self._session: TlsSession | None = TlsSession(_NO_KEYS, _NO_LATE_STARTS, from_start)
        self._fed_bytes = 0
        """Bytes that the session read."""
        self._headers = (RecordHeaders(), RecordHeaders())
        self._client_index = tcp.opened_by
        """As seen without keys. Decryption may find it too, but in which batch is not defined."""
        self._is_13 = False
        """As seen without keys, for the same reason."""
        self._undecided: list[tuple[int, SealedData]] = []
        """Records that came before the version was known, with their directions."""
        self._estimate = RequestEstimate()
        self._is_sealed = [False, False]
        """By direction, whether encrypted data came."""
        self._held: list[tuple[int, SealedData]] = []
        """The latest records from one on that may be an alert, with their directions."""
        self._hidden_alerts: list[int] = []
        """Directions of alerts that are encrypted."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for the handshake."""
        return 0 if self._session is None else _SESSION_BYTES + self._session.buffered_bytes

    def feed(self, update: StreamUpdate) -> None:
        """Take an update of the connection."""
        self._read_handshake(update)
        records = [
            (data.packet, direction, data)
            for direction in (0, 1)
            for data in self._headers[direction].feed(update.items[direction])
        ]
        self._undecided += [(direction, data) for _, direction, data in sorted(records)]
        if update.closed or self._is_decided():
            undecided, self._undecided = self._undecided, []
            for direction, data in undecided:
                self._take(direction, data, self._client_index)
        if update.closed:
            self._end(self._client_index)
            self.write()

    def forget_handshake(self) -> None:
        """Stop reading the handshake, and free its memory."""
        self._session = None

    def write(self) -> None:
        """Write the sums so far."""
        tls = self.tls
        tls.records = [headers.records for headers in self._headers]
        tls.bytes = [headers.bytes for headers in self._headers]
        if self._client_index is not None:
            self._estimate.write(tls)

    def _read_handshake(self, update: StreamUpdate) -> None:
        for items in _steps(update.items):
            if self._session is None:
                return
            self._session.feed(items)
            self._note_handshake(self._session)
        if update.closed and self._session is not None:
            self._session.close()
            self._note_handshake(self._session)

    def _note_handshake(self, session: TlsSession) -> None:
        """Note what the handshake says so far, and whether it is over."""
        facts = session.facts
        if facts.client_index is not None:
            self._client_index = facts.client_index
        self._is_13 = facts.version == TLS_1_3
        if not self.tls.is_decrypted:
            facts.write_into(self.tls)
        self._fed_bytes = sum(counts.bytes + counts.lost_bytes for counts in facts.counts)
        is_over = all(counts.unopened_records for counts in facts.counts)
        if is_over or self._fed_bytes > _MAX_HANDSHAKE_BYTES:
            self._session = None

    def _is_decided(self) -> bool:
        """Return true if the version is known, or will not be known any more."""
        session = self._session
        is_known = session is None or session.facts.version is not None
        return is_known or len(self._undecided) > _MAX_UNDECIDED

    def _take(self, direction: int, data: SealedData, client_index: int | None) -> None:
        if data.kind == ALERT:
            if len(self._hidden_alerts) < MAX_ALERTS:
                self._hidden_alerts.append(direction)
            return
        held = self._held
        if held or self._may_be_alert(data):
            held.append((direction, data))
            while held and self._is_data(0):
                self._take_data(*held.pop(0), client_index)
            if len(held) > _MAX_HELD:
                del held[-2]
        else:
            self._take_data(direction, data, client_index)

    def _may_be_alert(self, data: SealedData) -> bool:
        return self._is_13 and data.body_bytes in SEALED_ALERT_BYTES

    def _is_data(self, index: int) -> bool:
        """Return true if a held record is data: its size says so, or its sender sent more.

        What the other end sends means nothing: it may not have seen an alert yet.
        """
        direction, data = self._held[index]
        later = self._held[index + 1 :]
        return not self._may_be_alert(data) or any(sender == direction for sender, _ in later)

    def _take_data(self, direction: int, data: SealedData, client_index: int | None) -> None:
        self._is_sealed[direction] = True
        self.tls.is_complete = self.tls.is_complete or all(self._is_sealed)
        if direction == client_index:
            self._estimate.client_sent(data.end_ns, data.body_bytes, is_13=self._is_13)
        elif client_index is not None:
            self._estimate.server_sent(data.begin_ns, is_13=self._is_13)

    def _end(self, client_index: int | None) -> None:
        """Decide whether the last records are alerts or data, when the connection closes."""
        for index, (direction, data) in enumerate(self._held):
            if self._is_data(index) or not self._is_alert(direction, data.body_bytes, client_index):
                self._take_data(direction, data, client_index)
            else:
                self._hidden_alerts.append(direction)
        self._held = []
        tls = self.tls
        if not tls.is_decrypted:
            hidden = [SentAlert(direction, None, ENCRYPTED) for direction in self._hidden_alerts]
            tls.alerts += tuple(hidden)

    def _is_alert(self, direction: int, body_bytes: int, client_index: int | None) -> bool:
        """Return true if the last record of an end is an alert, if it has the size of one.

        Java pads records; such an alert is as large as a small response.
        """
        if body_bytes == min(SEALED_ALERT_BYTES) or direction == client_index:
            return True
        return bool(self._hidden_alerts) or not self._estimate.requests


def _steps(items: BothItems) -> Iterator[BothItems]:
    """Yield items of both streams, a few segments at a time, as smaller batches would have them."""
    rest = deque(items[0]), deque(items[1])
    while rest[0] or rest[1]:
        packet = min(_last_of_step(each) for each in rest if each)
        yield _taken(rest[0], packet), _taken(rest[1], packet)


def _last_of_step(items: deque[StreamItem]) -> int:
    """Return the highest packet number in the first segments, or that of a gap."""
    item = items[0]
    if not isinstance(item, Chunk):
        return item.packet
    return max(item.segments.packet[item.first : min(item.first + _STEP_SEGMENTS, item.last)])


def _taken(items: deque[StreamItem], packet: int) -> list[StreamItem]:
    """Take items from the beginning, up to the first one that came after a packet."""
    taken: list[StreamItem] = []
    while items and first_packet(items[0]) <= packet:
        item = items.popleft()
        if isinstance(item, Chunk):
            later = (at for at in range(item.first, item.last) if item.segments.packet[at] > packet)
            end = next(later, item.last)
            if end < item.last:
                offset = item.stream_offset + sum(item.segments.length[item.first : end])
                items.appendleft(item._replace(stream_offset=offset, first=end))
                item = item._replace(last=end)
        taken.append(item)
    return taken
