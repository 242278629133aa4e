"""Streams to frames and exchanges: cutting, boundary search, and detection of Kafka."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kanalyze.kafka.framing.framer import FrameCutter, FrameLocator, SyncLoss
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.kafka.wire import WireError
from kanalyze.model.streams import Gap, StreamUpdate
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.fuzz.invariant import holds
from tests.fuzz.targets.common import CATALOG, DECODERS, EXTRACTORS
from tests.fuzz.turns import items_of, turns_in

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.model.streams import StreamItem
    from tests.fuzz.turns import Turn

_SIZE = struct.Struct(">i").unpack_from
_MIN_SIZE, _MAX_SIZE = 8, 4096
_FINAL_GAP_BYTES = 1 << 30
_PREFIX_BYTES = 3
"""The most bytes of a size prefix that are lost with their boundary."""


class _Sizes(FrameLocator):
    """Takes every plausible size for a boundary: simple, and often wrong."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        last = len(view) - 4
        for index in range(last + 1):
            if _MIN_SIZE <= _SIZE(view, index)[0] <= _MAX_SIZE:
                return index, index
        return None, max(0, last + 1)

    def confirm(self, frame: Frame) -> bool:
        return frame.size % 3 > 0


def cut_frames(data: bytes) -> None:
    """Cut the bytes of both ends as one stream; every byte is in one frame, or skipped."""
    turns = [turn._replace(side=0) for turn in turns_in(data)]
    items = [item for _, item in items_of(turns, data[:4])]
    cutter = FrameCutter(_Sizes(), in_sync=data[:1] != b"\0")
    frames: list[Frame] = []
    losses = []
    for item in items:
        cut = cutter.feed([item])
        if cutter.partial.frame is not None:
            cutter.partial.frame.detach()
        frames += cut.frames
        losses += cut.losses
    stream = b"".join(turn.data for turn in turns)
    cut = cutter.feed([Gap(len(stream), _FINAL_GAP_BYTES, 0, 0)])
    frames += cut.frames
    losses += cut.losses
    _check_frames(frames, stream, sorted(loss.stream_offset for loss in losses))
    _check_sum(frames, losses, cutter.skipped_bytes, turns)


def _check_frames(frames: list[Frame], stream: bytes, losses: list[int]) -> None:
    """Check that frames rise, do not overlap and hold the stream's own bytes."""
    end = 0
    for frame in frames:
        at = frame.stream_offset
        holds(end <= at < len(stream), "frames that overlap or lie outside")
        holds(0 <= frame.missing_bytes <= frame.length, "more missing than there is")
        holds(
            frame.buffered_bytes == frame.length - frame.missing_bytes,
            "buffered and missing bytes do not add up",
        )
        end = at + frame.length
        if frame.end_packet is None:
            # It ended where sync was lost, or with a gap: the next frame may begin inside of it.
            end = min([end, *(loss for loss in losses if loss > at)])
        _check_bytes(frame, stream[at : at + frame.length])


def _check_bytes(frame: Frame, expected: bytes) -> None:
    """Check all bytes that a frame's windows show."""
    at = 0
    try:
        found = frame.window(0)
        while len(found):
            holds(bytes(found) == expected[at : at + len(found)], "bytes of another place")
            at += len(found)
            found = frame.window(at)
    except WireError:
        holds(frame.missing_bytes > 0, "a whole frame that cannot be read")


def _check_sum(
    frames: list[Frame],
    losses: list[SyncLoss],
    skipped: int,
    turns: list[Turn],
) -> None:
    sent = sum(len(turn.data) for turn in turns if not turn.is_lost)
    buffered = sum(frame.buffered_bytes for frame in frames)
    holds(buffered + skipped <= sent, "more bytes in frames and skipped than were sent")
    if not any(turn.is_lost or turn.is_snapped for turn in turns):
        left = sent - buffered - skipped
        holds(left <= _PREFIX_BYTES * len(losses), f"{left} bytes in no frame and not skipped")


# -- connections ----------------------------------------------------------------------------------


def follow_connection(data: bytes) -> None:
    """Follow one connection, with the fields that rows need; check the sums over all exchanges."""
    turns = turns_in(data)
    items = items_of(turns, data[:4])
    ends = (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", 9092))
    opened_by = 0 if data[:1] > b"\x80" else None
    tcp = TcpConnection(1, ends, 1, opened_by, 0, 0, start_seen=(opened_by is not None,) * 2)
    tracker = ConnectionTracker(
        MessageReader(CATALOG, DECODERS, EXTRACTORS.needed_fields),
        CATALOG,
        keep=lambda key: key % 2 == 0,
    )
    exchanges = []
    anomalies = 0
    for number, (side, item) in enumerate(items):
        both: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        both[side].append(item)
        is_last = number + 1 == len(items)
        events = tracker.feed([StreamUpdate(tcp, both, closed=is_last)])
        exchanges += events.exchanges
        anomalies += len(events.anomalies)
    sent = sum(len(turn.data) for turn in turns if not turn.is_lost)
    counts = tracker.counts
    holds(
        counts.kafka + counts.tls + counts.other == bool(items),
        "a connection that is counted nowhere",
    )
    holds(counts.kafka_bytes <= sent, "more bytes of Kafka than were sent")
    holds(len(exchanges) <= sent // 4, "more exchanges than there are bytes for")
    holds(anomalies <= 4 * sent + 4, "an unbounded number of anomalies")
    holds(0 <= counts.skipped_bytes <= sent, "more bytes skipped than were sent")
    for exchange in exchanges:
        for message in (exchange.request, exchange.response):
            if message is not None and message.data is not None:
                holds(len(message.data) == message.length, "kept bytes are not the message's")
