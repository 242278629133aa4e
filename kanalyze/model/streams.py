"""Streams: what ``net`` returns of each connection, and ``kafka`` reads.

In: segments in order. Out: :class:`StreamUpdate` of :class:`Chunk` and :class:`Gap`;
:class:`TokenBytes` and :class:`PrefixBytes` for code that stores packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kanalyze.model.proxy import PrefixPart
    from kanalyze.model.segments import Segments
    from kanalyze.model.tcp import TcpConnection

__all__ = [
    "Chunk",
    "Gap",
    "PrefixBytes",
    "StreamItem",
    "StreamUpdate",
    "TokenBytes",
]


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


class StreamUpdate:
    """What a batch of packets added to one connection.

    If the ports of a connection are used again within one batch, there are two updates, the closed
    one first. An update may have no items (a FIN alone).
    """

    __slots__ = ("closed", "closed_packet", "connection", "items")

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
