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
from kanalyze.kafka.session.states import StreamEvent, StreamState, after
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import (
        cython,  # addresses of structs are the structs
    )
    from kanalyze.kafka.framing.frame import NO_PACKET, request_header_of
    from kanalyze.kafka.framing.framer import completion_packet
    from kanalyze.kafka.session.decode_plans import (
        API_VERSIONS,
        SASL_AUTHENTICATE,
        SASL_HANDSHAKE,
    )
    from kanalyze.kafka.session.exchange import NO_ID, exchange_of, message_of

IN_SYNC, LOGIN, LOST_IN_LOGIN = StreamState.IN_SYNC, StreamState.LOGIN, StreamState.LOST_IN_LOGIN


if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.framing.framer import SyncLoss
    from kanalyze.kafka.session.correlation import LostMessages
    from kanalyze.kafka.session.exchange import BodyStates, Peers
    from kanalyze.kafka.session.message_reader import KeepsBytes, MessageReader
    from kanalyze.kafka.session.resync import RequestLocator
    from kanalyze.model.tcp import TcpConnection

_MAX_TIMES = 64
"""How many losses of a direction are remembered; beyond it, the first two become one."""


class SyncLosses:
    """The losses of both directions since the last frame, and when bytes were missing so far."""

    _NOT_SAVED = ("_client_index", "_correlator", "_tcp", "_tokens")
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
        self.lost_ns: int | None = None
        """When bytes were last found missing; None while none were."""
        self._times: tuple[list[tuple[int, int]], ...] = ([], [])
        """By direction: stream offset and time of each loss so far, also of those that are over."""

    def _after_load(self) -> None:
        if self.lost_ns is not None and not any(self._times):
            self._note(0, 0, self.lost_ns)  # a state that has no more than the last time

    def lost_before(self, exchange: Exchange) -> int | None:
        """Return when bytes of a stream were last missing before a message of an exchange.

        It depends on where in the streams they are missing, and on nothing that is read later.
        None if none were.
        """
        if self.lost_ns is None:
            return None
        times = []
        request, response = exchange.request, exchange.response
        if request is not None:
            times += _times_before(self._times[self._client_index], request.stream_offset)
        if response is not None:
            times += _times_before(self._times[1 - self._client_index], response.stream_offset)
        return max(times, default=None)

    def is_waiting(self) -> bool:
        """Return true if no frame has been read yet after a loss of bytes."""
        if self.lost_ns is None:  # nearly always
            return False
        return _has_times(self._open[0]) or _has_times(self._open[1])

    def is_open(self, direction: int) -> bool:
        """Return true if no frame of a direction has been read yet after its last loss."""
        return bool(self._open[direction])

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
        events.token_bytes.append(self._tokens.of_unread(direction, stream_offset))

    def _note(self, direction: int, stream_offset: int, time_ns: int) -> None:
        self.lost_ns = time_ns if self.lost_ns is None else max(self.lost_ns, time_ns)
        times = self._times[direction]
        insort(times, (stream_offset, time_ns))
        if len(times) > _MAX_TIMES:
            (offset, first_ns), (_, second_ns) = times[:2]
            times[:2] = [(offset, max(first_ns, second_ns))]


def _has_times(losses: list[tuple[int, int | None]]) -> bool:
    """Return true if any of some losses has a time: a response may be among its bytes."""
    return any(time_ns is not None for _, time_ns in losses)


def _times_before(losses: list[tuple[int, int]], end: int) -> list[int]:
    """Return the times of the losses up to a stream offset."""
    return [time_ns for offset, time_ns in losses if offset <= end]


PENDING_BYTES = 2048
"""Approximate memory of a pending request: an exchange, a message, its values."""
_RESPONSE_HEAD_BYTES = 8
"""Size and correlation id."""
_AFTER_ALL = 1 << 62
"""A packet number above all others."""
_ENDED = StreamEvent.ENDED
"""To look up a member of an enumeration takes as long as a transition."""


class SlowPath:
    """All of one connection that is no message in order.

    Tokens and other frames that are no messages, the first frame after a loss, responses before
    their requests, requests that may get no response. :class:`ExchangeBuilder` gives it what it
    does not read itself, and gets back what goes on as usual.

    Attributes:
        request_state, response_state: the states of the two directions (``StreamState``).
    """

    def __init__(
        self,
        peers: Peers,
        client_index: int,
        reader: MessageReader,
        locator: RequestLocator,
        correlator: Correlator,
        bodies: MessageBodies,
    ) -> None:
        """Take the arguments of ``KafkaConnection``, and parts of its :class:`ExchangeBuilder`."""
        self._client_index, self._broker_index = client_index, 1 - client_index
        self._reader = reader
        self._correlator = correlator
        self._bodies = bodies
        self.peers = peers
        """The ends, with their names and versions so far."""
        self._locator = locator
        self._login: Login | None = None
        self.tokens = TokenRanges(peers.tcp)
        self.losses = SyncLosses(peers.tcp, client_index, correlator, self.tokens)
        self.early = EarlyResponses()
        self.one_way = OneWayRequests()
        self.request_state: int = IN_SYNC
        self.response_state: int = IN_SYNC

    def begin_login(self) -> None:
        """Expect raw tokens before the first request."""
        self._login = Login(self.peers, self._reader, self._locator, tokens_first=True)
        self._follow_login()

    def know(self, peers: Peers) -> None:
        """Replace the ends by the same with more names."""
        self.peers = peers
        if self._login is not None:
            self._login.peers = peers

    @property
    def login(self) -> Login:
        """Follows a login; most connections have none."""
        if self._login is None:
            self._login = Login(self.peers, self._reader, self._locator, tokens_first=False)
        return self._login

    def restore(self) -> None:
        """Find the states again after the parts have been loaded."""
        self.request_state = self.response_state = IN_SYNC
        for direction in (0, 1):
            if self.tokens.has_partial(direction):
                self._note(direction, StreamEvent.SUSPECTED)
            if self.losses.is_open(direction):
                self._note(direction, StreamEvent.SYNC_LOST)
        self._follow_login()

    def is_login(self) -> bool:
        """Return true if raw tokens may come."""
        return self.request_state == LOGIN or self.request_state == LOST_IN_LOGIN

    def _note(self, direction: int, event: StreamEvent) -> None:
        if direction == self._client_index:
            self.request_state = after(self.request_state, event)
        else:
            self.response_state = after(self.response_state, event)

    def _follow_login(self) -> None:
        """Note who logged in, and where a login with raw tokens begins or ends, for both ends."""
        login = self.login
        self.peers, is_login = login.peers, login.raw is not None
        if is_login != self.is_login():
            event = StreamEvent.LOGIN_BEGAN if is_login else StreamEvent.LOGIN_ENDED
            self._note(0, event)
            self._note(1, event)

    # -- losses -----------------------------------------------------------------------------------

    def begin(self, in_sync: tuple[bool, bool], *, is_whole: bool) -> ConnectionEvents:
        """Return the events of a connection that begins out of sync, or with missing bytes."""
        for direction in (0, 1):
            if not in_sync[direction]:
                self._note(direction, StreamEvent.SYNC_LOST)
        return self.losses.begin(in_sync, is_whole=is_whole)

    def lose(self, losses: list[SyncLoss], direction: int, events: ConnectionEvents) -> None:
        """Note where a direction lost sync."""
        self.losses.add(losses, direction, events)
        self._note(direction, StreamEvent.SYNC_LOST)

    def pass_losses(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """Note that a complete frame has come: losses before it are over."""
        self.losses.end_before(frame, direction, events)
        if self.tokens.was_partial(frame, direction):
            events.token_bytes.append(self.tokens.of_none(frame, direction))
        if not self.losses.is_open(direction):
            self._note(direction, StreamEvent.READ)

    def close(self, events: ConnectionEvents) -> None:
        """Complete all that waits; note which responses the end of the stream may have had."""
        self.end_early(events)
        if self.losses.is_open(self._broker_index):
            self._correlator.lost.add_responses(_AFTER_ALL)
        end_one_way(self.one_way.drop_all(), None, events)
        self._note(0, _ENDED)
        self._note(1, _ENDED)

    # -- frames that may be no messages -----------------------------------------------------------

    def request_header(self, frame: Frame, events: ConnectionEvents) -> RequestHeader | None:
        """Return the header of a request; for any other frame None, after counting that frame."""
        if self.request_state != IN_SYNC:
            self.pass_losses(frame, self._client_index, events)
        header: RequestHeader | None
        try:
            header = self._reader.request_header(frame)
        except WireError:
            header = None
        if self.is_login():
            kind = self.login.classify(frame, header, is_lossy=self._correlator.lost.any)
            self._follow_login()
            if kind == "token":
                _add_no_message(self, frame, self._client_index, "", events)
                return None
            if kind == "unreadable":
                header = None
        if header is None:
            _add_no_message(self, frame, self._client_index, describe_unreadable(frame), events)
        return header

    def follow_request(self, frame: Frame, header: RequestHeader, events: ConnectionEvents) -> None:
        """Follow a request of the login, or of an unknown API, which may have a token too."""
        self.login.follow_request(frame, header)
        self._follow_login()
        token = PREFIX_BYTES, frame.length
        if header.api_key == SASL_AUTHENTICATE:
            token = self._reader.fields.token_in_request(frame, header)
        elif self._reader.has_api(header.api_key):
            return
        events.token_bytes.append(self.tokens.of_frame(frame, self._client_index, *token))

    def follow_response(self, exchange: Exchange, frame: Frame) -> None:
        """Note that a response has come while raw tokens may."""
        self.login.follow_response(exchange, frame)
        self._follow_login()

    def suspect(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """Report that an incomplete frame may have a token, until that is known."""
        events.token_bytes.append(self.tokens.of_partial(frame, direction))
        self._note(direction, StreamEvent.SUSPECTED)

    # -- messages out of order --------------------------------------------------------------------

    def early_response(self, exchange: Exchange, events: ConnectionEvents) -> EarlyResponse | None:
        """Return the response to a request that was read before it; None if there is none."""
        lost = self._correlator.lost.requests
        response = self.early.match(exchange, self._reader.checks, requests_lost=lost)
        if response is not None:
            events.token_bytes.append(self.tokens.of_none(response.frame, self._broker_index))
        return response

    def add_unmatched(
        self, frame: Frame, correlation_id: int, previous_ns: int, events: ConnectionEvents
    ) -> None:
        """Take a frame of the broker that answers no request so far.

        ``correlation_id`` is ``NO_ID`` if it could not be read. ``previous_ns`` is when the
        response before it ended.
        """
        direction, is_lossy = self._broker_index, self._correlator.lost.requests
        if self.is_login() and self.login.accepts_response(frame, is_lossy=is_lossy):
            self._follow_login()
            _add_no_message(self, frame, direction, "", events)
        elif correlation_id == NO_ID:
            _add_no_message(self, frame, direction, "correlation id", events)
        else:
            events.token_bytes.append(self.tokens.of_frame(frame, direction, _RESPONSE_HEAD_BYTES))
            for dropped in self.early.add(EarlyResponse(frame, correlation_id, previous_ns)):
                _end_orphan(self, dropped, frame.completion_packet(), events)

    def pass_over(
        self, request: Message | None, stream_offset: int, packet: int, events: ConnectionEvents
    ) -> None:
        """End what waits and is before a request, or before the stream offset of its response.

        ``packet`` completed the response.
        """
        for earlier in self.early.drop_before(stream_offset):
            _end_orphan(self, earlier, packet, events)
        if self.one_way.has_any() and request is not None:
            unsure = self._correlator.lost.unsure_before
            end_one_way(self.one_way.drop_before(request.start_packet, unsure), packet, events)

    def end_early(self, events: ConnectionEvents) -> None:
        """Complete the responses whose request has not come."""
        if self.early.has_any():
            for frame in self.early.drop_all():
                _end_orphan(self, frame, None, events)


def _end_orphan(slow: SlowPath, frame: Frame, packet: int | None, events: ConnectionEvents) -> None:
    """Complete a response whose request was not seen; None if no ``packet`` showed it."""
    peers, correlation_id = slow.peers, slow._reader.correlation_id(frame)
    exchange = Exchange(peers, None, Message(frame), None, None, correlation_id, None)
    exchange.settled_packet = packet
    slow._bodies.undecoded_bytes += frame.length
    kind, direction = AnomalyKind.ORPHAN_RESPONSE, slow._broker_index
    events.anomalies.append(frame_anomaly(kind, peers.tcp, frame, direction, "", exchange))
    events.exchanges.append(exchange)


def _add_no_message(
    slow: SlowPath, frame: Frame, direction: int, problem: str, events: ConnectionEvents
) -> None:
    """Count a frame that is no message: a token, or what may be one if there is a problem."""
    events.token_bytes.append(slow.tokens.of_frame(frame, direction))
    if not problem:
        slow._bodies.decoded_bytes += frame.length
        return
    slow._bodies.undecoded_bytes += frame.length
    kind = AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY
    tcp = slow.peers.tcp
    events.anomalies.append(frame_anomaly(kind, tcp, frame, direction, problem))


def end_one_way(exchanges: list[Exchange], packet: int | None, events: ConnectionEvents) -> None:
    """Complete requests that certainly get no response; None if no ``packet`` showed it."""
    for exchange in exchanges:
        exchange.settled_packet = packet
        events.exchanges.append(exchange)


class ExchangeBuilder:
    """Pairs requests and responses of one connection, and reads their bodies."""

    _NOT_SAVED = (
        *("_broker_index", "_client_index", "_locator", "_made_slow", "_peers", "_reader"),
        "_whole",
    )
    _SAVED = Saved(
        "slow.login:here bodies:here slow.tokens:here slow.losses:here slow.early:here "
        "correlator:here slow.one_way:here _previous_ns:int",
        is_context=True,
    )

    def __init__(
        self,
        peers: Peers,
        client_index: int,
        reader: MessageReader,
        locator: RequestLocator,
        from_start: bool,
        keep: KeepsBytes | None,
        tokens_first: bool,
    ) -> None:
        """Take the arguments of ``KafkaConnection``."""
        self._client_index, self._broker_index = client_index, 1 - client_index
        self._reader = reader
        self._whole = reader.whole
        self._previous_ns = 0
        """When the last response ended; 0 if there was none, or its end was lost."""
        self.correlator = Correlator(from_start=from_start)
        self.bodies = MessageBodies(reader, keep)
        self._locator = locator
        self._peers = peers
        self._made_slow: SlowPath | None = None
        if tokens_first:
            _slow(self).begin_login()

    def _after_load(self) -> None:
        _slow(self).restore()

    @property
    def slow(self) -> SlowPath:
        """What reads all that is no message in order; made when first needed."""
        return _slow(self)

    @property
    def peers(self) -> Peers:
        """The ends of the connection, as known now."""
        return self._peers if self._made_slow is None else self._made_slow.peers

    @property
    def body_states(self) -> BodyStates:
        """What saves and loads the bodies of its messages."""
        return self._reader

    @property
    def buffered_bytes(self) -> int:
        """About how much memory pending requests and early responses take."""
        pending, slow = self.correlator.pending.size, self._made_slow
        if slow is None:
            return pending * PENDING_BYTES
        return slow.early.buffered_bytes + (pending + len(slow.one_way)) * PENDING_BYTES

    def is_settled(self) -> bool:
        """Return true if no loss is open and no early response waits for its request."""
        slow = self._made_slow
        return slow is None or not (slow.early.has_any() or slow.losses.is_waiting())

    def begin(self, in_sync: tuple[bool, bool]) -> ConnectionEvents:
        """Return the events of a connection that begins out of sync, or with missing bytes."""
        is_whole = all(in_sync) and not self.correlator.lost.requests
        return _slow(self).begin(in_sync, is_whole=is_whole)

    def lose(self, losses: list[SyncLoss], direction: int, events: ConnectionEvents) -> None:
        """Note where a direction lost sync, if it did."""
        if losses:
            slow = _slow(self)
            slow.lose(losses, direction, events)

    # -- requests ---------------------------------------------------------------------------------

    def add_request(self, cut: CutFrames, index: int, events: ConnectionEvents) -> None:
        """Read a frame of the client."""
        head, frame = cython.address(self._whole.last_head), cython.address(cut.items[index])
        slow = self._made_slow
        is_usual = slow is None or slow.request_state == IN_SYNC
        if is_usual and self._whole.head(cut, index, head):
            client_id = self._whole.client_id(cut, index, head)
        else:
            slow = _slow(self)
            header = slow.request_header(cut.frame(index), events)
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
            _follow_request(self, cut.frame(index), header, events)
            slow = self._made_slow
        peers = self._peers if slow is None else slow.peers
        request, number = message_of(frame), head.correlation_id
        exchange = exchange_of(peers, request, key, head.api_version, number, client_id)
        if frame.is_object and cut.frame(index).missing_bytes:
            slow = _slow(self)
            slow.losses.note_missing(cut.frame(index), self._client_index, exchange)
        exchange.one_way = self.bodies.read_request(
            cut, index, head, exchange, self._client_index, events
        )
        if slow is not None and slow.early.has_any():
            early = slow.early_response(exchange, events)
            if early is not None:
                exchange.previous_ns = early.previous_ns
                self._complete(exchange, _cut_of(early.frame), 0, events)
                return
        if exchange.one_way:
            slow = _slow(self)
            end_one_way(slow.one_way.add(exchange), completion_packet(frame), events)
        else:
            self._add_pending(exchange, events)

    def add_incomplete_request(self, frame: Frame, events: ConnectionEvents) -> None:
        """Read the header of a request that the stream ended within."""
        try:
            header = self._reader.request_header(frame)
        except WireError:
            return
        slow = _slow(self)
        login = slow.login
        if not slow.is_login() or login.may_be_request(header):
            api = header.api_key, header.api_version, header.correlation_id
            exchange = Exchange(login.peers, Message(frame), None, *api, header.client_id)
            exchange.anomalies.append(AnomalyKind.INCOMPLETE_FRAME)
            self._add_pending(exchange, events)

    def _add_pending(self, exchange: Exchange, events: ConnectionEvents) -> None:
        dropped = self.correlator.add(exchange)
        if dropped is not None:
            events.anomalies.append(exchange_anomaly(AnomalyKind.PENDING_LIMIT, dropped))
            _end_unanswered(dropped, self.correlator.lost, events)

    # -- responses --------------------------------------------------------------------------------

    def add_response(self, cut: CutFrames, index: int, events: ConnectionEvents) -> None:
        """Read a frame of the broker."""
        frame, slow = cython.address(cut.items[index]), self._made_slow
        if slow is not None and slow.response_state != IN_SYNC:
            slow.pass_losses(cut.frame(index), self._broker_index, events)
        previous_ns = self._previous_ns
        self._previous_ns = 0 if frame.last_packet == NO_PACKET else frame.last_ns
        correlation_id = self._whole.correlation_id(cut, index)
        if correlation_id == NO_ID:
            with suppress(WireError):
                correlation_id = self._reader.correlation_id(cut.frame(index))
        exchange = None
        if correlation_id != NO_ID:
            exchange = self._match(frame.start_packet, correlation_id, events)
            if exchange is None and slow is not None and slow.one_way.has_any():
                whole, checks = cut.frame(index), self._reader.checks
                exchange = slow.one_way.match(whole, correlation_id, checks)
        if exchange is None:
            slow = _slow(self)
            slow.add_unmatched(cut.frame(index), correlation_id, previous_ns, events)
            return
        exchange.previous_ns = previous_ns
        if slow is not None and (slow.early.has_any() or slow.one_way.has_any()):
            packet = completion_packet(frame)
            slow.pass_over(exchange.request, frame.stream_offset, packet, events)
        self._complete(exchange, cut, index, events)

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
            exchange.lost_ns = _lost_before(self, exchange)
            events.exchanges.append(exchange)

    def _match(self, packet: int, correlation_id: int, events: ConnectionEvents) -> Exchange | None:
        """Return the request of a response that begins in ``packet``; None if it is not certain."""
        if self.correlator.is_ambiguous():
            for dropped in self.correlator.drop_ambiguous(correlation_id, packet):
                _end_unanswered(dropped, self.correlator.lost, events)
        return self.correlator.match(correlation_id, packet)

    # -- completion -------------------------------------------------------------------------------

    def _complete(
        self, exchange: Exchange, cut: CutFrames, index: int, events: ConnectionEvents
    ) -> None:
        """Complete an exchange with its response."""
        direction, frame = self._broker_index, cython.address(cut.items[index])
        slow = self._made_slow
        request, response = exchange.request, message_of(frame)
        exchange.response = response
        if exchange.key == SASL_AUTHENTICATE:
            whole, slow = cut.frame(index), _slow(self)
            token = self._reader.fields.token_in_response(whole, exchange.key_version)
            events.token_bytes.append(slow.tokens.of_frame(whole, direction, *token))
        if request is not None:
            _check_order(self.correlator, exchange, request, response, events)
        if exchange.one_way:
            kind, tcp = AnomalyKind.UNSOLICITED_RESPONSE, exchange.peers.tcp
            anomaly = frame_anomaly(kind, tcp, cut.frame(index), direction, "", exchange)
            events.anomalies.append(anomaly)
        if frame.is_object and cut.frame(index).missing_bytes:
            slow = _slow(self)
            slow.losses.note_missing(cut.frame(index), direction, exchange)
        self.bodies.read_response(cut, index, exchange, direction, events)
        if slow is not None and slow.response_state != IN_SYNC and slow.is_login():
            slow.follow_response(exchange, cut.frame(index))
        exchange.lost_ns = _lost_before(self, exchange)
        events.exchanges.append(exchange)

    def expire(self, before_ns: int, events: ConnectionEvents) -> None:
        """Complete requests that expect no response, if they had waited too long by a Unix time."""
        slow = self._made_slow
        if slow is not None and slow.one_way.has_any():
            end_one_way(slow.one_way.expire(before_ns), None, events)

    def shed(self, events: ConnectionEvents) -> None:
        """Drop early responses and the older half of the pending requests."""
        slow = self._made_slow
        if slow is not None:
            slow.end_early(events)
        for exchange in self.correlator.drop_oldest(len(self.correlator.pending) // 2):
            events.anomalies.append(exchange_anomaly(AnomalyKind.PENDING_LIMIT, exchange))
            _end_unanswered(exchange, self.correlator.lost, events)
        if slow is not None:
            end_one_way(slow.one_way.drop_all(), None, events)

    def close(self, events: ConnectionEvents) -> None:
        """Complete all exchanges that are not complete: pending requests, early responses."""
        slow = self._made_slow
        if slow is not None:
            slow.close(events)
        for exchange in self.correlator.pending.pop_all():
            _end_unanswered(exchange, self.correlator.lost, events)

    # -- frames that continue in the next batch ---------------------------------------------------

    def trim_request(self, frame: Frame, events: ConnectionEvents) -> None:
        """Drop the unneeded bytes of an incomplete request; report where tokens may be."""
        if frame.buffered_bytes > frame.skim_above:
            with suppress(WireError):
                header = self._reader.request_header(frame)
                if not self.bodies.keeps_bytes(header.api_key):
                    api = header.api_key, header.api_version
                    self._reader.skim("request", frame, *api, header.body)
        if _slow(self).login.may_be_token(frame):
            _slow(self).suspect(frame, self._client_index, events)

    def trim_response(self, frame: Frame, events: ConnectionEvents) -> None:
        """As :meth:`trim_request`, for a response."""
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            slow = _slow(self)
            if slow.is_login() or frame.missing_bytes > 0:
                slow.suspect(frame, self._broker_index, events)
            return
        request = self.correlator.pending.oldest(correlation_id)
        if request is None or request.api_key == SASL_AUTHENTICATE:
            _slow(self).suspect(frame, self._broker_index, events)
        if request is None or request.api_key is None or frame.buffered_bytes <= frame.skim_above:
            return
        if not self.bodies.keeps_bytes(request.api_key):
            with suppress(WireError):
                api = request.api_key, request.api_version or 0
                self._reader.skim("response", frame, *api, None)


def _lost_before(builder: ExchangeBuilder, exchange: Exchange) -> int | None:
    slow = builder._made_slow
    return None if slow is None else slow.losses.lost_before(exchange)


def _follow_request(
    builder: ExchangeBuilder, frame: Frame, header: RequestHeader, events: ConnectionEvents
) -> None:
    """Follow a request that tells of the client, or may have a token."""
    slow = builder._made_slow
    if header.api_key != API_VERSIONS:
        slow = _slow(builder)
        slow.follow_request(frame, header, events)
        return
    software = builder._reader.fields.software(frame, header)
    if software is not None:
        builder._peers = builder.peers.with_software(*software)
        if slow is not None:
            slow.know(builder._peers)


def _slow(builder: ExchangeBuilder) -> SlowPath:
    if builder._made_slow is None:
        reader, locator = builder._reader, builder._locator
        parts = builder.correlator, builder.bodies
        builder._made_slow = SlowPath(
            builder._peers, builder._client_index, reader, locator, *parts
        )
    return builder._made_slow


def _cut_of(frame: Frame) -> CutFrames:
    """Return a frame as one that was cut."""
    cut = CutFrames()
    cut.add(frame)
    return cut


def _check_order(
    correlator: Correlator,
    exchange: Exchange,
    request: Message,
    response: Message,
    events: ConnectionEvents,
) -> None:
    """Report a response that came too early or too late."""
    if response.start_packet < request.start_packet:
        # Only packets are compared: which of the two was read first depends on the batches.
        kind = AnomalyKind.RESPONSE_BEFORE_REQUEST
        events.anomalies.append(exchange_anomaly(kind, exchange))
    asked, answered = request.stream_offset, response.stream_offset
    if correlator.follow_order(asked, answered):
        kind = AnomalyKind.RESPONSE_OUT_OF_ORDER
        events.anomalies.append(exchange_anomaly(kind, exchange))
    if not correlator.keeps_order or correlator.overtakes(asked):
        # This request was not held up by the one whose response came before.
        exchange.previous_ns = 0


def _end_unanswered(exchange: Exchange, lost: LostMessages, events: ConnectionEvents) -> None:
    """Complete a request whose response never came."""
    if lost.has_response_to(exchange):
        exchange.anomalies.append(AnomalyKind.LOST_BYTES)
    events.anomalies.append(exchange_anomaly(AnomalyKind.UNANSWERED_REQUEST, exchange))
    events.exchanges.append(exchange)
