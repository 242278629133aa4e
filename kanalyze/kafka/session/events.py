"""The events of a step: completed exchanges, anomalies, tokens, closed connections.

In: the events of one connection in one step. Out: the events of all connections of a batch, in the
order of completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.framing.frame import NO_PACKET

if TYPE_CHECKING:
    from kanalyze.kafka.session.connection_summary import ConnectionSummary
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import TokenBytes

__all__ = ["ConnectionEvents", "SessionEvents"]


class ConnectionEvents:
    """The events of one connection in one step."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        """The completed exchanges, in the order of the connection's streams."""
        self.anomalies: list[Anomaly] = []
        self.token_bytes: list[TokenBytes] = []

    def extend(self, later: ConnectionEvents) -> None:
        """Add the events of a later step."""
        self.exchanges += later.exchanges
        self.anomalies += later.anomalies
        self.token_bytes += later.token_bytes


class SessionEvents:
    """The events of all connections in one batch."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.completion_packets: list[int] = []
        """For each exchange, the packet with which it counts as complete."""
        self.anomalies: list[Anomaly] = []
        self.token_bytes: list[TokenBytes] = []
        self.summaries: list[ConnectionSummary] = []
        """Of the connections that closed; empty unless the tracker collects summaries."""
        self.closed_clients: dict[int, int | None] = {}
        """Which end of the connections that closed is the client, by serial; None if unknown."""

    def add(self, events: ConnectionEvents) -> None:
        """Add the events of a connection in one step.

        An exchange does not count as complete before the one before it in the same streams,
        whatever packets they came in.
        """
        latest = 0
        for exchange in events.exchanges:
            packet = _completion_packet(exchange)
            if packet > latest:  # max() would make objects
                latest = packet
            self.completion_packets.append(latest)
        self.exchanges += events.exchanges
        self.anomalies += events.anomalies
        self.token_bytes += events.token_bytes

    def sort(self) -> None:
        """Put the exchanges in the order of completion."""
        packets, exchanges = self.completion_packets, self.exchanges
        # Equal packets are of one connection, whose order stays.
        order = sorted(range(len(packets)), key=packets.__getitem__)
        self.exchanges = [exchanges[index] for index in order]
        self.completion_packets = [packets[index] for index in order]


def _completion_packet(exchange: Exchange) -> int:
    if exchange.settled != NO_PACKET:
        return exchange.settled
    message = exchange.request if exchange.response is None else exchange.response
    if message is None:
        return 0
    return message.start_packet if message.last_packet == NO_PACKET else message.last_packet
