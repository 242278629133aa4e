"""One connection of Kafka 0.7 as a state machine: two streams in, exchanges out.

In: the streams of both directions. Out: exchanges and anomalies (:class:`ConnectionEvents`).

Without correlation ids a pairing is certain only while no frame of either direction was lost. After
a loss, and in a capture that begins in the middle, nothing is paired: requests are unanswered and
responses are orphans. That ends when a consumer proves which response belongs to which request:
offsets are positions in bytes, and the next FETCH reads from where a response ended.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.common.saved import Saved, make, save
from kanalyze.kafka.codec.failures import NOT_ALL_THERE
from kanalyze.kafka.framing.framer import FrameCutter
from kanalyze.kafka.session.batch_checks import BatchCounts
from kanalyze.kafka.session.events import (
    ConnectionEvents,
    exchange_anomaly,
    frame_anomaly,
    incomplete_frame_anomaly,
    shed,
    sync_loss_anomaly,
)
from kanalyze.kafka.session.exchange import Exchange, Message
from kanalyze.kafka.session.exchange_builder import PENDING_BYTES
from kanalyze.kafka.v07.messages import (
    COUNTING_LIMITS,
    SIMILAR_APIS,
    FetchPart07,
    Request07,
    RequestType,
    parse_request,
    parse_response,
    response_from_state,
    response_state,
)
from kanalyze.kafka.v07.resync import Request07Locator, Response07Locator
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.exchange import BodyStates, ExchangeOwner, Peers
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.kafka.v07.messages import Response07
    from kanalyze.model.streams import StreamItem

WIRE = "kafka-0.7"
_MAX_PENDING = 10_000


class _GuessedAnswer(NamedTuple):
    """A request and a response that may belong to it, which the next request proves or refutes."""

    exchange: Exchange
    request: Request07
    response: Exchange
    """The response as an orphan."""
    values: Response07
    next_offset: int
    """The offset that the next request reads from, if the response belongs to the request."""

    def state(self, owner: ExchangeOwner) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(self.exchange.state(owner), save(self.request)),
            *(self.response.state(owner), response_state(self.values), self.next_offset),
        )

    @classmethod
    def from_state(cls, state: object, owner: ExchangeOwner) -> _GuessedAnswer:
        """Make one from a state; raises ValueError for any other value."""
        exchange, request, response, values, next_offset = fields(state, "ttttn")
        guess = cls(
            Exchange.from_state(exchange, owner),
            make(Request07, request),
            Exchange.from_state(response, owner),
            response_from_state(values),
            next_offset,
        )
        if not guess.request.parts:
            raise ValueError("a guess without a request")
        return guess


class _BodyStates07:
    """Saves and loads bodies, as :class:`~kanalyze.kafka.session.exchange.BodyStates`."""

    @staticmethod
    def body_state(
        message: Message,
        api_key: int | None,  # noqa: ARG004 - bodies of Kafka 0.7 say what they are
        kind: Literal["request", "response"],
    ) -> State | None:
        """Return the body of a message; None if it was not read."""
        values = message.values
        if values is None:
            return None
        return save(values) if kind == "request" else response_state(values)

    @staticmethod
    def load_body_state(
        message: Message,
        state: object,
        api_key: int | None,  # noqa: ARG004 - as above
        kind: Literal["request", "response"],
    ) -> None:
        """Load a body into its message."""
        if state is not None:
            is_request = kind == "request"
            message.values = make(Request07, state) if is_request else response_from_state(state)


_BODIES = _BodyStates07()


class ExchangeBuilder07:
    """Pairs requests and responses of one connection, and reads their bodies."""

    _NOT_SAVED = ("_client_index", "_keep", "peers")
    _SAVED = Saved(
        "_is_certain:bool decoded_bytes:count undecoded_bytes:count "
        "_pending:deque[(Exchange,Request07?)] _guess:_GuessedAnswer?",
        Exchange,
        Request07,
        _GuessedAnswer,
        is_context=True,
    )

    def __init__(
        self, peers: Peers, client_index: int, *, is_certain: bool, keep: KeepsBytes | None
    ) -> None:
        """Make a builder; ``is_certain``: no frame of the connection was lost so far."""
        self.peers = peers
        self._client_index = client_index
        self._keep = keep
        self._is_certain = is_certain
        self._pending: deque[tuple[Exchange, Request07 | None]] = deque()
        self._guess: _GuessedAnswer | None = None
        self.decoded_bytes = 0
        self.undecoded_bytes = 0

    @property
    def body_states(self) -> BodyStates:
        """What saves and loads bodies."""
        return _BODIES

    def __len__(self) -> int:
        return len(self._pending)

    def lose_sync(self, events: ConnectionEvents) -> None:
        """Drop what is pending: responses cannot be matched any more."""
        self._is_certain = False
        self._drop_guess(events)
        self._drop_pending(events)

    def _drop_pending(self, events: ConnectionEvents) -> None:
        while self._pending:
            self._complete_unanswered(self._pending.popleft()[0], events)

    def _drop_guess(self, events: ConnectionEvents) -> None:
        guess, self._guess = self._guess, None
        if guess is not None:
            self._complete_unanswered(guess.exchange, events)
            self._complete_orphan(guess.response, events)

    def _check_guess(self, request: Request07, events: ConnectionEvents) -> None:
        """Confirm the guess if a request reads from the offset after its response; else drop it."""
        guess = self._guess
        if guess is None:
            return
        before = guess.request.parts[0]
        following = before._replace(offset=guess.next_offset, max_size=None)
        if [part._replace(max_size=None) for part in request.parts] != [following]:
            self._drop_guess(events)
            return
        self._guess = None
        self._is_certain = True
        guess.exchange.response = guess.response.response
        self._complete(guess.exchange, guess.values, events)

    # -- requests ---------------------------------------------------------------------------------

    def add_request(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read a frame of the client."""
        message = Message(frame)
        exchange = Exchange(self.peers, message, None, None, None, None, None, wire=WIRE)
        request = self._read_request(frame, exchange, events)
        if request is None:
            # Not even its type is certain, so it is unknown whether it gets a response.
            self.lose_sync(events)
            self._keep_bytes(frame, message, exchange.api_key)
            self._complete_unanswered(exchange, events)
            return
        if request.parts:
            message.values, message.version = request, 0
        self._keep_bytes(frame, message, exchange.api_key)
        self._check_guess(request, events)
        if not request.type.is_answered:
            exchange.one_way = True
            events.exchanges.append(exchange)
            return
        if not self._is_certain:
            # With several pending requests, no response can be guessed.
            self._drop_pending(events)
        self._pending.append((exchange, request))
        if len(self._pending) > _MAX_PENDING:
            kind, direction = AnomalyKind.PENDING_LIMIT, self._client_index
            events.anomalies.append(frame_anomaly(kind, self.peers.tcp, frame, direction))
            self.lose_sync(events)

    def _read_request(
        self, frame: Frame, exchange: Exchange, events: ConnectionEvents
    ) -> Request07 | None:
        direction = self._client_index
        if frame.missing_bytes:
            self._add_problem(
                AnomalyKind.MISSING_BYTES, frame, direction, exchange, NOT_ALL_THERE, events
            )
            return _request_head(frame, exchange)
        try:
            request = parse_request(frame.read(0, frame.length), COUNTING_LIMITS)
        except WireError as error:
            kind = AnomalyKind.MALFORMED_BODY
            self._add_problem(kind, frame, direction, exchange, str(error), events)
            return None
        self.decoded_bytes += frame.length
        exchange.api_key, exchange.api_version = int(request.type), 0
        if any(part.messages and part.messages.bad_checksums for part in request.parts):
            self._add_bad_checksum(frame, direction, exchange, events)
        return request

    # -- responses --------------------------------------------------------------------------------

    def add_response(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read a frame of the broker."""
        orphan = Exchange(self.peers, None, Message(frame), None, None, None, None, wire=WIRE)
        if not self._pending or self._guess is not None:
            # Its request was lost, or never seen.
            self.undecoded_bytes += frame.length
            self.lose_sync(events)
            self._complete_orphan(orphan, events)
            return
        exchange, request = self._pending.popleft()
        self._keep_bytes(frame, orphan.response, exchange.api_key)
        values, problem = (None, "") if request is None else _read_response(frame, request)
        if self._is_certain:
            exchange.response = orphan.response
            self._add_answer(frame, exchange, values, problem, events)
        elif values is None or request is None or not _can_be_guessed(request, values):
            self.undecoded_bytes += frame.length
            self._complete_unanswered(exchange, events)
            self._complete_orphan(orphan, events)
        else:
            self.decoded_bytes += frame.length
            part = values[0]
            assert isinstance(part, FetchPart07)
            offset = (request.parts[0].offset or 0) + part.messages.whole_bytes
            self._guess = _GuessedAnswer(exchange, request, orphan, values, offset)

    def _add_answer(
        self,
        frame: Frame,
        exchange: Exchange,
        values: Response07 | None,
        problem: str,
        events: ConnectionEvents,
    ) -> None:
        direction = 1 - self._client_index
        if values is None:
            kind = AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY
            self._add_problem(kind, frame, direction, exchange, problem, events)
        else:
            self.decoded_bytes += frame.length
            if any(isinstance(p, FetchPart07) and p.messages.bad_checksums for p in values):
                self._add_bad_checksum(frame, direction, exchange, events)
        self._complete(exchange, values, events)

    def _keep_bytes(self, frame: Frame, message: Message | None, kind: int | None) -> None:
        """Keep the bytes of a message if they are to be kept and are complete."""
        if self._keep is None or message is None or kind is None or frame.missing_bytes:
            return
        if self._keep(kind) or self._keep(SIMILAR_APIS[kind]):
            message.data = bytes(frame.read(0, frame.length))

    def _complete(
        self, exchange: Exchange, values: Response07 | None, events: ConnectionEvents
    ) -> None:
        if exchange.response is not None and values is not None:
            exchange.response.values, exchange.response.version = values, 0
        events.exchanges.append(exchange)

    # -- completion -------------------------------------------------------------------------------

    def _add_problem(
        self,
        kind: AnomalyKind,
        frame: Frame,
        direction: int,
        exchange: Exchange,
        detail: str,
        events: ConnectionEvents,
    ) -> None:
        self.undecoded_bytes += frame.length
        exchange.malformed = True
        tcp = self.peers.tcp
        events.anomalies.append(frame_anomaly(kind, tcp, frame, direction, detail, exchange))

    def _add_bad_checksum(
        self, frame: Frame, direction: int, exchange: Exchange, events: ConnectionEvents
    ) -> None:
        kind, tcp = AnomalyKind.WRONG_CRC, self.peers.tcp
        events.anomalies.append(frame_anomaly(kind, tcp, frame, direction, "", exchange))

    def _complete_unanswered(self, exchange: Exchange, events: ConnectionEvents) -> None:
        events.anomalies.append(exchange_anomaly(AnomalyKind.UNANSWERED_REQUEST, exchange))
        events.exchanges.append(exchange)

    def _complete_orphan(self, exchange: Exchange, events: ConnectionEvents) -> None:
        events.anomalies.append(exchange_anomaly(AnomalyKind.ORPHAN_RESPONSE, exchange))
        events.exchanges.append(exchange)


def _request_head(frame: Frame, exchange: Exchange) -> Request07 | None:
    """Return an incomplete request by its type alone."""
    try:
        number = int.from_bytes(frame.read(4, 2), "big")
        kind = RequestType(number)
    except (WireError, ValueError):
        return None
    exchange.api_key, exchange.api_version = number, 0
    return Request07(kind, ())


def _can_be_guessed(request: Request07, values: Response07) -> bool:
    if request.type != RequestType.FETCH or not request.parts:
        return False
    part = values[0]
    return isinstance(part, FetchPart07) and part.messages.whole_bytes > 0


def _read_response(frame: Frame, request: Request07) -> tuple[Response07 | None, str]:
    """Return the values of a response, or None and why it cannot be read."""
    if frame.missing_bytes:
        return None, NOT_ALL_THERE
    if not request.parts:
        return None, ""
    try:
        return parse_response(frame.read(0, frame.length), request, COUNTING_LIMITS), ""
    except WireError as error:
        return None, str(error)


_SMALLEST_BYTES = 2


class Kafka07Connection:
    """Reads and pairs the messages of one connection; counts bytes as ``KafkaConnection`` does."""

    _SAVED = Saved("client_index:end peers:here _requests:here _responses:here _builder:here")

    def __init__(
        self,
        peers: Peers,
        client_index: int,
        *,
        in_sync: tuple[bool, bool],
        from_start: bool,
        keep: KeepsBytes | None = None,
    ) -> None:
        """Make the state of a connection.

        Args:
            peers: the two ends.
            client_index: which direction (0 or 1) the requests come from.
            in_sync: by direction, whether its first byte begins a frame.
            from_start: the connection was seen from its handshake on.
            keep: returns true for an API key if the bytes of its messages are kept. It is called
                with a request's type, and with the key of the most similar later API.
        """
        self.peers = peers
        self.client_index = client_index
        self._requests = FrameCutter(
            Request07Locator(), in_sync=in_sync[client_index], smallest_bytes=_SMALLEST_BYTES
        )
        self._responses = FrameCutter(
            Response07Locator(), in_sync=in_sync[1 - client_index], smallest_bytes=_SMALLEST_BYTES
        )
        self._builder = ExchangeBuilder07(
            peers, client_index, is_certain=from_start and all(in_sync), keep=keep
        )

    @property
    def decoded_bytes(self) -> int:
        """Bytes of frames that were read to the end."""
        return self._builder.decoded_bytes

    @property
    def undecoded_bytes(self) -> int:
        """Bytes of frames that were not read to the end."""
        return self._builder.undecoded_bytes

    @property
    def batches(self) -> BatchCounts:
        """None: messages of Kafka 0.7 are checked as they are read, and not counted."""
        return BatchCounts()

    @property
    def skipped_bytes(self) -> int:
        """Bytes of both directions skipped while looking for a frame boundary."""
        return self._requests.skipped_bytes + self._responses.skipped_bytes

    @property
    def buffered_bytes(self) -> int:
        """About how much memory incomplete messages and pending requests take."""
        streams = self._requests.buffered_bytes + self._responses.buffered_bytes
        return streams + len(self._builder) * PENDING_BYTES

    def shed(self) -> ConnectionEvents:
        """Drop buffered bytes and pending requests; return the events, with what was lost."""
        events, tcp = ConnectionEvents(), self.peers.tcp
        events.anomalies += shed(self._requests, tcp, self.client_index)
        events.anomalies += shed(self._responses, tcp, 1 - self.client_index)
        self._builder.lose_sync(events)
        return events

    def feed(self, items: tuple[list[StreamItem], list[StreamItem]]) -> ConnectionEvents:
        """Read the new items of both directions; return the events."""
        events, tcp = ConnectionEvents(), self.peers.tcp
        frames, loss_packets = [], []
        for cutter, direction in self._cutters():
            cut = cutter.feed(items[direction])
            events.anomalies += [
                sync_loss_anomaly(tcp, loss, direction, self.client_index) for loss in cut.losses
            ]
            loss_packets += [loss.packet for loss in cut.losses]
            frames += [(frame.completion_packet(), direction, frame) for frame in cut.frames]
        frames.sort(key=lambda frame_of_direction: frame_of_direction[0])
        losses = deque(sorted(loss_packets))
        for packet, direction, frame in frames:
            while losses and packet >= losses[0]:
                self._builder.lose_sync(events)
                losses.popleft()
            if direction == self.client_index:
                self._builder.add_request(frame, events)
            else:
                self._builder.add_response(frame, events)
        if losses:
            self._builder.lose_sync(events)
        for cutter, _ in self._cutters():
            if cutter.partial.frame is not None:
                cutter.partial.frame.detach()
        return events

    def close(self) -> ConnectionEvents:
        """End the connection; return what is left: requests without a response."""
        events = ConnectionEvents()
        for cutter, direction in self._cutters():
            frame, seen_bytes = cutter.partial.frame, cutter.partial.seen_bytes
            if frame is not None:
                self._builder.undecoded_bytes += seen_bytes
                anomaly = incomplete_frame_anomaly(self.peers.tcp, frame, seen_bytes, direction)
                events.anomalies.append(anomaly)
        self._builder.lose_sync(events)
        return events

    def _cutters(self) -> tuple[tuple[FrameCutter, int], tuple[FrameCutter, int]]:
        """Return the cutters of requests and responses, with their directions."""
        return (self._requests, self.client_index), (self._responses, 1 - self.client_index)
