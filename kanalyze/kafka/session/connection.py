"""One Kafka connection as a state machine: two streams in, exchanges out.

In: the streams of both directions. Out: exchanges, anomalies, positions of tokens
(:class:`ConnectionEvents`).

Frames of both directions are read in the order in which they were complete, because a correlation
id may be used again as soon as its response has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import FrameCutter
from kanalyze.kafka.session.connection_anomalies import incomplete_frame_anomaly, shed
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange_builder import ExchangeBuilder
from kanalyze.kafka.session.partial_messages import PartialMessages
from kanalyze.kafka.session.resync import ResponseLocator

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.batch_checks import BatchCounts
    from kanalyze.kafka.session.exchange import Exchange, Peers
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.resync import RequestLocator
    from kanalyze.model.streams import StreamItem

__all__ = ["MAX_UNCONFIRMED_BYTES", "KafkaConnection"]

MAX_UNCONFIRMED_BYTES = 1024 * 1024
"""How many bytes of a direction out of sync are buffered before an incomplete frame is accepted as
a frame. Few frames are larger."""


class KafkaConnection:
    """Reads and pairs the messages of one connection."""

    _NOT_SAVED = ("_partials",)
    _SAVED = Saved(
        "client_index:end _requests:here _responses:here _response_locator:here _builder:here"
    )

    def __init__(
        self,
        peers: Peers,
        client_index: int,
        reader: MessageReader,
        locator: RequestLocator,
        *,
        in_sync: tuple[bool, bool],
        from_start: bool,
        keep: KeepsBytes | None = None,
        tokens_first: bool = False,
    ) -> None:
        """Make the state of a connection.

        Args:
            peers: the two ends.
            client_index: which direction (0 or 1) the requests come from.
            reader: reads headers and bodies.
            locator: finds requests after a loss; one for all connections.
            in_sync: by direction, whether its first byte begins a frame.
            from_start: the connection was seen from its handshake on.
            keep: returns true for an API key if the bytes of its messages are kept; None keeps
                none.
            tokens_first: SASL tokens come before the first request, without a handshake (0.9).
        """
        self.client_index = client_index
        responses_in_sync = in_sync[1 - client_index]
        self._response_locator = ResponseLocator(
            reader, most_unconfirmed_bytes=MAX_UNCONFIRMED_BYTES, from_middle=not responses_in_sync
        )
        self._requests = FrameCutter(locator, in_sync=in_sync[client_index], smallest_bytes=8)
        self._responses = FrameCutter(
            self._response_locator, in_sync=responses_in_sync, smallest_bytes=4
        )
        self._builder = ExchangeBuilder(
            peers,
            client_index,
            reader,
            locator,
            from_start=from_start,
            keep=keep,
            tokens_first=tokens_first,
        )
        self._partials = PartialMessages(reader, self._builder)

    @property
    def peers(self) -> Peers:
        """The two ends, with their names and versions so far."""
        return self._builder.login.peers

    @property
    def decoded_bytes(self) -> int:
        """Bytes of frames whose body was read to the end."""
        return self._builder.bodies.decoded_bytes

    @property
    def undecoded_bytes(self) -> int:
        """Bytes of frames whose body was not read to the end."""
        return self._builder.bodies.undecoded_bytes

    @property
    def batches(self) -> BatchCounts:
        """Batches of records, and which of them were checked."""
        return self._builder.bodies.batches

    @property
    def skipped_bytes(self) -> int:
        """Bytes of both directions skipped while looking for a frame boundary."""
        return self._requests.skipped_bytes + self._responses.skipped_bytes

    @property
    def buffered_bytes(self) -> int:
        """About how much memory incomplete messages and pending requests take."""
        streams = self._requests.buffered_bytes + self._responses.buffered_bytes
        return streams + self._builder.buffered_bytes

    @property
    def is_in_sync(self) -> bool:
        """True if both directions are in sync, and no loss has an effect on later frames."""
        return self._requests.in_sync and self._responses.in_sync and self._builder.is_settled

    def in_flight(self) -> list[Exchange]:
        """Return the requests whose response is still to come."""
        correlator = self._builder.correlator
        return correlator.in_flight() if len(correlator) else []

    def begin(self) -> ConnectionEvents:
        """Return the events before the first bytes: a direction may begin out of sync."""
        both = self._requests.in_sync, self._responses.in_sync
        in_sync = both if self.client_index == 0 else both[::-1]
        is_whole = all(in_sync) and not self._builder.correlator.lost.requests
        return self._builder.losses.begin(in_sync, is_whole=is_whole)

    def expire(self, before_ns: int) -> ConnectionEvents:
        """Complete the requests that have waited for long; return the events."""
        events = ConnectionEvents()
        self._builder.expire(before_ns, events)
        return events

    def shed(self) -> ConnectionEvents:
        """Drop buffered bytes and requests; return the events, with what was lost."""
        events, tcp = ConnectionEvents(), self.peers.tcp
        events.anomalies += shed(self._requests, tcp, self.client_index)
        events.anomalies += shed(self._responses, tcp, 1 - self.client_index)
        self._builder.shed(events)
        return events

    def feed(self, items: tuple[list[StreamItem], list[StreamItem]]) -> ConnectionEvents:
        """Read the new items of both directions; return the events."""
        events = ConnectionEvents()
        cut = self._requests.feed(items[self.client_index])
        if cut.losses:
            self._builder.losses.add(cut.losses, self.client_index, events)
        self._feed_responses(items[1 - self.client_index], cut.frames, events)
        request, response = self._requests.partial.frame, self._responses.partial.frame
        if request is not None:
            self._partials.add_request(request, self.client_index, events)
            request.detach()
        if response is not None:
            self._partials.add_response(response, 1 - self.client_index, events)
            response.detach()
        self._builder.bodies.detach_pending()
        return events

    def close(self) -> ConnectionEvents:
        """End the connection; return pending requests, and responses without a request."""
        events = ConnectionEvents()
        requests = self._requests.finish()
        if self._responses.needs_locator:
            self._pair(requests.frames, [], events)
            requests.frames = []
            self._response_locator.expect(self._builder.correlator.pending_apis())
        responses = self._responses.finish()
        self._builder.losses.add(requests.losses, self.client_index, events)
        self._builder.losses.add(responses.losses, 1 - self.client_index, events)
        self._pair(requests.frames, responses.frames, events)
        request = self._end_within(self._requests, self.client_index, events)
        if request is not None:
            self._builder.add_incomplete_request(request, events)
        response = self._end_within(self._responses, 1 - self.client_index, events)
        if response is not None:
            self._builder.add_incomplete_response(response, events)
        self._builder.close(events)
        return events

    def _feed_responses(
        self, items: list[StreamItem], requests: list[Frame], events: ConnectionEvents
    ) -> None:
        """Cut responses, and pair all frames.

        A search for responses looks for the ids of pending requests: those have to be known first.
        """
        cutter = self._responses
        responses: list[Frame] = []
        while True:
            if items and cutter.needs_locator:
                self._pair(requests, responses, events)
                requests, responses = [], []
                self._response_locator.expect(self._builder.correlator.pending_apis())
            cut = cutter.feed_until_loss(items)
            if cut.losses:
                self._builder.losses.add(cut.losses, 1 - self.client_index, events)
            responses = responses + cut.frames if responses else cut.frames
            items = cut.rest
            if not items:
                break
        self._pair(requests, responses, events)

    def _pair(
        self, requests: list[Frame], responses: list[Frame], events: ConnectionEvents
    ) -> None:
        """Read frames of both directions in the order of the packets that completed them."""
        builder = self._builder
        position, count = 0, len(requests)
        for response in responses:
            completed = response.completion_packet()
            while position < count:
                request = requests[position]
                if request.completion_packet() >= completed:
                    break
                builder.add_request(request, events)
                position += 1
            builder.add_response(response, events)
        while position < count:
            builder.add_request(requests[position], events)
            position += 1

    def _end_within(
        self, cutter: FrameCutter, direction: int, events: ConnectionEvents
    ) -> Frame | None:
        """Report the frame that a direction ends within, and return it; None if there is none."""
        frame, seen_bytes = cutter.partial.frame, cutter.partial.seen_bytes
        if frame is not None:
            self._builder.bodies.undecoded_bytes += seen_bytes
            anomaly = incomplete_frame_anomaly(self.peers.tcp, frame, seen_bytes, direction)
            events.anomalies.append(anomaly)
        return frame
