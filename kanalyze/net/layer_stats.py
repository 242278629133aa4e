"""Counters and anomalies of the packet layer.

In: counts and anomalies of the layer. Out: :class:`NetCounters`, a list of
:class:`kanalyze.model.Anomaly`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.anomalies import Anomaly, AnomalyKind

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State

MAX_ANOMALIES_PER_KIND: Final = 32
"""At most so many anomalies of one kind are kept per batch; all are counted."""

MAX_OTHER_NAMES: Final = 256
"""How many names of unread protocols are counted; the wire can make up many more."""
OTHER: Final = "other"


class NetCounters:
    """Counts over everything fed so far.

    Counts of one connection, such as lost bytes, are only in its
    :class:`kanalyze.model.TcpConnection`.
    """

    _SAVED = Saved(
        "anomalies:dict[AnomalyKind,count] anomaly_bytes:dict[AnomalyKind,count] "
        "bad_ip_headers:count bad_tcp_headers:count before_start_bytes:count -connections:count "
        "cut_headers:count ip_fragments:count late_bytes:count late_packets:count "
        "lost_datagrams:count not_ip:count not_tcp:count other_packets:dict[str,count] "
        "out_of_window_bytes:count out_of_window_packets:count -packets:count "
        "reassembled_datagrams:count tcp_segments:count tunnels:dict[str,count] "
        "unknown_link_type:dict[int,count]",
        AnomalyKind,
    )

    def __init__(self) -> None:
        self.tcp_segments = 0
        """Packets whose TCP header could be read."""
        self.not_ip = 0
        """Packets of another network protocol (ARP, ...)."""
        self.not_tcp = 0
        """IP packets of another transport protocol."""
        self.cut_headers = 0
        """Packets that the capture cut off within the link, IP or TCP header."""
        self.bad_ip_headers = 0
        self.bad_tcp_headers = 0
        self.ip_fragments = 0
        """Fragments of IP packets that may hold TCP (also in a tunnel), reassembled or not."""
        self.reassembled_datagrams = 0
        """IP packets reassembled from such fragments. Each is counted again by its content."""
        self.lost_datagrams = 0
        """IP packets that hold TCP or may hold it, whose fragments did not all come or contradict
        each other."""
        self.other_packets: dict[str, int] = {}
        """Packets whose protocol is not read, by its name: ``ARP``, ``UDP``, ``IP protocol 99``,
        ``802.11 (link type 105)``. Beyond :data:`MAX_OTHER_NAMES` names: ``other``."""
        self.tunnels: dict[str, int] = {}
        """TCP segments inside ``VXLAN``, ``GRE``, ...; with nested tunnels, each of them counts."""
        self.unknown_link_type: dict[int, int] = {}
        """Packets by LINKTYPE_ value."""
        self.before_start_bytes = 0
        """Payload before the first byte of a stream whose SYN was not seen; not delivered."""
        self.late_packets = 0
        """Packets of connections that had closed before; not delivered."""
        self.late_bytes = 0
        """Payload of these packets."""
        self.out_of_window_packets = 0
        """Packets whose sequence number is impossible in their connection; not delivered."""
        self.out_of_window_bytes = 0
        """Payload of these packets."""
        self.anomalies: dict[AnomalyKind, int] = {}
        """Anomalies by kind, including those that are not kept as an :class:`Anomaly`."""
        self.anomaly_bytes: dict[AnomalyKind, int] = {}
        """Sums of the anomalies' ``length``, by kind."""

    def count_other(self, name: str, packets: int) -> None:
        """Count packets whose protocol ``name`` is not read."""
        counts = self.other_packets
        if name not in counts and len(counts) >= MAX_OTHER_NAMES:
            name = OTHER
        counts[name] = counts.get(name, 0) + packets


class LayerStats:
    """Collects counters, and a bounded number of the anomalies of a batch."""

    _NOT_SAVED = ("_anomalies", "_count_by_kind", "_most")
    _SAVED = Saved("counters:NetCounters", NetCounters, bare=True)

    def __init__(self, *, every_anomaly: bool = False) -> None:
        """With ``every_anomaly`` it keeps all anomalies, not only the first of each kind."""
        self.counters = NetCounters()
        self._most = sys.maxsize if every_anomaly else MAX_ANOMALIES_PER_KIND
        self._anomalies: list[Anomaly] = []
        self._count_by_kind: dict[AnomalyKind, int] = {}

    def reset_counters(self) -> None:
        """Let the counters begin at zero."""
        self.counters = NetCounters()

    @property
    def settings(self) -> State:
        """What has to be the same in an object that loads its state."""
        return (self._most,)

    def drain_anomalies(self) -> list[Anomaly]:
        """Return the anomalies since the last call."""
        anomalies, self._anomalies = self._anomalies, []
        self._count_by_kind.clear()
        return anomalies

    def count_and_reserve(self, kind: AnomalyKind) -> int:
        """Count an anomaly; return how many more of its kind can be kept."""
        counts = self.counters.anomalies
        counts[kind] = counts.get(kind, 0) + 1
        return max(self._most - self._count_by_kind.get(kind, 0), 0)

    def add_reserved(self, anomaly: Anomaly) -> None:
        """Keep an anomaly that :meth:`count_and_reserve` counted."""
        self._anomalies.append(anomaly)
        self._count_by_kind[anomaly.kind] = self._count_by_kind.get(anomaly.kind, 0) + 1

    def add(self, anomaly: Anomaly) -> None:
        """Count one anomaly, and keep it if there is room."""
        if anomaly.length:
            sizes = self.counters.anomaly_bytes
            sizes[anomaly.kind] = sizes.get(anomaly.kind, 0) + anomaly.length
        if self.count_and_reserve(anomaly.kind):
            self.add_reserved(anomaly)

    def add_packet(self, kind: AnomalyKind, time_ns: int, packet: int, detail: str) -> None:
        """Count an anomaly of a packet, and keep it if there is room."""
        if self.count_and_reserve(kind):
            self.add_reserved(Anomaly(kind, time_ns=time_ns, packet=packet, detail=detail))
