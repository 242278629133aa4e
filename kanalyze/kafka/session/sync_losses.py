"""The places where the streams of one connection lost sync, until a later frame is read.

In: losses of sync, and the frames that come after them. Out: anomalies and unread bytes; when bytes
were last missing before an exchange.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.session.connection_anomalies import sync_loss_anomaly
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.model.anomalies import AnomalyKind

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.framing.framer import SyncLoss
    from kanalyze.kafka.session.correlation import Correlator
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.token_ranges import TokenRanges
    from kanalyze.model.tcp import TcpConnection

__all__ = ["SyncLosses"]

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
        for direction in (0, 1):
            is_client = direction == self._client_index
            message = exchange.request if is_client else exchange.response
            if message is not None:
                end = message.stream_offset
                times += [time_ns for offset, time_ns in self._times[direction] if offset <= end]
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
