"""One connection of Kafka 0.7 as a state machine: responses answer requests in their order.

In: frames of both directions. Out: exchanges and anomalies. This module must not know how the
connection was found to be of Kafka 0.7, nor of packets beyond their times and numbers.

Without correlation ids a pairing is certain only while no frame of either direction was lost. After
a loss, and in a capture that begins in the middle, nothing is paired: requests are unanswered and
responses are orphans, until a consumer's own words prove which response answers what. Offsets are
positions in bytes: the FETCH that follows an answer asks from where that answer ended.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.codec.failures import NOT_ALL_THERE
from kanalyze.kafka.framing.framer import FrameCutter
from kanalyze.kafka.session.connection_anomalies import PENDING_BYTES, Findings
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.kafka.v07.messages import (
    FetchPart07,
    Request07,
    RequestType,
    parse_request,
    parse_response,
    request_from_state,
    request_state,
    response_from_state,
    response_state,
)
from kanalyze.kafka.v07.records import COUNTING_LIMITS
from kanalyze.kafka.v07.resync import Request07Locator, Response07Locator
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.tcp import end_of_two

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.connection import Keep
    from kanalyze.kafka.v07.messages import Response07
    from kanalyze.model.streams import StreamItem
    from kanalyze.model.tcp import TcpConnection

__all__ = ["WIRE", "Kafka07Connection"]

WIRE = "kafka-0.7"
_MOST_PENDING = 10_000
_SMALLEST_REQUEST_BYTES = 2
_SMALLEST_RESPONSE_BYTES = 2
_LIKE = (0, 1, 1, 0, 2)
"""By request type, the key of the later API that it is like: Produce, Fetch, ListOffsets."""


class _Guess(NamedTuple):
    """A request and a response that may be its answer; the next request will tell."""

    exchange: Exchange
    request: Request07
    response: Exchange
    """The response as an orphan."""
    values: Response07
    next_offset: int
    """Where the request after it begins to read, if it is the answer."""

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(self.exchange.state(_BODIES), request_state(self.request)),
            *(self.response.state(_BODIES), response_state(self.values), self.next_offset),
        )

    @classmethod
    def from_state(cls, state: object, peers: Peers) -> _Guess:
        """Make one from a state; raises ValueError where that is none."""
        exchange, request, response, values, next_offset = fields(state, "ttttn")
        made = cls(
            Exchange.from_state(exchange, peers, _BODIES),
            request_from_state(request),
            Exchange.from_state(response, peers, _BODIES),
            response_from_state(values),
            next_offset,
        )
        if not made.request.parts:
            raise ValueError("a guess about nothing")
        return made


class _Bodies:
    """What was read of bodies, as :class:`~kanalyze.kafka.session.exchange.Bodies`."""

    @staticmethod
    def body_state(
        message: Message,
        api_key: int | None,  # noqa: ARG004 - bodies of Kafka 0.7 say of themselves what they are
        kind: Literal["request", "response"],
    ) -> State | None:
        """Return what was read; None where nothing was."""
        values = message.values
        if values is None:
            return None
        return request_state(values) if kind == "request" else response_state(values)

    @staticmethod
    def take_up_body(
        message: Message,
        state: object,
        api_key: int | None,  # noqa: ARG004 - as above
        kind: Literal["request", "response"],
    ) -> None:
        """Give it to a message again."""
        if state is not None:
            read = request_from_state if kind == "request" else response_from_state
            message.values = read(state)


_BODIES = _Bodies()


class Kafka07Connection:
    """Reads and pairs what goes over one connection; counters as those of ``KafkaConnection``."""

    _LEFT_OUT = ("_keep",)

    def __init__(
        self,
        peers: Peers,
        client_side: int,
        *,
        in_sync: tuple[bool, bool],
        from_start: bool,
        keep: Keep | None = None,
    ) -> None:
        """Make the state of a connection.

        Args:
            peers: the two ends.
            client_side: which direction (0 or 1) the requests come from.
            in_sync: by direction, whether its first byte begins a frame.
            from_start: whether the connection was seen from its handshake on.
            keep: tells of an API key whether the bytes of its messages are wanted: it is asked for
                a request's type, and for the key of the later API that the type is like.
        """
        self.peers = peers
        self._keep = keep
        self._client_side = client_side
        self._requests = FrameCutter(
            Request07Locator(),
            in_sync=in_sync[client_side],
            smallest_bytes=_SMALLEST_REQUEST_BYTES,
        )
        self._responses = FrameCutter(
            Response07Locator(),
            in_sync=in_sync[1 - client_side],
            smallest_bytes=_SMALLEST_RESPONSE_BYTES,
        )
        self._certain = from_start and all(in_sync)
        self._pending: deque[tuple[Exchange, Request07 | None]] = deque()
        self._guess: _Guess | None = None
        self._done: list[Exchange] = []
        self._findings = Findings(peers.tcp)

    def state(self) -> State:
        """Return what :meth:`from_state` takes, between two batches."""
        return (
            *(self._client_side, self.peers.state(), self._certain),
            *(self._requests.state(), self._responses.state(), self._findings.state()),
            tuple(
                [
                    (exchange.state(_BODIES), None if request is None else request_state(request))
                    for exchange, request in self._pending
                ]
            ),
            None if self._guess is None else self._guess.state(),
            tuple([exchange.state(_BODIES) for exchange in self._done]),
        )

    @classmethod
    def from_state(cls, state: object, tcp: TcpConnection, keep: Keep | None) -> Kafka07Connection:
        """Make one from a state; raises ValueError where that is none."""
        values = fields(state, "ntbttttTt")
        client_side, said, certain, requests, responses, findings, pending, guess, done = values
        end_of_two(client_side)
        peers = Peers(tcp, tcp.endpoints[client_side], tcp.endpoints[1 - client_side]).saying(said)
        made = cls(peers, client_side, in_sync=(True, True), from_start=certain, keep=keep)
        made._requests.load_state(requests)
        made._responses.load_state(responses)
        made._findings.load_state(findings)
        for each in items(pending, "t"):
            exchange, request = fields(each, "tT")
            known = None if request is None else request_from_state(request)
            made._pending.append((Exchange.from_state(exchange, peers, _BODIES), known))
        made._guess = None if guess is None else _Guess.from_state(guess, peers)
        made._done = [Exchange.from_state(each, peers, _BODIES) for each in items(done, "t")]
        return made

    @property
    def decoded_bytes(self) -> int:
        """Bytes of frames that were read to the end."""
        return self._findings.decoded_bytes

    @property
    def undecoded_bytes(self) -> int:
        """Bytes of frames that were not."""
        return self._findings.undecoded_bytes

    @property
    def skipped_bytes(self) -> int:
        """Bytes of both directions passed over while looking for a frame boundary."""
        return self._requests.skipped_bytes + self._responses.skipped_bytes

    @property
    def held_bytes(self) -> int:
        """About how much memory is taken by messages that have not ended or have no answer."""
        held = self._requests.held_bytes + self._responses.held_bytes
        return held + len(self._pending) * PENDING_BYTES

    def shed(self) -> None:
        """Let go of what takes memory; what is lost by that is an anomaly."""
        self._findings.shed(self._requests, self._client_side)
        self._findings.shed(self._responses, 1 - self._client_side)
        self._lose()

    def feed(self, items: tuple[list[StreamItem], list[StreamItem]]) -> list[Exchange]:
        """Take in what was added to both directions; return the exchanges that are complete."""
        self._requests.feed(items[self._client_side])
        self._responses.feed(items[1 - self._client_side])
        losses = self._losses()
        for ended, side, frame in self._in_order():
            while losses and ended >= losses[0]:
                self._lose()
                losses.popleft()
            if side == self._client_side:
                self._request(frame)
            else:
                self._response(frame)
        if losses:
            self._lose()
        self._requests.settle()
        self._responses.settle()
        done, self._done = self._done, []
        return done

    def close(self) -> list[Exchange]:
        """End the connection; return what is left: requests without an answer."""
        self._findings.incomplete(self._requests, self._client_side)
        self._findings.incomplete(self._responses, 1 - self._client_side)
        self._lose()
        done, self._done = self._done, []
        return done

    def take_anomalies(self) -> list[Anomaly]:
        """Return the anomalies found since the last call."""
        return self._findings.take()

    # -- order and certainty ----------------------------------------------------------------------

    def _in_order(self) -> list[tuple[int, int, Frame]]:
        """Return the frames of both directions by the packets that they ended with."""
        frames = [(_ended(frame), self._client_side, frame) for frame in self._requests.take()]
        frames += [
            (_ended(frame), 1 - self._client_side, frame) for frame in self._responses.take()
        ]
        frames.sort(key=lambda item: item[0])
        return frames

    def _losses(self) -> deque[int]:
        """Note the losses of this batch; return the packets that came after them, in order."""
        losses = self._findings.losses(self._requests, self._client_side)
        losses += self._findings.losses(self._responses, 1 - self._client_side)
        return deque(sorted(packet for _, _, packet in losses))

    def _lose(self) -> None:
        """Give up what waits: which answer is whose cannot be told any more."""
        self._certain = False
        self._drop_guess()
        while self._pending:
            self._unanswered(self._pending.popleft()[0])

    def _drop_guess(self) -> None:
        guess, self._guess = self._guess, None
        if guess is not None:
            self._unanswered(guess.exchange)
            self._orphan(guess.response)

    def _prove(self, request: Request07) -> None:
        """See whether a request goes on where the guessed answer to the one before it ended."""
        guess = self._guess
        if guess is None:
            return
        before = guess.request.parts[0]
        goes_on = before._replace(offset=guess.next_offset, max_size=None)
        if [part._replace(max_size=None) for part in request.parts] != [goes_on]:
            self._drop_guess()
            return
        self._guess = None
        self._certain = True
        guess.exchange.response = guess.response.response
        self._finish(guess.exchange, guess.values)

    # -- requests ---------------------------------------------------------------------------------

    def _request(self, frame: Frame) -> None:
        message = Message(frame)
        exchange = Exchange(self.peers, message, None, None, None, None, None, wire=WIRE)
        request = self._read_request(frame, exchange)
        if request is None:
            # Not even its type is sure: whether an answer is due is not known.
            self._lose()
            self._hold(frame, message, exchange.api_key)
            self._unanswered(exchange)
            return
        if request.parts:
            message.values, message.version = request, 0
        self._hold(frame, message, exchange.api_key)
        self._prove(request)
        if not request.type.is_answered:
            exchange.one_way = True
            self._done.append(exchange)
            return
        if not self._certain:
            # Of several that wait, none can be guessed to be the one that is answered.
            while self._pending:
                self._unanswered(self._pending.popleft()[0])
        self._pending.append((exchange, request))
        if len(self._pending) > _MOST_PENDING:
            self._findings.of_frame(AnomalyKind.PENDING_LIMIT, frame, self._client_side)
            self._lose()

    def _read_request(self, frame: Frame, exchange: Exchange) -> Request07 | None:
        side = self._client_side
        if frame.missing_bytes:
            self._bad(AnomalyKind.MISSING_BYTES, frame, side, exchange, NOT_ALL_THERE)
            return self._head_of(frame, exchange)
        try:
            request = parse_request(frame.read(0, frame.length), COUNTING_LIMITS)
        except WireError as error:
            self._bad(AnomalyKind.MALFORMED_BODY, frame, side, exchange, str(error))
            return None
        self._findings.decoded_bytes += frame.length
        exchange.api_key, exchange.api_version = int(request.type), 0
        if any(part.messages and part.messages.bad_checksums for part in request.parts):
            self._findings.of_frame(AnomalyKind.MALFORMED_BODY, frame, side, "checksum", exchange)
        return request

    @staticmethod
    def _head_of(frame: Frame, exchange: Exchange) -> Request07 | None:
        """Return a request with holes by its type alone."""
        try:
            number = int.from_bytes(frame.read(4, 2), "big")
            kind = RequestType(number)
        except (WireError, ValueError):
            return None
        exchange.api_key, exchange.api_version = number, 0
        return Request07(kind, ())

    # -- responses --------------------------------------------------------------------------------

    def _response(self, frame: Frame) -> None:
        orphan = Exchange(self.peers, None, Message(frame), None, None, None, None, wire=WIRE)
        if not self._pending or self._guess is not None:
            self._no_request(frame, orphan)
            return
        exchange, request = self._pending.popleft()
        self._hold(frame, orphan.response, exchange.api_key)
        values, problem = (None, "") if request is None else self._read_response(frame, request)
        if self._certain:
            exchange.response = orphan.response
            self._answer(frame, exchange, values, problem)
        elif values is None or request is None or not self._can_be_guessed(request, values):
            self._findings.undecoded_bytes += frame.length
            self._unanswered(exchange)
            self._orphan(orphan)
        else:
            self._findings.decoded_bytes += frame.length
            part = values[0]
            assert isinstance(part, FetchPart07)
            offset = (request.parts[0].offset or 0) + part.messages.whole_bytes
            self._guess = _Guess(exchange, request, orphan, values, offset)

    def _no_request(self, frame: Frame, orphan: Exchange) -> None:
        """Take a response that no known request is left for: one was lost, or never seen."""
        self._findings.undecoded_bytes += frame.length
        self._lose()
        self._orphan(orphan)

    @staticmethod
    def _can_be_guessed(request: Request07, values: Response07) -> bool:
        if request.type != RequestType.FETCH or not request.parts:
            return False
        part = values[0]
        return isinstance(part, FetchPart07) and part.messages.whole_bytes > 0

    @staticmethod
    def _read_response(frame: Frame, request: Request07) -> tuple[Response07 | None, str]:
        """Return what a response says, or None and why it cannot be read."""
        if frame.missing_bytes:
            return None, NOT_ALL_THERE
        if not request.parts:
            return None, ""
        try:
            return parse_response(frame.read(0, frame.length), request, COUNTING_LIMITS), ""
        except WireError as error:
            return None, str(error)

    def _answer(
        self, frame: Frame, exchange: Exchange, values: Response07 | None, problem: str
    ) -> None:
        side = 1 - self._client_side
        if values is None:
            kind = AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY
            self._bad(kind, frame, side, exchange, problem)
        else:
            self._findings.decoded_bytes += frame.length
            if any(isinstance(p, FetchPart07) and p.messages.bad_checksums for p in values):
                self._findings.of_frame(
                    AnomalyKind.MALFORMED_BODY, frame, side, "checksum", exchange
                )
        self._finish(exchange, values)

    def _hold(self, frame: Frame, message: Message | None, kind: int | None) -> None:
        """Keep the bytes of a message where they are wanted and all there."""
        if self._keep is None or message is None or kind is None or frame.missing_bytes:
            return
        if self._keep(kind) or self._keep(_LIKE[kind]):
            message.data = bytes(frame.read(0, frame.length))

    def _finish(self, exchange: Exchange, values: Response07 | None) -> None:
        if exchange.response is not None and values is not None:
            exchange.response.values, exchange.response.version = values, 0
        self._done.append(exchange)

    # -- what went wrong ---------------------------------------------------------------------------

    def _bad(
        self, kind: AnomalyKind, frame: Frame, side: int, exchange: Exchange, detail: str
    ) -> None:
        self._findings.undecoded_bytes += frame.length
        exchange.malformed = True
        self._findings.of_frame(kind, frame, side, detail, exchange)

    def _unanswered(self, exchange: Exchange) -> None:
        self._findings.of_exchange(AnomalyKind.UNANSWERED_REQUEST, exchange)
        self._done.append(exchange)

    def _orphan(self, exchange: Exchange) -> None:
        self._findings.of_exchange(AnomalyKind.ORPHAN_RESPONSE, exchange)
        self._done.append(exchange)


def _ended(frame: Frame) -> int:
    """Return the packet a frame ended with; the one it began with where its end was lost."""
    return frame.start_packet if frame.end_packet is None else frame.end_packet
