"""A connection with nothing but a SYN: of a port scan, a SYN flood, or to a broker that is down.

In: the SYN. Out: the connection, when another segment comes or when it ends.

A flood begins a hundred thousand of them in a second. Each is a record of a few numbers until its
next segment; most never have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.streams import StreamUpdate
from kanalyze.model.tcp import TcpConnection, TcpMeasures
from kanalyze.net.tcp.delivery import Segment
from kanalyze.net.tcp.endpoint_pairs import check_pair, key_endpoint
from kanalyze.net.tcp.round_trips import TimedSegments
from kanalyze.net.tcp.tcp_metrics import Meter

if TYPE_CHECKING:
    from kanalyze.model.tcp import ConnectionEnd
    from kanalyze.net.tcp.endpoint_pairs import Pair

__all__ = ["HalfOpenConnection"]


class HalfOpenConnection:
    """A connection with a SYN and nothing else, on a pair of endpoints."""

    _SAVED = Saved(
        "pair:*(wide,wide) number:count active_tick:count serial:count sequence:u32 "
        "acknowledgment:u32 flags:u16 time_ns:int packet:count from_higher:end marks:u16"
    )

    def __init__(self, pair: Pair, number: int, syn: Segment, active_tick: int) -> None:
        """``number`` and ``active_tick`` are as in an open connection."""
        self.pair = pair
        self.number = number
        self.active_tick = active_tick
        self.serial = 0
        self.sequence = syn.sequence
        self.acknowledgment = syn.acknowledgment
        self.flags = syn.flags
        self.time_ns = syn.time_ns
        self.packet = syn.packet
        self.from_higher = syn.from_higher
        self.marks = syn.marks

    def _after_load(self) -> None:
        check_pair(self.pair)

    @property
    def last_time_ns(self) -> int:
        """Time of its only segment."""
        return self.time_ns

    @property
    def syn(self) -> Segment:
        """The SYN, as :meth:`~kanalyze.net.tcp.connection.OpenConnection.receive` takes it."""
        return Segment(
            self.sequence,
            self.acknowledgment,
            self.flags,
            0,
            0,
            0,
            self.time_ns,
            self.packet,
            0,
            self.from_higher,
            self.marks,
        )

    def close(self, end: ConnectionEnd, *, measure: bool) -> StreamUpdate:
        """Return the last update, as of an open connection that received only the SYN."""
        lower, higher = key_endpoint(self.pair[0]), key_endpoint(self.pair[1])
        tcp = TcpConnection(
            self.serial,
            endpoints=(higher, lower) if self.from_higher else (lower, higher),
            connection_number=self.number,
            opened_by=0,
            first_time_ns=self.time_ns,
            last_time_ns=self.time_ns,
            first_packet=self.packet,
            start_seen=[True, False],
            measures=self._measures() if measure else None,
        )
        tcp.packets[0] = 1
        tcp.end = end
        return StreamUpdate(tcp, ([], []), closed=True)

    def _measures(self) -> TcpMeasures:
        measures = TcpMeasures()
        indices = (int(self.from_higher), 1 - self.from_higher)
        Meter(measures, indices, TimedSegments()).take(self.syn, False, False)
        return measures
