"""Counters and anomalies of the packet layer.

In: counts and anomalies of the layer. Out: :class:`NetCounters`, a list of
:class:`kanalyze.model.Anomaly`. Must not know: who reads them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.model.anomalies import Anomaly, AnomalyKind, kind_of

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State

__all__ = ["LayerStats", "NetCounters"]

MAX_ANOMALIES_PER_KIND: Final = 32
"""Anomalies of one kind that are kept of a batch; all are counted."""

MAX_OTHER_NAMES: Final = 256
"""How many names of unread protocols are counted; the wire can make up many more."""
OTHER: Final = "other"


class NetCounters:
    """Counts over everything fed so far. Those of two captures are added by :meth:`merge`.

    What belongs to one connection, as lost bytes, is counted there alone
    (:class:`kanalyze.model.TcpConnection`).
    """

    def __init__(self) -> None:
        self.packets = 0
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
        """Fragments of IP packets that hold TCP, or may: a tunnel, UDP; put together or not."""
        self.reassembled_datagrams = 0
        """IP packets put together of such fragments. Each counts further as what it holds."""
        self.lost_datagrams = 0
        """IP packets that hold TCP, or may, of which not all fragments came, or that contradict
        themselves."""
        self.other_packets: dict[str, int] = {}
        """Packets that are read no further, by what they are: ``ARP``, ``UDP``, ``IP protocol 99``,
        ``802.11 (link type 105)``. Beyond :data:`MAX_OTHER_NAMES` names: ``other``."""
        self.tunnels: dict[str, int] = {}
        """TCP segments that were inside of ``VXLAN``, ``GRE``, ...; in tunnels within tunnels they
        count for each."""
        self.unknown_link_type: dict[int, int] = {}
        """Packets by LINKTYPE_ value."""
        self.connections = 0
        """TCP connections begun."""
        self.before_start_bytes = 0
        """Payload from before the first byte seen of a stream whose SYN was not; not delivered."""
        self.late_packets = 0
        """Packets of connections that were closed already; not delivered."""
        self.late_bytes = 0
        """Payload of these packets."""
        self.out_of_window_packets = 0
        """Packets whose sequence number cannot be of their connection; not delivered."""
        self.out_of_window_bytes = 0
        """Payload of these packets."""
        self.anomalies: dict[AnomalyKind, int] = {}
        """Occurrences by kind, those included that no :class:`Anomaly` was kept of."""
        self.anomaly_bytes: dict[AnomalyKind, int] = {}
        """Bytes of the anomalies, by kind, if they have a length."""

    def state(self) -> State:
        """Return what :meth:`from_state` takes: each counter, in the order of their names."""
        values: list[int | State] = []
        for _, count in sorted(vars(self).items()):
            values.append(_counts_state(count) if isinstance(count, dict) else count)
        return tuple(values)

    @classmethod
    def from_state(cls, state: object) -> NetCounters:
        """Make them from a state; raises ValueError for any other value."""
        made = cls()
        counters = sorted(vars(made).items())
        kinds = "".join(["t" if isinstance(count, dict) else "n" for _, count in counters])
        for (counter, _), count in zip(counters, fields(state, kinds), strict=True):
            known = _counts_from_state(counter, count) if isinstance(count, tuple) else count
            setattr(made, counter, known)
        return made

    def merge(self, other: NetCounters) -> None:
        """Add the counts of ``other``."""
        for counter, mine in vars(self).items():
            theirs = getattr(other, counter)
            if mine is self.other_packets:
                for name, count in theirs.items():
                    self.count_other(name, count)
            elif isinstance(mine, dict):
                for key, count in theirs.items():
                    mine[key] = mine.get(key, 0) + count
            else:
                setattr(self, counter, mine + theirs)

    def count_other(self, name: str, packets: int) -> None:
        """Count packets that are read no further, by protocol."""
        counts = self.other_packets
        if name not in counts and len(counts) >= MAX_OTHER_NAMES:
            name = OTHER
        counts[name] = counts.get(name, 0) + packets


def _counts_state(counts: dict[object, int]) -> State:
    return tuple(
        [
            (key.value if isinstance(key, AnomalyKind) else key, count)
            for key, count in counts.items()
        ]
    )


def _counts_from_state(counter: str, state: State) -> dict[object, int]:
    """Return how many there are of each, which is a name, a number or a kind of anomaly."""
    is_of_numbers, is_of_kinds = counter == "unknown_link_type", counter.startswith("anomal")
    made: dict[object, int] = {}
    for each in items(state, "t"):
        key, count = fields(each, "in" if is_of_numbers else "sn")
        made[kind_of(key) if is_of_kinds else key] = count
    return made


class LayerStats:
    """Collects counters, and a bounded number of the anomalies of a batch."""

    _NOT_SAVED = ("_anomalies", "_count_by_kind", "_most")

    def __init__(self, *, every_anomaly: bool = False) -> None:
        """With ``every_anomaly`` it keeps all of them, not only the first of each kind."""
        self.counters = NetCounters()
        self._most = sys.maxsize if every_anomaly else MAX_ANOMALIES_PER_KIND
        self._anomalies: list[Anomaly] = []
        self._count_by_kind: dict[AnomalyKind, int] = {}

    def reset_counters(self) -> None:
        """Let the counters begin at zero."""
        self.counters = NetCounters()

    def state(self) -> State:
        """Return what :meth:`load_state` takes, once the anomalies were drained."""
        return self.counters.state()

    def load_state(self, state: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        self.counters = NetCounters.from_state(state)

    @property
    def settings(self) -> State:
        """What has to be the same in those that take up its state."""
        return (self._most,)

    def drain_anomalies(self) -> list[Anomaly]:
        """Return the anomalies since the last call: whoever feeds a batch returns them with it."""
        anomalies, self._anomalies = self._anomalies, []
        self._count_by_kind.clear()
        return anomalies

    def count_and_reserve(self, kind: AnomalyKind, count: int = 1) -> int:
        """Count ``count`` anomalies of ``kind``; return for how many more there is room."""
        counts = self.counters.anomalies
        counts[kind] = counts.get(kind, 0) + count
        return max(self._most - self._count_by_kind.get(kind, 0), 0)

    def add_reserved(self, anomaly: Anomaly) -> None:
        """Keep an anomaly that was counted with :meth:`wants`."""
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
