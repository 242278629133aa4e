"""What is found wrong, or twice, in one direction of a connection: counted, and told.

In: findings. Out: counts in the connection, anomalies of the layer. Must not know: how anything is
found.

Lost bytes are counted here, in the connection, and nowhere else: the quality of a capture, the rows
of connections and all sums are made of these. A gap that is counted is an anomaly too, of the same
length. What a message lacks (``Frame.missing_bytes``) is another thing: a message may begin or end
in a gap, and what memory had no room for is missing of it, though it was captured.

Compiled by Cython, with the types in ``findings.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields
from kanalyze.model.anomalies import Anomaly, AnomalyKind

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    IS_COPY = 1

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.layer_stats import Notes
    from kanalyze.net.tcp.delivery import Held, Segment

__all__ = ["Findings"]


class _Cut:
    """What a snap length cut off, from a packet on.

    Attributes:
        position: in the stream, of the first byte.
        missing: bytes. ``packets``: that they are missing from.
    """

    __slots__ = ("missing", "packet", "packets", "position", "time_ns")

    def __init__(self, position: int, missing: int, time_ns: int, packet: int) -> None:
        self.position = position
        self.missing = missing
        self.time_ns = time_ns
        self.packet = packet
        self.packets = 1

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return self.position, self.missing, self.time_ns, self.packet, self.packets

    @classmethod
    def from_state(cls, state: object) -> _Cut:
        """Make one from a state; raises ValueError where that is none."""
        *first, packets = fields(state, "nninn")
        made = cls(*first)
        made.packets = packets
        return made


class Findings:
    """Of what one end sent; ``index`` is its place in ``connection.endpoints``.

    Of a snap length, which cuts nearly every packet, the first cut is told at once, and all others
    together at the end.
    """

    __slots__ = ("_is_cut", "_more_cut", "connection", "index", "notes")
    _LEFT_OUT = ("connection", "index", "notes")

    def __init__(self, connection: TcpConnection, index: int, notes: Notes) -> None:
        self.connection = connection
        self.index = index
        self.notes = notes
        # Whether a cut was told.
        self._is_cut = False
        self._more_cut: _Cut | None = None

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        return self._is_cut, None if self._more_cut is None else self._more_cut.state()

    def load_state(self, state: object) -> None:
        """Go on from a state; raises ValueError where that is none."""
        is_cut, more_cut = fields(state, "bT")
        self._is_cut = is_cut
        self._more_cut = None if more_cut is None else _Cut.from_state(more_cut)

    def lost(self, position: int, length: int, after: Held) -> None:
        """Count bytes that are missing, up to ``after``, and tell of them with the same length."""
        self.connection.lost_bytes[self.index] += length
        self._tell(AnomalyKind.LOST_BYTES, position, length, after.time_ns, after.packet)

    def snapped(self, position: int, length: int, captured: int, time_ns: int, packet: int) -> None:
        """Count the bytes of a delivered segment that the capture cut off, if any."""
        missing = length - captured
        if not missing:
            return
        self.connection.snapped_bytes[self.index] += missing
        if not self._is_cut:
            self._is_cut = True
            self._tell(AnomalyKind.SNAPPED_BYTES, position + captured, missing, time_ns, packet)
        elif self._more_cut is None:
            self._more_cut = _Cut(position + captured, missing, time_ns, packet)
        else:
            self._more_cut.missing += missing
            self._more_cut.packets += 1

    def end(self) -> None:
        """Tell what was kept to the end."""
        cut = self._more_cut
        self._more_cut = None
        if cut is not None:
            detail = f"in {cut.packets} more packets" if cut.packets > 1 else "in one more packet"
            place = cut.position, cut.missing, cut.time_ns, cut.packet
            self._tell(AnomalyKind.SNAPPED_BYTES, *place, detail)

    def inconsistent(self, position: int, length: int, segment: Segment) -> None:
        """Say that a segment has other bytes than an earlier one."""
        kind = AnomalyKind.INCONSISTENT_RETRANSMISSION
        self._tell(kind, position, length, segment.time_ns, segment.packet)

    def limit(self, position: int, held_bytes: int, after: Held) -> None:
        """Say that too much is held back behind a hole, from ``after`` on."""
        self._tell(AnomalyKind.REORDER_LIMIT, position, held_bytes, after.time_ns, after.packet)

    def out_of_order(self) -> None:
        """Count a packet that came after a later part of the stream."""
        self.connection.out_of_order_packets[self.index] += 1

    def repeated(self, segment: Segment, length: int, *, is_probe: bool) -> None:
        """Count bytes of a segment that had been seen before, by why they come again."""
        tcp, index = self.connection, self.index
        if segment.marks & IS_COPY:
            tcp.duplicate_bytes[index] += length
        elif is_probe:
            tcp.keep_alive_bytes[index] += length
            if tcp.measures is not None:
                tcp.measures.keep_alive_packets[index] += 1
        else:
            tcp.retransmitted_bytes[index] += length
            if tcp.measures is not None:
                tcp.measures.retransmitted_packets[index] += 1

    def _tell(
        self,
        kind: AnomalyKind,
        position: int,
        length: int,
        time_ns: int,
        packet: int,
        detail: str = "",
    ) -> None:
        self.notes.add(
            Anomaly(
                kind,
                time_ns=time_ns,
                packet=packet,
                connection=self.connection,
                direction=self.index,
                stream_offset=position,
                length=length,
                detail=detail,
            )
        )
