"""The values that pass between the stages of the pipeline.

In: nothing. Out: plain value types, used by every stage. This module must not know how any of
them is made: it imports no stage, no I/O, no clock.

    bytes -> PacketBatch -> StreamUpdate (Chunk | Gap) -> Frame -> Exchange -> row

Units are in the names. Times are Unix times in nanoseconds as Python or NumPy 64-bit integers,
never floats: a double holds no nanosecond of this century. Packet numbers count from 1 over the
whole input, as Wireshark counts within a file.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Anomaly",
    "AnomalyKind",
    "Chunk",
    "Endpoint",
    "Gap",
    "PacketBatch",
    "Segments",
    "StreamItem",
    "StreamUpdate",
    "TcpConnection",
]


@dataclass(frozen=True, slots=True)
class PacketBatch:
    """A run of captured packets, as columns over one buffer.

    All columns have the same length, one entry a packet, in the order of the capture.

    ``buffer`` holds the packets' bytes (and whatever lies between them in the file). **It is valid
    until the next batch is asked for**: readers use it again, because reading into a warm buffer
    is ten times as fast as touching new pages. Whoever keeps bytes for longer copies them.
    """

    buffer: memoryview
    """The bytes, format ``B``."""
    number: NDArray[np.int64]
    """Packet number over the whole input, from 1, rising by 1."""
    time_ns: NDArray[np.int64]
    """Unix time of capture in ns."""
    offset: NDArray[np.int64]
    """Index in ``buffer`` of the first byte of the link-layer header."""
    captured_bytes: NDArray[np.int64]
    """Bytes of the packet that the capture holds."""
    wire_bytes: NDArray[np.int64]
    """Bytes the packet had on the wire; at least ``captured_bytes``."""
    link_type: NDArray[np.int32]
    """LINKTYPE_ value of the packet's interface (1 Ethernet, 113 Linux cooked, 101 raw IP, ...)."""

    def __len__(self) -> int:
        return len(self.number)


class Endpoint(NamedTuple):
    """One end of a TCP connection."""

    ip: str
    """Canonical text: dotted quad, or RFC 5952 for IPv6 (no brackets)."""
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


@dataclass(slots=True, eq=False)
class TcpConnection:
    """One TCP connection, as the packet layer knows it: no notion of client and broker.

    Compared and hashed by identity. The counters are pairs, by direction: index 0 counts what
    ``endpoints[0]`` sent, index 1 what ``endpoints[1]`` sent. They are written by the reassembler
    as packets arrive.
    """

    serial: int
    """1, 2, 3, ... in the order of the connections' first packets."""
    endpoints: tuple[Endpoint, Endpoint]
    """``endpoints[0]`` sent the first packet seen."""
    connection_number: int
    """1 for the first connection on this pair of endpoints, 2 when the ports are used again."""
    opened_by: int | None
    """Index of the end that sent the first SYN; None when the capture began later."""
    first_time_ns: int
    last_time_ns: int
    packets: list[int] = field(default_factory=lambda: [0, 0])
    payload_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """TCP payload seen, every copy counted."""
    retransmitted_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """Payload bytes that had been seen before (keep-alive probes and duplicates included)."""
    out_of_order_packets: list[int] = field(default_factory=lambda: [0, 0])
    """Packets with payload that came after a later part of the stream."""
    lost_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """Bytes never seen: gaps, and what a snap length cut off."""
    reset: bool = False
    """A RST was seen."""


@dataclass(frozen=True, slots=True)
class Segments:
    """TCP payloads as parallel lists over one buffer; a column store that chunks point into.

    The lists are Python's, not NumPy's: what reads them goes from element to element, and a
    NumPy scalar costs several times a list item.
    """

    buffer: memoryview
    """Valid as long as the batch the segments came from (see :class:`PacketBatch`)."""
    start: list[int]
    """Index in ``buffer`` of the first payload byte."""
    length: list[int]
    """Payload bytes on the wire, by the IP header; above 0."""
    captured: list[int]
    """Payload bytes in the buffer, from the first on; less than ``length`` under a snap length."""
    time_ns: list[int]
    packet: list[int]
    """Packet number."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive bytes of one direction of a connection: ``segments[first:last]``, in order.

    Each byte of a stream is in exactly one chunk or one gap; they come in rising order.
    """

    stream_offset: int
    """Position in the stream of the first byte; 0 is the first byte after the SYN, or, where no
    SYN was seen, the first byte seen."""
    segments: Segments
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of a stream that the capture does not hold and will not."""

    stream_offset: int
    length: int
    """Above 0."""
    time_ns: int
    """Of the packet that came after the gap."""
    packet: int
    """Number of the packet that came after the gap."""


StreamItem: TypeAlias = Chunk | Gap


@dataclass(slots=True)
class StreamUpdate:
    """What a batch of packets added to one connection.

    A connection whose ports are used again within one batch gives two updates, the closed one
    first. An update may have no items (a FIN alone).
    """

    connection: TcpConnection
    items: tuple[list[StreamItem], list[StreamItem]]
    """By direction: ``items[0]`` is what ``connection.endpoints[0]`` sent."""
    closed: bool
    """No later update names this connection."""


class AnomalyKind(enum.StrEnum):
    """Every kind of thing that can be wrong with a capture, one word each.

    The value is what reports, rows and tests show; once released it does not change.
    """

    # capture
    CAPTURE_TRUNCATED = "capture_truncated"
    """The file ends within a packet or a block."""
    CAPTURE_CORRUPT = "capture_corrupt"
    """A record of the file contradicts itself; reading stopped there."""
    # net
    UNKNOWN_LINK_TYPE = "unknown_link_type"
    BAD_IP_HEADER = "bad_ip_header"
    BAD_TCP_HEADER = "bad_tcp_header"
    IP_FRAGMENT = "ip_fragment"
    """A fragment that was not put together."""
    LOST_BYTES = "lost_bytes"
    """A gap in a stream: bytes that were sent and are not in the capture."""
    SNAPPED_BYTES = "snapped_bytes"
    """Bytes that the snap length cut off."""
    INCONSISTENT_RETRANSMISSION = "inconsistent_retransmission"
    """A retransmission with other bytes than the first time."""
    REORDER_LIMIT = "reorder_limit"
    """Too much held back while waiting for a lost segment: the wait was given up."""
    CONNECTION_LIMIT = "connection_limit"
    """More open connections than are kept: the one that was silent for longest was closed."""
    # connection
    NOT_IN_SYNC = "not_in_sync"
    """Bytes passed over while looking for a frame boundary."""
    IMPLAUSIBLE_SIZE = "implausible_size"
    """A frame size that no broker would accept."""
    INCOMPLETE_FRAME = "incomplete_frame"
    """The connection or the capture ended within a frame."""
    MISSING_BYTES = "missing_bytes"
    """A frame has a hole where its decoder had to read."""
    MALFORMED_BODY = "malformed_body"
    """A body that breaks the grammar of its API version."""
    TRAILING_BYTES = "trailing_bytes"
    """Bytes of a frame left over after its body."""
    UNKNOWN_API = "unknown_api"
    UNKNOWN_API_VERSION = "unknown_api_version"
    """A version newer than the tables; decoded with the newest known one only if it fits."""
    ORPHAN_RESPONSE = "orphan_response"
    UNANSWERED_REQUEST = "unanswered_request"
    RESPONSE_BEFORE_REQUEST = "response_before_request"
    """Paired, but captured the wrong way round."""
    PENDING_LIMIT = "pending_limit"
    """More requests in flight than are kept."""
    MEMORY_LIMIT = "memory_limit"
    """Bytes dropped because all that is held together took too much memory."""
    TLS_ON_PLAINTEXT_PORT = "tls_on_plaintext_port"
    """A TLS client on a connection that the broker takes for Kafka."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that was wrong with the input, as data.

    Fields are None where they do not apply or are not known.
    """

    kind: AnomalyKind
    time_ns: int | None = None
    packet: int | None = None
    connection: TcpConnection | None = None
    direction: int | None = None
    """0 or 1, as in :class:`StreamUpdate`."""
    stream_offset: int | None = None
    length: int | None = None
    """Bytes concerned."""
    api_key: int | None = None
    api_version: int | None = None
    field_path: str | None = None
    detail: str = ""
    """A short text for people; never bytes from the wire unless escaped."""
