"""Finds the payload that no row needs, so that it need not travel.

In: the segments of one capture (or one part of it), batch after batch, and of those that follow it.
Out: holes, which are bytes of record data. Must not know: where segments go, nor what others read.

The same stages that make rows run over what these captures alone hold of a connection, and see of
each large frame which bytes the decoders ask for. What they step over is a hole. Where nothing is
known of a frame (the capture begins within it, the request that it answers was in another capture,
the connection is not known to be Kafka yet) all of it is kept; so is all that was captured out of
its order. Whoever rebuilds the connection from all captures knows at least as much, and reads the
same bytes.

Most connections carry nothing that is worth leaving out; they are not looked at, unless most of
all traffic is worth it: a connection that will carry much begins with little, and what it asks for
then says what its large responses are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.session.message_reader import DecodedBody, MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.model.streams import Chunk
from kanalyze.net.shard import shares_of
from kanalyze.net.tcp.reassembly import Reassembler, ReassemblyLimits
from kanalyze.spark.archive.packed_segments import Holes, no_holes, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.kafka.codec.byte_ranges_read import Ranges
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.framing.headers import RequestHeader
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.decode_plans import FieldSelection, MessageKind
    from kanalyze.kafka.session.undecided import BrokerSide
    from kanalyze.model.streams import StreamItem, StreamUpdate
    from kanalyze.net.headers import SegmentColumns

__all__ = ["Trimmer"]

_LEAST_FRAME_BYTES: Final = 2048
"""Of smaller ones there is little to leave out."""
_LEAST_HOLE_BYTES: Final = 64
"""A hole takes some bytes itself."""
_LEAST_BYTES: Final = 128 * 1024
"""What a bucket of connections, or all, has to carry in a batch to be looked at,"""
_LEAST_SEGMENT_BYTES: Final = 1024
"""and how large its segments have to be: small messages have no record data to speak of."""
_BUCKETS: Final = 256
_REASSEMBLY_BYTES: Final = 64 << 20
_UNDECIDED_BYTES: Final = 16 << 20
_KAFKA_BYTES: Final = 48 << 20
"""What may be held of connections; of what is let go, all bytes travel."""
_UNREAD: Final = DecodedBody(None, None, None)


class _Stretch(NamedTuple):
    """Bytes of a stream that nobody reads."""

    begin: int
    end: int


class _Watch(MessageReader):
    """Reads nothing of a message, but notes which bytes of it would be read."""

    def __init__(self, catalog: Catalog, decoders: Decoders, wanted: FieldSelection) -> None:
        super().__init__(catalog, decoders, wanted)
        self._unread: dict[MessageKind, list[_Stretch]] = {"request": [], "response": []}

    def take(self, kind: MessageKind) -> list[_Stretch]:
        """Return what nobody reads of the messages of a kind since the last call."""
        found, self._unread[kind] = self._unread[kind], []
        return found

    def request_body(
        self,
        frame: Frame,
        header: RequestHeader,
        view: memoryview | None = None,  # noqa: ARG002 - as in the class above
    ) -> DecodedBody:
        if frame.length >= _LEAST_FRAME_BYTES:
            self._note("request", frame, self.needed_of_request(frame, header), frame.length)
        return _UNREAD

    def response_body(self, frame: Frame, api_key: int, api_version: int) -> DecodedBody:
        if frame.length >= _LEAST_FRAME_BYTES:
            ranges = self.needed_of_response(frame, api_key, api_version)
            self._note("response", frame, ranges, frame.length)
        return _UNREAD

    def skim_request(self, frame: Frame, header: RequestHeader) -> tuple[Ranges, int] | None:
        kept = super().skim_request(frame, header)
        if kept is not None:
            self._note("request", frame, *kept)
        return kept

    def skim_response(
        self, frame: Frame, api_key: int, api_version: int
    ) -> tuple[Ranges, int] | None:
        kept = super().skim_response(frame, api_key, api_version)
        if kept is not None:
            self._note("response", frame, *kept)
        return kept

    def _note(self, kind: MessageKind, frame: Frame, ranges: Ranges | None, until: int) -> None:
        if ranges is None or frame.missing_bytes:
            return
        at = 0
        for begin, end in [*ranges, (until, until)]:
            if min(begin, until) - at >= _LEAST_HOLE_BYTES:
                offset = frame.stream_offset
                self._unread[kind].append(_Stretch(offset + at, offset + min(begin, until)))
            at = end


def _is_worthwhile(carried: Any, count: Any) -> Any:
    """Tell of bytes, in so many segments, whether they are many, and in large ones."""
    return (carried >= _LEAST_BYTES) & (carried >= count * _LEAST_SEGMENT_BYTES)


class Trimmer:
    """Follows the connections of one capture that carry much, for as long as it is read."""

    def __init__(
        self,
        catalog: Catalog,
        decoders: Decoders,
        wanted: FieldSelection,
        is_broker: BrokerSide | None = None,
    ) -> None:
        """Make one.

        Args:
            catalog: the known APIs.
            decoders: makes what reads messages.
            wanted: the fields that rows need.
            is_broker: as in :class:`~kanalyze.kafka.session.tracker.ConnectionTracker`.
        """
        self._reader = _Watch(catalog, decoders, wanted)
        self._reassembler = Reassembler(ReassemblyLimits.of_memory(_REASSEMBLY_BYTES))
        self._tracker = ConnectionTracker(
            self._reader,
            catalog,
            is_broker=is_broker,
            most_undecided_bytes=_UNDECIDED_BYTES,
            most_kafka_bytes=_KAFKA_BYTES,
        )
        self._followed = np.zeros(_BUCKETS, np.bool_)
        self._before = self._last = 0
        """Numbers of the last packet of the captures before, and of the last one looked at."""

    def next_capture(self) -> None:
        """Go on with a capture, whose packets are numbered from 1: as a rule the one that follows.

        What connections were about at the end of the one before says what they are about here.
        """
        self._before = self._last

    def holes(self, segments: SegmentColumns) -> Holes:
        """Return the payload of the next segments, at least one, that nobody needs."""
        rows = self._worthwhile(segments)
        if not len(rows):
            return no_holes()
        looked_at = taken(segments, rows)
        looked_at.number = looked_at.number + self._before
        self._last = int(looked_at.number[-1])
        updates = self._reassembler.feed_segments(looked_at)
        found: list[tuple[int, int]] = []
        for update in updates:
            self._tracker.feed([update])
            self._look(update, segments.buffer, found)
        self._reassembler.take_anomalies()
        return _in_segments(found, segments)

    def _worthwhile(self, segments: SegmentColumns) -> NDArray[np.int64]:
        """Return the segments of connections to look at; a bucket once looked at is so always."""
        bucket = np.asarray(shares_of(segments, _BUCKETS))
        has_payload = segments.payload_bytes > 0
        carried = np.bincount(bucket, segments.payload_bytes, _BUCKETS)
        count = np.bincount(bucket[has_payload], minlength=_BUCKETS)
        if _is_worthwhile(carried.sum(), count.sum()):
            self._followed[:] = True
        else:
            self._followed |= _is_worthwhile(carried, count)
        return np.flatnonzero(self._followed[bucket])

    def _look(self, update: StreamUpdate, buffer: memoryview, found: list[tuple[int, int]]) -> None:
        """Add the places in the buffer of what nobody reads of a connection."""
        requests, responses = self._reader.take("request"), self._reader.take("response")
        client_side = self._tracker.client_side(update.connection)
        if client_side is None:
            return
        for side, unread in ((client_side, requests), (1 - client_side, responses)):
            if unread:
                _places(sorted(unread), update.items[side], buffer, found)


def _places(
    unread: list[_Stretch],
    items: list[StreamItem],
    buffer: memoryview,
    found: list[tuple[int, int]],
) -> None:
    """Add where in the buffer the unread stretches of a stream are, as far as it holds them."""
    at, last = 0, len(unread)
    for item in items:
        if not isinstance(item, Chunk) or item.segments.buffer is not buffer:
            continue  # a gap, or what was held back from an earlier batch
        segments, offset = item.segments, item.stream_offset
        for index in range(item.first, item.last):
            end = offset + segments.length[index]
            while at < last and unread[at].end <= offset:
                at += 1
            here = at
            while here < last and unread[here].begin < end:
                begin = max(unread[here].begin - offset, 0)
                stop = min(unread[here].end - offset, segments.captured[index])
                if stop - begin >= _LEAST_HOLE_BYTES:
                    found.append((segments.start[index] + begin, stop - begin))
                here += 1
            offset = end


def _in_segments(found: list[tuple[int, int]], segments: SegmentColumns) -> Holes:
    """Return places in the buffer as holes of the segments that they are in."""
    if not found:
        return no_holes()
    place, length = np.array(sorted(found), np.int64).T
    by_start = np.argsort(segments.payload_start, kind="stable")
    # Segments without payload may begin where the next one does: the last of them has it.
    index = np.searchsorted(segments.payload_start[by_start], place, "right") - 1
    row = by_start[index]
    return Holes(*_by_row(row, place - segments.payload_start[row], length))


def _by_row(*columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    order = np.lexsort((columns[1], columns[0]))
    return [column[order] for column in columns]
