"""TCP connections: their ends, counters and measures, and the network path between the ends.

In: numbers that ``net`` counts, and events that it finds, in the order of the capture. Out:
:class:`TcpConnection` and the values it has.

:class:`NetworkPath` tells of round trips, retransmissions and zero windows as of each packet. Rows
ask about packets, not about "now": the answer for a packet does not depend on how many packets were
in its batch.
"""

from __future__ import annotations

import functools
import itertools
import operator
from array import array
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar, get_args

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved
from kanalyze.model.tls import TlsConnection
from kanalyze.spec.rows.requests import ConnectionEnd

NOT_KNOWN = -1
FALL_BYTES = 16
MAX_FALLS = 64  # falls of the least round trip that are all kept; later ones if they halve it
MAX_DELAY_NS = 200_000_000  # of an acknowledgment; RFC 9293 allows 500 ms

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    # Where a connection has the numbers of its first end; those of the second follow each.
    FIRST_SEQUENCE, PACKETS, PAYLOAD_BYTES, RETRANSMITTED_BYTES, DUPLICATE_BYTES = range(0, 10, 2)
    KEEP_ALIVE_BYTES, OUT_OF_ORDER_PACKETS, LOST_BYTES, SNAPPED_BYTES = range(10, 18, 2)
    RARE, NUMBERS = 6, 18

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.common.plain_values import State

__all__ = [
    "KEPT_NS",
    "ConnectionEnd",
    "Endpoint",
    "NetworkPath",
    "ProxiedBy",
    "RoundTripHistory",
    "RoundTrips",
    "TcpConnection",
    "TcpMeasures",
    "end_of_two",
    "ip_text",
    "ipv4_text",
    "open_connection",
]

_T = TypeVar("_T")
_ENDS = (None, *get_args(ConnectionEnd))
KEPT_NS: Final = 300_000_000_000
"""How long an event is remembered; for a request that took longer, events are not known."""
MAX_EVENTS: Final = 4096
"""Events that are remembered of a connection; when there are more, the older half is forgotten."""
_KEPT_NS = KEPT_NS
_NEVER = (1 << 63) - 1
_NO_RANGE = (-2, -1)
_STARTS = (((False, False), (False, True)), ((True, False), (True, True)))
"""By whether the start of the first end's stream was seen, and that of the second: for all
connections the same four objects."""
_FALL = Struct("qq")
_NOTHING = array("q")
"""Shared by all paths without events: never written to."""


@Saved("ip:str port:u16")
class Endpoint(NamedTuple):
    """One end of a TCP connection."""

    ip: str
    """Canonical text: dotted quad, or RFC 5952 for IPv6 (no brackets)."""
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


@functools.lru_cache(maxsize=4096)
def ipv4_text(address: int) -> str:
    """Write an IPv4 address: dotted quad."""
    return ".".join(map(str, address.to_bytes(4)))


@functools.lru_cache(maxsize=4096)
def ip_text(high: int, low: int, *, is_ipv6: bool) -> str:
    """Write an address: dotted quad, or RFC 5952 for IPv6, without brackets.

    ``high`` and ``low`` are the halves of an IPv6 address; an IPv4 address is in ``low``.
    IPv4-mapped IPv6 addresses are written ``::ffff:1.2.3.4``.
    """
    if not is_ipv6:
        return ipv4_text(low)
    import ipaddress  # slow to import, and many captures have no IPv6

    address = ipaddress.IPv6Address(high << 64 | low)
    # Python writes IPv4-mapped addresses with dots only from 3.13 on.
    mapped = address.ipv4_mapped
    return str(address) if mapped is None else f"::ffff:{mapped}"


@Saved("kind:str client_ip:str? client_port:u16? target:str?")
class ProxiedBy(NamedTuple):
    """What came before the first protocol of a connection; None means not named, or not seen."""

    kind: str
    """``proxy-v1``, ``proxy-v2``, ``http-connect``, ``socks4``, ``socks5``; several, in the order
    on the wire, with ``+`` between them."""
    client_ip: str | None
    """The address of the client that the last PROXY header with an address names."""
    client_port: int | None
    target: str | None
    """Host and port that the client asked the last proxy for."""

    def _after_load(self) -> None:
        if (self.client_ip is None) != (self.client_port is None):
            raise ValueError("no address of a client")


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


def _elapsed_ns(begin_ns: int | None, end_ns: int | None) -> int | None:
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return None
    return end_ns - begin_ns


class RoundTripHistory:
    """The least round trip from the capture point to one end of a connection, packet by packet.

    Attributes:
        least_ns: least of all round trips, including those that the receiver may have delayed;
            ``NOT_KNOWN`` without one.
        prompt_ns: least of the round trips that the receiver did not delay, or ``NOT_KNOWN``.
    """

    _NOT_SAVED = ("_earlier", "_last_fall", "_last_packet")

    def __init__(self) -> None:
        self.least_ns = NOT_KNOWN
        self.prompt_ns = NOT_KNOWN
        self._earlier = b""
        """The packets at which the least round trip fell, and the falls, but for the last."""
        self._last_packet = _NEVER
        self._last_fall = NOT_KNOWN

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes."""
        falls = self._falls()
        return self.least_ns, self.prompt_ns, tuple(falls[::2]), tuple(falls[1::2])

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        self.least_ns, self.prompt_ns, packets, falls = fields(state, "iitt")
        packets, falls = items(packets, "i"), items(falls, "n")
        if len(packets) != len(falls) or min(self.least_ns, self.prompt_ns) < NOT_KNOWN:
            raise ValueError("no history of round trips")
        for packet, fall_ns in zip(packets, falls, strict=True):
            self._fall_to(fall_ns, packet)

    def _falls(self) -> list[int]:
        """Return the packet of each fall, followed by the least round trip from there on."""
        falls = list(memoryview(self._earlier).cast("q"))
        return falls if self._last_fall < 0 else [*falls, self._last_packet, self._last_fall]

    def _fall_to(self, fall_ns: int, packet: int) -> None:
        if self._last_fall >= 0:
            self._earlier += _FALL.pack(self._last_packet, self._last_fall)
        self._last_packet, self._last_fall = packet, fall_ns

    def add(self, elapsed_ns: int, is_prompt: bool, packet: int) -> None:
        """Take a round trip, which ended with a packet.

        A round trip that the receiver may have delayed is only an upper bound for the network. It
        counts as soon as there is one that was not delayed.
        """
        if self.least_ns < 0 or elapsed_ns < self.least_ns:
            self.least_ns = elapsed_ns
        if is_prompt and (self.prompt_ns < 0 or elapsed_ns < self.prompt_ns):
            self.prompt_ns = elapsed_ns
        if self.prompt_ns < 0:
            return
        current_ns, last_ns = min(self.prompt_ns, self.least_ns), self._last_fall
        if last_ns >= 0:
            is_full = len(self._earlier) >= (MAX_FALLS - 1) * FALL_BYTES
            # To bound memory, after MAX_FALLS only a fall to half or less is kept.
            if current_ns >= last_ns or (is_full and 2 * current_ns > last_ns):
                return
        self._fall_to(current_ns, packet)

    def least_at(self, packet: int) -> int:
        """Return the least round trip in ns up to a packet; ``NOT_KNOWN`` where there is none."""
        if self._last_packet <= packet:
            return self._last_fall
        least_ns = NOT_KNOWN
        for earlier, fall_ns in _FALL.iter_unpack(self._earlier):
            if earlier > packet:
                break
            least_ns = fall_ns
        return least_ns


class NetworkPath:
    """What one connection's packets show of the network between its ends.

    Attributes:
        round_trips: by the sender of what was acknowledged: index 0 is from the capture point to
            ``endpoints[1]`` and back, index 1 to ``endpoints[0]`` and back.
        has_events: whether a packet was ever sent again, or announced a window of 0.
    """

    _NOT_SAVED = ("_quiet_after", "_quiet_before", "_resent")
    _SAVED = Saved(
        "round_trips:2*here has_events:bool _first:int _last:int _forgotten:int "
        "_packets:array[int] _times:array[int] _senders:array[int] _begins:array[int] "
        "_ends:array[int] _are_tails:array[int]"
    )

    def __init__(self) -> None:
        self.round_trips = (RoundTripHistory(), RoundTripHistory())
        self.has_events = False
        # Columns with one entry per event; a zero window has an empty range of bytes.
        self._packets = self._times = self._senders = _NOTHING
        self._begins = self._ends = self._are_tails = _NOTHING
        self._resent = _NOTHING
        """How many events up to each one, itself included, are retransmissions."""
        self._first = self._last = self._forgotten = NOT_KNOWN
        """Packets of the first event, of the last, and of the last forgotten one."""
        self._quiet_after = self._quiet_before = NOT_KNOWN
        """Two packets without an event between them, from the last query: most queries are about
        such a range."""

    def _after_load(self) -> None:
        columns = self._packets, self._times, self._senders, self._begins, self._ends
        lengths = {len(column) for column in (*columns, self._are_tails)}
        if len(lengths) != 1 or len(self._packets) > MAX_EVENTS:
            raise ValueError("columns of events that are not of one length")
        are_resent = map(operator.gt, self._ends, self._begins)
        self._resent = array("q", itertools.accumulate(are_resent))

    @property
    def events(self) -> int:
        """Number of events that are remembered."""
        return len(self._packets)

    def add_retransmission(
        self, sender: int, begin: int, end: int, is_tail: bool, time_ns: int, packet: int
    ) -> None:
        """Take a packet with bytes that were sent before.

        Args:
            sender: index of the end in the connection.
            begin: stream offset of its first byte.
            end: stream offset after its last byte.
            is_tail: it repeats the last bytes sent so far: it may be a probe.
            time_ns: of the packet.
            packet: its number.
        """
        self._add(sender, begin, end, is_tail, time_ns, packet)

    def add_zero_window(self, sender: int, time_ns: int, packet: int) -> None:
        """Take a packet that announces a receive window of 0."""
        self._add(sender, 0, 0, False, time_ns, packet)

    def _add(
        self, sender: int, begin: int, end: int, is_tail: bool, time_ns: int, packet: int
    ) -> None:
        if not self.has_events:
            self.has_events = True
            self._first = packet
        if len(self._packets) == 0:
            self._packets, self._times, self._senders = array("q"), array("q"), array("q")
            self._begins, self._ends, self._are_tails = array("q"), array("q"), array("q")
            self._resent = array("q")
        elif len(self._packets) >= MAX_EVENTS:
            self._forget(MAX_EVENTS // 2)
        self._last = packet
        self._quiet_before = min(self._quiet_before, packet)
        self._packets.append(packet)
        self._times.append(time_ns)
        self._senders.append(sender)
        self._begins.append(begin)
        self._ends.append(end)
        self._are_tails.append(is_tail)
        before = self._resent[-1] if len(self._resent) else 0
        self._resent.append(before + (end > begin))

    def forget_before(self, time_ns: int) -> None:
        """Forget the oldest events, up to the first that is not before ``time_ns``."""
        count = 0
        while count < len(self._times) and self._times[count] < time_ns:
            count += 1
        if count:
            self._forget(count)

    def forget_all(self) -> None:
        """Forget every event, because all connections together have too many."""
        if len(self._packets):
            self._forget(len(self._packets))

    def forget_ranges(self) -> None:
        """Forget which bytes were sent again, because stream offsets change their meaning.

        This is so when a stream is decrypted: messages have offsets in the plaintext.
        """
        for index in range(len(self._packets)):
            if self._ends[index] > self._begins[index]:
                self._begins[index], self._ends[index] = _NO_RANGE

    def _forget(self, count: int) -> None:
        self._forgotten = self._packets[count - 1]
        if count == len(self._packets):
            self._packets = self._times = self._senders = _NOTHING
            self._begins = self._ends = self._are_tails = self._resent = _NOTHING
            return
        del self._packets[:count], self._times[:count], self._senders[:count]
        del self._begins[:count], self._ends[:count], self._are_tails[:count]
        del self._resent[:count]

    def retransmissions(self, first: int, last: int, span_ns: int) -> int:
        """Return how many packets from ``first`` to ``last``, both included, were sent again.

        ``NOT_KNOWN`` if ``span_ns``, the time between the two, is above :data:`KEPT_NS`, even where
        the events happen to be remembered; or if events of the range are forgotten.
        """
        return self._count(first, last, span_ns, True)

    def zero_windows(self, first: int, last: int, span_ns: int) -> int:
        """Return how many packets announced a window of 0, as :meth:`retransmissions` does."""
        return self._count(first, last, span_ns, False)

    def _count(self, first: int, last: int, span_ns: int, has_bytes: bool) -> int:
        if not self.has_events or self._first > last:
            return 0
        # Checked first: whether the answer is known must not depend on what else is remembered.
        if span_ns > _KEPT_NS:
            return NOT_KNOWN
        if self._last < first or (self._quiet_after < first and last < self._quiet_before):
            return 0
        if first <= self._forgotten:
            return NOT_KNOWN
        packets = self._packets
        begin, end = _first_from(packets, first), _first_from(packets, last + 1)
        if begin == end:
            self._quiet_after = packets[begin - 1] if begin else self._forgotten
            self._quiet_before = packets[end] if end < len(packets) else _NEVER
            return 0
        resent = self._resent
        count = resent[end - 1] - (resent[begin - 1] if begin else self._resent_before())
        return count if has_bytes else end - begin - count

    def _resent_before(self) -> int:
        """Return how many retransmissions were counted before the first event."""
        is_resent = self._ends[0] > self._begins[0]
        return self._resent[0] - is_resent

    def last_resent_ns(
        self,
        sender: int,
        begin: int,
        end: int,
        first: int,
        last: int,
        sent_ns: int,
        until_ns: int,
    ) -> int:
        """Return when bytes of a range were last sent again because they were lost.

        A receiver may delay its acknowledgment, and senders do not wait for it before they probe
        whether the last packet arrived (RFC 8985, section 7). So a tail that was sent again within
        :data:`MAX_DELAY_NS` does not count as lost.

        Args:
            sender: index of the end in the connection.
            begin: stream offset of the first byte of the range.
            end: stream offset after its last byte.
            first: number of the first packet to look at.
            last: number of the last packet to look at.
            sent_ns: when the range was first sent.
            until_ns: later retransmissions do not count.

        Returns:
            The time in ns; ``sent_ns`` if they were not sent again; ``NOT_KNOWN`` if packets of
            this sender were sent again and their ranges are forgotten.
        """
        # Compiled, these are views: no number becomes an object.
        times, senders, are_tails = self._times, self._senders, self._are_tails
        begins, ends = self._begins, self._ends
        least = _first_from(self._packets, first)
        index = _first_from(self._packets, last + 1) - 1
        while index >= least:
            if senders[index] == sender:
                if begins[index] < 0:
                    return NOT_KNOWN
                is_of_range = begins[index] < end and ends[index] > begin
                time_ns = times[index]
                is_probe = are_tails[index] and time_ns - sent_ns < MAX_DELAY_NS
                if is_of_range and time_ns <= until_ns and not is_probe:
                    return max(time_ns, sent_ns)
            index -= 1
        return sent_ns


def _first_from(packets: array[int], number: int) -> int:
    """Return the index of the first packet from a number on; their count if there is none."""
    low, high = 0, len(packets)
    while low < high:
        middle = (low + high) // 2
        if packets[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


class _OfBothEnds:
    """An attribute of a connection with a number of each end, as a tuple."""

    __slots__ = ("_at",)

    def __init__(self, at: int) -> None:
        self._at = at

    def __get__(self, tcp: TcpConnection, _kind: object = None) -> tuple[int, int]:
        return tcp.numbers_at(self._at)

    def __set__(self, tcp: TcpConnection, numbers: tuple[int, int]) -> None:
        tcp.set_numbers(self._at, *numbers)


class TcpConnection:
    """One TCP connection, as the packet layer knows it: no notion of client and broker.

    Compared and hashed by identity. The counters are pairs, by direction: index 0 counts what
    ``endpoints[0]`` sent, index 1 what ``endpoints[1]`` sent. They are written by the reassembler
    as packets arrive. ``packets`` and ``payload_bytes`` count what the capture holds, copies
    included; each byte in ``payload_bytes`` is new (:attr:`unique_bytes`) or in exactly one of
    ``retransmitted_bytes``, ``duplicate_bytes`` and ``keep_alive_bytes``.
    """

    _SAVED = Saved(
        "serial:count endpoints:*(*Endpoint,*Endpoint) connection_number:count opened_by:end? "
        "first_time_ns:int last_time_ns:int first_packet:count? reset:bool closed_by:end? end:str? "
        "measures:TcpMeasures? path:NetworkPath tls:TlsConnection? start_seen:*(bool,bool) "
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

    _NOT_SAVED = ("_numbers", "_rare")
    first_sequence = _OfBothEnds(FIRST_SEQUENCE)
    """Sequence number of position 0 of the stream, once there is one."""
    packets = _OfBothEnds(PACKETS)
    """Packets captured, every copy counted."""
    payload_bytes = _OfBothEnds(PAYLOAD_BYTES)
    """TCP payload seen, every copy counted."""
    retransmitted_bytes = _OfBothEnds(RETRANSMITTED_BYTES)
    """Payload bytes sent again that had been seen before."""
    duplicate_bytes = _OfBothEnds(DUPLICATE_BYTES)
    """Payload bytes of further copies of packets that the capture holds more than once."""
    keep_alive_bytes = _OfBothEnds(KEEP_ALIVE_BYTES)
    """Payload bytes of keep-alive probes: sent before, or without a meaning."""
    out_of_order_packets = _OfBothEnds(OUT_OF_ORDER_PACKETS)
    """Packets with payload, none of it seen before, that came after a later part of the stream:
    captured in another order, or sent again because the first was lost before the capture."""
    lost_bytes = _OfBothEnds(LOST_BYTES)
    """Bytes never seen: gaps. Counted only here; every total is a sum of these."""
    snapped_bytes = _OfBothEnds(SNAPPED_BYTES)
    """Bytes that a snap length cut off; counted only here, too."""

    def __init__(
        self,
        serial: int,
        endpoints: tuple[Endpoint, Endpoint],
        connection_number: int,
        opened_by: int | None,
        first_time_ns: int,
        last_time_ns: int,
        first_packet: int | None = None,
        start_seen: tuple[bool, bool] = (False, False),
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
        self.start_seen = start_seen
        """By direction, whether position 0 of the stream is known to be its first byte: the SYN or
        the answer to it was seen."""
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

        if not cython.compiled:
            self._numbers = [0] * RARE
        self._rare = _NOTHING
        """The numbers from ``RARE`` on; empty while all are 0, as they mostly are."""

    def _after_load(self) -> None:
        if self.end not in _ENDS:
            raise ValueError("no end of a connection")

    def add(self, at: int, index: int, number: int) -> None:
        """Add a number to a counter of one end, such as ``PACKETS``."""
        if at < RARE:
            self._numbers[at + index] += number
        elif number:
            self._make_rare()
            self._rare[at - RARE + index] += number

    def _make_rare(self) -> None:
        if not self._rare:
            self._rare = array("q", [0]) * (NUMBERS - RARE)

    def numbers_at(self, at: int) -> tuple[int, int]:
        """Return the numbers of both ends at a place, such as ``PACKETS``."""
        if at < RARE:
            return self._numbers[at], self._numbers[at + 1]
        return (self._rare[at - RARE], self._rare[at - RARE + 1]) if self._rare else (0, 0)

    def set_numbers(self, at: int, first: int, second: int) -> None:
        """Set the numbers of both ends at a place."""
        if at < RARE:
            self._numbers[at], self._numbers[at + 1] = first, second
        elif first or second or self._rare:
            self._make_rare()
            self._rare[at - RARE], self._rare[at - RARE + 1] = first, second

    def start_stream(self, index: int, first_sequence: int, is_seen: bool) -> None:
        """Set where the stream of an end begins, and whether its start was seen."""
        self._numbers[FIRST_SEQUENCE + index] = first_sequence
        self.see_start(index, is_seen)

    def see_start(self, index: int, is_seen: bool) -> None:
        """Set whether the start of an end's stream was seen."""
        other = self.start_seen[1 - index]
        self.start_seen = _STARTS[other][is_seen] if index else _STARTS[is_seen][other]

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
