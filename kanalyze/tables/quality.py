"""How complete a capture is, and how much of it could be decoded.

In: counters of the earlier stages. Out: :class:`CaptureQuality`, which can be summed over the parts
of an analysis; and its counts as lines, :class:`~kanalyze.spec.rows.anomalies.QualityFact`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from operator import add
from typing import TYPE_CHECKING, Any

from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import make, save
from kanalyze.common.times import format_time
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.kafka.session.events import ConnectionCounts, UnknownTotal
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.layer_stats import NetCounters
    from kanalyze.spec.rows.anomalies import QualityFact

DISCARDED = (
    "late_packets",
    "late_bytes",
    "out_of_window_packets",
    "out_of_window_bytes",
    "before_start_bytes",
)
"""Fields of :meth:`CaptureQuality.to_dict`: TCP data that is in the capture but in no stream."""

DOUBTS = (
    "refused_connections",
    "refused_by",
    "unanswered_connections",
    "unanswered_by",
    "unread_ports",
    *DISCARDED,
)
"""Fields of :meth:`CaptureQuality.to_dict`: connections that were not established, and captured
data that was not read."""

MAX_ENDPOINTS = 1000
"""Number of endpoints that are counted separately."""
MAX_TEXTS = 100
"""Number of different texts of captures that are counted separately."""
_OTHER = "other"
_SYN_AGAIN_NS = 900_000_000
"""An unanswered SYN is sent again after a second (RFC 6298, section 2)."""


class AnomalyTotal:
    """The number of anomalies of one kind, and their bytes."""

    __slots__ = ("bytes", "count")

    def __init__(self, count: int = 0, size: int = 0) -> None:
        self.count = count
        self.bytes = size
        """Total length of the anomalies that have one; 0 if none has."""


class CaptureQuality:
    """Counts of captured, missing and undecodable data.

    All counters are 0 or above. Merging a new, empty object changes nothing (:meth:`merge`).
    """

    def __init__(self, captures: Iterable[str] = ()) -> None:
        self.captures = list(captures)
        """The inputs as given, in order, without repetition."""
        self.packets = 0
        self.captured_bytes = 0
        """Bytes of the captured packets, link headers included."""
        self.wire_bytes = 0
        """Bytes of the packets on the wire, link headers included."""
        self.first_time_ns: int | None = None
        """Unix time of the earliest packet in ns; None if there is no packet with a time."""
        self.last_time_ns: int | None = None
        self.dropped_packets: int | None = None
        """Packets that the capturing program reports as dropped, summed over the inputs that
        report it; None if none does."""
        self.interfaces: dict[str, int] = {}
        """Interfaces with a name or a filter as described in the captures, with the number of
        descriptions: the first :data:`MAX_TEXTS`; the rest counts as ``other``."""
        self.comments: dict[str, int] = {}
        """Comments on captures and interfaces, counted in the same way."""
        self.packet_comments = 0
        """Comments on packets."""
        self.tcp_packets = 0
        """Packets with a TCP segment; a segment in several fragments counts once."""
        self.not_tcp_packets = 0
        self.unreadable_packets = 0
        """Packets with a malformed link, IP or TCP header."""
        self.other_packets: dict[str, int] = {}
        """Packets that are not analysed, by protocol (``ARP``, ``UDP``, ...)."""
        self.tunnels: dict[str, int] = {}
        """TCP segments in tunnels, by kind of tunnel; one in two tunnels counts for both."""
        self.fragment_packets = 0
        """IP fragments of datagrams that may contain TCP."""
        self.lost_datagrams = 0
        """IP datagrams of which some fragments were not captured."""
        self.connections = 0
        """TCP connections; the sum of the three below."""
        self.kafka_connections = 0
        self.tls_connections = 0
        self.other_connections = 0
        self.other_protocols: dict[str, int] = {}
        """Connections that are not Kafka, by their likely protocol (``tls``, ``http``, ``unknown``,
        ...); connections without payload are ``none``."""
        self.kafka_ports: dict[str, int] = {}
        """Kafka connections by the broker's port."""
        self.unknown_ports: dict[str, UnknownTotal] = {}
        """Connections whose protocol is ``unknown``, by server port; by both ports if the handshake
        was not captured."""
        self.payload_bytes = 0
        """TCP payload of all connections; each byte of a stream counts once."""
        self.kafka_bytes = 0
        """The part of this on Kafka connections."""
        self.decoded_bytes = 0
        """The part of this in frames whose body was decoded, without bytes left over after it."""
        self.undecoded_bytes = 0
        """The part of this in frames whose body was not, or after a body. Up to four zero bytes,
        which some clients write, do not count: they are padding."""
        self.skipped_bytes = 0
        """The part of this that was skipped in the search for a frame boundary."""
        self.record_batches = 0
        """Batches of records, and messages of the older formats, that are not cut; 0 if their CRCs
        were not checked in this run. So are the next two."""
        self.checked_batches = 0
        """The part of this whose CRC was compared: all of their bytes are in the capture."""
        self.wrong_batches = 0
        """The part of this whose CRC is not that of their bytes."""
        self.retransmitted_bytes = 0
        self.duplicate_bytes = 0
        """Payload in additional copies of packets in the capture."""
        self.network_duplicate_bytes = 0
        """The part of this that the network duplicated. If the capturing side had recorded packets
        twice, most packets of the connection would be there twice."""
        self.refused_connections = 0
        """Connections whose SYN was answered by a RST."""
        self.refused_by: dict[str, int] = {}
        """The same by ``IP:PORT`` of the end that refused; beyond :data:`MAX_ENDPOINTS` as
        ``other``."""
        self.unanswered_connections = 0
        """Connections whose SYN was sent again and never answered."""
        self.unanswered_by: dict[str, int] = {}
        """The same by ``IP:PORT`` of the end that did not answer, bounded in the same way."""
        self.out_of_order_packets = 0
        self.late_packets = 0
        """Packets that came after the end of their connection, with or without payload. These and
        the following, up to ``before_start_bytes``, were not read."""
        self.late_bytes = 0
        """Payload of these packets."""
        self.out_of_window_packets = 0
        """Packets whose sequence number is outside the window of their connection."""
        self.out_of_window_bytes = 0
        """Payload of these packets."""
        self.before_start_bytes = 0
        """Payload before the first byte seen of a connection that began before the capture."""
        self.anomalies: dict[AnomalyKind, AnomalyTotal] = {}
        self.tls_outcomes: dict[str, int] = {}
        """Connections with TLS by what became of them (``decrypted``, ``no_secret``, ...); empty
        without keys."""
        self.untimed_packets = 0
        """Packets without a time, such as those in pcapng's Simple Packet Blocks."""

    @property
    def unread_ports(self) -> dict[str, UnknownTotal]:
        """Connections to ports of Kafka brokers that were not recognised as Kafka, by port."""
        ports = self.unknown_ports
        return {port: ports[port] for port in sorted(ports, key=int) if port in self.kafka_ports}

    @property
    def lost_bytes(self) -> int:
        """Bytes in gaps of streams, which were never captured: those of the anomalies."""
        return _bytes_of(self, AnomalyKind.LOST_BYTES)

    @property
    def snapped_bytes(self) -> int:
        """Bytes that the snap length cut off: those of the anomalies."""
        return _bytes_of(self, AnomalyKind.SNAPPED_BYTES)

    @property
    def decoded_share(self) -> float | None:
        """Ratio of the Kafka bytes that were decoded, 0 to 1; None if there are no Kafka bytes."""
        if self.kafka_bytes <= 0:
            return None
        return self.decoded_bytes / self.kafka_bytes

    @property
    def duration_ns(self) -> int | None:
        """Time from the first packet to the last in ns; None if no packet has a time."""
        if self.first_time_ns is None or self.last_time_ns is None:
            return None
        return self.last_time_ns - self.first_time_ns

    def count_times(self, first_ns: int, last_ns: int) -> None:
        """Extend the time range of the capture to include packets between two times."""
        self.first_time_ns = of_known(min, self.first_time_ns, first_ns)
        self.last_time_ns = of_known(max, self.last_time_ns, last_ns)

    def count_connection(self, tcp: TcpConnection) -> None:
        """Count a TCP connection that is closed."""
        self.connections += 1
        if tcp.payload_bytes != _NO_PAYLOAD:
            each_unique = tcp.unique_bytes
            self.payload_bytes += sum(each_unique)
            self.retransmitted_bytes += sum(tcp.retransmitted_bytes)
            self.out_of_order_packets += sum(tcp.out_of_order_packets)
            for unique, copied in zip(each_unique, tcp.duplicate_bytes, strict=True):
                self.duplicate_bytes += copied
                if copied * 2 < unique:
                    self.network_duplicate_bytes += copied
        self.count_attempt(tcp)

    def count_attempt(self, tcp: TcpConnection) -> None:
        """Count a connection if it was refused, or if its SYN was not answered so far."""
        if tcp.opened_by is None:
            return
        acceptor = 1 - tcp.opened_by
        if tcp.start_seen[acceptor] or tcp.payload_bytes[acceptor]:
            return
        if tcp.reset and tcp.closed_by == acceptor:
            self.refused_connections += 1
            _add_bounded(self.refused_by, {str(tcp.endpoints[acceptor]): 1})
        elif (
            not tcp.packets[acceptor]
            and not tcp.payload_bytes[tcp.opened_by]
            # Earlier, the SYN-ACK may be on its way, or the SYN may have been captured twice.
            and tcp.first_time_ns != NO_TIME
            and tcp.last_time_ns - tcp.first_time_ns >= _SYN_AGAIN_NS
        ):
            self.unanswered_connections += 1
            _add_bounded(self.unanswered_by, {str(tcp.endpoints[acceptor]): 1})

    def count_stages(
        self,
        net: NetCounters,
        connections: ConnectionCounts,
        tls_outcomes: dict[str, int] | None = None,
    ) -> None:
        """Add the counters of the stages, and what became of TLS; call it once, at the end."""
        _add_to(self.tls_outcomes, tls_outcomes or {})
        self.tcp_packets += net.tcp_segments
        self.not_tcp_packets += net.not_ip + net.not_tcp
        unreadable = net.cut_headers + net.bad_ip_headers + net.bad_tcp_headers
        self.unreadable_packets += unreadable + sum(net.unknown_link_type.values())
        self.fragment_packets += net.ip_fragments
        self.lost_datagrams += net.lost_datagrams
        self.count_discarded(net)
        _add_to(self.other_packets, net.other_packets)
        _add_to(self.tunnels, net.tunnels)
        for kind, count in net.anomalies.items():
            self.count_anomaly(kind, net.anomaly_bytes.get(kind, 0), count)
        self.kafka_connections += connections.kafka
        self.tls_connections += connections.tls
        self.other_connections += connections.other
        _add_to(self.other_protocols, connections.by_protocol)
        self.count_ports(connections)
        self.kafka_bytes += connections.kafka_bytes
        self.decoded_bytes += connections.decoded_bytes
        self.undecoded_bytes += connections.undecoded_bytes
        self.skipped_bytes += connections.skipped_bytes
        self.record_batches += connections.batches.batches
        self.checked_batches += connections.batches.checked
        self.wrong_batches += connections.batches.wrong

    def count_discarded(self, net: NetCounters) -> None:
        """Add the TCP data that was discarded."""
        for name in DISCARDED:
            setattr(self, name, getattr(self, name) + getattr(net, name))

    def count_ports(self, connections: ConnectionCounts) -> None:
        """Add the ports of Kafka connections and of unknown connections."""
        _add_to(self.kafka_ports, {str(port): n for port, n in connections.kafka_ports.items()})
        ports = {str(port): total for port, total in connections.unknown_ports.items()}
        _add_ports(self.unknown_ports, ports)

    def count_description(self, description: FileMetadata) -> None:
        """Count the interfaces and comments in the metadata of captures."""
        texts = [interface.text for interface in description.interfaces]
        _add_bounded(self.interfaces, Counter([text for text in texts if text]), MAX_TEXTS)
        notes = description.comments
        # dumpcap repeats its comment in the statistics of every interface.
        about = Counter([note.text for note in notes if note.about in ("section", "interface")])
        _add_bounded(self.comments, about, MAX_TEXTS)
        self.packet_comments += sum(note.about == "packet" for note in notes)

    def count_anomaly(self, kind: AnomalyKind, size: int = 0, count: int = 1) -> None:
        """Count ``count`` anomalies of a kind with ``size`` bytes in total."""
        _add_anomalies(self.anomalies, {kind: AnomalyTotal(count, size)})

    def merge(self, other: CaptureQuality) -> None:
        """Add the counters of another part of the analysis; the operation is associative."""
        for name, value in vars(other).items():
            setattr(self, name, _KINDS.get(name, _COUNT).add(getattr(self, name), value))

    def extent(self) -> dict[str, Any]:
        """Return the amount and time of the captured data, as in the report's ``capture``."""
        first, last = self.first_time_ns, self.last_time_ns
        return {
            "captures": list(self.captures),
            "packets": self.packets,
            "captured_bytes": self.captured_bytes,
            "wire_bytes": self.wire_bytes,
            "first_time_ns": first,
            "first_time": None if first is None else format_time(first),
            "last_time_ns": last,
            "last_time": None if last is None else format_time(last),
            "duration_ns": self.duration_ns,
            "dropped_packets": self.dropped_packets,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return every field and ``decoded_share`` (rounded down to 6 digits) as plain values.

        ``anomalies`` is sorted by kind; each is ``{count, bytes}``. Other counts by name are
        objects too. Of ports there are only the ``unread_ports``, each ``{connections, packets,
        bytes}``.
        """
        result: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "retransmitted_bytes":
                result |= {"lost_bytes": self.lost_bytes, "snapped_bytes": self.snapped_bytes}
            result[name] = _KINDS.get(name, _COUNT).shown(value)
        del result["kafka_ports"], result["unknown_ports"]
        result["unread_ports"] = {
            port: {
                "connections": total.connections,
                "packets": total.packets,
                "bytes": total.bytes,
            }
            for port, total in self.unread_ports.items()
        }
        share = self.decoded_share
        # Rounded down, so that a share of 1 means that nothing is missing.
        result["decoded_share"] = None if share is None else int(share * 1_000_000) / 1_000_000
        return result

    def to_values(self) -> dict[str, Any]:
        """Return every counter as plain JSON values, for :meth:`from_values`."""
        return {name: _KINDS.get(name, _COUNT).saved(value) for name, value in vars(self).items()}

    @classmethod
    def from_values(cls, values: object) -> CaptureQuality:
        """Make a quality from the values of :meth:`to_values`.

        A counter that is absent has its initial value, and what is not a counter is ignored. Counts
        by name may be lists of pairs. Raises KeyError, TypeError or ValueError for any other value.
        """
        quality = cls()
        if not isinstance(values, dict):
            raise TypeError("not a JSON object")
        for name in vars(quality).keys() & values.keys():
            setattr(quality, name, _KINDS.get(name, _COUNT).load(values[name]))
        return quality


_NO_PAYLOAD = (0, 0)
"""The payload of a connection without any: all its other counts of payload are 0 too."""
_ANOMALY_KINDS = {kind.value: kind for kind in AnomalyKind}
_LARGEST_INT64 = (1 << 63) - 1


def _bytes_of(quality: CaptureQuality, kind: AnomalyKind) -> int:
    total = quality.anomalies.get(kind)
    return 0 if total is None else total.bytes


# -- adding ---------------------------------------------------------------------------------------


def _add_names(names: list[str], others: list[str]) -> list[str]:
    return [*names, *(name for name in others if name not in names)]


def _add_to(totals: dict[str, int], counts: dict[str, int]) -> dict[str, int]:
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + count
    return totals


def _add_bounded(
    totals: dict[str, int], counts: dict[str, int], most: int = MAX_ENDPOINTS
) -> dict[str, int]:
    """Add counts whose names come from the wire; names beyond the limit count as ``other``."""
    for name, count in counts.items():
        has_room = name in totals or len(totals) - (_OTHER in totals) < most
        key = name if has_room else _OTHER
        totals[key] = totals.get(key, 0) + count
    return totals


def _add_anomalies(
    totals: dict[AnomalyKind, AnomalyTotal], others: dict[AnomalyKind, AnomalyTotal]
) -> dict[AnomalyKind, AnomalyTotal]:
    for kind, other in others.items():
        total = totals.setdefault(kind, AnomalyTotal())
        total.count += other.count
        total.bytes += other.bytes
    return totals


def _add_ports(
    totals: dict[str, UnknownTotal], others: dict[str, UnknownTotal]
) -> dict[str, UnknownTotal]:
    from kanalyze.kafka.session.events import UnknownTotal  # imported late: with all of a session

    for port, other in others.items():
        totals.setdefault(port, UnknownTotal()).add(other.connections, other.packets, other.bytes)
    return totals


# -- loading: KeyError, TypeError or ValueError for a wrong value ---------------------------------


def _object_of(value: object) -> dict[str, Any]:
    if isinstance(value, list):
        return dict(value)
    if not isinstance(value, dict):
        raise TypeError("not a JSON object")
    return value


def _texts_of(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError("not a list of texts")
    return list(value)


def _counts_of(value: object, length: int) -> list[int]:
    if not isinstance(value, list) or len(value) != length:
        raise ValueError(f"not {length} numbers")
    return list(map(_count_of, value))


def _counters_of(value: object) -> dict[str, int]:
    return {_text_of(name): _count_of(count) for name, count in _object_of(value).items()}


def _text_of(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _count_of(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST_INT64:
        raise ValueError("not a count")
    return value


def _time_of(value: object) -> int:
    if type(value) is not int or not -_LARGEST_INT64 <= value <= _LARGEST_INT64:
        raise ValueError("not a time")
    return value


def _port_of(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise ValueError("not a port")
    return text


def _anomalies_of(value: object) -> dict[AnomalyKind, AnomalyTotal]:
    totals = _object_of(value).items()
    return {_ANOMALY_KINDS[kind]: AnomalyTotal(*_counts_of(total, 2)) for kind, total in totals}


def _unknown_of(value: object) -> dict[str, UnknownTotal]:
    from kanalyze.kafka.session.events import UnknownTotal

    totals = _object_of(value).items()
    return {
        _port_of(port): make(UnknownTotal, tuple(_counts_of(total, 3))) for port, total in totals
    }


# -- kinds of attributes --------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


class _CountKind(NamedTuple):
    """How the values of an attribute are added, loaded, shown and saved."""

    add: Callable[[Any, Any], Any]
    """Returns the sum, which may be the first of the two."""
    load: Callable[[Any], Any]
    shown: Callable[[Any], Any] = _same
    """Returns the value in :meth:`CaptureQuality.to_dict`."""
    saved: Callable[[Any], Any] = _same
    """Returns what ``load`` takes."""


def _known(combine: Callable[[int, int], int], load: Callable[[object], int]) -> _CountKind:
    """Return the kind of numbers that may be None, for unknown."""
    return _CountKind(
        partial(of_known, combine), lambda value: None if value is None else load(value)
    )


def _sorted(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


_COUNT = _CountKind(add, _count_of)
"""The kind of all attributes that are not in :data:`_KINDS`."""
_BY_NAME = _CountKind(_add_to, _counters_of, _sorted)
_BY_ENDPOINT = _CountKind(_add_bounded, _counters_of, _sorted)
_BY_TEXT = _CountKind(partial(_add_bounded, most=MAX_TEXTS), _counters_of, dict)
_KINDS = {
    "captures": _CountKind(_add_names, _texts_of, list),
    "first_time_ns": _known(min, _time_of),
    "last_time_ns": _known(max, _time_of),
    "dropped_packets": _known(add, _count_of),
    **dict.fromkeys(("other_packets", "tunnels", "other_protocols", "tls_outcomes"), _BY_NAME),
    **dict.fromkeys(("refused_by", "unanswered_by"), _BY_ENDPOINT),
    **dict.fromkeys(("interfaces", "comments"), _BY_TEXT),
    "kafka_ports": _CountKind(
        _add_to, lambda value: {_port_of(port): n for port, n in _counters_of(value).items()}
    ),
    "unknown_ports": _CountKind(
        _add_ports,
        _unknown_of,
        saved=lambda ports: {port: list(save(total)) for port, total in ports.items()},
    ),
    "anomalies": _CountKind(
        _add_anomalies,
        _anomalies_of,
        lambda totals: {
            kind.value: {"count": total.count, "bytes": total.bytes}
            for kind, total in sorted(totals.items())
        },
        lambda totals: {kind.value: [total.count, total.bytes] for kind, total in totals.items()},
    ),
}


def quality_facts(quality: CaptureQuality) -> Iterator[QualityFact]:
    """Yield all counts of a capture's quality; a count by name gives one line per name."""
    yield from facts_of(quality.to_dict())


def facts_of(fields: Mapping[str, Any]) -> Iterator[QualityFact]:
    """Yield the counts in some fields of :meth:`.CaptureQuality.to_dict`."""
    from kanalyze.spec.rows.anomalies import QualityFact  # imported late: for other tables

    for fact, value in fields.items():
        if fact in ("anomalies", "unread_ports"):
            field = "count" if fact == "anomalies" else "connections"
            for about, counts in value.items():
                yield QualityFact(fact, about, counts[field])
        elif isinstance(value, dict):
            for about, count in value.items():
                yield QualityFact(fact, about, count)
        elif isinstance(value, int):
            yield QualityFact(fact, None, value)
