"""One connection of Kafka 0.7 as a state machine: two streams in, exchanges out.

In: the streams of both directions. Out: exchanges and anomalies (:class:`ConnectionEvents`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import FrameCutter
from kanalyze.kafka.session.batch_checks import BatchCounts
from kanalyze.kafka.session.events import (
    ConnectionEvents,
    incomplete_frame_anomaly,
    shed,
    sync_loss_anomaly,
)
from kanalyze.kafka.session.exchange_builder import PENDING_BYTES
from kanalyze.kafka.v07.exchange_builder import ExchangeBuilder07
from kanalyze.kafka.v07.resync import Request07Locator, Response07Locator

if TYPE_CHECKING:
    from kanalyze.kafka.session.exchange import Peers
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.model.streams import StreamItem

__all__ = ["Kafka07Connection"]

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
