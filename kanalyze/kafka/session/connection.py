"""One Kafka connection as a state machine: requests one way, responses the other, paired.

In: frames of both directions. Out: exchanges and anomalies. This module must not know how a
direction was found, nor of packets beyond their times and numbers.

Frames of the two directions are taken in the order in which they ended: a correlation id may be
used again as soon as its response has come.

Compiled by Cython, with the types in ``kafka.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.codec.values import Tape
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.framing.framer import FrameCutter
from kanalyze.kafka.session.connection_anomalies import PENDING_BYTES, Findings
from kanalyze.kafka.session.correlation import Pairing
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.kafka.session.message_reader import Body
from kanalyze.kafka.session.one_way import OneWayRequests
from kanalyze.kafka.session.resync import ResponseLocator, is_sane
from kanalyze.kafka.session.sasl import RawLogin, principal_of
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import end_of_two

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.session.exchange import NO_API, NO_VERSION, exchange_of, message_of
    from kanalyze.kafka.session.message_reader import (
        API_VERSIONS,
        PRODUCE,
        SASL_AUTHENTICATE,
        SASL_HANDSHAKE,
    )

    # Of a message, without its record data, that is read: values take up to 43 times as much
    # (measured over all messages). The metadata of 200,000 partitions takes about 10 MB.
    LARGEST_BODY_BYTES = 16 * 1024 * 1024

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.framing.headers import RequestHeader
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.resync import RequestLocator
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import StreamItem, TokenBytes
    from kanalyze.model.tcp import TcpConnection

__all__ = ["PATIENCE_BYTES", "KafkaConnection", "Keep"]

Keep: TypeAlias = "Callable[[int], bool]"
"""Tells of an API key whether the bytes of its messages are wanted."""

PATIENCE_BYTES = 1024 * 1024
"""Held back of a direction out of sync before a frame that is not all there is believed: few are
larger."""
_TOO_LARGE = Body(None, None, AnomalyKind.MEMORY_LIMIT, "a body that is too large to be read")
_MOST_EARLY_RESPONSES = 64
_MOST_EARLY_BYTES = 1024 * 1024
_PREFIX_BYTES = 4
_INT16 = struct.Struct(">h").unpack
_LONGEST_TOKEN_BYTES = 512 * 1024
"""Kafka's default for ``sasl.server.max.receive.size``."""
_NEVER = 1 << 62
"""A packet number after all others."""
_MOST_UNKNOWN_VERSION = 31
"""The highest version that a request of an unknown API is believed to have in place of a token."""
_KEY_AND_VERSION = struct.Struct(">hh").unpack


class KafkaConnection:
    """Reads and pairs what goes over one connection.

    The byte counters are those of :class:`~kanalyze.kafka.session.connection_anomalies.Findings`,
    and what was passed over while out of sync.
    """

    __slots__ = (
        "__weakref__",
        "_begun",
        "_client_side",
        "_done",
        "_early",
        "_early_bytes",
        "_findings",
        "_keep",
        "_locate",
        "_locate_response",
        "_login",
        "_losses",
        "_lost_ns",
        "_mechanism",
        "_one_way",
        "_pairing",
        "_reader",
        "_requests",
        "_responses",
        "_unread",
        "peers",
    )
    _LEFT_OUT = ("_begun", "_early_bytes", "_keep", "_locate", "_reader", "_unread")

    def __init__(
        self,
        peers: Peers,
        client_side: int,
        reader: MessageReader,
        locate: RequestLocator,
        *,
        in_sync: tuple[bool, bool],
        from_start: bool,
        keep: Keep | None = None,
        tokens_first: bool = False,
    ) -> None:
        """Make the state of a connection.

        Args:
            peers: the two ends.
            client_side: which direction (0 or 1) the requests come from.
            reader: reads headers and bodies.
            locate: finds requests after a loss; one for all connections.
            in_sync: by direction, whether its first byte begins a frame.
            from_start: whether the connection was seen from its handshake on.
            keep: tells of an API key whether the bytes of its messages are wanted; None: of none.
            tokens_first: SASL tokens come before the first request, with no handshake (0.9).
        """
        self.peers = peers
        self._client_side = client_side
        self._reader = reader
        self._locate = locate
        self._requests = FrameCutter(locate, in_sync=in_sync[client_side], smallest_bytes=8)
        self._locate_response = ResponseLocator(
            reader,
            self._waiting,
            patience_bytes=PATIENCE_BYTES,
            from_middle=not in_sync[1 - client_side],
        )
        self._responses = FrameCutter(
            self._locate_response,
            in_sync=in_sync[1 - client_side],
            smallest_bytes=4,
        )
        self._pairing = Pairing(from_start=from_start)
        self._one_way = OneWayRequests()
        self._early: list[tuple[Frame, int]] = []
        self._early_bytes = 0
        self._begun: list[Exchange] = []
        """The exchanges of the present feed."""
        self._unread: list[Frame] = []
        """Requests of the present feed, until the responses before them were read."""
        self._losses: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        """By direction: where in the stream sync was lost and when, until the next frame there is
        read."""
        if not in_sync[1 - client_side]:
            self._losses[1 - client_side].append((0, peers.tcp.first_time_ns))
        self._keep = keep
        self._mechanism: str | None = None
        self._login = RawLogin("GSSAPI") if tokens_first else None
        """While raw SASL tokens may come."""
        self._done: list[Exchange] = []
        self._findings = Findings(peers.tcp)
        for side in (0, 1):
            if not in_sync[side]:
                self._findings.hide_unread(side, 0)
        is_whole = from_start and all(in_sync)
        self._lost_ns = None if is_whole else peers.tcp.first_time_ns

    def state(self) -> State:
        """Return what :meth:`from_state` takes, between two batches."""
        login, reader = self._login, self._reader
        return (
            *(self._client_side, self.peers.state(), self._mechanism, self._lost_ns),
            *(self._requests.state(), self._responses.state(), self._locate_response.state()),
            *(self._pairing.state(reader), self._one_way.state(reader), self._findings.state()),
            tuple([(frame.state(), correlation_id) for frame, correlation_id in self._early]),
            *(tuple(self._losses[0]), tuple(self._losses[1])),
            None if login is None else login.state(),
            tuple([exchange.state(reader) for exchange in self._done]),
        )

    @classmethod
    def from_state(
        cls,
        state: object,
        tcp: TcpConnection,
        reader: MessageReader,
        locate: RequestLocator,
        keep: Keep | None,
    ) -> KafkaConnection:
        """Make one from a state; raises ValueError where that is none."""
        values = fields(state, "ntSItttttttttTt")
        client_side, said, mechanism, lost_ns = values[:4]
        end_of_two(client_side)
        peers = Peers(tcp, tcp.endpoints[client_side], tcp.endpoints[1 - client_side]).saying(said)
        made = cls(
            *(peers, client_side, reader, locate), in_sync=(True, True), from_start=True, keep=keep
        )
        made._mechanism, made._lost_ns = mechanism, lost_ns
        made._requests.load_state(values[4])
        made._responses.load_state(values[5])
        made._locate_response.load_state(values[6])
        made._pairing.load_state(values[7], peers, reader)
        made._one_way.load_state(values[8], peers, reader)
        made._findings.load_state(values[9])
        early, one, other, login, done = values[10:]
        for each in items(early, "t"):
            frame, correlation_id = fields(each, "ti")
            made._early.append((Frame.from_state(frame), correlation_id))
        made._early_bytes = sum([frame.held_bytes for frame, _ in made._early])
        made._losses = _losses_from_state(one), _losses_from_state(other)
        made._login = None if login is None else RawLogin.from_state(login)
        made._done = [Exchange.from_state(each, peers, reader) for each in items(done, "t")]
        return made

    @property
    def decoded_bytes(self) -> int:
        """Bytes of frames whose body was read to the end."""
        return self._findings.decoded_bytes

    @property
    def undecoded_bytes(self) -> int:
        """Bytes of frames whose body was not."""
        return self._findings.undecoded_bytes

    @property
    def skipped_bytes(self) -> int:
        """Bytes of both directions passed over while looking for a frame boundary."""
        return self._requests.skipped_bytes + self._responses.skipped_bytes

    @property
    def held_bytes(self) -> int:
        """About how much memory is taken by messages that have not ended or have no answer."""
        return (
            self._requests.held_bytes
            + self._responses.held_bytes
            + self._early_bytes
            + (len(self._pairing) + len(self._one_way)) * PENDING_BYTES
        )

    @property
    def client_side(self) -> int:
        """Which direction (0 or 1) the requests come from."""
        return self._client_side

    @property
    def is_in_step(self) -> bool:
        """Whether the next frame of either direction is known, and no loss is felt any more."""
        return (
            self._requests.is_at_frames
            and self._responses.is_at_frames
            and not (self._early or self._losses[0] or self._losses[1])
        )

    def in_flight(self, before_ns: int) -> list[Exchange]:
        """Return the requests that wait for their response.

        Those that came just now may not be read yet; those from before a time are.
        """
        if self._one_way:
            self._end_one_way(self._one_way.overdue(before_ns), None)
        return self._pairing.waiting() if len(self._pairing) else []

    def shed(self) -> None:
        """Let go of what takes memory; what is lost by that is an anomaly."""
        for cutter, side in (
            (self._requests, self._client_side),
            (self._responses, 1 - self._client_side),
        ):
            self._findings.shed(cutter, side)
        for frame, _ in self._early:
            self._orphan(frame)
        self._early.clear()
        self._early_bytes = 0
        for exchange in self._pairing.take_oldest(len(self._pairing) // 2):
            self._findings.of_exchange(AnomalyKind.PENDING_LIMIT, exchange)
            self._unanswered(exchange)
        self._end_one_way(self._one_way.take_all(), None)

    def feed(self, items: tuple[list[StreamItem], list[StreamItem]]) -> list[Exchange]:
        """Take in what was added to both directions; return the exchanges that are complete."""
        self._requests.feed(items[self._client_side])
        if self._requests.losses:
            self._note_losses(self._requests, self._client_side)
        self._unread = self._requests.take()
        self._responses.feed(items[1 - self._client_side])
        if self._responses.losses:
            self._note_losses(self._responses, 1 - self._client_side)
        self._in_order()
        if self._requests.partial is not None or self._responses.partial is not None:
            self._skim()
            self._hide_begun()
            self._requests.settle()
            self._responses.settle()
        self._settle()
        done, self._done = self._done, []
        return done

    @property
    def has_done(self) -> bool:
        """Whether exchanges ended that were not returned yet."""
        return bool(self._done)

    def take_done(self) -> list[Exchange]:
        """Return the exchanges that ended while nothing was fed."""
        done, self._done = self._done, []
        return done

    def close(self) -> list[Exchange]:
        """End the connection; return what is left: unanswered requests, orphaned responses."""
        self._requests.finish()
        self._unread = self._requests.take()
        self._responses.finish()
        self._in_order()
        for cutter, side in (
            (self._requests, self._client_side),
            (self._responses, 1 - self._client_side),
        ):
            frame = self._findings.incomplete(cutter, side)
            if frame is not None:
                self._incomplete(frame, side)
        for frame, _ in self._early:
            self._orphan(frame)
        self._early.clear()
        if self._losses[1 - self._client_side]:
            self._pairing.lose_responses(_NEVER)
        self._end_one_way(self._one_way.take_all(), None)
        for exchange in self._pairing.take_all():
            self._unanswered(exchange)
        self._locate_response.retire()
        done, self._done = self._done, []
        return done

    def take_anomalies(self) -> list[Anomaly]:
        """Return the anomalies found since the last call."""
        return self._findings.take()

    def take_tokens(self) -> list[TokenBytes]:
        """Return where tokens are, as far as that was found since the last call."""
        return self._findings.take_tokens()

    # -- the order of things ----------------------------------------------------------------------

    def _in_order(self) -> None:
        """Take the frames of both directions in the order of the packets they ended with."""
        requests, self._unread = self._unread, []
        position, count = 0, len(requests)
        for response in self._responses.take():
            ended = response.ended()
            while position < count:
                request = requests[position]
                if request.ended() >= ended:
                    break
                self._request(request)
                position += 1
            self._response(response)
        while position < count:
            self._request(requests[position])
            position += 1

    def _waiting(self) -> dict[int, set[tuple[int, int]]]:
        """Tell what answers may be found: all requests seen so far, but those answered."""
        self._note_losses(self._responses, 1 - self._client_side)
        self._in_order()
        return self._pairing.keys()

    def _skim(self) -> None:
        """Let large frames that go on in the next batch go of what nobody will read."""
        request, response = self._requests.partial, self._responses.partial
        with suppress(WireError):
            if request is not None and request.is_worth_skimming:
                header = self._reader.request_header(request)
                if not self._wants_bytes(header.api_key):
                    self._reader.skim_request(request, header)
        with suppress(WireError):
            if response is not None and response.is_worth_skimming:
                asked = self._pairing.oldest(self._reader.correlation_id(response))
                if asked is not None and asked.api_key is not None:
                    self._skim_response(response, asked.api_key, asked.api_version or 0)

    def _skim_response(self, frame: Frame, api_key: int, api_version: int) -> None:
        if not self._wants_bytes(api_key):
            self._reader.skim_response(frame, api_key, api_version)

    def _wants_bytes(self, api_key: int) -> bool:
        return self._keep is not None and self._keep(api_key)

    # -- requests ---------------------------------------------------------------------------------

    def _request(self, frame: Frame) -> None:
        if self._findings.has_unread:
            self._pass_losses(frame, self._client_side)
        if self._findings.has_begun:
            self._findings.show_ended(frame, self._client_side)
        reader = self._reader
        try:
            header = reader.request_header(frame)
        except WireError:
            if self._login is None or not self._is_token(self._login, frame, None):
                self._bad_request(frame)
            return
        if self._login is not None and not self._is_request_in_login(self._login, frame, header):
            return
        key = header.api_key
        if key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE):
            self._learn(frame, header)
        if key == SASL_AUTHENTICATE or not reader.knows(key):
            self._hide_in_request(frame, header)
        exchange = self._begin_exchange(frame, header)
        if key == PRODUCE and reader.acks(frame, header) == 0:
            exchange.one_way = True
        if self._early and self._answer_early(exchange):
            return
        if exchange.one_way:
            self._end_one_way(self._one_way.add(exchange), frame.ended())
        else:
            self._wait(exchange)

    def _settle(self) -> None:
        """Let requests of this feed that wait on go of the tape that many connections share."""
        waiting: list[Message] = []
        cells = arena_bytes = 0
        for index in range(len(self._begun)):
            exchange = self._begun[index]
            request = exchange.request
            if exchange.response is None and request is not None and request.taped is not None:
                waiting.append(request)
                cells += request.taped.cells
                arena_bytes += request.taped.arena_bytes
        if waiting:
            tape = Tape(cells, arena_bytes)
            for request in waiting:
                if request.taped is not None:
                    request.taped = request.taped.moved(tape)
        self._begun = []

    def _begin_exchange(self, frame: Frame, header: RequestHeader) -> Exchange:
        """Begin an exchange with a request that is read."""
        message = message_of(frame)
        exchange = self._exchange(message, header)
        self._begun.append(exchange)
        if frame.held_bytes > LARGEST_BODY_BYTES and self._is_too_large(frame, header.api_key):
            body = _TOO_LARGE
        else:
            body = self._reader.request_body(frame, header)
        self._take_body(frame, exchange, message, body, self._client_side)
        return exchange

    def _exchange(self, request: Message, header: RequestHeader) -> Exchange:
        return exchange_of(
            self.peers,
            request,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
        )

    def _wait(self, exchange: Exchange) -> None:
        dropped = self._pairing.ask(exchange)
        if dropped is not None:
            self._findings.of_exchange(AnomalyKind.PENDING_LIMIT, dropped)
            self._unanswered(dropped)

    def _take_given_up(self) -> None:
        for exchange in self._pairing.take_given_up():
            self._unanswered(exchange)

    def _is_too_large(self, frame: Frame, api_key: int) -> bool:
        """Tell whether reading a body could take memory out of all proportion.

        Record data counts where its bytes are wanted alone; else it was let go (:meth:`_skim`).
        """
        return frame.held_bytes > LARGEST_BODY_BYTES and not self._wants_bytes(api_key)

    def _take_body(
        self, frame: Frame, exchange: Exchange, message: Message, body: Body, side: int
    ) -> None:
        """Note what was read of a message's body, and what became of the frame."""
        message.taped, message.read_as = body.taped, body.read_as
        if self._keep is not None and exchange.key != NO_API and self._keep(exchange.key):
            message.data = _data(frame)
        if message.read_as == NO_VERSION:
            self._findings.undecoded_bytes += frame.length
        else:
            self._findings.decoded_bytes += frame.length
        if frame.missing_bytes:
            self._note_hole(frame, exchange)
        problem = body.problem
        if problem is not None:
            if problem in (AnomalyKind.MALFORMED_BODY, AnomalyKind.MISSING_BYTES):
                exchange.malformed = True
            self._findings.of_frame(problem, frame, side, body.detail, exchange)

    def _bad_request(self, frame: Frame) -> None:
        self._findings.hide(frame, self._client_side, _PREFIX_BYTES)
        self._findings.undecoded_bytes += frame.length
        kind = AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY
        self._findings.of_frame(kind, frame, self._client_side, "request header")

    def _learn(self, frame: Frame, header: RequestHeader) -> None:
        """Follow what requests say of the connection itself: software, login."""
        key = header.api_key
        if key == API_VERSIONS and header.api_version >= 3:
            found = self._reader.protocol_fields(
                frame, header, "ClientSoftwareName", "ClientSoftwareVersion"
            )
            if found is not None:
                name, version = found
                self.peers = self.peers.with_software(name, version)
        elif key == SASL_HANDSHAKE:
            found = self._reader.protocol_fields(frame, header, "Mechanism")
            self._mechanism = found[0] if found is not None else None
            if header.api_version == 0:
                self._login = RawLogin(self._mechanism)
        elif key == SASL_AUTHENTICATE:
            found = self._reader.protocol_fields(frame, header, "AuthBytes")
            if found is not None and self.peers.principal is None:
                self._learn_user(found[0])

    def _learn_user(self, token: bytes) -> None:
        principal = principal_of(self._mechanism, token)
        if principal is not None:
            self.peers = self.peers.with_principal(principal)

    # -- raw SASL tokens --------------------------------------------------------------------------

    def _is_request_in_login(self, login: RawLogin, frame: Frame, header: RequestHeader) -> bool:
        """Tell whether a frame with what may be a header is a request, while tokens may come.

        What else it is has been dealt with then.
        """
        view = _joined(frame)
        if view is not None and self._reader.check_request(view, header, frame.size):
            self._end_login(login)
            return True
        if self._is_token(login, frame, header):
            return False
        if self._may_be_request(header):
            return True
        self._bad_request(frame)
        return False

    def _is_token(self, login: RawLogin, frame: Frame, header: RequestHeader | None) -> bool:
        """Tell whether a frame of the client's is a token: its user is kept, nothing else.

        Something else ends the login. ``header`` is None where the frame has none.
        """
        may_be_request = self._may_begin(frame) if header is None else self._may_be_request(header)
        view = _joined(frame)
        token = None if view is None else bytes(view[4:])
        if not login.takes_request(
            token, may_be_request=may_be_request, is_lossy=self._pairing.is_lossy
        ):
            self._end_login(login)
            return False
        self._findings.hide(frame, self._client_side, _PREFIX_BYTES)
        self._findings.decoded_bytes += frame.length
        if self.peers.principal is None and token is not None:
            self._learn_user(token)
        return True

    def _end_login(self, login: RawLogin) -> None:
        login.end()
        if login.is_over:
            self._login = None

    def _may_begin(self, frame: Frame) -> bool:
        """Tell whether a frame without a header begins as one of a known API does."""
        try:
            head = frame.read(4, 4)
        except WireError:
            return False
        return self._locate.is_near(*_KEY_AND_VERSION(head))

    def _may_be_request(self, header: RequestHeader) -> bool:
        """Tell whether what was read as a header is likely to be one, of any API."""
        if not is_sane(header.client_id):
            return False
        if self._reader.knows(header.api_key):
            return self._locate.is_near(header.api_key, header.api_version)
        return header.api_key >= 0 and 0 <= header.api_version <= _MOST_UNKNOWN_VERSION

    def _is_brokers_token(self, frame: Frame) -> bool:
        """Tell whether a frame that answers no request is a token of the broker's."""
        login = self._login
        if login is None:
            return False
        view = _joined(frame)
        head = b"" if view is None else bytes(view[4:])
        is_token = login.takes_response(head, frame.size, is_lossy=self._pairing.requests_lost)
        if is_token:
            self._findings.hide(frame, 1 - self._client_side, _PREFIX_BYTES)
            self._findings.decoded_bytes += frame.length
            if login.is_over:
                self._login = None
        return is_token

    def _learn_answer(self, exchange: Exchange, frame: Frame) -> None:
        """Follow what answers say of a login: one that is refused has no tokens."""
        if exchange.api_key == SASL_HANDSHAKE and exchange.api_version == 0:
            found = self._reader.response_fields(frame, SASL_HANDSHAKE, 0, "ErrorCode")
            if found is not None and found[0] != 0:
                self._login = None
        elif self._login is not None:
            self._login.settle()
            if self._login.is_over:
                self._login = None

    # -- what nobody may keep ---------------------------------------------------------------------

    def _hide_in_request(self, frame: Frame, header: RequestHeader) -> None:
        """Note where a request holds a token; one of an API that nobody knows may be one."""
        if header.api_key == SASL_AUTHENTICATE:
            begin, end = self._reader.token_in_request(frame, header)
            self._findings.hide(frame, self._client_side, begin, end)
        else:
            self._findings.hide(frame, self._client_side, _PREFIX_BYTES)

    def _hide_in_response(self, frame: Frame, api_version: int) -> None:
        """Note where the response to a SaslAuthenticate request holds a token."""
        begin, end = self._reader.token_in_response(frame, api_version)
        self._findings.hide(frame, 1 - self._client_side, begin, end)

    def _hide_begun(self) -> None:
        """Note where messages that go on in the next batch may hold tokens."""
        request, response = self._requests.partial, self._responses.partial
        if request is not None and self._may_hold_token(request):
            self._findings.hide_begun(request, self._client_side, _PREFIX_BYTES)
        if response is not None and self._may_answer_login(response):
            self._findings.hide_begun(response, 1 - self._client_side, _PREFIX_BYTES)

    def _may_hold_token(self, request: Frame) -> bool:
        """Tell whether a request that has begun may hold a token, as far as it has come."""
        if self._login is not None:
            return True
        try:
            (api_key,) = _INT16(request.read(_PREFIX_BYTES, 2))
        except WireError:
            return request.missing_bytes > 0
        return api_key == SASL_AUTHENTICATE or not self._reader.knows(api_key)

    def _may_answer_login(self, response: Frame) -> bool:
        try:
            asked = self._pairing.oldest(self._reader.correlation_id(response))
        except WireError:
            return self._login is not None or response.missing_bytes > 0
        return asked is None or asked.api_key == SASL_AUTHENTICATE

    # -- responses --------------------------------------------------------------------------------

    def _response(self, frame: Frame) -> None:
        if self._findings.has_unread:
            self._pass_losses(frame, 1 - self._client_side)
        if self._findings.has_begun:
            self._findings.show_ended(frame, 1 - self._client_side)
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            self._bad_response(frame)
            return
        exchange = self._pairing.answer(correlation_id, frame.start_packet)
        if self._pairing.given_up:
            self._take_given_up()
        if exchange is None and self._one_way.is_waiting():
            exchange = self._one_way_request(frame, correlation_id)
        if exchange is not None:
            if self._early:
                self._orphan_earlier(frame)
            if self._one_way.is_waiting():
                self._pass_one_way(exchange, frame)
            self._answer(exchange, frame)
        elif not self._is_brokers_token(frame):
            self._keep_early(frame, correlation_id)

    def _one_way_request(self, frame: Frame, correlation_id: int) -> Exchange | None:
        """Return the request that a response is to though it wants none, if there is one."""
        exchange = self._one_way.oldest(correlation_id)
        if exchange is None or not self._is_answer(frame, exchange):
            return None
        self._one_way.answer(exchange)
        return exchange

    def _is_answer(self, frame: Frame, exchange: Exchange) -> bool:
        """Tell whether a response fits a request that wants none: its id alone may be luck."""
        key, version = exchange.api_key, exchange.api_version
        return (
            key is not None
            and version is not None
            and self._reader.confirms_response(frame, key, version)
        )

    def _pass_one_way(self, answered: Exchange, frame: Frame) -> None:
        """End the requests without a response before one that was answered."""
        if answered.request is not None:
            began, unsure_before = answered.request.start_packet, self._pairing.unsure_before
            self._end_one_way(self._one_way.pass_over(began, unsure_before), frame.ended())

    def _end_one_way(self, exchanges: list[Exchange], packet: int | None) -> None:
        """End requests that want no response and had none, as is known since ``packet``."""
        for exchange in exchanges:
            exchange.settled_packet = packet
            self._end(exchange)

    def _keep_early(self, frame: Frame, correlation_id: int) -> None:
        """Keep a response whose request may yet come: captured, or found after a loss, later."""
        frame.detach()
        self._findings.hide(frame, 1 - self._client_side, _PREFIX_BYTES + 4)
        self._early.append((frame, correlation_id))
        self._early_bytes += frame.held_bytes
        while len(self._early) > _MOST_EARLY_RESPONSES or self._early_bytes > _MOST_EARLY_BYTES:
            oldest, _ = self._early.pop(0)
            self._early_bytes -= oldest.held_bytes
            self._orphan(oldest)

    def _orphan_earlier(self, frame: Frame) -> None:
        """Give up kept responses before one whose request came.

        Responses come in the order of their requests (the protocol guide's "Network"): theirs
        would have come before it.
        """
        later = [kept for kept in self._early if kept[0].stream_offset > frame.stream_offset]
        for earlier, _ in self._early:
            if earlier.stream_offset <= frame.stream_offset:
                self._early_bytes -= earlier.held_bytes
                self._orphan(earlier)
        self._early = later

    def _answer_early(self, exchange: Exchange) -> bool:
        """Pair a request with a response that was read before it."""
        request = exchange.request
        began = request.start_packet if request is not None else 0
        for index, (frame, correlation_id) in enumerate(self._early):
            is_before = frame.start_packet < began
            # Where requests were lost, a response before the request is that of a lost one.
            if correlation_id != exchange.correlation_id or (
                is_before and self._pairing.requests_lost
            ):
                continue
            if exchange.one_way and not self._is_answer(frame, exchange):
                continue
            del self._early[index]
            self._early_bytes -= frame.held_bytes
            self._findings.hide(frame, 1 - self._client_side, 0, 0)
            self._answer(exchange, frame)
            return True
        return False

    def _answer(self, exchange: Exchange, frame: Frame) -> None:
        message = message_of(frame)
        exchange.response = message
        key, version = exchange.key, exchange.key_version
        if key == SASL_AUTHENTICATE:
            self._hide_in_response(frame, version)
        request = exchange.request
        if request is not None and frame.start_packet < request.start_packet:
            # By packets alone: which of the two was read first depends on where batches end.
            self._findings.of_exchange(AnomalyKind.RESPONSE_BEFORE_REQUEST, exchange)
        if exchange.one_way:
            kind = AnomalyKind.UNSOLICITED_RESPONSE
            self._findings.of_frame(kind, frame, 1 - self._client_side, "", exchange)
        if key != NO_API and version != NO_API:
            if frame.held_bytes > LARGEST_BODY_BYTES and self._is_too_large(frame, key):
                body = _TOO_LARGE
            else:
                body = self._reader.response_body(frame, key, version)
            self._take_body(frame, exchange, message, body, 1 - self._client_side)
        if self._login is not None:
            self._learn_answer(exchange, frame)
        self._end(exchange)

    def _orphan(self, frame: Frame) -> None:
        correlation_id = self._reader.correlation_id(frame)
        exchange = Exchange(self.peers, None, Message(frame), None, None, correlation_id, None)
        self._findings.undecoded_bytes += frame.length
        kind = AnomalyKind.ORPHAN_RESPONSE
        self._findings.of_frame(kind, frame, 1 - self._client_side, "", exchange)
        self._end(exchange)

    def _bad_response(self, frame: Frame) -> None:
        self._findings.hide(frame, 1 - self._client_side, _PREFIX_BYTES)
        if self._is_brokers_token(frame):
            return
        self._findings.undecoded_bytes += frame.length
        kind = AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY
        self._findings.of_frame(kind, frame, 1 - self._client_side, "correlation id")

    # -- what went wrong ---------------------------------------------------------------------------

    def _note_hole(self, frame: Frame, exchange: Exchange) -> None:
        """Say in the exchange that not all of it was seen, though it may be read all the same."""
        self._lose(frame.start_time_ns)
        for kind, size in (
            (AnomalyKind.LOST_BYTES, frame.lost_bytes),
            (AnomalyKind.SNAPPED_BYTES, frame.missing_bytes - frame.lost_bytes),
        ):
            if size and kind not in exchange.anomalies:
                exchange.anomalies.append(kind)

    def _note_losses(self, cutter: FrameCutter, side: int) -> None:
        for stream_offset, time_ns, _ in self._findings.losses(cutter, side):
            self._findings.hide_unread(side, stream_offset)
            if side == self._client_side:
                self._pairing.lose_requests()
            self._losses[side].append((stream_offset, time_ns))

    def _pass_losses(self, frame: Frame, side: int) -> None:
        """Note when a frame is the first one after a loss of sync."""
        if not self._findings.unread[side]:
            return
        self._findings.end_unread(side, frame.stream_offset)
        losses = self._losses[side]
        while losses and losses[0][0] <= frame.stream_offset:
            _, time_ns = losses.pop(0)
            self._lose(time_ns)
            if side != self._client_side:
                self._pairing.lose_responses(frame.start_packet)

    def _lose(self, time_ns: int) -> None:
        self._lost_ns = time_ns if self._lost_ns is None else max(self._lost_ns, time_ns)

    def _end(self, exchange: Exchange) -> None:
        exchange.lost_ns = self._lost_ns
        self._done.append(exchange)

    def _unanswered(self, exchange: Exchange) -> None:
        if self._pairing.may_be_lost(exchange):
            exchange.anomalies.append(AnomalyKind.LOST_BYTES)
        self._findings.of_exchange(AnomalyKind.UNANSWERED_REQUEST, exchange)
        self._end(exchange)

    def _incomplete(self, frame: Frame, side: int) -> None:
        """Take what a frame without an end still tells: its header, and when it began."""
        try:
            if side == self._client_side:
                header = self._reader.request_header(frame)
                if self._login is None or self._may_be_request(header):
                    self._incomplete_request(frame, header)
            else:
                self._incomplete_response(frame, self._reader.correlation_id(frame))
        except WireError:
            return

    def _incomplete_request(self, frame: Frame, header: RequestHeader) -> None:
        exchange = self._exchange(Message(frame), header)
        exchange.anomalies.append(AnomalyKind.INCOMPLETE_FRAME)
        self._wait(exchange)

    def _incomplete_response(self, frame: Frame, correlation_id: int) -> None:
        exchange = self._pairing.answer(correlation_id, frame.start_packet)
        self._take_given_up()
        if exchange is None:
            return
        exchange.response = Message(frame)
        exchange.malformed = True
        exchange.anomalies.append(AnomalyKind.INCOMPLETE_FRAME)
        self._end(exchange)


def _losses_from_state(state: object) -> list[tuple[int, int]]:
    losses = []
    for each in items(state, "t"):
        stream_offset, time_ns = fields(each, "ni")
        losses.append((stream_offset, time_ns))
    return losses


def _joined(frame: Frame) -> memoryview | None:
    """Return the bytes of a frame that may hold a token; None where some are missing."""
    if frame.missing_bytes or frame.size > _LONGEST_TOKEN_BYTES:
        return None
    return frame.read(0, frame.length)


def _data(frame: Frame) -> bytes | None:
    return None if frame.missing_bytes else bytes(frame.read(0, frame.length))
