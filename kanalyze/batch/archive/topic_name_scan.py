"""Searches segments for Metadata responses, for the names of topics by their ids.

In: the segments of a capture, in batches. Out: names.

A topic's name is valid in the whole archive, and messages since KIP-516 have only ids. The task
that rebuilds a connection needs names from other connections. If they are found only then, all
connections are rebuilt a second time. The scan is fast but incomplete: it finds a request only at
the beginning of a segment, and its response only if the response's segments follow one another. A
name that it overlooks costs the second rebuild. A name that it finds is right, because the response
was decoded to its end.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.decoding.bodies import BodyReader
from kanalyze.kafka.codec.values import NO_UUID
from kanalyze.model.anomalies import AnomalyKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.net.segment_columns import SegmentColumns

_METADATA: Final = 3
_FIRST_WITH_IDS: Final = 10
"""The first version of Metadata whose response has the ids of topics (KIP-516)."""
_HEADER: Final = struct.Struct(">ihhi")
"""Of a request: size, API key, API version, correlation id."""
_RESPONSE: Final = struct.Struct(">ii")
"""Of a response: size, correlation id."""
_MAX_AWAITED: Final = 10_000
_MAX_RESPONSE_BYTES: Final = 16 << 20
_MAX_BUFFERED_BYTES: Final = 32 << 20
_SEQUENCE_MASK: Final = 0xFFFF_FFFF


class _Direction(NamedTuple):
    """One direction of a connection."""

    source: tuple[int, int, int]
    destination: tuple[int, int, int]

    @property
    def reverse(self) -> _Direction:
        return _Direction(self.destination, self.source)


class _AwaitedResponse:
    """The response to a Metadata request, as far as it was captured."""

    def __init__(self, api_version: int, correlation_id: int) -> None:
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.data = bytearray()
        self.next_sequence = 0
        """Sequence number after the last byte of ``data``, if there is any."""

    @property
    def total_bytes(self) -> int:
        """The size of the frame, which is known if ``data`` is not empty."""
        return int(_RESPONSE.unpack_from(self.data)[0]) + 4


class TopicNameScan:
    """Follows the Metadata requests of a capture."""

    def __init__(self, catalog: Catalog, decoders: Decoders) -> None:
        """Use the definitions of a catalog."""
        self._reader = BodyReader(catalog, decoders)
        self._last_version = _highest_version(catalog)
        self._awaited: dict[_Direction, _AwaitedResponse] = {}
        self._buffered_bytes = 0
        self.names: dict[bytes, str] = {}
        """Names found so far, by id."""

    def feed(self, segments: SegmentColumns) -> None:
        """Look at the next segments, whose columns are NumPy arrays."""
        requests = self._requests(segments)
        if not len(requests) and not self._awaited:
            return
        rows = np.union1d(requests, self._responses(segments, requests))
        is_request = np.isin(rows, requests)
        for row, starts_request in zip(rows.tolist(), is_request.tolist(), strict=True):
            direction = _direction_of(segments, row)
            awaited = self._awaited.get(direction)
            if awaited is not None:
                self._add(direction, awaited, segments, row)
            elif starts_request:
                self._await(direction.reverse, segments, row)

    def _requests(self, segments: SegmentColumns) -> NDArray[np.int64]:
        """Return the segments that begin with what looks like a Metadata request."""
        data = np.frombuffer(segments.buffer, np.uint8)
        rows = np.flatnonzero(segments.captured_bytes >= _HEADER.size)
        for offset, lowest, highest in (
            (0, 0, 0),
            (4, 0, 0),
            (5, _METADATA, _METADATA),
            (6, 0, 0),
            (7, _FIRST_WITH_IDS, self._last_version),
        ):
            values = data[segments.payload_start[rows] + offset]
            rows = rows[(values >= lowest) & (values <= highest)]
        return rows

    def _responses(
        self, segments: SegmentColumns, requests: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the segments with payload that may be part of an awaited response."""
        directions = {*self._awaited, *(_direction_of(segments, row) for row in requests.tolist())}
        # The sum of ports tells nearly all connections apart; feed() compares the directions.
        sums = {direction.source[2] + direction.destination[2] for direction in directions}
        rows = np.flatnonzero(segments.captured_bytes)
        ports = segments.source_port[rows] + segments.destination_port[rows]
        return rows[np.isin(ports, list(sums))]

    def _await(self, direction: _Direction, segments: SegmentColumns, row: int) -> None:
        if direction in self._awaited:
            self._forget(direction)
        if len(self._awaited) >= _MAX_AWAITED:
            return
        start = int(segments.payload_start[row])
        _, _, version, correlation_id = _HEADER.unpack_from(segments.buffer, start)
        self._awaited[direction] = _AwaitedResponse(version, correlation_id)

    def _add(
        self, direction: _Direction, awaited: _AwaitedResponse, segments: SegmentColumns, row: int
    ) -> None:
        """Add the payload of a segment to a response; forget one that has a hole."""
        start, length = int(segments.payload_start[row]), int(segments.captured_bytes[row])
        payload = segments.buffer[start : start + length]
        sequence = int(segments.sequence[row])
        if not awaited.data:
            # The responses to requests before this one come first.
            if length < _RESPONSE.size:
                return
            size, correlation_id = _RESPONSE.unpack_from(payload)
            if correlation_id != awaited.correlation_id:
                return
            if not 0 <= size <= _MAX_RESPONSE_BYTES:
                self._forget(direction)
                return
        elif sequence != awaited.next_sequence or length < segments.payload_bytes[row]:
            self._forget(direction)
            return
        awaited.data += payload
        awaited.next_sequence = (sequence + length) & _SEQUENCE_MASK
        self._buffered_bytes += length
        if len(awaited.data) >= awaited.total_bytes:
            self._read(awaited)
            self._forget(direction)
        elif self._buffered_bytes > _MAX_BUFFERED_BYTES:
            self._forget(direction)

    def _forget(self, direction: _Direction) -> None:
        self._buffered_bytes -= len(self._awaited.pop(direction).data)

    def _read(self, awaited: _AwaitedResponse) -> None:
        data = bytes(awaited.data[: awaited.total_bytes])
        decoded = self._reader.message(data, _METADATA, awaited.api_version, "response")
        # As for rows, bytes after a message are accepted: some brokers write a field too many.
        is_whole = decoded.problem is None or decoded.problem.kind is AnomalyKind.TRAILING_BYTES
        values = decoded.values if is_whole else None
        for topic in () if values is None else values["topics"] or ():
            if topic["name"] and topic["topicId"] != NO_UUID:
                self.names[topic["topicId"]] = topic["name"]


def _direction_of(segments: SegmentColumns, row: int) -> _Direction:
    source_high, source_low = int(segments.source_high[row]), int(segments.source_low[row])
    high, low = int(segments.destination_high[row]), int(segments.destination_low[row])
    return _Direction(
        (source_high, source_low, int(segments.source_port[row])),
        (high, low, int(segments.destination_port[row])),
    )


def _highest_version(catalog: Catalog) -> int:
    api = catalog.api(_METADATA)
    return -1 if api is None else api.versions.highest
