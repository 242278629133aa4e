"""TCP connections: their ends, counters and measures.

In: numbers that ``net`` counts. Out: :class:`TcpConnection` and the values it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, get_args

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.model.network_path import NetworkPath
from kanalyze.model.proxy import ProxiedBy
from kanalyze.model.tls import TlsConnection
from kanalyze.spec.rows.connections import ConnectionEnd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.common.plain_values import State

__all__ = [
    "ConnectionEnd",
    "Endpoint",
    "RoundTrips",
    "TcpConnection",
    "TcpMeasures",
    "end_of_two",
    "open_connection",
]

_T = TypeVar("_T")


class Endpoint(NamedTuple):
    """One end of a TCP connection."""

    ip: str
    """Canonical text: dotted quad, or RFC 5952 for IPv6 (no brackets)."""
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class RoundTrips:
    """Sums over the times from data to its acknowledgment, both seen at the capture point."""

    __slots__ = ("_least_ns", "_most_ns", "samples", "total_ns")

    def __init__(
        self,
        samples: int = 0,
        total_ns: int = 0,
        least_ns: int | None = None,
        most_ns: int | None = None,
    ) -> None:
        self.samples = samples
        self.total_ns = total_ns
        self._least_ns = least_ns or 0
        self._most_ns = most_ns or 0

    def add(self, elapsed_ns: int) -> None:
        """Add a sample in ns, which is not negative."""
        if not self.samples or elapsed_ns < self._least_ns:
            self._least_ns = elapsed_ns
        if not self.samples or elapsed_ns > self._most_ns:
            self._most_ns = elapsed_ns
        self.samples += 1
        self.total_ns += elapsed_ns

    @property
    def least_ns(self) -> int | None:
        """The least sample; None without samples."""
        return self._least_ns if self.samples else None

    @property
    def most_ns(self) -> int | None:
        """The largest sample; None without samples."""
        return self._most_ns if self.samples else None

    @property
    def mean_ns(self) -> int | None:
        """Rounded down; None without samples."""
        return self.total_ns // self.samples if self.samples else None

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        bounds = (self._least_ns, self._most_ns) if self.samples else (None, None)
        return self.samples, self.total_ns, *bounds

    @classmethod
    def from_state(cls, state: object) -> RoundTrips:
        """Make one from a state; raises ValueError for any other value."""
        samples, total_ns, least_ns, most_ns = fields(state, "nnNN")
        if (least_ns is None) != (not samples) or (most_ns is None) != (not samples):
            raise ValueError("a least and a most of no samples")
        return cls(samples, total_ns, least_ns, most_ns)


class TcpMeasures:
    """What is measured of a connection on request. Pairs are by sender, as in the connection.

    A *duplicate* is a packet that the capture holds more than once (an ``any`` capture of a
    bridged packet, two mirror ports): the sender sent it once. Counts other than
    ``duplicate_packets`` leave duplicates out.
    """

    __slots__ = (
        "closed_time_ns",
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
        """Packets with payload, some of it seen before; keep-alive probes are left out."""
        self.keep_alive_packets = [0, 0]
        """Probes of no byte or one, just before the next sequence number (RFC 9293, 3.8.4)."""
        self.zero_window_packets = [0, 0]
        """Packets (no SYN, FIN, RST) that announce a receive window of 0."""
        self.reset_packets = [0, 0]
        self.fin_packets = [0, 0]
        self.closed_time_ns: int | None = None
        """Of the first FIN or RST of either end; None while none was seen."""
        self.syn_retransmissions = [0, 0]
        """SYNs after the first, of each end."""
        self.syn_time_ns: int | None = None
        """Of the first SYN of the end that opened; None when it was not seen."""
        self.syn_ack_time_ns: int | None = None
        """Of the first SYN-ACK that answers it."""
        self.handshake_ack_time_ns: int | None = None
        """Of the first packet that acknowledges the SYN-ACK and nothing more; None when not seen,
        or when the opener's first packet after the SYN-ACK was another."""
        self.opened_by: int | None = None
        """Index of the end that sent the SYN; None when neither the SYN nor its answer was seen."""
        self.round_trips = (RoundTrips(), RoundTrips())
        """By sender of the data: index 0 is from the capture point to ``endpoints[1]`` and back.

        A sample is the time from a segment with payload, captured for the first time, to the first
        acknowledgment that covers it, if that ends exactly where the segment does. The receiver's
        delay of its acknowledgment is part of it. Segments that were sent again give no sample,
        because it is not known which copy was acknowledged (Karn's rule; RFC 6298, section 3).
        """

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        first, second = self.round_trips
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
            self.closed_time_ns,
            first.state(),
            second.state(),
        )

    @classmethod
    def from_state(cls, state: object) -> TcpMeasures:
        """Make one from a state; raises ValueError for any other value."""
        values = fields(state, "n" * 14 + "NIIIItt")
        measures = cls()
        measures.duplicate_packets = list(values[0:2])
        measures.retransmitted_packets = list(values[2:4])
        measures.keep_alive_packets = list(values[4:6])
        measures.zero_window_packets = list(values[6:8])
        measures.reset_packets = list(values[8:10])
        measures.fin_packets = list(values[10:12])
        measures.syn_retransmissions = list(values[12:14])
        measures.opened_by = end_of_two(values[14])
        measures.syn_time_ns, measures.syn_ack_time_ns, measures.handshake_ack_time_ns = values[
            15:18
        ]
        measures.closed_time_ns = values[18]
        measures.round_trips = RoundTrips.from_state(values[19]), RoundTrips.from_state(values[20])
        return measures

    @property
    def handshake_rtt_ns(self) -> int | None:
        """From SYN to the acknowledgment of the SYN-ACK: the whole round trip.

        None when one of the three was not seen, they came in another order, or a SYN of either end
        was repeated: it is not known then which one was answered (RFC 6298, section 3).
        """
        first_ns, second_ns = self.answer_rtt_ns, self.opener_rtt_ns
        return None if first_ns is None or second_ns is None else first_ns + second_ns

    @property
    def answer_rtt_ns(self) -> int | None:
        """From SYN to SYN-ACK: the round trip from the capture point to the passive end.

        None when one of them was not seen or the SYN was repeated.
        """
        if self.opened_by is None or self.syn_retransmissions[self.opened_by]:
            return None
        return _elapsed_ns(self.syn_time_ns, self.syn_ack_time_ns)

    @property
    def opener_rtt_ns(self) -> int | None:
        """From SYN-ACK to its acknowledgment: the round trip from the capture point to the opener.

        None when one of them was not seen or the SYN-ACK was repeated.
        """
        if self.opened_by is None or self.syn_retransmissions[1 - self.opened_by]:
            return None
        return _elapsed_ns(self.syn_ack_time_ns, self.handshake_ack_time_ns)


def end_of_two(index: int | None) -> int | None:
    """Return ``index`` if it is 0, 1 or None; raises ValueError for any other."""
    if index is not None and index not in (0, 1):
        raise ValueError(f"end {index} of a connection")
    return index


def open_connection(connections: Mapping[int, _T], serial: int) -> _T:
    """Return the connection with a serial; raises ValueError if none is open."""
    connection = connections.get(serial)
    if connection is None:
        raise ValueError(f"no connection {serial} is open")
    return connection


def _elapsed_ns(begin_ns: int | None, end_ns: int | None) -> int | None:
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return None
    return end_ns - begin_ns


_ENDS = (None, *get_args(ConnectionEnd))
_MAX_PORT = 0xFFFF


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
        "path",
        "payload_bytes",
        "proxy",
        "reset",
        "retransmitted_bytes",
        "serial",
        "snapped_bytes",
        "start_seen",
        "tls",
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
        """Index of the end that sent the first SYN; None when no SYN was seen."""
        self.first_time_ns = first_time_ns
        self.last_time_ns = last_time_ns
        self.first_packet = first_packet
        """Number of the first packet seen."""
        self.first_sequence = [0, 0]
        """Sequence number of position 0 of the stream, once there is one."""
        self.start_seen = [False, False] if start_seen is None else start_seen
        """By direction, whether position 0 of the stream is known to be its first byte: the SYN or
        the answer to it was seen."""
        self.packets = [0, 0]
        """Packets captured, every copy counted."""
        self.payload_bytes = [0, 0]
        """TCP payload seen, every copy counted."""
        self.retransmitted_bytes = [0, 0]
        """Payload bytes sent again that had been seen before."""
        self.duplicate_bytes = [0, 0]
        """Payload bytes of further copies of packets that the capture holds more than once."""
        self.keep_alive_bytes = [0, 0]
        """Payload bytes of keep-alive probes: sent before, or without a meaning."""
        self.out_of_order_packets = [0, 0]
        """Packets with payload, none of it seen before, that came after a later part of the stream:
        captured in another order, or sent again because the first was lost before the capture."""
        self.lost_bytes = [0, 0]
        """Bytes never seen: gaps. Counted only here; every total is a sum of these."""
        self.snapped_bytes = [0, 0]
        """Bytes that a snap length cut off; counted only here, too."""
        self.reset = False
        """A RST was seen."""
        self.closed_by: int | None = None
        """Index of the end whose FIN or RST came first; None while none was seen."""
        self.end: ConnectionEnd | None = None
        """Why it ended; None as long as updates may come."""
        self.measures = measures
        """None unless the reassembler measures connections."""
        self.path = NetworkPath()
        """What its packets show of the network; the reassembler writes it."""
        self.tls: TlsConnection | None = None
        """What is known of its TLS; None without TLS, or if TLS is not looked for."""
        self.proxy: ProxiedBy | None = None
        """What a proxy put before the protocol; None for nothing."""

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        (first_ip, first_port), (second_ip, second_port) = self.endpoints
        return (
            *(self.serial, first_ip, first_port, second_ip, second_port, self.connection_number),
            *(self.opened_by, self.first_time_ns, self.last_time_ns, self.first_packet),
            *(self.reset, self.closed_by, self.end),
            None if self.measures is None else self.measures.state(),
            self.path.state(),
            None if self.tls is None else self.tls.state(),
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
            None if self.proxy is None else self.proxy.state(),
        )

    @classmethod
    def from_state(cls, state: object) -> TcpConnection:
        """Make one from a state; raises ValueError for any other value."""
        values = fields(state, "nsnsnnNiiNbNSTtTbb" + 18 * "n" + "T", (None,))
        serial, first_ip, first_port, second_ip, second_port, number, opened_by = values[:7]
        first_time_ns, last_time_ns, first_packet, reset, closed_by, end, measures = values[7:14]
        path, tls, *measures_state, proxy = values[14:]
        if max(first_port, second_port) > _MAX_PORT or end not in _ENDS:
            raise ValueError("no port, or no end of a connection")
        connection = cls(
            serial,
            (Endpoint(first_ip, first_port), Endpoint(second_ip, second_port)),
            number,
            end_of_two(opened_by),
            first_time_ns,
            last_time_ns,
            first_packet,
            measures_state[:2],
            None if measures is None else TcpMeasures.from_state(measures),
        )
        connection.reset, connection.closed_by, connection.end = reset, end_of_two(closed_by), end
        connection.path = NetworkPath.from_state(path)
        connection.tls = None if tls is None else TlsConnection.from_state(tls)
        connection.proxy = None if proxy is None else ProxiedBy.from_state(proxy)
        counts = iter(measures_state[2:])
        connection.first_sequence = [next(counts), next(counts)]
        connection.packets = [next(counts), next(counts)]
        connection.payload_bytes = [next(counts), next(counts)]
        connection.retransmitted_bytes = [next(counts), next(counts)]
        connection.duplicate_bytes = [next(counts), next(counts)]
        connection.keep_alive_bytes = [next(counts), next(counts)]
        connection.out_of_order_packets = [next(counts), next(counts)]
        connection.lost_bytes = [next(counts), next(counts)]
        connection.snapped_bytes = [next(counts), next(counts)]
        return connection

    @property
    def likely_client(self) -> int:
        """Index of the end that is the client most likely, as far as no message shows it.

        The end that opened the connection; else the one with the higher port, since clients get
        theirs from a range above the ports of most servers; else the end that sent first.
        """
        if self.opened_by is not None:
            return self.opened_by
        return int(self.endpoints[1].port > self.endpoints[0].port)

    def endpoint_and_peer(self, index: int) -> tuple[Endpoint, Endpoint]:
        """Return the endpoint at an index, and the other one."""
        return self.endpoints[index], self.endpoints[1 - index]

    @property
    def unique_bytes(self) -> list[int]:
        """Payload bytes by direction; no byte of a stream is counted twice."""
        return [
            self.payload_bytes[index]
            - self.retransmitted_bytes[index]
            - self.duplicate_bytes[index]
            - self.keep_alive_bytes[index]
            for index in (0, 1)
        ]
