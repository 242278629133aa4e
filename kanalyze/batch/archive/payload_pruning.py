"""Finds the payload that no row needs, so that it is not sent.

In: the segments of one capture (or a part of one), in batches, and of those that follow it. Out:
holes: byte ranges of record data.

The stages that make rows run over these captures alone, and note which bytes of each large frame
the decoders read. The bytes that they skip are a hole. A frame is kept whole if it cannot be
decoded here: the capture begins within it, its request is in another capture, or the connection is
not known to be Kafka yet. Segments that were captured out of order are kept too. The task that
rebuilds the connection from all captures knows at least as much, and reads the same bytes.

Only connections with much payload in large segments are followed, unless most of all traffic is
like that: then every connection is, as its early requests are needed to decode its large responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.batch.archive.packed_segments import Holes, no_holes, select_rows
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.session.message_reader import DecodedBody, MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.model.streams import Chunk
from kanalyze.net.headers import shards_of
from kanalyze.net.proxy.streams import StreamsBehindProxies
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.reassembly import Reassembler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kanalyze.kafka.codec.byte_ranges_read import Ranges
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.decode_plans import FieldSelection, MessageKind
    from kanalyze.kafka.session.detection import BrokerSide
    from kanalyze.model.streams import StreamItem, StreamUpdate
    from kanalyze.net.segment_columns import SegmentColumns

_MIN_FRAME_BYTES: Final = 2048
"""Smaller frames are kept whole."""
_MIN_HOLE_BYTES: Final = 64
"""Describing a hole takes some bytes itself."""
_MIN_BYTES: Final = 128 * 1024
"""A bucket (or all of them together) is followed if a batch has this much of its payload."""
_MIN_SEGMENT_BYTES: Final = 1024
"""The average size of these segments must be at least this: small messages have few record bytes.
"""
_BUCKETS: Final = 256
_REASSEMBLY_BYTES: Final = 64 << 20
_UNDECIDED_BYTES: Final = 16 << 20
_KAFKA_BYTES: Final = 48 << 20
"""Buffer limits of connections; beyond them payload is kept whole."""
_UNREAD: Final = DecodedBody(None, None, None)


class _UnreadRange(NamedTuple):
    """A range of stream offsets that no decoder reads."""

    begin: int
    end: int


class _SkippedBytesReader(MessageReader):
    """Decodes no message, but notes which of its bytes a decoder would skip."""

    def __init__(self, catalog: Catalog, decoders: Decoders, needed_fields: FieldSelection) -> None:
        super().__init__(catalog, decoders, needed_fields)
        self.whole.reads_bodies = False
        self._unread: dict[MessageKind, list[_UnreadRange]] = {"request": [], "response": []}

    def unread(self, kind: MessageKind) -> list[_UnreadRange]:
        """Return the ranges that decoders skip in messages of a kind since the last call."""
        ranges, self._unread[kind] = self._unread[kind], []
        return ranges

    def request_body(
        self,
        frame: Frame,
        header: RequestHeader,
        view: memoryview | None = None,  # noqa: ARG002 - as in the class above
    ) -> DecodedBody:
        if frame.length >= _MIN_FRAME_BYTES:
            api = header.api_key, header.api_version
            needed = self.needed("request", frame, *api, header.body)
            self._note("request", frame, needed, frame.length)
        return _UNREAD

    def response_body(self, frame: Frame, api_key: int, api_version: int) -> DecodedBody:
        if frame.length >= _MIN_FRAME_BYTES:
            needed = self.needed("response", frame, api_key, api_version, None)
            self._note("response", frame, needed, frame.length)
        return _UNREAD

    def skim(
        self, kind: MessageKind, frame: Frame, api_key: int, api_version: int, at: int | None
    ) -> tuple[Ranges, int] | None:
        read = super().skim(kind, frame, api_key, api_version, at)
        if read is not None:
            self._note(kind, frame, *read)
        return read

    def _note(self, kind: MessageKind, frame: Frame, ranges: Ranges | None, until: int) -> None:
        if ranges is None or frame.missing_bytes:
            return
        read_until = 0
        for begin, end in [*ranges, (until, until)]:
            if min(begin, until) - read_until >= _MIN_HOLE_BYTES:
                offset = frame.stream_offset
                self._unread[kind].append(
                    _UnreadRange(offset + read_until, offset + min(begin, until))
                )
            read_until = end


def _is_worthwhile(payload_bytes: Any, segments: Any) -> Any:
    """Return true if there is enough payload, and its segments are large enough on average."""
    return (payload_bytes >= _MIN_BYTES) & (payload_bytes >= segments * _MIN_SEGMENT_BYTES)


class PayloadPruner:
    """Follows the connections of a capture with much payload."""

    def __init__(
        self,
        catalog: Catalog,
        decoders: Decoders,
        needed_fields: FieldSelection,
        is_broker: BrokerSide | None = None,
    ) -> None:
        """Follow no connection yet.

        Args:
            catalog: the known APIs.
            decoders: makes the decoders of messages.
            needed_fields: the fields that rows need.
            is_broker: as in :class:`~kanalyze.kafka.session.tracker.ConnectionTracker`.
        """
        self._reader = _SkippedBytesReader(catalog, decoders, needed_fields)
        self._reassembler = Reassembler(ReassemblyLimits.of_memory(_REASSEMBLY_BYTES))
        self._tracker = ConnectionTracker(
            self._reader,
            catalog,
            is_broker=is_broker,
            most_undecided_bytes=_UNDECIDED_BYTES,
            most_kafka_bytes=_KAFKA_BYTES,
        )
        self._proxies = StreamsBehindProxies(_UNDECIDED_BYTES)
        self._followed = np.zeros(_BUCKETS, np.bool_)
        self._packets_before = self._last_packet = 0
        """Numbers of the last packet of earlier captures, and of the last packet processed."""

    def next_capture(self) -> None:
        """Begin with another capture, usually the next in time, whose packets count from 1 again.

        The state of connections is kept from the capture before.
        """
        self._packets_before = self._last_packet

    def holes(self, segments: SegmentColumns) -> Holes:
        """Return the payload of the next segments, at least one, that no row needs."""
        rows = self._worthwhile(segments)
        if not len(rows):
            return no_holes()
        followed = select_rows(segments, rows)
        followed.number = followed.number + self._packets_before
        self._last_packet = int(followed.number[-1])
        updates = self._reassembler.feed_segments(followed).updates
        ranges: list[NDArray[np.int64]] = []
        for update in updates:
            events = self._tracker.feed(self._proxies.feed([update]).updates)
            tcp = update.connection
            client_index = events.closed_clients.get(tcp.serial, self._tracker.client_index(tcp))
            if client_index is not None:
                self._add_unread(update, client_index, segments.buffer, ranges)
        return _in_segments(ranges, segments)

    def _worthwhile(self, segments: SegmentColumns) -> NDArray[np.int64]:
        """Return the segments of followed buckets; once followed, a bucket always is."""
        bucket = np.asarray(shards_of(segments, _BUCKETS))
        has_payload = segments.payload_bytes > 0
        payload_bytes = np.bincount(bucket, segments.payload_bytes, _BUCKETS)
        count = np.bincount(bucket[has_payload], minlength=_BUCKETS)
        if _is_worthwhile(payload_bytes.sum(), count.sum()):
            self._followed[:] = True
        else:
            self._followed |= _is_worthwhile(payload_bytes, count)
        return np.flatnonzero(self._followed[bucket])

    def _add_unread(
        self,
        update: StreamUpdate,
        client_index: int,
        buffer: memoryview,
        ranges: list[NDArray[np.int64]],
    ) -> None:
        """Add the ranges of the buffer that belong to a connection and that no decoder reads."""
        requests, responses = self._reader.unread("request"), self._reader.unread("response")
        for side, unread in ((client_index, requests), (1 - client_index, responses)):
            if unread:
                _add_ranges(_merged(unread), update.items[side], buffer, ranges)


def _merged(unread: Iterable[_UnreadRange]) -> list[_UnreadRange]:
    """Return ranges in order, without overlaps.

    After a loss, a batch is read in steps, and a frame that continues in the next step is noted in
    both.
    """
    merged: list[_UnreadRange] = []
    for begin, end in sorted(unread):
        if merged and begin <= merged[-1].end:
            merged[-1] = _UnreadRange(merged[-1].begin, max(end, merged[-1].end))
        else:
            merged.append(_UnreadRange(begin, end))
    return merged


def _add_ranges(
    unread: list[_UnreadRange],
    items: list[StreamItem],
    buffer: memoryview,
    ranges: list[NDArray[np.int64]],
) -> None:
    """Add the ranges of the buffer that hold the unread ranges of a stream."""
    first = 0
    for item in items:
        if not isinstance(item, Chunk) or item.segments.buffer is not buffer:
            continue  # a gap, or segments buffered from an earlier batch
        segments, last = item.segments, item.last
        length = np.asarray(segments.length)[item.first : last]
        ends = item.stream_offset + np.cumsum(length)
        while first < len(unread) and unread[first].end <= item.stream_offset:
            first += 1
        for unread_range in unread[first:]:
            if unread_range.begin >= ends[-1]:
                break
            # The first and the last of these segments may be only partly in the range.
            rows = slice(
                int(np.searchsorted(ends, unread_range.begin, "right")),
                int(np.searchsorted(ends, unread_range.end, "left")) + 1,
            )
            offset = (ends - length)[rows]
            begin = np.maximum(unread_range.begin - offset, 0)
            stop = np.minimum(
                unread_range.end - offset, np.asarray(segments.captured)[item.first : last][rows]
            )
            is_worth_it = stop - begin >= _MIN_HOLE_BYTES
            start = np.asarray(segments.start)[item.first : last][rows] + begin
            ranges.append(np.stack((start, stop - begin))[:, is_worth_it])


def _in_segments(ranges: list[NDArray[np.int64]], segments: SegmentColumns) -> Holes:
    """Return ranges of the buffer as holes of the segments that they are in."""
    if not ranges:
        return no_holes()
    start, length = np.concatenate(ranges, axis=1)
    start_order = np.argsort(segments.payload_start, kind="stable")
    # Segments without payload may begin at the same byte as the next one, which has payload.
    index = np.searchsorted(segments.payload_start[start_order], start, "right") - 1
    row = start_order[index]
    return Holes(*_by_row(row, start - segments.payload_start[row], length))


def _by_row(*columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    order = np.lexsort((columns[1], columns[0]))
    return [column[order] for column in columns]
