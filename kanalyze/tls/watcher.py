"""Watches the TLS of all connections, without keys.

In: :class:`~kanalyze.model.streams.StreamUpdate` of all connections, as ``net`` returns them. Out:
the ``tls`` of each :class:`~kanalyze.model.tcp.TcpConnection` that has TLS.

A connection has TLS if the first bytes of one end look like a record. If those of neither end do,
the connection is ignored from then on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import load_each, save_each
from kanalyze.model.streams import Chunk
from kanalyze.model.tcp import open_connection
from kanalyze.model.tls import ALERT, HEADER_BYTES, SentAlert, TlsConnection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem, StreamUpdate
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.tls.watched import WatchedConnection

_HEAD_BYTES: Final = HEADER_BYTES + 2
"""A header, and an alert."""
_CONNECTION_BYTES: Final = 1 << 12
"""Memory of a watched connection without its handshake."""
_ENDS: Final = (1, 2)
_BOTH: Final = 3
_RECORD: Final = re.compile(rb"[\x14-\x17](?:\x03|\Z)(?:[\x00-\x04]|\Z)")
"""The beginning of a record, or a part of that."""


class TlsWatcher:
    """Watches all connections."""

    _NOT_SAVED = ("_handshake_bytes", "_most_bytes")

    def __init__(self, most_bytes: int) -> None:
        """Begin.

        Args:
            most_bytes: memory for all connections. Above it, handshakes are not read any further,
                and new connections are not watched.
        """
        self._most_bytes = most_bytes
        self._handshake_bytes = 0
        self._watched: dict[int, WatchedConnection] = {}
        """By serial."""
        self._clear: dict[int, int] = {}
        """By serial: bits of the ends that began without TLS, if the other end sent nothing yet."""
        self._passing: set[int] = set()
        """Serials of the connections that are ignored."""

    @property
    def buffered_bytes(self) -> int:
        """Approximate memory of the connections."""
        return self._handshake_bytes + _CONNECTION_BYTES * len(self._watched)

    def feed(self, updates: Iterable[StreamUpdate]) -> None:
        """Take the updates of a batch."""
        passing = self._passing
        for update in updates:
            serial = update.connection.serial
            if serial not in passing:
                self._look(update)
            if update.closed:
                passing.discard(serial)
                self._clear.pop(serial, None)
                self._watched.pop(serial, None)

    def write_open(self, tcp: TcpConnection) -> None:
        """Write the sums of an open connection into its ``tls``."""
        watched = self._watched.get(tcp.serial)
        if watched is not None:
            watched.write()

    def _look(self, update: StreamUpdate) -> None:
        watched = self._watched.get(update.connection.serial)
        if watched is None:
            watched = self._begin(update)
            if watched is None:
                return
        before = watched.buffered_bytes
        watched.feed(update)
        if self.buffered_bytes + watched.buffered_bytes - before > self._most_bytes:
            watched.forget_handshake()
        after = 0 if update.closed else watched.buffered_bytes
        self._handshake_bytes += after - before

    def _begin(self, update: StreamUpdate) -> WatchedConnection | None:
        """Check the first bytes of both ends; begin to watch if one of them is TLS."""
        tcp = update.connection
        clear = self._clear.pop(tcp.serial, 0)
        for direction in (0, 1):
            if not update.items[direction] or clear & _ENDS[direction]:
                continue
            head = _first_bytes(update.items[direction])
            if _RECORD.match(head) is None:
                clear |= _ENDS[direction]
                continue
            opposite = 1 - direction
            if clear & _ENDS[opposite] and head[0] == ALERT and tcp.start_seen[opposite]:
                _note_clear_client(tcp, head, direction)
                clear = _BOTH
            elif self.buffered_bytes + _CONNECTION_BYTES <= self._most_bytes:
                return self._watch(tcp)
            else:
                clear = _BOTH
        if clear == _BOTH:
            self._passing.add(tcp.serial)
        elif clear:
            self._clear[tcp.serial] = clear
        return None

    def _watch(self, tcp: TcpConnection) -> WatchedConnection:
        from kanalyze.tls.watched import WatchedConnection  # only where there is TLS

        watched = self._watched[tcp.serial] = WatchedConnection(tcp)
        self._handshake_bytes += watched.buffered_bytes
        return watched

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, between two batches."""
        return save_each(self._watched), tuple(self._clear.items()), tuple(self._passing)

    def load_state(self, state: object, connections: Mapping[int, TcpConnection]) -> None:
        """Continue from a state.

        Args:
            state: the state of another watcher.
            connections: the open connections by serial, with what was known of their TLS.

        Raises:
            ValueError: the state is any other value.
        """
        from kanalyze.tls.watched import WatchedConnection

        watched, clear, passing = fields(state, "ttt")
        self._watched = load_each(
            watched, lambda serial: WatchedConnection(open_connection(connections, serial))
        )
        self._handshake_bytes = sum([each.buffered_bytes for each in self._watched.values()])
        self._clear = dict([fields(item, "nn") for item in items(clear, "t")])
        self._passing = set(items(passing, "n"))


def _first_bytes(added: list[StreamItem]) -> bytes:
    """Return the first bytes that an end sent; empty if they are not in the capture."""
    item = added[0]
    if not isinstance(item, Chunk):
        return b""
    segments = item.segments
    begin, captured = segments.start[item.first], segments.captured[item.first]
    return bytes(segments.view(begin, begin + min(captured, _HEAD_BYTES)))


def _note_clear_client(tcp: TcpConnection, head: bytes, broker_index: int) -> None:
    """Note that a server answers with an alert to a client without TLS."""
    from kanalyze.tls.handshake import read_alert  # only where there is TLS

    tls = tcp.tls = TlsConnection()
    tls.client_index, tls.is_clear_client = 1 - broker_index, True
    alert = read_alert(head[HEADER_BYTES:], broker_index, 0, 0)
    if alert is not None:
        tls.alerts = (SentAlert(broker_index, alert.level, alert.description),)
