"""Completes exchanges: with a response, without one, or a response alone.

In: exchanges with their responses, exchanges without one, and responses alone. Out: the complete
exchanges and their anomalies, in :class:`ConnectionEvents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.session.connection_anomalies import exchange_anomaly, frame_anomaly
from kanalyze.kafka.session.exchange import Exchange, Message
from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.session.exchange import message_of
    from kanalyze.kafka.session.message_reader import SASL_AUTHENTICATE

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.correlation import Correlator
    from kanalyze.kafka.session.events import ConnectionEvents
    from kanalyze.kafka.session.login import Login
    from kanalyze.kafka.session.message_bodies import MessageBodies
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.sync_losses import SyncLosses
    from kanalyze.kafka.session.token_ranges import TokenRanges

__all__ = ["ExchangeCompletion"]


class ExchangeCompletion:
    """Completes the exchanges of one connection; its parts are those of ``ExchangeBuilder``."""

    def __init__(
        self,
        broker_index: int,
        reader: MessageReader,
        bodies: MessageBodies,
        correlator: Correlator,
        login: Login,
        losses: SyncLosses,
        tokens: TokenRanges,
    ) -> None:
        self._broker_index = broker_index
        self._reader = reader
        self._bodies = bodies
        self._correlator = correlator
        self._login = login
        self._losses = losses
        self._tokens = tokens

    def with_response(self, exchange: Exchange, frame: Frame, events: ConnectionEvents) -> None:
        """Complete an exchange with its response."""
        direction = self._broker_index
        message = message_of(frame)
        exchange.response = message
        if exchange.key == SASL_AUTHENTICATE:
            token = self._reader.fields.token_in_response(frame, exchange.key_version)
            events.token_bytes.append(self._tokens.of_frame(frame, direction, *token))
        request = exchange.request
        if request is not None:
            self._check_order(exchange, request, message, events)
        if exchange.one_way:
            kind = AnomalyKind.UNSOLICITED_RESPONSE
            tcp = exchange.peers.tcp
            events.anomalies.append(frame_anomaly(kind, tcp, frame, direction, "", exchange))
        if frame.missing_bytes:
            self._losses.note_missing(frame, direction, exchange)
        self._bodies.read_response(frame, exchange, message, direction, events)
        if self._login.raw is not None:
            self._login.follow_response(exchange, frame)
        exchange.lost_ns = self._losses.lost_before(exchange)
        events.exchanges.append(exchange)

    def _check_order(
        self, exchange: Exchange, request: Message, response: Message, events: ConnectionEvents
    ) -> None:
        """Report a response that came too early or too late."""
        if response.start_packet < request.start_packet:
            # Only packets are compared: which of the two was read first depends on the batches.
            kind = AnomalyKind.RESPONSE_BEFORE_REQUEST
            events.anomalies.append(exchange_anomaly(kind, exchange))
        correlator = self._correlator
        if correlator.follow_order(request, response):
            kind = AnomalyKind.RESPONSE_OUT_OF_ORDER
            events.anomalies.append(exchange_anomaly(kind, exchange))
        if not correlator.keeps_order or correlator.overtakes(request):
            # This request was not held up by the one whose response came before.
            exchange.previous_ns = 0

    def unanswered(self, exchange: Exchange, events: ConnectionEvents) -> None:
        """Complete a request whose response never came."""
        if self._correlator.lost.has_response_to(exchange):
            exchange.anomalies.append(AnomalyKind.LOST_BYTES)
        events.anomalies.append(exchange_anomaly(AnomalyKind.UNANSWERED_REQUEST, exchange))
        events.exchanges.append(exchange)

    def orphan(self, frame: Frame, packet: int | None, events: ConnectionEvents) -> None:
        """Complete a response whose request was not seen; None if no ``packet`` showed it."""
        peers, correlation_id = self._login.peers, self._reader.correlation_id(frame)
        exchange = Exchange(peers, None, Message(frame), None, None, correlation_id, None)
        exchange.settled_packet = packet
        self._bodies.undecoded_bytes += frame.length
        kind, direction = AnomalyKind.ORPHAN_RESPONSE, self._broker_index
        events.anomalies.append(frame_anomaly(kind, peers.tcp, frame, direction, "", exchange))
        events.exchanges.append(exchange)

    def one_way(
        self, exchanges: list[Exchange], packet: int | None, events: ConnectionEvents
    ) -> None:
        """Complete requests that certainly get no response; None if no ``packet`` showed it."""
        for exchange in exchanges:
            exchange.settled_packet = packet
            events.exchanges.append(exchange)

    def incomplete(self, exchange: Exchange, frame: Frame, events: ConnectionEvents) -> None:
        """Complete an exchange with a response that the stream ended within."""
        exchange.response = Message(frame)
        exchange.malformed = True
        exchange.anomalies.append(AnomalyKind.INCOMPLETE_FRAME)
        exchange.lost_ns = self._losses.lost_before(exchange)
        events.exchanges.append(exchange)
