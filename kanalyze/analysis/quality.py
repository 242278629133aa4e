"""How much of the traffic a capture holds, and how much of that could be read.

In: counters that the stages before keep. Out: :class:`CaptureQuality`, which adds up over parts
of an analysis. This module must not know how anything is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.model import AnomalyKind

__all__ = ["AnomalyTotal", "CaptureQuality"]


@dataclass(frozen=True, slots=True)
class AnomalyTotal:
    """How often one kind of anomaly was met."""

    count: int
    bytes: int
    """Bytes concerned, where the anomaly says it; 0 where none does."""


@dataclass(slots=True)
class CaptureQuality:
    """What was captured, what is missing, what could not be read.

    All counters are zero or above; a fresh value is the neutral element of :meth:`merge`.
    """

    captures: list[str] = field(default_factory=list)
    """The inputs as given, in order, each once."""
    packets: int = 0
    captured_bytes: int = 0
    """Bytes of packets that the capture holds, link headers included."""
    wire_bytes: int = 0
    """Bytes the packets had on the wire, link headers included."""
    first_time_ns: int | None = None
    """Of the earliest packet; None when there are no packets."""
    last_time_ns: int | None = None
    dropped_packets: int | None = None
    """Packets that the capturing side says it lost, summed over the inputs that say it; None
    when none does."""
    tcp_packets: int = 0
    not_tcp_packets: int = 0
    unreadable_packets: int = 0
    """Packets whose link, IP or TCP header made no sense."""
    connections: int = 0
    """TCP connections; the sum of the three below."""
    kafka_connections: int = 0
    tls_connections: int = 0
    other_connections: int = 0
    payload_bytes: int = 0
    """TCP payload of all connections, every byte of a stream once."""
    kafka_bytes: int = 0
    """Of these, on Kafka connections."""
    decoded_bytes: int = 0
    """Of these, in frames whose body was read to the end."""
    undecoded_bytes: int = 0
    """Of these, in frames whose body was not."""
    skipped_bytes: int = 0
    """Passed over while looking for a frame boundary."""
    lost_bytes: int = 0
    """Never captured: gaps in streams."""
    snapped_bytes: int = 0
    """Cut off by the snap length."""
    retransmitted_bytes: int = 0
    out_of_order_packets: int = 0
    anomalies: dict[AnomalyKind, AnomalyTotal] = field(default_factory=dict)

    @property
    def decoded_share(self) -> float | None:
        """Part of the Kafka bytes that were decoded, 0 to 1; None when there are none."""
        if self.kafka_bytes <= 0:
            return None
        return self.decoded_bytes / self.kafka_bytes

    @property
    def duration_ns(self) -> int | None:
        """From the first packet to the last, in ns; None when there are no packets."""
        if self.first_time_ns is None or self.last_time_ns is None:
            return None
        return self.last_time_ns - self.first_time_ns

    def count_anomaly(self, kind: AnomalyKind, size: int = 0, count: int = 1) -> None:
        """Count ``count`` anomalies of a kind, concerning ``size`` bytes together."""
        total = self.anomalies.get(kind, _NO_ANOMALY)
        self.anomalies[kind] = AnomalyTotal(total.count + count, total.bytes + size)

    def merge(self, other: CaptureQuality) -> None:
        """Add what another part of the analysis saw; associative."""
        self.captures.extend(name for name in other.captures if name not in self.captures)
        self.first_time_ns = _of_known(min, self.first_time_ns, other.first_time_ns)
        self.last_time_ns = _of_known(max, self.last_time_ns, other.last_time_ns)
        self.dropped_packets = _of_known(_add, self.dropped_packets, other.dropped_packets)
        for name in _COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, total in other.anomalies.items():
            self.count_anomaly(kind, total.bytes, total.count)

    def to_dict(self) -> dict[str, Any]:
        """Return every field and ``decoded_share`` (rounded down to 6 digits) as plain values.

        ``anomalies`` is sorted by kind, each ``{count, bytes}``.
        """
        result: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        result["captures"] = list(self.captures)
        share = self.decoded_share
        # Rounded down: a share of 1 says that nothing at all is missing.
        result["decoded_share"] = None if share is None else int(share * 1_000_000) / 1_000_000
        result["anomalies"] = {
            kind.value: {"count": total.count, "bytes": total.bytes}
            for kind, total in sorted(self.anomalies.items())
        }
        return result


_NO_ANOMALY = AnomalyTotal(0, 0)

_NOT_SUMMED = {"captures", "first_time_ns", "last_time_ns", "dropped_packets", "anomalies"}
_COUNTERS = tuple(item.name for item in fields(CaptureQuality) if item.name not in _NOT_SUMMED)


def _add(one: int, two: int) -> int:
    return one + two


def _of_known(combine: Callable[[int, int], int], one: int | None, two: int | None) -> int | None:
    if one is None:
        return two
    return one if two is None else combine(one, two)
