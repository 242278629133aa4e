"""The summary of a closed connection, and counts over connections.

In: facts about a connection, from the tracker. Out: plain values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.session.batch_checks import BatchCounts

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection

__all__ = ["ConnectionCounts", "ConnectionSummary", "UnknownTotal"]


class UnknownTotal:
    """Connections of an unknown protocol."""

    __slots__ = ("bytes", "connections", "packets")
    _SAVED = Saved("connections:count packets:count bytes:count")

    def __init__(self) -> None:
        self.connections = 0
        self.packets = 0
        self.bytes = 0
        """Payload in bytes, every byte of a stream once."""

    def add(self, connections: int, packets: int, size: int) -> None:
        """Add counts."""
        self.connections += connections
        self.packets += packets
        self.bytes += size


class ConnectionCounts:
    """Counts of connections by protocol, and of bytes read; counts can be added up."""

    _SAVED = Saved(
        "kafka:count tls:count other:count kafka_bytes:count decoded_bytes:count "
        "undecoded_bytes:count skipped_bytes:count kafka_ports:dict[count,count] "
        "unknown_ports:dict[count,UnknownTotal] by_protocol:dict[str,count]",
        UnknownTotal,
        added="batches:here",
    )

    def __init__(self) -> None:
        self.kafka = 0
        self.tls = 0
        self.other = 0
        self.kafka_bytes = 0
        """TCP payload of Kafka connections, each byte once."""
        self.decoded_bytes = 0
        self.undecoded_bytes = 0
        self.skipped_bytes = 0
        self.kafka_ports: dict[int, int] = {}
        """Kafka connections by the broker's port."""
        self.unknown_ports: dict[int, UnknownTotal] = {}
        """Closed ``unknown`` connections, by the port that was connected to; by both ports if the
        handshake was not seen."""
        self.by_protocol: dict[str, int] = {}
        """Connections that are not Kafka, by protocol (one of ``signatures.PROTOCOLS``); their sum
        is ``tls`` plus ``other``. Protocols without connections are left out."""
        self.batches = BatchCounts()
        """Batches of records, and which of them were checked."""

    def count(self, protocol: str) -> None:
        """Count a connection that is not Kafka."""
        self.by_protocol[protocol] = self.by_protocol.get(protocol, 0) + 1
        if protocol == "tls":
            self.tls += 1
        else:
            self.other += 1

    def count_kafka(self, port: int) -> None:
        """Count a Kafka connection to a broker's port."""
        self.kafka += 1
        self.kafka_ports[port] = self.kafka_ports.get(port, 0) + 1

    def count_unknown(self, tcp: TcpConnection) -> None:
        """Count a connection that closed with an unknown protocol."""
        directions = (0, 1) if tcp.opened_by is None else (1 - tcp.opened_by,)
        for port in {tcp.endpoints[direction].port for direction in directions}:
            total = self.unknown_ports.setdefault(port, UnknownTotal())
            total.add(1, sum(tcp.packets), sum(tcp.unique_bytes))


class ConnectionSummary(NamedTuple):
    """One TCP connection that closed, or that was open at the end of the capture."""

    tcp: TcpConnection
    protocol: str
    """``kafka``, ``kafka-0.7``, or one of ``signatures.PROTOCOLS``."""
    client_index: int | None = None
    """Which end is the client, 0 or 1: in Kafka the one that sent requests, in TLS the one that
    sent a ClientHello. None if neither was seen."""
    client_id: str | None = None
    """The first one seen; None if there was none, and in Kafka 0.7."""
    software_name: str | None = None
    software_version: str | None = None
    principal: str | None = None
    """The user that logged in, if the login was seen; never a secret."""
    requests: int = 0
    """Requests, with and without a response."""
    decoded_bytes: int = 0
    """Bytes of frames whose body was read to the end. 0 if it is not Kafka; so are the next two."""
    undecoded_bytes: int = 0
    skipped_bytes: int = 0
    """Bytes skipped while searching for a frame boundary."""
    likely_client: int | None = None
    """Which end other connections show to be the client, as the other one is a server of theirs;
    None if neither is, or both are."""
