"""The values that pass between the stages of the pipeline.

In: nothing. Out: plain value types, used by every stage. This module must not know how any of
them is made: it imports no stage, no I/O, no clock.

    bytes -> PacketBatch -> StreamUpdate (Chunk | Gap) -> Frame -> Exchange -> row

Units are in the names. Times are Unix times in nanoseconds as 64-bit integers,
never floats: a double holds no nanosecond of this century. Packet numbers count from 1 over the
whole input, as Wireshark counts within a file.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from kanalyze.named import NamedTuple
from kanalyze.packet_columns import picked, picked_types
from kanalyze.plain import fields

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from kanalyze.plain import State
    from kanalyze.segments import Segments

__all__ = [
    "NET_ANOMALIES",
    "Anomaly",
    "AnomalyKind",
    "Chunk",
    "ConnectionEnd",
    "Endpoint",
    "Gap",
    "PacketBatch",
    "RoundTrips",
    "StreamItem",
    "StreamUpdate",
    "TcpConnection",
    "TcpMeasures",
    "TokenBytes",
    "end_of_two",
    "kind_of",
]


class PacketBatch:
    """A run of captured packets, as columns over one buffer.

    All columns have the same length, one entry a packet, in the order of the capture. They are
    arrays of 64-bit integers, ``link_type`` of 32-bit ones; whoever works with NumPy looks at them
    through :class:`kanalyze.gathers.PacketArrays`.

    ``buffer`` holds the packets' bytes (and whatever lies between them in the file). **It is valid
    until the next batch is asked for**: readers use it again, because reading into a warm buffer
    is ten times as fast as touching new pages. Whoever keeps bytes for longer copies them.
    """

    __slots__ = (
        "buffer",
        "captured_bytes",
        "link_type",
        "number",
        "offset",
        "time_ns",
        "wire_bytes",
    )

    def __init__(
        self,
        buffer: memoryview,
        number: array[int],
        time_ns: array[int],
        offset: array[int],
        captured_bytes: array[int],
        wire_bytes: array[int],
        link_type: array[int],
    ) -> None:
        self.buffer = buffer
        """The bytes, format ``B``."""
        self.number = number
        """Packet number over the whole input, from 1; rising, by 1 unless packets were left out."""
        self.time_ns = time_ns
        """Unix time of capture in ns."""
        self.offset = offset
        """Index in ``buffer`` of the first byte of the link-layer header."""
        self.captured_bytes = captured_bytes
        """Bytes of the packet that the capture holds."""
        self.wire_bytes = wire_bytes
        """Bytes the packet had on the wire; at least ``captured_bytes``."""
        self.link_type = link_type
        """LINKTYPE_ value of the packet's interface (1 Ethernet, 113 Linux cooked, 101 raw IP,
        ...)."""

    def __len__(self) -> int:
        return len(self.number)

    def taken(self, rows: Sequence[int]) -> PacketBatch:
        """Return the packets at some indices, over the same buffer.

        ``rows`` is an array of 64-bit integers.
        """
        return PacketBatch(
            self.buffer,
            picked(self.number, rows),
            picked(self.time_ns, rows),
            picked(self.offset, rows),
            picked(self.captured_bytes, rows),
            picked(self.wire_bytes, rows),
            picked_types(self.link_type, rows),
        )


class Endpoint(NamedTuple):
    """One end of a TCP connection."""

    ip: str
    """Canonical text: dotted quad, or RFC 5952 for IPv6 (no brackets)."""
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class RoundTrips:
    """Times from data to its acknowledgment, both seen at the capture point; summed up."""

    __slots__ = ("least_ns", "most_ns", "samples", "total_ns")

    def __init__(
        self,
        samples: int = 0,
        total_ns: int = 0,
        least_ns: int | None = None,
        most_ns: int | None = None,
    ) -> None:
        self.samples = samples
        self.total_ns = total_ns
        self.least_ns = least_ns
        """None without samples."""
        self.most_ns = most_ns

    @property
    def mean_ns(self) -> int | None:
        """Rounded down; None without samples."""
        return self.total_ns // self.samples if self.samples else None

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return self.samples, self.total_ns, self.least_ns, self.most_ns

    @classmethod
    def from_state(cls, state: object) -> RoundTrips:
        """Make one from a state; raises ValueError where that is none."""
        made = cls(*fields(state, "nnNN"))
        if (made.least_ns is None) != (not made.samples) or (made.most_ns is None) != (
            not made.samples
        ):
            raise ValueError("a least and a most of no samples")
        return made


class TcpMeasures:
    """What is measured of a connection for those who ask. Pairs by sender, as in the connection.

    A *duplicate* is a packet that the capture holds more than once (an ``any`` capture of a
    bridged packet, two mirror ports): the sender sent it once. Counts other than
    ``duplicate_packets`` leave duplicates out.
    """

    __slots__ = (
        "duplicate_packets",
        "fin_packets",
        "handshake_ack_time_ns",
        "keep_alive_packets",
        "opened_by",
        "reset_packets",
        "retransmitted_packets",
        "round_trips",
        "syn_ack_time_ns",
        "syn_retransmissions",
        "syn_time_ns",
        "zero_window_packets",
    )

    def __init__(self) -> None:
        self.duplicate_packets = [0, 0]
        self.retransmitted_packets = [0, 0]
        """Packets with payload of which some had been seen before, keep-alive probes left out."""
        self.keep_alive_packets = [0, 0]
        """Probes of no or one byte just before what comes next (RFC 9293, section 3.8.4)."""
        self.zero_window_packets = [0, 0]
        """Packets (no SYN, FIN, RST) that announce a receive window of 0."""
        self.reset_packets = [0, 0]
        self.fin_packets = [0, 0]
        self.syn_retransmissions = [0, 0]
        """SYNs after the first, of each end."""
        self.syn_time_ns: int | None = None
        """Of the first SYN of the end that opened; None when it was not seen."""
        self.syn_ack_time_ns: int | None = None
        """Of the first SYN that answers it."""
        self.handshake_ack_time_ns: int | None = None
        """Of the first packet that acknowledges the answer's SYN and nothing more; None when not
        seen, or when the opener's first packet after the answer was another."""
        self.opened_by: int | None = None
        """Index of the end whose SYN ``syn_time_ns`` is, or that was answered."""
        self.round_trips = (RoundTrips(), RoundTrips())
        """By sender of the data: index 0 is from the capture point to ``endpoints[1]`` and back.

        A sample is the time from a segment with payload, captured for the first time, to the first
        acknowledgment that covers it, if that ends exactly where the segment does. The receiver's
        delay of its acknowledgment is part of it. Segments that were sent again give none, for
        there is no telling which one was acknowledged (Karn's rule; RFC 6298, section 3).
        """

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        one, other = self.round_trips
        return (
            *self.duplicate_packets,
            *self.retransmitted_packets,
            *self.keep_alive_packets,
            *self.zero_window_packets,
            *self.reset_packets,
            *self.fin_packets,
            *self.syn_retransmissions,
            self.opened_by,
            self.syn_time_ns,
            self.syn_ack_time_ns,
            self.handshake_ack_time_ns,
            one.state(),
            other.state(),
        )

    @classmethod
    def from_state(cls, state: object) -> TcpMeasures:
        """Make them from a state; raises ValueError where that is none."""
        values = fields(state, "n" * 14 + "NIIItt")
        made = cls()
        made.duplicate_packets = list(values[0:2])
        made.retransmitted_packets = list(values[2:4])
        made.keep_alive_packets = list(values[4:6])
        made.zero_window_packets = list(values[6:8])
        made.reset_packets = list(values[8:10])
        made.fin_packets = list(values[10:12])
        made.syn_retransmissions = list(values[12:14])
        made.opened_by = end_of_two(values[14])
        made.syn_time_ns, made.syn_ack_time_ns, made.handshake_ack_time_ns = values[15:18]
        made.round_trips = RoundTrips.from_state(values[18]), RoundTrips.from_state(values[19])
        return made

    @property
    def handshake_rtt_ns(self) -> int | None:
        """From SYN to the acknowledgment of its answer: the whole way and back.

        None when one of the three was not seen, came in another order, or a SYN of either end was
        repeated: there is no telling then which one was answered (RFC 6298, section 3).
        """
        first_ns, second_ns = self.answer_rtt_ns, self.opener_rtt_ns
        return None if first_ns is None or second_ns is None else first_ns + second_ns

    @property
    def answer_rtt_ns(self) -> int | None:
        """From SYN to its answer: capture point to the end that was opened, and back.

        None when one was not seen or the SYN was repeated.
        """
        if self.opened_by is None or self.syn_retransmissions[self.opened_by]:
            return None
        return _elapsed_ns(self.syn_time_ns, self.syn_ack_time_ns)

    @property
    def opener_rtt_ns(self) -> int | None:
        """From the answer to its acknowledgment: capture point to the opener, and back.

        None when one was not seen or the answer was repeated.
        """
        if self.opened_by is None or self.syn_retransmissions[1 - self.opened_by]:
            return None
        return _elapsed_ns(self.syn_ack_time_ns, self.handshake_ack_time_ns)


def end_of_two(index: int | None) -> int | None:
    """Return the index of an end of a connection, or None; raises ValueError for any other."""
    if index is not None and index not in (0, 1):
        raise ValueError(f"end {index} of a connection")
    return index


def _elapsed_ns(begin_ns: int | None, end_ns: int | None) -> int | None:
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return None
    return end_ns - begin_ns


ConnectionEnd: TypeAlias = Literal["fin", "reset", "open", "reused", "limit", "idle"]
"""Why nothing more is told of a connection: both ends sent a FIN; one sent a RST; the capture was
over first; a new connection took the ports without a close of this one; too many were open; it was
silent for so long that it counts as forgotten."""


_ENDS = (None, *get_args(ConnectionEnd))
_MOST_PORT = 0xFFFF


class TcpConnection:
    """One TCP connection, as the packet layer knows it: no notion of client and broker.

    Compared and hashed by identity. The counters are pairs, by direction: index 0 counts what
    ``endpoints[0]`` sent, index 1 what ``endpoints[1]`` sent. They are written by the reassembler
    as packets arrive. ``packets`` and ``payload_bytes`` count what the capture holds, copies
    included; each byte in ``payload_bytes`` is new (:attr:`unique_bytes`) or in exactly one of
    ``retransmitted_bytes``, ``duplicate_bytes`` and ``keep_alive_bytes``.
    """

    __slots__ = (
        "closed_by",
        "connection_number",
        "duplicate_bytes",
        "end",
        "endpoints",
        "first_packet",
        "first_sequence",
        "first_time_ns",
        "keep_alive_bytes",
        "last_time_ns",
        "lost_bytes",
        "measures",
        "opened_by",
        "out_of_order_packets",
        "packets",
        "payload_bytes",
        "reset",
        "retransmitted_bytes",
        "serial",
        "snapped_bytes",
        "start_seen",
    )

    def __init__(
        self,
        serial: int,
        endpoints: tuple[Endpoint, Endpoint],
        connection_number: int,
        opened_by: int | None,
        first_time_ns: int,
        last_time_ns: int,
        first_packet: int | None = None,
        start_seen: list[bool] | None = None,
        measures: TcpMeasures | None = None,
    ) -> None:
        self.serial = serial
        """1, 2, 3, ... in the order of the connections' first packets."""
        self.endpoints = endpoints
        """``endpoints[0]`` sent the first packet seen."""
        self.connection_number = connection_number
        """1 for the first connection on this pair of endpoints, 2 when the ports are used again."""
        self.opened_by = opened_by
        """Index of the end that sent the first SYN; None when the capture began later."""
        self.first_time_ns = first_time_ns
        self.last_time_ns = last_time_ns
        self.first_packet = first_packet
        """Number of the first packet seen."""
        self.first_sequence = [0, 0]
        """Sequence number of position 0 of the stream, once there is one."""
        self.start_seen = [False, False] if start_seen is None else start_seen
        """Whether position 0 of the stream is known to be its first byte: its SYN was seen, or the
        answer to it."""
        self.packets = [0, 0]
        """Packets captured, every copy counted."""
        self.payload_bytes = [0, 0]
        """TCP payload seen, every copy counted."""
        self.retransmitted_bytes = [0, 0]
        """Payload bytes sent again that had been seen before."""
        self.duplicate_bytes = [0, 0]
        """Payload bytes of packets that the capture holds more than once, without the first."""
        self.keep_alive_bytes = [0, 0]
        """Payload bytes of keep-alive probes: old, or of no meaning."""
        self.out_of_order_packets = [0, 0]
        """Packets with payload, none of it seen before, that came after a later part of the stream:
        captured in another order, or sent again because the first was lost before the capture."""
        self.lost_bytes = [0, 0]
        """Bytes never seen: gaps. The one count of them: all others are sums of this."""
        self.snapped_bytes = [0, 0]
        """Bytes that a snap length cut off; the one count of them too."""
        self.reset = False
        """A RST was seen."""
        self.closed_by: int | None = None
        """Index of the end whose FIN or RST came first; None while none was seen."""
        self.end: ConnectionEnd | None = None
        """Why it ended; None as long as updates may come."""
        self.measures = measures
        """None unless the reassembler was told to measure."""

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        (one_ip, one_port), (other_ip, other_port) = self.endpoints
        return (
            *(self.serial, one_ip, one_port, other_ip, other_port, self.connection_number),
            *(self.opened_by, self.first_time_ns, self.last_time_ns, self.first_packet),
            *(self.reset, self.closed_by, self.end),
            None if self.measures is None else self.measures.state(),
            *self.start_seen,
            *self.first_sequence,
            *self.packets,
            *self.payload_bytes,
            *self.retransmitted_bytes,
            *self.duplicate_bytes,
            *self.keep_alive_bytes,
            *self.out_of_order_packets,
            *self.lost_bytes,
            *self.snapped_bytes,
        )

    @classmethod
    def from_state(cls, state: object) -> TcpConnection:
        """Make one from a state; raises ValueError where that is none."""
        values = fields(state, "nsnsnnNiiNbNSTbb" + 18 * "n")
        serial, one_ip, one_port, other_ip, other_port, number, opened_by = values[:7]
        first_time_ns, last_time_ns, first_packet, reset, closed_by, end, measures = values[7:14]
        if max(one_port, other_port) > _MOST_PORT or end not in _ENDS:
            raise ValueError("no port, or no end of a connection")
        made = cls(
            serial,
            (Endpoint(one_ip, one_port), Endpoint(other_ip, other_port)),
            number,
            end_of_two(opened_by),
            first_time_ns,
            last_time_ns,
            first_packet,
            list(values[14:16]),
            None if measures is None else TcpMeasures.from_state(measures),
        )
        made.reset, made.closed_by, made.end = reset, end_of_two(closed_by), end
        pairs = iter(values[16:])
        made.first_sequence = [next(pairs), next(pairs)]
        made.packets = [next(pairs), next(pairs)]
        made.payload_bytes = [next(pairs), next(pairs)]
        made.retransmitted_bytes = [next(pairs), next(pairs)]
        made.duplicate_bytes = [next(pairs), next(pairs)]
        made.keep_alive_bytes = [next(pairs), next(pairs)]
        made.out_of_order_packets = [next(pairs), next(pairs)]
        made.lost_bytes = [next(pairs), next(pairs)]
        made.snapped_bytes = [next(pairs), next(pairs)]
        return made

    @property
    def unique_bytes(self) -> list[int]:
        """Payload by direction, no byte of a stream counted twice."""
        return [
            self.payload_bytes[index]
            - self.retransmitted_bytes[index]
            - self.duplicate_bytes[index]
            - self.keep_alive_bytes[index]
            for index in (0, 1)
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
    """Bytes of a stream that the capture does not hold and will not."""

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

    A connection whose ports are used again within one batch gives two updates, the closed one
    first. An update may have no items (a FIN alone).
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
        """No later update names this connection."""
        self.closed_packet: int | None = None
        """The packet that closed it; None where none did."""


class AnomalyKind(enum.StrEnum):
    """Every kind of thing that can be wrong with a capture, one word each.

    The value is what reports, rows and tests show; once released it does not change.
    """

    meaning: str
    """For people, in a few words."""

    def __new__(cls, value: str, meaning: str) -> AnomalyKind:
        """Make a member of its value and its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # capture
    CAPTURE_TRUNCATED = "capture_truncated", "the file ends within a packet or a block"
    CAPTURE_CORRUPT = (
        "capture_corrupt",
        "a record of the file contradicts itself; reading stopped there",
    )
    CAPTURE_UNREADABLE = (
        "capture_unreadable",
        "a file that is no capture, or cannot be read; left out",
    )
    # net
    UNKNOWN_LINK_TYPE = (
        "unknown_link_type",
        "a packet of a link layer, or in a tunnel, that is not read",
    )
    BAD_IP_HEADER = "bad_ip_header", "a packet cut within its headers, or an IP header in conflict"
    BAD_TCP_HEADER = "bad_tcp_header", "a TCP header that is cut, or in conflict with the packet"
    IP_FRAGMENT = "ip_fragment", "an IP packet of which fragments are missing, or contradict"
    LOST_BYTES = "lost_bytes", "a gap in a stream: bytes that were sent and are not in the capture"
    SNAPPED_BYTES = "snapped_bytes", "bytes that the snap length cut off"
    INCONSISTENT_RETRANSMISSION = (
        "inconsistent_retransmission",
        "bytes sent again that are not those of the first time; the first are taken",
    )
    REORDER_LIMIT = (
        "reorder_limit",
        "too much held back while waiting for lost segments: the wait was given up",
    )
    CONNECTION_LIMIT = (
        "connection_limit",
        "more open connections than are kept: the one that was silent for longest was closed",
    )
    # connection
    NOT_IN_SYNC = "not_in_sync", "from here on the next frame had to be looked for"
    IMPLAUSIBLE_SIZE = "implausible_size", "a frame size that no broker would accept"
    INCOMPLETE_FRAME = (
        "incomplete_frame",
        "the connection or the capture ended within a frame",
    )
    MISSING_BYTES = "missing_bytes", "a frame has a hole where its decoder had to read"
    MALFORMED_BODY = "malformed_body", "a body that breaks the grammar of its API version"
    TRAILING_BYTES = "trailing_bytes", "bytes of a frame left over after its body"
    UNKNOWN_API = "unknown_api", "an API key that is not in the tables"
    UNKNOWN_API_VERSION = (
        "unknown_api_version",
        "a version newer than the tables; decoded with the newest known one only if it fits",
    )
    ORPHAN_RESPONSE = "orphan_response", "a response whose request was not seen"
    UNSOLICITED_RESPONSE = (
        "unsolicited_response",
        "a response to a request that wants none (Produce with acks=0); they are paired",
    )
    UNANSWERED_REQUEST = "unanswered_request", "a request whose response was not seen"
    RESPONSE_BEFORE_REQUEST = (
        "response_before_request",
        "a response captured before its request; they are paired",
    )
    PENDING_LIMIT = (
        "pending_limit",
        "more requests without an answer than are kept: the oldest was given up",
    )
    MEMORY_LIMIT = "memory_limit", "bytes dropped because all that was held took too much memory"
    TLS_ON_PLAINTEXT_PORT = (
        "tls_on_plaintext_port",
        "a TLS client on a connection that the broker takes for Kafka",
    )


def kind_of(value: str) -> AnomalyKind:
    """Return the kind with a value; raises ValueError where there is none."""
    return AnomalyKind(value)  # type: ignore[call-arg]


NET_ANOMALIES = frozenset(
    {
        AnomalyKind.UNKNOWN_LINK_TYPE,
        AnomalyKind.BAD_IP_HEADER,
        AnomalyKind.BAD_TCP_HEADER,
        AnomalyKind.IP_FRAGMENT,
        AnomalyKind.LOST_BYTES,
        AnomalyKind.SNAPPED_BYTES,
        AnomalyKind.INCONSISTENT_RETRANSMISSION,
        AnomalyKind.REORDER_LIMIT,
        AnomalyKind.CONNECTION_LIMIT,
    }
)
"""Those that the packet layer finds, and keeps count of itself."""


class Anomaly(NamedTuple):
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


class TokenBytes(NamedTuple):
    """Where a stream holds what somebody logs in with, or may hold it: for whoever keeps packets.

    What is told later of the same connection, direction and ``stream_offset`` holds in its place.
    """

    connection: TcpConnection
    direction: int
    """0 or 1, as in :class:`StreamUpdate`."""
    stream_offset: int
    """Of the message, or of the bytes that could not be read."""
    begin: int
    """Position in the stream of the first byte of the token."""
    end: int | None
    """Position after its last byte; None for all that follows, for the present."""
    time_ns: int
    """When it was found: the time of the connection's latest packet."""
