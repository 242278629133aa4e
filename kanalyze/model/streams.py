"""Streams: what ``net`` returns of each connection, and ``tls`` and ``kafka`` read.

In: TCP payloads in order. Out: :class:`StreamUpdate` of :class:`Chunk` and :class:`Gap`, which
point into :class:`Segments`, columns over one buffer; copies of them that stay valid after their
batch (:func:`copy_of`), and the saved state of these; :class:`TokenBytes` and :class:`PrefixBytes`
for code that stores packets.

Compiled by Cython, with the types in ``streams.pxd``: other compiled modules read the columns as C
arrays. Uncompiled it does the same, slowly.
"""

from __future__ import annotations

import operator
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.common.plain_values import State
    from kanalyze.model.tcp import TcpConnection


class Segments:
    """TCP payloads, in the order in which they were passed.

    Each column is there twice: as an array of 64-bit integers for all, and as a view of it
    (``starts``, ``lengths``, ``captureds``, ``times``, ``packets``; ``data`` of the buffer) for
    compiled modules, which read its numbers without making an object.

    Attributes:
        buffer: bytes; valid as long as the batch the segments came from (see
            :class:`~kanalyze.model.PacketBatch`).
        start: index in ``buffer`` of the first payload byte.
        length: payload bytes on the wire, by the IP header; above 0.
        captured: payload bytes in the buffer, from the first on; less than ``length`` where a snap
            length cut the packet.
        time_ns: Unix time of the packet.
        packet: its number.
    """

    def __init__(
        self,
        buffer: memoryview,
        start: Sequence[int],
        length: Sequence[int],
        captured: Sequence[int],
        time_ns: Sequence[int],
        packet: Sequence[int],
    ) -> None:
        """Take columns of equal length; an ``array("q")`` is not copied."""
        self.buffer = buffer
        self.data = buffer
        self.start = self.starts = _column(start)
        self.length = self.lengths = _column(length)
        self.captured = self.captureds = _column(captured)
        self.time_ns = self.times = _column(time_ns)
        self.packet = self.packets = _column(packet)

    def __len__(self) -> int:
        return len(self.start)

    def view(self, begin: int, end: int) -> memoryview:
        """Return bytes of the buffer."""
        return self.buffer[begin:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segments):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def _values(self) -> tuple[object, ...]:
        return (self.buffer, self.start, self.length, self.captured, self.time_ns, self.packet)


def _column(values: Sequence[int]) -> array[int]:
    return values if isinstance(values, array) else array("q", values)


class Chunk(NamedTuple):
    """Consecutive bytes of one direction of a connection: ``segments[first:last]``, in order.

    Each byte of a stream is in exactly one chunk or one gap; they come in rising order.
    """

    stream_offset: int
    """Position in the stream of the first byte; 0 is the first byte after the SYN, or, where no
    SYN was seen, the first byte seen."""
    segments: Segments
    first: int
    last: int


_new = tuple.__new__


def chunk_of(stream_offset: int, segments: Segments, first: int, last: int) -> Chunk:
    """Return a chunk; in a third of the time that its class takes."""
    return _new(Chunk, (stream_offset, segments, first, last))


class Gap(NamedTuple):
    """Bytes of a stream that are not in the capture."""

    stream_offset: int
    length: int
    """Above 0."""
    time_ns: int
    """Of the packet that came after the gap."""
    packet: int
    """Number of the packet that came after the gap."""


StreamItem: TypeAlias = Chunk | Gap
BothItems: TypeAlias = tuple[list[StreamItem], list[StreamItem]]


class StreamUpdate:
    """What a batch of packets added to one connection.

    If the ports of a connection are used again within one batch, there are two updates, the closed
    one first. An update may have no items (a FIN alone).
    """

    def __init__(
        self,
        connection: TcpConnection,
        items: tuple[list[StreamItem], list[StreamItem]],
        closed: bool,
    ) -> None:
        self.connection = connection
        self.items = items
        """By direction: ``items[0]`` is what ``connection.endpoints[0]`` sent."""
        self.closed = closed
        """True if no later update names this connection."""
        self.closed_packet: int | None = None
        """Number of the packet that closed it; None if no packet did."""


PartKind: TypeAlias = Literal["address", "address text", "host", "name", "secret", "text", "bytes"]
"""Of bytes in a prefix: an address of 4 or 16 bytes; an address as text; a host name or an address
as text; a name of a user; a password or credentials; other text; other bytes that are skipped."""


class PrefixPart(NamedTuple):
    """Bytes of a prefix that have a meaning of their own. All others are fixed, sizes or ports."""

    begin: int
    """Stream offset."""
    end: int
    kind: PartKind


class TokenBytes(NamedTuple):
    """Where a stream holds, or may hold, a SASL token: code that stores packets blanks it out.

    A later value with the same connection, direction and ``stream_offset`` replaces this one.
    """

    connection: TcpConnection
    direction: int
    """0 or 1, as in :class:`StreamUpdate`."""
    stream_offset: int
    """Where the message begins, or the bytes that could not be read."""
    begin: int
    """Position in the stream of the first byte of the token."""
    end: int | None
    """Position after its last byte; None for everything that follows, until it is replaced."""
    time_ns: int
    """When it was found: the time of the connection's latest packet."""


class PrefixBytes(NamedTuple):
    """The captured bytes of a prefix in one direction, from the stream's first one on."""

    connection: TcpConnection
    direction: int
    data: bytes
    parts: tuple[PrefixPart, ...]
    """In order, without overlaps."""


# -- copies that stay valid after their batch ----------------------------------------------------
_BYTES_OF_AN_ITEM: Final = 512
"""Memory of an item without its bytes."""


def first_packet(item: StreamItem) -> int:
    """Return the number of an item's first packet."""
    return item.segments.packet[item.first] if isinstance(item, Chunk) else item.packet


def memory_of(item: StreamItem) -> int:
    """Return the approximate memory of a buffered item."""
    if not isinstance(item, Chunk):
        return _BYTES_OF_AN_ITEM
    return _BYTES_OF_AN_ITEM + sum(item.segments.captured[item.first : item.last])


def copy_of(item: StreamItem) -> StreamItem:
    """Return an item that stays valid after its batch."""
    if not isinstance(item, Chunk):
        return item
    segments, rows = item.segments, slice(item.first, item.last)
    captured = segments.captured[rows]
    pieces = [
        segments.view(start, start + size)
        for start, size in zip(segments.start[rows], captured, strict=True)
    ]
    own = Segments(
        memoryview(b"".join(pieces)),
        list(accumulate(captured, initial=0))[:-1],
        *(segments.length[rows], captured, segments.time_ns[rows], segments.packet[rows]),
    )
    return Chunk(item.stream_offset, own, 0, len(pieces))


def items_state(stream_items: list[StreamItem]) -> State:
    """Return what :func:`both_items` takes; the items have to be copies."""
    return tuple(
        [
            tuple(item)
            if not isinstance(item, Chunk)
            else (item.stream_offset, bytes(item.segments.buffer), *_columns(item.segments))
            for item in stream_items
        ]
    )


def _columns(segments: Segments) -> State:
    return (
        *(tuple(segments.length), tuple(segments.captured)),
        *(tuple(segments.time_ns), tuple(segments.packet)),
    )


def both_items(state: object) -> BothItems:
    """Return the items of both directions from a state; raises ValueError for any other value."""
    one, other = fields(state, "tt")
    return _items_from_state(one), _items_from_state(other)


def _items_from_state(state: object) -> list[StreamItem]:
    stream_items: list[StreamItem] = []
    for item in items(state, "t"):
        if len(item) == len(Gap._fields):
            stream_items.append(Gap(*fields(item, "nnin")))
            continue
        offset, data, lengths, captured, times, packets = fields(item, "nytttt")
        columns = (lengths, captured, times, packets)
        for column, kind in zip(columns, "nnin", strict=True):
            items(column, kind)
        count = len(lengths)
        if not count or any(len(column) != count for column in columns):
            raise ValueError("columns of different lengths")
        if sum(captured) != len(data) or any(map(operator.gt, captured, lengths)):
            raise ValueError("more bytes than a segment had")
        starts = list(accumulate(captured, initial=0))[:-1]
        stream_items.append(Chunk(offset, Segments(memoryview(data), starts, *columns), 0, count))
    return stream_items
