"""Bodies of the messages of one connection: read within bounds, and counted.

In: frames whose header was read. Out: the values, in the :class:`Message`; byte counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.saved import Saved, save
from kanalyze.kafka.codec.values import Tape
from kanalyze.kafka.session.batch_checks import BatchCounts
from kanalyze.kafka.session.connection_anomalies import frame_anomaly
from kanalyze.kafka.session.message_reader import DecodedBody
from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.session.exchange import NO_API, NO_VERSION

    # Without record data. Values take up to 43 times as much (measured over all messages); the
    # metadata of 200,000 partitions is about 10 MB.
    LARGEST_BODY_BYTES = 16 * 1024 * 1024

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.session.batch_checks import BatchChecks
    from kanalyze.kafka.session.events import ConnectionEvents
    from kanalyze.kafka.session.exchange import Exchange, Message
    from kanalyze.kafka.session.message_reader import MessageReader

__all__ = ["RECORD_APIS", "KeepsBytes", "MessageBodies"]

KeepsBytes: TypeAlias = "Callable[[int], bool]"
"""Returns true if the bytes of the messages of an API key are kept."""

RECORD_APIS = frozenset({0, 1, 59, 78})
"""Keys of the APIs whose messages have record data: Produce, Fetch, FetchSnapshot, ShareFetch."""

_TOO_LARGE = DecodedBody(
    None, None, AnomalyKind.MEMORY_LIMIT, "a body that is too large to be read"
)


class MessageBodies:
    """Reads the bodies of one connection; counts bytes by whether the body was read."""

    _NOT_SAVED = ("_keep", "_reader", "_undetached")
    _SAVED = Saved("decoded_bytes:count undecoded_bytes:count", added="batches:here")

    def __init__(self, reader: MessageReader, keep: KeepsBytes | None) -> None:
        self._reader = reader
        self._keep = keep
        self._undetached: list[Exchange] = []
        """Exchanges of the current feed; the values of their messages are on the shared tape."""
        self.decoded_bytes = 0
        self.undecoded_bytes = 0
        self.batches = BatchCounts()
        """Batches of records, and which of them were checked."""

    def read_request(
        self,
        frame: Frame,
        header: RequestHeader,
        exchange: Exchange,
        message: Message,
        direction: int,
        events: ConnectionEvents,
    ) -> None:
        """Read the body of an exchange's request."""
        self._undetached.append(exchange)
        if frame.buffered_bytes > LARGEST_BODY_BYTES and not self._keeps_records(header.api_key):
            body = _TOO_LARGE
        else:
            body = self._reader.request_body(frame, header)
        self._record(frame, exchange, message, body, direction, events)

    def read_response(
        self,
        frame: Frame,
        exchange: Exchange,
        message: Message,
        direction: int,
        events: ConnectionEvents,
    ) -> None:
        """Read the body of an exchange's response, if its API and version are known."""
        key, version = exchange.key, exchange.key_version
        if key == NO_API or version == NO_API:
            return
        if frame.buffered_bytes > LARGEST_BODY_BYTES and not self._keeps_records(key):
            body = _TOO_LARGE
        else:
            body = self._reader.response_body(frame, key, version)
        self._record(frame, exchange, message, body, direction, events)

    def keeps_bytes(self, api_key: int) -> bool:
        """Return true if the bytes of an API's messages are kept."""
        return self._keep is not None and self._keep(api_key)

    def detach_pending(self) -> None:
        """Copy the values of requests without a response: all connections share one tape."""
        pending: list[Message] = []
        cells = arena_bytes = 0
        for index in range(len(self._undetached)):
            exchange = self._undetached[index]
            request = exchange.request
            if (
                exchange.response is None
                and request is not None
                and request.encoded_fields is not None
            ):
                pending.append(request)
                cells += request.encoded_fields.cells
                arena_bytes += request.encoded_fields.arena_bytes
        if pending:
            tape = Tape(cells, arena_bytes)
            for request in pending:
                if request.encoded_fields is not None:
                    request.encoded_fields = request.encoded_fields.moved(tape)
        if self._undetached:
            self._undetached = []

    def _keeps_records(self, api_key: int) -> bool:
        """Return true if the buffered bytes of an API's messages include record data.

        Their size says nothing of the memory that values take, because record data is not decoded.
        """
        return api_key in RECORD_APIS and self.keeps_bytes(api_key)

    def _record(
        self,
        frame: Frame,
        exchange: Exchange,
        message: Message,
        body: DecodedBody,
        direction: int,
        events: ConnectionEvents,
    ) -> None:
        """Put the values into the message, and count the frame."""
        message.encoded_fields, message.read_as = body.encoded_fields, body.read_as
        if self._keep is not None and self._keep(exchange.key):
            if frame.missing_bytes:
                message.pieces = save(frame.in_pieces())
            else:
                message.data = bytes(frame.read(0, frame.length))
        if message.read_as == NO_VERSION:
            self.undecoded_bytes += frame.length
        else:
            self.decoded_bytes += frame.length - body.left_over
            self.undecoded_bytes += body.left_over
        if body.batches is not None:
            self._add_batches(frame, exchange, body.batches, direction, events)
        problem = body.problem
        if problem is not None:
            if problem in (AnomalyKind.MALFORMED_BODY, AnomalyKind.MISSING_BYTES):
                exchange.malformed = True
            tcp = exchange.peers.tcp
            anomaly = frame_anomaly(problem, tcp, frame, direction, body.detail, exchange)
            events.anomalies.append(anomaly)

    def _add_batches(
        self,
        frame: Frame,
        exchange: Exchange,
        checks: BatchChecks,
        direction: int,
        events: ConnectionEvents,
    ) -> None:
        """Count the batches of a message; some that are wrong are one anomaly."""
        self.batches.add(checks)
        if checks.wrong:
            kind, tcp = AnomalyKind.WRONG_CRC, exchange.peers.tcp
            anomaly = frame_anomaly(kind, tcp, frame, direction, checks.detail, exchange)
            events.anomalies.append(anomaly)
