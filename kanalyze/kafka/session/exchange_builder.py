"""Makes exchanges from the messages of one Kafka connection.

In: frames of requests and responses, in the order in which they were complete. Out: exchanges,
anomalies, positions of tokens, in :class:`ConnectionEvents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.session.completion import ExchangeCompletion
from kanalyze.kafka.session.connection_anomalies import exchange_anomaly
from kanalyze.kafka.session.correlation import Correlator
from kanalyze.kafka.session.early_responses import EarlyResponse, EarlyResponses
from kanalyze.kafka.session.exchange import Message
from kanalyze.kafka.session.login import Login
from kanalyze.kafka.session.message_bodies import MessageBodies
from kanalyze.kafka.session.non_messages import NonMessages
from kanalyze.kafka.session.one_way import OneWayRequests
from kanalyze.kafka.session.sync_losses import SyncLosses
from kanalyze.kafka.session.token_ranges import PREFIX_BYTES, TokenRanges
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.framing.frame import NO_PACKET
    from kanalyze.kafka.session.exchange import exchange_of, message_of
    from kanalyze.kafka.session.message_reader import (
        API_VERSIONS,
        PRODUCE,
        SASL_AUTHENTICATE,
        SASL_HANDSHAKE,
    )

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.session.events import ConnectionEvents
    from kanalyze.kafka.session.exchange import BodyStates, Exchange, Peers
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.resync import RequestLocator

__all__ = ["PENDING_BYTES", "ExchangeBuilder"]

PENDING_BYTES = 2048
"""Approximate memory of a pending request: an exchange, a message, its values."""
_RESPONSE_HEAD_BYTES = 8
"""Size and correlation id."""
_AFTER_ALL = 1 << 62
"""A packet number above all others."""


class ExchangeBuilder:
    """Pairs requests and responses of one connection, and reads their bodies."""

    _NOT_SAVED = ("_client_index", "_completion", "_non_messages", "_reader")
    _SAVED = Saved(
        "login:here bodies:here tokens:here losses:here _early:here correlator:here _one_way:here "
        "_previous_ns:int",
        is_context=True,
    )

    def __init__(
        self,
        peers: Peers,
        client_index: int,
        reader: MessageReader,
        locator: RequestLocator,
        *,
        from_start: bool,
        keep: KeepsBytes | None,
        tokens_first: bool,
    ) -> None:
        """Take the arguments of ``KafkaConnection``."""
        self._client_index = client_index
        self._reader = reader
        self._one_way = OneWayRequests()
        self._previous_ns = 0
        """When the last response ended; 0 if there was none, or its end was lost."""
        self._early = EarlyResponses()
        self.correlator = Correlator(from_start=from_start)
        self.tokens = TokenRanges(peers.tcp)
        self.losses = SyncLosses(peers.tcp, client_index, self.correlator, self.tokens)
        self.bodies = MessageBodies(reader, keep)
        self.login = Login(peers, reader, locator, tokens_first=tokens_first)
        self._non_messages = NonMessages(self.tokens, self.bodies, peers.tcp)
        self._completion = ExchangeCompletion(
            1 - client_index,
            reader,
            self.bodies,
            self.correlator,
            self.login,
            self.losses,
            self.tokens,
        )

    @property
    def peers(self) -> Peers:
        """The ends of the connection, as known now."""
        return self.login.peers

    @property
    def body_states(self) -> BodyStates:
        """What saves and loads the bodies of its messages."""
        return self._reader

    @property
    def buffered_bytes(self) -> int:
        """About how much memory pending requests and early responses take."""
        pending = len(self.correlator) + len(self._one_way)
        return self._early.buffered_bytes + pending * PENDING_BYTES

    @property
    def is_settled(self) -> bool:
        """True if no loss is open and no early response waits for its request."""
        return not (self._early.has_any() or self.losses.is_waiting)

    def _add_readable(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """Note that a complete frame has come: losses before it are over."""
        if self.losses.has_open:
            self.losses.end_before(frame, direction, events)
        if self.tokens.has_partial and self.tokens.was_partial(frame, direction):
            events.token_bytes.append(self.tokens.of_none(frame, direction))

    # -- requests ---------------------------------------------------------------------------------

    def add_request(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read a frame of the client."""
        self._add_readable(frame, self._client_index, events)
        header = self._header_of(frame, events)
        if header is None:
            return
        key = header.api_key
        if key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE) or not self._reader.has_api(
            key
        ):
            self._follow(frame, header, events)
        message = message_of(frame)
        exchange = _exchange_with(self.login.peers, message, header)
        if frame.missing_bytes:
            self.losses.note_missing(frame, self._client_index, exchange)
        self.bodies.read_request(frame, header, exchange, message, self._client_index, events)
        if key == PRODUCE and self._reader.acks(frame, header) == 0:
            exchange.one_way = True
        if self._early.has_any() and self._match_early(exchange, events):
            return
        if exchange.one_way:
            self._completion.one_way(self._one_way.add(exchange), frame.completion_packet(), events)
        else:
            self._add_pending(exchange, events)

    def add_incomplete_request(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read the header of a request that the stream ended within."""
        try:
            header = self._reader.request_header(frame)
        except WireError:
            return
        if self.login.raw is None or self.login.may_be_request(header):
            exchange = _exchange_with(self.login.peers, Message(frame), header)
            exchange.anomalies.append(AnomalyKind.INCOMPLETE_FRAME)
            self._add_pending(exchange, events)

    def _header_of(self, frame: Frame, events: ConnectionEvents) -> RequestHeader | None:
        """Return the header of a request; for any other frame None, after counting that frame."""
        header: RequestHeader | None
        try:
            header = self._reader.request_header(frame)
        except WireError:
            header = None
        if self.login.raw is not None:
            kind = self.login.classify(frame, header, is_lossy=self.correlator.lost.any)
            if kind == "token":
                self._non_messages.add_token(frame, self._client_index, events)
                return None
            if kind == "unreadable":
                header = None
        if header is None:
            self._non_messages.add_unreadable(frame, self._client_index, "request header", events)
        return header

    def _follow(self, frame: Frame, header: RequestHeader, events: ConnectionEvents) -> None:
        """Follow a request of the login, or of an unknown API, which may have a token too."""
        self.login.follow_request(frame, header)
        token = PREFIX_BYTES, frame.length
        if header.api_key == SASL_AUTHENTICATE:
            token = self._reader.fields.token_in_request(frame, header)
        elif self._reader.has_api(header.api_key):
            return
        events.token_bytes.append(self.tokens.of_frame(frame, self._client_index, *token))

    def _add_pending(self, exchange: Exchange, events: ConnectionEvents) -> None:
        dropped = self.correlator.add(exchange)
        if dropped is not None:
            events.anomalies.append(exchange_anomaly(AnomalyKind.PENDING_LIMIT, dropped))
            self._completion.unanswered(dropped, events)

    def _match_early(self, exchange: Exchange, events: ConnectionEvents) -> bool:
        """Pair a request with a response that was read before it, if there is one."""
        requests_lost = self.correlator.lost.requests
        checks = self._reader.checks
        response = self._early.match(exchange, checks, requests_lost=requests_lost)
        if response is None:
            return False
        exchange.previous_ns = response.previous_ns
        events.token_bytes.append(self.tokens.of_none(response.frame, 1 - self._client_index))
        self._completion.with_response(exchange, response.frame, events)
        return True

    # -- responses --------------------------------------------------------------------------------

    def add_response(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read a frame of the broker."""
        direction = 1 - self._client_index
        self._add_readable(frame, direction, events)
        previous_ns = self._previous_ns
        self._previous_ns = 0 if frame.last_packet == NO_PACKET else frame.last_time_ns
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            if not self._add_brokers_token(frame, events):
                self._non_messages.add_unreadable(frame, direction, "correlation id", events)
            return
        exchange = self._match(frame, correlation_id, events)
        if exchange is None and self._one_way.has_any():
            exchange = self._one_way.match(frame, correlation_id, self._reader.checks)
        if exchange is not None:
            exchange.previous_ns = previous_ns
            if self._early.has_any():
                for earlier in self._early.drop_before(frame.stream_offset):
                    self._completion.orphan(earlier, frame.completion_packet(), events)
            if self._one_way.has_any() and exchange.request is not None:
                begin, unsure = exchange.request.start_packet, self.correlator.lost.unsure_before
                passed = self._one_way.drop_before(begin, unsure)
                self._completion.one_way(passed, frame.completion_packet(), events)
            self._completion.with_response(exchange, frame, events)
        elif not self._add_brokers_token(frame, events):
            events.token_bytes.append(self.tokens.of_frame(frame, direction, _RESPONSE_HEAD_BYTES))
            for dropped in self._early.add(EarlyResponse(frame, correlation_id, previous_ns)):
                self._completion.orphan(dropped, frame.completion_packet(), events)

    def add_incomplete_response(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read a response that the stream ended within."""
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            return
        exchange = self._match(frame, correlation_id, events)
        if exchange is not None:
            self._completion.incomplete(exchange, frame, events)

    def _match(
        self, frame: Frame, correlation_id: int, events: ConnectionEvents
    ) -> Exchange | None:
        if self.correlator.is_ambiguous():
            for dropped in self.correlator.drop_ambiguous(correlation_id, frame.start_packet):
                self._completion.unanswered(dropped, events)
        return self.correlator.match(correlation_id, frame.start_packet)

    # -- frames that are no messages --------------------------------------------------------------

    def _add_brokers_token(self, frame: Frame, events: ConnectionEvents) -> bool:
        """Return true if a frame that answers no request is a token, and count it."""
        is_lossy = self.correlator.lost.requests
        is_token = self.login.accepts_response(frame, is_lossy=is_lossy)
        if is_token:
            self._non_messages.add_token(frame, 1 - self._client_index, events)
        return is_token

    # -- completion -------------------------------------------------------------------------------

    def expire(self, before_ns: int, events: ConnectionEvents) -> None:
        """Complete requests that expect no response, if they had waited too long by a Unix time."""
        if self._one_way.has_any():
            self._completion.one_way(self._one_way.expire(before_ns), None, events)

    def shed(self, events: ConnectionEvents) -> None:
        """Drop early responses and the older half of the pending requests."""
        for frame in self._early.drop_all():
            self._completion.orphan(frame, None, events)
        for exchange in self.correlator.drop_oldest(len(self.correlator) // 2):
            events.anomalies.append(exchange_anomaly(AnomalyKind.PENDING_LIMIT, exchange))
            self._completion.unanswered(exchange, events)
        self._completion.one_way(self._one_way.drop_all(), None, events)

    def close(self, events: ConnectionEvents) -> None:
        """Complete all exchanges that are not complete: pending requests, early responses."""
        for frame in self._early.drop_all():
            self._completion.orphan(frame, None, events)
        if self.losses.has_lost_responses():
            self.correlator.lost.add_responses(_AFTER_ALL)
        self._completion.one_way(self._one_way.drop_all(), None, events)
        for exchange in self.correlator.drop_all():
            self._completion.unanswered(exchange, events)


def _exchange_with(peers: Peers, request: Message, header: RequestHeader) -> Exchange:
    return exchange_of(
        peers,
        request,
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id,
    )
