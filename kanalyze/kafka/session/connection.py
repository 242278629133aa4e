"""One Kafka connection as a state machine: two streams in, exchanges out.

In: the streams of both directions. Out: exchanges, anomalies, positions of tokens
(:class:`ConnectionEvents`).

Frames of both directions are read in the order in which they were complete, because a correlation
id may be used again as soon as its response has come. After a loss the next frame is searched in
small steps (:class:`LossSteps`). The bytes before the loss, and those after the frame that was
found, are most of a batch and are read as usual.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import CutFrames, FrameCutter
from kanalyze.kafka.session.events import ConnectionEvents, incomplete_frame_anomaly, shed
from kanalyze.kafka.session.exchange_builder import ExchangeBuilder
from kanalyze.kafka.session.resync import ResponseLocator
from kanalyze.model.streams import Chunk, Gap

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import cython  # addresses of structs are the structs
    from kanalyze.common.compiled import nothing_kept as prefetch_message
    from kanalyze.kafka.framing.frame import AHEAD
    from kanalyze.kafka.framing.framer import completion_packet

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.batch_checks import BatchCounts
    from kanalyze.kafka.session.exchange import Exchange, Peers
    from kanalyze.kafka.session.message_reader import KeepsBytes, MessageReader
    from kanalyze.kafka.session.resync import RequestLocator
    from kanalyze.model.streams import StreamItem

BothItems: TypeAlias = "tuple[list[StreamItem], list[StreamItem]]"
"""The items of both directions, each in stream order."""

_AFTER_ALL = 1 << 62
"""A packet number above all others."""


def payload_bytes(items: BothItems) -> int:
    """Return how many bytes of payload there are."""
    total = 0
    for direction in items:
        for item in direction:
            if not isinstance(item, Gap):
                segments = item.segments
                for index in range(item.first, item.last):
                    total += segments.lengths[index]
    return total


def has_loss(items: BothItems) -> bool:
    """Return true if bytes are missing among the items."""
    for direction in items:
        for item in direction:
            if isinstance(item, Gap):
                return True
    return False


class LossSteps:
    """Takes the items of both directions in steps, in the order of their packets.

    No step has a loss and then another one: what a loss changes is known to everything before the
    next one, however many packets are in a batch.
    """

    def __init__(self, items: BothItems) -> None:
        self._streams = (_SteppedStream(items[0]), _SteppedStream(items[1]))
        self._losses = sorted(
            [item.packet for stream in items for item in stream if isinstance(item, Gap)]
        )
        """The first packet after each loss."""
        self._taken_losses = 0

    def has_any(self) -> bool:
        """Return true if there are items left."""
        return any(stream.has_any() for stream in self._streams)

    def is_at_loss(self) -> bool:
        """Return true if the next item is a loss."""
        return bisect_right(self._losses, self._first_packet()) > self._taken_losses

    def to_loss(self) -> BothItems:
        """Take all items before the next loss; at a loss, those before the one after it."""
        return self._take(self._last_before_loss())

    def about(self, segments: int) -> BothItems:
        """Take so many segments, or all before the next loss; at a loss, that loss first.

        At a loss, only segments of the direction with the loss count. The other direction is taken
        up to the same packet.
        """
        last = self._last_before_loss()
        found = [stream.about(segments, last) for stream in self._streams if stream.has_any()]
        lossy = [packet for packet, is_lossy in found if is_lossy]
        return self._take(max(lossy or [packet for packet, _ in found]))

    def _first_packet(self) -> int:
        return min([stream.first_packet() for stream in self._streams])

    def _last_before_loss(self) -> int:
        """Return the last packet before the next loss that the next item is not part of."""
        index = bisect_right(self._losses, self._first_packet())
        return self._losses[index] - 1 if index < len(self._losses) else _AFTER_ALL

    def _take(self, last_packet: int) -> BothItems:
        first, second = (stream.take(last_packet) for stream in self._streams)
        self._taken_losses += sum([isinstance(item, Gap) for item in (*first, *second)])
        return first, second


class _SteppedStream:
    """The items of one direction, from the first that was not taken on."""

    def __init__(self, items: list[StreamItem]) -> None:
        self._items = list(items)
        self._at = 0

    def has_any(self) -> bool:
        return self._at < len(self._items)

    def first_packet(self) -> int:
        """Return the packet of the next item; one after all others if there is none."""
        if not self.has_any():
            return _AFTER_ALL
        item = self._items[self._at]
        return item.packet if isinstance(item, Gap) else item.segments.packet[item.first]

    def about(self, segments: int, last_packet: int) -> tuple[int, bool]:
        """Return the latest packet of so many segments, and whether a loss is among them.

        Segments count from the loss on. None of them is after ``last_packet``.
        """
        latest, is_lossy, left = -1, False, segments
        for index in range(self._at, len(self._items)):
            item = self._items[index]
            if isinstance(item, Gap):
                if item.packet > last_packet:
                    break
                latest, is_lossy, left = max(latest, item.packet), True, segments
                continue
            packets = item.segments.packet[item.first : min(item.last, item.first + left)]
            for packet in packets:
                if packet > last_packet:
                    return latest, is_lossy
                latest = max(latest, packet)
            left -= len(packets)
            if not left:
                break
        return latest, is_lossy

    def take(self, last_packet: int) -> list[StreamItem]:
        """Take the items before the first packet that is after ``last_packet``."""
        taken: list[StreamItem] = []
        while self._at < len(self._items):
            item = self._items[self._at]
            if isinstance(item, Gap):
                if item.packet > last_packet:
                    break
            else:
                packets, end = item.segments.packet, item.first
                while end < item.last and packets[end] <= last_packet:
                    end += 1
                if end < item.last:
                    if end > item.first:
                        before, self._items[self._at] = _cut(item, end)
                        taken.append(before)
                    break
            taken.append(item)
            self._at += 1
        return taken


def _cut(chunk: Chunk, index: int) -> tuple[Chunk, Chunk]:
    """Cut a chunk before the segment at ``index``, which is within it."""
    segments = chunk.segments
    offset = chunk.stream_offset + sum(segments.length[chunk.first : index])
    before = Chunk(chunk.stream_offset, segments, chunk.first, index)
    return before, Chunk(offset, segments, index, chunk.last)


class KafkaConnection:
    """Reads and pairs the messages of one connection."""

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
        self._response_locator = ResponseLocator(reader, not responses_in_sync)
        self._requests = FrameCutter(locator, in_sync=in_sync[client_index], smallest_bytes=8)
        self._responses = FrameCutter(
            self._response_locator, in_sync=responses_in_sync, smallest_bytes=4
        )
        self._builder = ExchangeBuilder(
            peers,
            client_index,
            reader,
            locator,
            from_start,
            keep,
            tokens_first,
        )

    @property
    def peers(self) -> Peers:
        """The two ends, with their names and versions so far."""
        return self._builder.peers

    @property
    def decoded_bytes(self) -> int:
        """Bytes of frames whose body was read to the end."""
        return self._builder.bodies.decoded_bytes

    @property
    def undecoded_bytes(self) -> int:
        """Bytes of frames whose body was not read to the end."""
        return self._builder.bodies.undecoded_bytes

    @property
    def batches(self) -> BatchCounts | None:
        """Batches of records, and which of them were checked; None if there were none."""
        return self._builder.bodies.counted_batches()

    @property
    def skipped_bytes(self) -> int:
        """Bytes of both directions skipped while looking for a frame boundary."""
        return self._requests.skipped_bytes + self._responses.skipped_bytes

    @property
    def buffered_bytes(self) -> int:
        """About how much memory incomplete messages and pending requests take."""
        streams = self._requests.buffered_bytes + self._responses.buffered_bytes
        return streams + self._builder.buffered_bytes

    def is_in_sync(self) -> bool:
        """Return true if both directions are in sync, and no loss has an effect on later frames."""
        in_sync = self._requests.is_in_sync() and self._responses.is_in_sync()
        return in_sync and self._builder.is_settled()

    def in_flight(self) -> list[Exchange]:
        """Return the requests whose response is still to come."""
        return self._builder.correlator.in_flight()

    def begin(self) -> ConnectionEvents:
        """Return the events before the first bytes: a direction may begin out of sync."""
        both = self._requests.is_in_sync(), self._responses.is_in_sync()
        return self._builder.begin(both if self.client_index == 0 else both[::-1])

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
        self._builder.lose(cut.losses, self.client_index, events)
        self._feed_responses(items[1 - self.client_index], cut, events)
        request, response = self._requests.partial_frame(), self._responses.partial_frame()
        if request is not None:
            self._builder.trim_request(request, events)
            request.detach()
        if response is not None:
            self._builder.trim_response(response, events)
            response.detach()
        self._builder.bodies.detach_pending()
        return events

    def close(self) -> ConnectionEvents:
        """End the connection; return pending requests, and responses without a request."""
        events = ConnectionEvents()
        requests = self._requests.finish()
        if self._responses.needs_locator():
            self._pair_before_search(requests, CutFrames(), events)
        responses = self._responses.finish()
        self._builder.lose(requests.losses, self.client_index, events)
        self._builder.lose(responses.losses, 1 - self.client_index, events)
        self._pair(requests, responses, events)
        request = self._end_within(self._requests, self.client_index, events)
        if request is not None:
            self._builder.add_incomplete_request(request, events)
        response = self._end_within(self._responses, 1 - self.client_index, events)
        if response is not None:
            self._builder.add_incomplete_response(response, events)
        self._builder.close(events)
        return events

    def _feed_responses(
        self, items: list[StreamItem], requests: CutFrames, events: ConnectionEvents
    ) -> None:
        """Cut responses, and pair all frames."""
        cutter = self._responses
        responses: CutFrames | None = None
        while True:
            if items and cutter.needs_locator():
                self._pair_before_search(requests, responses or CutFrames(), events)
                responses = None
            cut = cutter.feed_until_loss(items)
            self._builder.lose(cut.losses, 1 - self.client_index, events)
            if responses is None:
                responses = cut
            else:
                responses.extend(cut)
            items = cut.rest
            if not items:
                break
        self._pair(requests, responses, events)

    def _pair_before_search(
        self, requests: CutFrames, responses: CutFrames, events: ConnectionEvents
    ) -> None:
        """Pair the frames so far; a search for responses looks for the ids of pending requests."""
        self._pair(requests, responses, events)
        requests.clear()
        self._response_locator.expect(self._builder.correlator.pending.apis())

    def _pair(self, requests: CutFrames, responses: CutFrames, events: ConnectionEvents) -> None:
        """Read frames of both directions in the order of the packets that completed them."""
        builder = self._builder
        position, count = 0, requests.count
        for index in range(responses.count):
            completed = completion_packet(cython.address(responses.items[index]))
            while position < count:
                if completion_packet(cython.address(requests.items[position])) >= completed:
                    break
                _prefetch(requests, position + AHEAD)
                builder.add_request(requests, position, events)
                position += 1
            _prefetch(responses, index + AHEAD)
            builder.add_response(responses, index, events)
        while position < count:
            _prefetch(requests, position + AHEAD)
            builder.add_request(requests, position, events)
            position += 1

    def _end_within(
        self, cutter: FrameCutter, direction: int, events: ConnectionEvents
    ) -> Frame | None:
        """Report the frame that a direction ends within, and return it; None if there is none."""
        frame = cutter.partial_frame()
        if frame is not None:
            seen_bytes = cutter.partial.seen_bytes
            self._builder.bodies.undecoded_bytes += seen_bytes
            anomaly = incomplete_frame_anomaly(self.peers.tcp, frame, seen_bytes, direction)
            events.anomalies.append(anomaly)
        return frame


def _prefetch(cut: CutFrames, index: int) -> None:
    """Bring the beginning of a frame that is read soon into the cache."""
    if index < cut.count and not cut.items[index].is_object:
        prefetch_message(cut.items[index].data)
