"""Connections of which little was captured: which end is the broker."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from kanalyze.runtime.pipeline import Analysis
from tests.support import kafka as k
from tests.support.packets import ACK, FIN, START_NS, SYN, Packet, pcap_file, segment

if TYPE_CHECKING:
    from kanalyze.spec.rows.connections import ConnectionRow

MS = 1_000_000
BROKER = ("10.0.0.2", 9092)
HIGH_BROKER = ("10.0.0.2", 54_321)
CLIENT = ("10.0.0.1", 40_000)
_End = tuple[str, int]


class Talk:
    """Packets between clients and a broker, a ms apart."""

    def __init__(self, broker: _End) -> None:
        self._broker = broker
        self._packets: list[bytes] = []

    def kafka(self, client: _End, *, opened: bool = False) -> Talk:
        """Add a connection with a request and its response."""
        if opened:
            self._add(client, to_broker=True, seq=999, flags=SYN)
            self._add(client, to_broker=False, seq=4999, ack=1000, flags=SYN | ACK)
        asked, answered = k.heartbeat(1), k.heartbeat_answer(1)
        self._add(client, to_broker=True, seq=1000, ack=5000, payload=asked)
        self._add(client, to_broker=False, seq=5000, ack=1000 + len(asked), payload=answered)
        return self

    def end_of_one(self, client: _End, *, by_broker: bool = True) -> Talk:
        """Add the end of a connection that was silent before."""
        self._add(client, to_broker=not by_broker, seq=100, ack=200, flags=FIN | ACK)
        self._add(client, to_broker=by_broker, seq=200, ack=101, flags=ACK)
        self._add(client, to_broker=by_broker, seq=200, ack=101, flags=FIN | ACK)
        self._add(client, to_broker=not by_broker, seq=101, ack=201, flags=ACK)
        return self

    def _add(
        self,
        client: _End,
        *,
        to_broker: bool,
        seq: int,
        ack: int = 0,
        flags: int = ACK,
        payload: bytes = b"",
    ) -> None:
        self._packets.append(
            segment(
                to_broker=to_broker,
                seq=seq,
                ack=ack,
                flags=flags,
                payload=payload,
                client=client,
                broker=self._broker,
            )
        )

    def capture(self) -> bytes:
        times = range(START_NS, START_NS + len(self._packets) * MS, MS)
        return pcap_file(map(Packet, self._packets, times))

    def add(self, later: Talk) -> None:
        """Add the packets of another one."""
        self._packets += later._packets

    def connections(self) -> list[ConnectionRow]:
        """The rows of all connections."""
        run = Analysis([io.BytesIO(self.capture())])
        return [row for rows in run.connection_batches() for row in rows]

    def connection(self, client: _End) -> ConnectionRow:
        """The row of the connection with a client, whichever end counts as such."""
        rows = self.connections()
        (found,) = [row for row in rows if client[1] in (row.client_port, row.broker_port)]
        return found


@pytest.mark.parametrize("by_broker", [True, False])
def test_the_end_with_the_lower_port_is_the_broker_of_a_connection_seen_only_at_its_end(
    by_broker: bool,
) -> None:
    row = Talk(BROKER).end_of_one(CLIENT, by_broker=by_broker).connection(CLIENT)
    assert row.connection == "10.0.0.1:40000>10.0.0.2:9092"
    assert row.client_known is False
    assert row.closed_by == ("broker" if by_broker else "client")
    assert (row.client_fins, row.broker_fins) == (1, 1)


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("by_broker", [True, False])
def test_an_end_that_is_the_broker_of_other_connections_is_the_broker(
    opened: bool, by_broker: bool
) -> None:
    talk = Talk(HIGH_BROKER).kafka(("10.0.0.1", 39_000), opened=opened)
    row = talk.end_of_one(CLIENT, by_broker=by_broker).connection(CLIENT)
    assert row.connection == "10.0.0.1:40000>10.0.0.2:54321"
    assert row.client_known is False


def test_a_client_whose_port_is_that_of_brokers_is_none() -> None:
    client = ("10.0.0.1", 9092)
    talk = Talk(HIGH_BROKER).kafka(("10.0.0.3", 39_000)).end_of_one(client)
    assert talk.connection(client).connection == "10.0.0.1:9092>10.0.0.2:54321"


def test_ends_that_are_both_servers_are_told_apart_by_their_ports() -> None:
    talk = Talk(CLIENT).kafka(("10.0.0.9", 30_000))
    later = Talk(BROKER).kafka(("10.0.0.1", 39_000)).end_of_one(CLIENT)
    talk.add(later)
    found = [row.connection for row in talk.connections() if not row.client_known]
    assert found == ["10.0.0.1:40000>10.0.0.2:9092"]
