"""What the packet layer has to say besides bytes: counters and anomalies.

In: the layer's own findings. Out: :class:`NetCounters`, a list of
:class:`kanalyze.model.Anomaly`. Must not know: who reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from kanalyze.model import Anomaly, AnomalyKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch

__all__ = ["NetCounters", "Notes"]

MAX_ANOMALIES_PER_KIND: Final = 32
"""Anomalies of one kind that are kept until they are taken; all are counted."""


@dataclass(slots=True)
class NetCounters:
    """Counts over everything fed so far. Those of two captures are added by :meth:`merge`."""

    packets: int = 0
    tcp_segments: int = 0
    """Packets whose TCP header could be read."""
    payload_bytes: int = 0
    """TCP payload on the wire, every copy counted."""
    not_ip: int = 0
    """Packets of another network protocol (ARP, ...)."""
    not_tcp: int = 0
    """IP packets of another transport protocol."""
    cut_headers: int = 0
    """Packets that the capture cut off within the link, IP or TCP header."""
    bad_ip_headers: int = 0
    bad_tcp_headers: int = 0
    ip_fragments: int = 0
    """Fragments of TCP packets; they are not put together."""
    unknown_link_type: dict[int, int] = field(default_factory=dict)
    """Packets by LINKTYPE_ value."""
    connections: int = 0
    """TCP connections begun."""
    retransmitted_bytes: int = 0
    out_of_order_packets: int = 0
    lost_bytes: int = 0
    """Bytes of gaps and bytes that a snap length cut off."""
    gaps: int = 0
    before_start_bytes: int = 0
    """Payload from before the first byte seen of a stream whose SYN was not; not delivered."""
    late_packets: int = 0
    """Packets of connections that were closed already."""
    out_of_window_packets: int = 0
    """Packets whose sequence number cannot be of their connection; not delivered."""
    anomalies: dict[AnomalyKind, int] = field(default_factory=dict)
    """Occurrences by kind, those included that no :class:`Anomaly` was kept of."""

    def merge(self, other: NetCounters) -> None:
        """Add the counts of ``other``."""
        for column in fields(self):
            mine, theirs = getattr(self, column.name), getattr(other, column.name)
            if isinstance(mine, dict):
                for key, count in theirs.items():
                    mine[key] = mine.get(key, 0) + count
            else:
                setattr(self, column.name, mine + theirs)


class Notes:
    """Collects counters, and a bounded number of anomalies until they are taken."""

    def __init__(self) -> None:
        self.counters = NetCounters()
        self._kept: list[Anomaly] = []
        self._kept_by_kind: dict[AnomalyKind, int] = {}

    def take(self) -> list[Anomaly]:
        """Hand over the anomalies since the last time."""
        taken, self._kept = self._kept, []
        self._kept_by_kind.clear()
        return taken

    def wants(self, kind: AnomalyKind, count: int = 1) -> int:
        """Count ``count`` anomalies of ``kind``; return how many more of them would be kept."""
        counts = self.counters.anomalies
        counts[kind] = counts.get(kind, 0) + count
        return max(MAX_ANOMALIES_PER_KIND - self._kept_by_kind.get(kind, 0), 0)

    def keep(self, anomaly: Anomaly) -> None:
        """Keep an anomaly that was counted with :meth:`wants`."""
        self._kept.append(anomaly)
        self._kept_by_kind[anomaly.kind] = self._kept_by_kind.get(anomaly.kind, 0) + 1

    def add(self, anomaly: Anomaly) -> None:
        """Count one anomaly, and keep it if there is room."""
        if self.wants(anomaly.kind):
            self.keep(anomaly)

    def add_packets(
        self, kind: AnomalyKind, batch: PacketBatch, rows: NDArray[np.int64], detail: str
    ) -> None:
        """Count an anomaly for each of the packets ``rows`` of ``batch``, and keep the first."""
        wanted = self.wants(kind, len(rows))
        for row in rows[:wanted].tolist():
            self.keep(
                Anomaly(
                    kind,
                    time_ns=int(batch.time_ns[row]),
                    packet=int(batch.number[row]),
                    detail=detail,
                )
            )
