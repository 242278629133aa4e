"""Selects the packets that belong to requests, with comments that name the requests.

In: rows of requests and spans of time, then segments. Out: the numbers of packets.

A packet belongs to a request if it is on the same connection and was captured between the request's
first packet and the response's last one. So retransmissions and pure acknowledgments are included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tcp import Endpoint
from kanalyze.net.endpoint_hashes import EndpointHashes, hashes_of_ends
from kanalyze.render.wireshark import comment_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.requests import Row

__all__ = ["MAX_COMMENTED", "FoundPackets", "PacketSelection", "Span", "ends_of", "span_of"]

MAX_COMMENTED: Final = 1_000_000
"""Number of requests whose packets get comments; a comment takes some 100 bytes of memory."""
_LAST_NS: Final = (1 << 63) - 1
_MAX_COMMENTS: Final = 100
"""Number of comments on one packet, which may contain thousands of requests."""


class Span(NamedTuple):
    """A range of capture times in ns, both ends included."""

    from_ns: int
    until_ns: int


class FoundPackets(NamedTuple):
    """Packets of a batch that are selected."""

    numbers: NDArray[np.int64]
    """Packet numbers, ascending, without repetition."""
    comments: dict[int, list[str]]
    """Comments by packet number."""
    fragmented: list[Span]
    """Spans of connections with a packet that came in IP fragments, which are found by time."""


class _MessageComments:
    """The comments on the packets that one end sent on one connection."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, int, str]] = []
        self._sorted: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def add(self, first_ns: int | None, last_ns: int | None, text: str) -> None:
        """Add a message by the times of its first and last packet; None if it was not seen."""
        if first_ns is not None:
            self._messages.append((first_ns, first_ns if last_ns is None else last_ns, text))
            self._sorted = None

    def at(self, time_ns: int) -> list[str]:
        """Return the comments on a packet that was captured at this time."""
        if self._sorted is None:
            self._messages.sort()
            begins, ends = (
                np.array([message[side] for message in self._messages], np.int64) for side in (0, 1)
            )
            # Messages follow each other in time; if the clock was set back, search from earlier on.
            self._sorted = begins, np.maximum.accumulate(ends)
        begins, ends = self._sorted
        first = int(ends.searchsorted(time_ns, "left"))
        last = int(begins.searchsorted(time_ns, "right"))
        candidates = self._messages[first : min(last, first + _MAX_COMMENTS)]
        return [text for begin, end, text in candidates if begin <= time_ns <= end]


class _SelectedConnection:
    """The selected spans and the comments of all connections between two endpoints."""

    def __init__(self, client: np.uint64) -> None:
        self.client = client
        """Hash of the client."""
        self.spans: list[Span] = []
        self.by_client = _MessageComments()
        self.by_broker = _MessageComments()
        self._joined: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def joined(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and the last times of the spans, merged where they overlap."""
        if self._joined is None:
            self.spans = _joined(self.spans)
            first, last = (np.array([span[side] for span in self.spans]) for side in (0, 1))
            self._joined = first, last
        return self._joined


class PacketSelection:
    """Selects packets; everything is added before the first batch is searched."""

    def __init__(self) -> None:
        self._connections: dict[int, _SelectedConnection] = {}
        self._keys = np.empty(0, np.uint64)
        self.requests = 0
        """Number of requests added."""

    def __bool__(self) -> bool:
        return bool(self._connections)

    @property
    def uncommented_requests(self) -> int:
        """Number of requests beyond :data:`MAX_COMMENTED`."""
        return max(self.requests - MAX_COMMENTED, 0)

    def add_request(self, row: Row, around_ns: int = 0) -> None:
        """Select the packets of a request, and those up to ``around_ns`` before and after it."""
        connection = self._connection(*ends_of(row))
        connection.spans.append(_widened(span_of(row), around_ns))
        self.requests += 1
        if self.requests <= MAX_COMMENTED:
            text = comment_of(row)
            connection.by_client.add(row.request_start_ns, row.request_end_ns, text)
            connection.by_broker.add(row.response_start_ns, row.response_end_ns, text)

    def add_span(self, client: Endpoint, broker: Endpoint, span: Span) -> None:
        """Select the packets of a connection in a span of time."""
        self._connection(client, broker).spans.append(span)

    def find(self, segments: SegmentColumns, whole_bytes: int) -> FoundPackets:
        """Return the selected packets of segments.

        ``whole_bytes`` is the size of the batch's buffer. Payload beyond it was put together from
        IP fragments.
        """
        if len(self._keys) != len(self._connections):
            self._keys = np.sort(np.array(list(self._connections), np.uint64))
        senders, receivers = hashes_of_ends(segments)
        keys = senders + receivers
        indices = np.minimum(self._keys.searchsorted(keys), max(len(self._keys) - 1, 0))
        matching = (
            np.flatnonzero(self._keys[indices] == keys) if len(self._keys) else np.empty(0, int)
        )
        packets = FoundPackets(np.empty(0, np.int64), {}, [])
        numbers: list[NDArray[np.int64]] = []
        for index, positions in _each_value(indices[matching]):
            connection = self._connections[int(self._keys[index])]
            rows = _within(connection, np.asarray(segments.time_ns), matching[positions])
            if not len(rows):
                continue
            numbers.append(np.asarray(segments.number)[rows])
            _add_comments(packets.comments, connection, segments, senders, rows)
            if (np.asarray(segments.payload_start)[rows] > whole_bytes).any():
                packets.fragmented.extend(connection.spans)
        if not numbers:
            return packets
        return packets._replace(numbers=np.unique(np.concatenate(numbers)))

    def _connection(self, client: Endpoint, broker: Endpoint) -> _SelectedConnection:
        hashes = EndpointHashes.of(client, broker)
        connection = self._connections.get(int(hashes.both))
        if connection is None:
            connection = self._connections[int(hashes.both)] = _SelectedConnection(hashes.first)
        return connection


def ends_of(row: Row | ConnectionRow) -> tuple[Endpoint, Endpoint]:
    """Return the client and the broker of a row."""
    return Endpoint(row.client_ip, row.client_port), Endpoint(row.broker_ip, row.broker_port)


def span_of(row: Row) -> Span:
    """Return the times of the first and the last packet of a request and its response.

    If the clock was set back meanwhile, the latest time counts as the last one.
    """
    times = (row.request_start_ns, row.request_end_ns, row.response_start_ns, row.response_end_ns)
    known = [time_ns for time_ns in times if time_ns is not None]
    return Span(min(known), max(known))


def _widened(span: Span, around_ns: int) -> Span:
    return Span(max(span.from_ns - around_ns, 0), min(span.until_ns + around_ns, _LAST_NS))


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.from_ns <= joined[-1].until_ns:
            joined[-1] = Span(joined[-1].from_ns, max(joined[-1].until_ns, span.until_ns))
        else:
            joined.append(span)
    return joined


def _within(
    connection: _SelectedConnection, time_ns: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return those of the segments ``rows`` whose times are in the connection's spans."""
    first, last = connection.joined()
    times = time_ns[rows]
    span = first.searchsorted(times, "right") - 1
    return rows[(span >= 0) & (times <= last[np.maximum(span, 0)])]


def _add_comments(
    comments: dict[int, list[str]],
    connection: _SelectedConnection,
    segments: SegmentColumns,
    senders: NDArray[np.uint64],
    rows: NDArray[np.int64],
) -> None:
    """Add the comments on segments with payload."""
    for row in rows[np.asarray(segments.payload_bytes)[rows] > 0].tolist():
        by_client = senders[row] == connection.client
        of_sender = connection.by_client if by_client else connection.by_broker
        texts = of_sender.at(segments.time_ns[row])
        if texts:
            comments.setdefault(int(segments.number[row]), []).extend(texts)


def _each_value(numbers: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each distinct number and the indices where it occurs, both in ascending order.

    The indices are sorted once. A mask for each number would visit all indices each time.
    """
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))).tolist()
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(ordered[start]), order[start:end]
