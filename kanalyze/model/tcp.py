"""TCP connections: their ends, counters and measures.

In: numbers that ``net`` counts. Out: :class:`TcpConnection` and the values it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, get_args

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.network_path import NetworkPath
from kanalyze.model.proxy import ProxiedBy
from kanalyze.model.tls import TlsConnection
from kanalyze.spec.rows.connections import ConnectionEnd

if TYPE_CHECKING:
    from collections.abc import Mapping


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


@Saved("ip:str port:u16")
class Endpoint(NamedTuple):
    """One end of a TCP connection."""

    ip: str
    """Canonical text: dotted quad, or RFC 5952 for IPv6 (no brackets)."""
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class RoundTrips:
    """Sums over the times from data to its acknowledgment, both seen at the capture point."""

    _SAVED = Saved("samples:count total_ns:count least_ns:count? most_ns:count?", arguments=4)

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
    _SAVED = Saved(
        "duplicate_packets:2*count retransmitted_packets:2*count keep_alive_packets:2*count "
        "zero_window_packets:2*count reset_packets:2*count fin_packets:2*count "
        "syn_retransmissions:2*count opened_by:end? syn_time_ns:int? syn_ack_time_ns:int? "
        "handshake_ack_time_ns:int? closed_time_ns:int? round_trips:*(RoundTrips,RoundTrips)",
        RoundTrips,
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
    _SAVED = Saved(
        "serial:count endpoints:*(*Endpoint,*Endpoint) connection_number:count opened_by:end? "
        "first_time_ns:int last_time_ns:int first_packet:count? reset:bool closed_by:end? end:str? "
        "measures:TcpMeasures? path:NetworkPath tls:TlsConnection? start_seen:2*bool "
        "first_sequence:2*count packets:2*count payload_bytes:2*count retransmitted_bytes:2*count "
        "duplicate_bytes:2*count keep_alive_bytes:2*count out_of_order_packets:2*count "
        "lost_bytes:2*count snapped_bytes:2*count",
        Endpoint,
        TcpMeasures,
        NetworkPath,
        TlsConnection,
        ProxiedBy,
        added="proxy:ProxiedBy?",
        arguments=6,
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

    def _after_load(self) -> None:
        if self.end not in _ENDS:
            raise ValueError("no end of a connection")

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
