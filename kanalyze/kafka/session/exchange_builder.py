"""Makes exchanges from the messages of one Kafka connection.

In: frames of requests and responses, in the order in which they were complete, and where their
streams lost sync. Out: exchanges, anomalies, positions of tokens, in :class:`ConnectionEvents`.
"""

from __future__ import annotations

from bisect import insort
from contextlib import suppress
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import CutFrames
from kanalyze.kafka.session.correlation import (
    Correlator,
    EarlyResponse,
    EarlyResponses,
    OneWayRequests,
)
from kanalyze.kafka.session.events import (
    PREFIX_BYTES,
    ConnectionEvents,
    TokenRanges,
    exchange_anomaly,
    frame_anomaly,
    sync_loss_anomaly,
)
from kanalyze.kafka.session.exchange import Exchange, Message
from kanalyze.kafka.session.login import Login, describe_unreadable
from kanalyze.kafka.session.message_reader import MessageBodies
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import (
        cython,  # addresses of structs are the structs
        new_record,
    )
    from kanalyze.kafka.framing.frame import NO_PACKET, request_header_of
    from kanalyze.kafka.framing.framer import completion_packet
    from kanalyze.kafka.session.decode_plans import (
        API_VERSIONS,
        SASL_AUTHENTICATE,
        SASL_HANDSHAKE,
    )
    from kanalyze.kafka.session.exchange import NO_ID, exchange_of, set_times


if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.framing.framer import SyncLoss
    from kanalyze.kafka.session.exchange import BodyStates, Peers
    from kanalyze.kafka.session.message_reader import KeepsBytes, MessageReader
    from kanalyze.kafka.session.resync import RequestLocator
    from kanalyze.model.tcp import TcpConnection

__all__ = [
    "PENDING_BYTES",
    "ExchangeBuilder",
    "SyncLosses",
]

_MAX_TIMES = 64
"""How many losses of a direction are remembered; beyond it, the first two become one."""


class SyncLosses:
    """The losses of both directions since the last frame, and when bytes were missing so far."""

    _NOT_SAVED = ("_client_index", "_correlator", "_tcp", "_tokens", "has_open")
    _SAVED = Saved(
        "lost_ns:int? _open:*(list[(count,int?)],list[(count,int?)])",
        added="_times:*(list[(count,int)],list[(count,int)])",
    )

    def __init__(
        self, tcp: TcpConnection, client_index: int, correlator: Correlator, tokens: TokenRanges
    ) -> None:
        self._tcp = tcp
        self._client_index = client_index
        self._correlator = correlator
        self._tokens = tokens
        self._open: tuple[list[tuple[int, int | None]], ...] = ([], [])
        """By direction: stream offset and time of each loss."""
        self.has_open = False
        """True if a loss is open: checked for each message, and few connections have one."""
        self.lost_ns: int | None = None
        """When bytes were last found missing; None while none were."""
        self._times: tuple[list[tuple[int, int]], ...] = ([], [])
        """By direction: stream offset and time of each loss so far, also of those that are over."""

    def _after_load(self) -> None:
        if self.lost_ns is not None and not any(self._times):
            self._note(0, 0, self.lost_ns)  # a state that has no more than the last time
        self._update()

    def lost_before(self, exchange: Exchange) -> int | None:
        """Return when bytes of a stream were last missing before a message of an exchange.

        It depends on where in the streams they are missing, and on nothing that is read later.
        None if none were.
        """
        if self.lost_ns is None:
            return None
        times = []
        request, response = exchange.request_record(), exchange.response_record()
        if request is not cython.NULL:
            times += _times_before(self._times[self._client_index], request.stream_offset)
        if response is not cython.NULL:
            times += _times_before(self._times[1 - self._client_index], response.stream_offset)
        return max(times, default=None)

    @property
    def is_waiting(self) -> bool:
        """True if no frame has been read yet after a loss of bytes."""
        return any(time_ns is not None for losses in self._open for _, time_ns in losses)

    def has_lost_responses(self) -> bool:
        """Return true if responses may be lost at the end of the broker's stream."""
        return bool(self._open[1 - self._client_index])

    def begin(self, in_sync: tuple[bool, bool], *, is_whole: bool) -> ConnectionEvents:
        """Return the events of a connection that begins out of sync, or with missing bytes."""
        events = ConnectionEvents()
        first_ns = self._tcp.first_time_ns
        if not is_whole:
            self._note(0, 0, first_ns)
            self._note(1, 0, first_ns)
        for direction in (0, 1):
            if not in_sync[direction]:
                # Responses from before the capture belong to requests that were not captured.
                time_ns = None if direction == self._client_index else first_ns
                self._add(direction, 0, time_ns, events)
        return events

    def add(self, losses: list[SyncLoss], direction: int, events: ConnectionEvents) -> None:
        """Note where a direction lost sync."""
        for loss in losses:
            events.anomalies.append(
                sync_loss_anomaly(self._tcp, loss, direction, self._client_index)
            )
            if direction == self._client_index:
                self._correlator.lost.requests = True
            self._note(direction, loss.stream_offset, loss.time_ns)
            self._add(direction, loss.stream_offset, loss.time_ns, events)

    def end_before(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """Note that a frame could be read: the losses before it are over."""
        losses = self._open[direction]
        while losses and losses[0][0] <= frame.stream_offset:
            stream_offset, time_ns = losses.pop(0)
            unread = self._tokens.of_unread(direction, stream_offset, frame.stream_offset)
            events.token_bytes.append(unread)
            if time_ns is not None and direction != self._client_index:
                self._correlator.lost.add_responses(frame.start_packet)
        self._update()

    def note_missing(self, frame: Frame, direction: int, exchange: Exchange) -> None:
        """Note in an exchange that bytes of a frame are missing, though it may be readable."""
        self._note(direction, frame.stream_offset, frame.start_time_ns)
        for kind, size in (
            (AnomalyKind.LOST_BYTES, frame.lost_bytes),
            (AnomalyKind.SNAPPED_BYTES, frame.missing_bytes - frame.lost_bytes),
        ):
            if size and kind not in exchange.anomalies:
                exchange.anomalies.append(kind)

    def _add(
        self, direction: int, stream_offset: int, time_ns: int | None, events: ConnectionEvents
    ) -> None:
        self._open[direction].append((stream_offset, time_ns))
        self.has_open = True
        events.token_bytes.append(self._tokens.of_unread(direction, stream_offset))

    def _note(self, direction: int, stream_offset: int, time_ns: int) -> None:
        self.lost_ns = time_ns if self.lost_ns is None else max(self.lost_ns, time_ns)
        times = self._times[direction]
        insort(times, (stream_offset, time_ns))
        if len(times) > _MAX_TIMES:
            (offset, first_ns), (_, second_ns) = times[:2]
            times[:2] = [(offset, max(first_ns, second_ns))]

    def _update(self) -> None:
        self.has_open = bool(self._open[0] or self._open[1])


def _times_before(losses: list[tuple[int, int]], end: int) -> list[int]:
    """Return the times of the losses up to a stream offset."""
    return [time_ns for offset, time_ns in losses if offset <= end]


PENDING_BYTES = 2048
"""Approximate memory of a pending request: an exchange, a message, its values."""
_RESPONSE_HEAD_BYTES = 8
"""Size and correlation id."""
_AFTER_ALL = 1 << 62
"""A packet number above all others."""


class _Completion:
    """The parts of one connection, with which its exchanges are completed."""

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
        self._client_index, self._broker_index = client_index, 1 - client_index
        self._reader = reader
        self._whole = reader.whole
        self._one_way = OneWayRequests()
        self._previous_ns = 0
        """When the last response ended; 0 if there was none, or its end was lost."""
        self._early = EarlyResponses()
        self.correlator = Correlator(from_start=from_start)
        self.tokens = TokenRanges(peers.tcp)
        self.losses = SyncLosses(peers.tcp, client_index, self.correlator, self.tokens)
        self.bodies = MessageBodies(reader, keep)
        self.login = Login(peers, reader, locator, tokens_first=tokens_first)

    @property
    def peers(self) -> Peers:
        """The ends of the connection, as known now."""
        return self.login.peers

    @property
    def body_states(self) -> BodyStates:
        """What saves and loads the bodies of its messages."""
        return self._reader

    def _complete(
        self, exchange: Exchange, cut: CutFrames, index: int, events: ConnectionEvents
    ) -> None:
        """Complete an exchange with its response."""
        direction, frame = self._broker_index, cython.address(cut.items[index])
        set_times(cython.address(exchange.resp), frame)
        if exchange.key == SASL_AUTHENTICATE:
            whole = cut.frame(index)
            token = self._reader.fields.token_in_response(whole, exchange.key_version)
            events.token_bytes.append(self.tokens.of_frame(whole, direction, *token))
        request = exchange.request_record()
        if request is not cython.NULL:
            self._check_order(exchange, events)
        if exchange.one_way:
            kind, tcp = AnomalyKind.UNSOLICITED_RESPONSE, exchange.peers.tcp
            anomaly = frame_anomaly(kind, tcp, cut.frame(index), direction, "", exchange)
            events.anomalies.append(anomaly)
        if frame.is_object and cut.frame(index).missing_bytes:
            self.losses.note_missing(cut.frame(index), direction, exchange)
        self.bodies.read_response(cut, index, exchange, direction, events)
        if self.login.raw is not None:
            self.login.follow_response(exchange, cut.frame(index))
        exchange.lost_ns = self.losses.lost_before(exchange)
        events.exchanges.append(exchange)

    def _check_order(self, exchange: Exchange, events: ConnectionEvents) -> None:
        """Report a response that came too early or too late."""
        request, response = exchange.request_record(), exchange.response_record()
        if response.start_packet < request.start_packet:
            # Only packets are compared: which of the two was read first depends on the batches.
            kind = AnomalyKind.RESPONSE_BEFORE_REQUEST
            events.anomalies.append(exchange_anomaly(kind, exchange))
        asked, answered = request.stream_offset, response.stream_offset
        if self.correlator.follow_order(asked, answered):
            kind = AnomalyKind.RESPONSE_OUT_OF_ORDER
            events.anomalies.append(exchange_anomaly(kind, exchange))
        if not self.correlator.keeps_order or self.correlator.overtakes(asked):
            # This request was not held up by the one whose response came before.
            exchange.previous_ns = 0

    def _end_unanswered(self, exchange: Exchange, events: ConnectionEvents) -> None:
        """Complete a request whose response never came."""
        if self.correlator.lost.has_response_to(exchange):
            exchange.anomalies.append(AnomalyKind.LOST_BYTES)
        events.anomalies.append(exchange_anomaly(AnomalyKind.UNANSWERED_REQUEST, exchange))
        events.exchanges.append(exchange)

    def _end_orphan(self, frame: Frame, packet: int | None, events: ConnectionEvents) -> None:
        """Complete a response whose request was not seen; None if no ``packet`` showed it."""
        peers, correlation_id = self.login.peers, self._reader.correlation_id(frame)
        exchange = Exchange(peers, None, Message(frame), None, None, correlation_id, None)
        exchange.settled_packet = packet
        self.bodies.undecoded_bytes += frame.length
        kind, direction = AnomalyKind.ORPHAN_RESPONSE, self._broker_index
        events.anomalies.append(frame_anomaly(kind, peers.tcp, frame, direction, "", exchange))
        events.exchanges.append(exchange)

    def _add_token(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """Count a token of SASL, and report where it is."""
        events.token_bytes.append(self.tokens.of_frame(frame, direction))
        self.bodies.decoded_bytes += frame.length

    def _add_unreadable(
        self, frame: Frame, direction: int, detail: str, events: ConnectionEvents
    ) -> None:
        """Count and report a frame that cannot be read; it may be a token."""
        events.token_bytes.append(self.tokens.of_frame(frame, direction))
        self.bodies.undecoded_bytes += frame.length
        kind = AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY
        events.anomalies.append(frame_anomaly(kind, self.peers.tcp, frame, direction, detail))


class ExchangeBuilder(_Completion):
    """Pairs requests and responses of one connection, and reads their bodies."""

    if not cython.compiled:
        _head = new_record()
    _NOT_SAVED = ("_broker_index", "_client_index", "_reader", "_whole")
    _SAVED = Saved(
        "login:here bodies:here tokens:here losses:here _early:here correlator:here _one_way:here "
        "_previous_ns:int",
        is_context=True,
    )

    @property
    def buffered_bytes(self) -> int:
        """About how much memory pending requests and early responses take."""
        pending = len(self.correlator.pending) + len(self._one_way)
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

    def add_request(self, cut: CutFrames, index: int, events: ConnectionEvents) -> None:
        """Read a frame of the client."""
        head, frame = cython.address(self._head), cython.address(cut.items[index])
        if self.losses.has_open or self.tokens.has_partial:
            self._add_readable(cut.frame(index), self._client_index, events)
        is_usual = self.login.raw is None and self._whole.head(cut, index, head)
        if is_usual:
            client_id = self._whole.client_id(cut, index, head)
        else:
            header = self._header_of(cut.frame(index), events)
            if header is None:
                return
            head.api_key, head.api_version = header.api_key, header.api_version
            head.correlation_id, head.body = header.correlation_id, header.body
            client_id = header.client_id
        key = head.api_key
        if key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE) or not self._reader.has_api(
            key
        ):
            header = request_header_of(
                key, head.api_version, head.correlation_id, client_id, head.body
            )
            self._follow(cut.frame(index), header, events)
        exchange = exchange_of(
            self.login.peers, key, head.api_version, head.correlation_id, client_id
        )
        set_times(cython.address(exchange.req), frame)
        if frame.is_object and cut.frame(index).missing_bytes:
            self.losses.note_missing(cut.frame(index), self._client_index, exchange)
        exchange.one_way = self.bodies.read_request(
            cut, index, head, exchange, self._client_index, events
        )
        if self._early.has_any() and self._match_early(exchange, events):
            return
        if exchange.one_way:
            _end_one_way(self._one_way.add(exchange), completion_packet(frame), events)
        else:
            self._add_pending(exchange, events)

    def add_incomplete_request(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read the header of a request that the stream ended within."""
        try:
            header = self._reader.request_header(frame)
        except WireError:
            return
        if self.login.raw is None or self.login.may_be_request(header):
            exchange = _exchange_with(self.login.peers, frame, header)
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
                self._add_token(frame, self._client_index, events)
                return None
            if kind == "unreadable":
                header = None
        if header is None:
            self._add_unreadable(frame, self._client_index, describe_unreadable(frame), events)
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
            self._end_unanswered(dropped, events)

    def _match_early(self, exchange: Exchange, events: ConnectionEvents) -> bool:
        """Pair a request with a response that was read before it, if there is one."""
        requests_lost = self.correlator.lost.requests
        checks = self._reader.checks
        response = self._early.match(exchange, checks, requests_lost=requests_lost)
        if response is None:
            return False
        exchange.previous_ns = response.previous_ns
        events.token_bytes.append(self.tokens.of_none(response.frame, self._broker_index))
        self._complete(exchange, _cut_of(response.frame), 0, events)
        return True

    # -- responses --------------------------------------------------------------------------------

    def add_response(self, cut: CutFrames, index: int, events: ConnectionEvents) -> None:
        """Read a frame of the broker."""
        direction, frame = self._broker_index, cython.address(cut.items[index])
        if self.losses.has_open or self.tokens.has_partial:
            self._add_readable(cut.frame(index), direction, events)
        previous_ns = self._previous_ns
        self._previous_ns = 0 if frame.last_packet == NO_PACKET else frame.last_ns
        try:
            correlation_id = self._whole.correlation_id(cut, index)
            if correlation_id == NO_ID:
                correlation_id = self._reader.correlation_id(cut.frame(index))
        except WireError:
            if not self._add_brokers_token(cut.frame(index), events):
                self._add_unreadable(cut.frame(index), direction, "correlation id", events)
            return
        exchange = self._match(frame.start_packet, correlation_id, events)
        if exchange is None and self._one_way.has_any():
            exchange = self._one_way.match(cut.frame(index), correlation_id, self._reader.checks)
        if exchange is not None:
            exchange.previous_ns = previous_ns
            if self._early.has_any():
                for earlier in self._early.drop_before(frame.stream_offset):
                    self._end_orphan(earlier, completion_packet(frame), events)
            request = exchange.request_record()
            if self._one_way.has_any() and request is not cython.NULL:
                begin, unsure = request.start_packet, self.correlator.lost.unsure_before
                passed = self._one_way.drop_before(begin, unsure)
                _end_one_way(passed, completion_packet(frame), events)
            self._complete(exchange, cut, index, events)
        elif not self._add_brokers_token(cut.frame(index), events):
            whole = cut.frame(index)
            events.token_bytes.append(self.tokens.of_frame(whole, direction, _RESPONSE_HEAD_BYTES))
            for dropped in self._early.add(EarlyResponse(whole, correlation_id, previous_ns)):
                self._end_orphan(dropped, completion_packet(frame), events)

    def add_incomplete_response(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read a response that the stream ended within."""
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            return
        exchange = self._match(frame.start_packet, correlation_id, events)
        if exchange is not None:
            exchange.response = Message(frame)
            exchange.malformed = True
            exchange.anomalies.append(AnomalyKind.INCOMPLETE_FRAME)
            exchange.lost_ns = self.losses.lost_before(exchange)
            events.exchanges.append(exchange)

    def _match(self, packet: int, correlation_id: int, events: ConnectionEvents) -> Exchange | None:
        """Return the request of a response that begins in ``packet``; None if it is not certain."""
        if self.correlator.is_ambiguous():
            for dropped in self.correlator.drop_ambiguous(correlation_id, packet):
                self._end_unanswered(dropped, events)
        return self.correlator.match(correlation_id, packet)

    # -- completion -------------------------------------------------------------------------------

    def expire(self, before_ns: int, events: ConnectionEvents) -> None:
        """Complete requests that expect no response, if they had waited too long by a Unix time."""
        if self._one_way.has_any():
            _end_one_way(self._one_way.expire(before_ns), None, events)

    def shed(self, events: ConnectionEvents) -> None:
        """Drop early responses and the older half of the pending requests."""
        for frame in self._early.drop_all():
            self._end_orphan(frame, None, events)
        for exchange in self.correlator.drop_oldest(len(self.correlator.pending) // 2):
            events.anomalies.append(exchange_anomaly(AnomalyKind.PENDING_LIMIT, exchange))
            self._end_unanswered(exchange, events)
        _end_one_way(self._one_way.drop_all(), None, events)

    def close(self, events: ConnectionEvents) -> None:
        """Complete all exchanges that are not complete: pending requests, early responses."""
        for frame in self._early.drop_all():
            self._end_orphan(frame, None, events)
        if self.losses.has_lost_responses():
            self.correlator.lost.add_responses(_AFTER_ALL)
        _end_one_way(self._one_way.drop_all(), None, events)
        for exchange in self.correlator.pending.pop_all():
            self._end_unanswered(exchange, events)

    # -- frames that are no messages --------------------------------------------------------------

    def _add_brokers_token(self, frame: Frame, events: ConnectionEvents) -> bool:
        """Return true if a frame that answers no request is a token, and count it."""
        is_lossy = self.correlator.lost.requests
        is_token = self.login.accepts_response(frame, is_lossy=is_lossy)
        if is_token:
            self._add_token(frame, self._broker_index, events)
        return is_token

    # -- frames that continue in the next batch ---------------------------------------------------

    def trim_request(self, frame: Frame, events: ConnectionEvents) -> None:
        """Drop the unneeded bytes of an incomplete request; report where tokens may be."""
        if frame.buffered_bytes > frame.skim_above:
            with suppress(WireError):
                header = self._reader.request_header(frame)
                if not self.bodies.keeps_bytes(header.api_key):
                    self._reader.skim_request(frame, header)
        if self.login.may_be_token(frame):
            events.token_bytes.append(self.tokens.of_partial(frame, self._client_index))

    def trim_response(self, frame: Frame, events: ConnectionEvents) -> None:
        """As :meth:`trim_request`, for a response."""
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            if self.login.raw is not None or frame.missing_bytes > 0:
                events.token_bytes.append(self.tokens.of_partial(frame, self._broker_index))
            return
        request = self.correlator.pending.oldest(correlation_id)
        if request is None or request.api_key == SASL_AUTHENTICATE:
            events.token_bytes.append(self.tokens.of_partial(frame, self._broker_index))
        if request is None or request.api_key is None or frame.buffered_bytes <= frame.skim_above:
            return
        if not self.bodies.keeps_bytes(request.api_key):
            with suppress(WireError):
                self._reader.skim_response(frame, request.api_key, request.api_version or 0)


def _end_one_way(exchanges: list[Exchange], packet: int | None, events: ConnectionEvents) -> None:
    """Complete requests that certainly get no response; None if no ``packet`` showed it."""
    for exchange in exchanges:
        exchange.settled_packet = packet
        events.exchanges.append(exchange)


def _exchange_with(peers: Peers, frame: Frame, header: RequestHeader) -> Exchange:
    exchange = exchange_of(
        peers, header.api_key, header.api_version, header.correlation_id, header.client_id
    )
    exchange.request = Message(frame)
    return exchange


def _cut_of(frame: Frame) -> CutFrames:
    """Return a frame as one that was cut."""
    cut = CutFrames()
    cut.add(frame)
    return cut
