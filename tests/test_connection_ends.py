"""Connections of which little was captured: which end is the broker."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from kanalyze.runtime.pipeline import Analysis
from tests.support import kafka as k
from tests.support.packets import BROKER
from tests.support.traffic import TO_BROKER, TO_CLIENT, Line, capture_of

if TYPE_CHECKING:
    from kanalyze.spec.rows.connections import ConnectionRow

HIGH_BROKER = ("10.0.0.2", 54_321)
CLIENT = ("10.0.0.1", 40_000)
_End = tuple[str, int]


def kafka(client: _End, broker: _End, *, opened: bool = False) -> list[bytes]:
    """A connection with a request and its response."""
    packets: list[bytes] = []
    line = Line(packets, client=client, broker=broker)
    if opened:
        line.open()
    line.client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    return packets


def end_of_one(client: _End, broker: _End, *, by_broker: bool = True) -> list[bytes]:
    """The end of a connection that was silent before."""
    packets: list[bytes] = []
    Line(packets, client=client, broker=broker).close(TO_CLIENT if by_broker else TO_BROKER)
    return packets


def unknown_of(packets: list[bytes]) -> ConnectionRow:
    """The row of the only connection whose client is not known."""
    run = Analysis([io.BytesIO(capture_of(packets))])
    (found,) = [row for rows in run.connection_batches() for row in rows if not row.client_known]
    return found


@pytest.mark.parametrize("by_broker", [True, False])
def test_the_end_with_the_lower_port_is_the_broker_of_a_connection_seen_only_at_its_end(
    by_broker: bool,
) -> None:
    row = unknown_of(end_of_one(CLIENT, BROKER, by_broker=by_broker))
    assert row.connection == "10.0.0.1:40000>10.0.0.2:9092"
    assert row.closed_by == ("broker" if by_broker else "client")
    assert (row.client_fins, row.broker_fins) == (1, 1)


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("by_broker", [True, False])
def test_an_end_that_is_the_broker_of_other_connections_is_the_broker(
    opened: bool, by_broker: bool
) -> None:
    known = kafka(("10.0.0.1", 39_000), HIGH_BROKER, opened=opened)
    row = unknown_of([*known, *end_of_one(CLIENT, HIGH_BROKER, by_broker=by_broker)])
    assert row.connection == "10.0.0.1:40000>10.0.0.2:54321"


def test_a_client_whose_port_is_that_of_brokers_is_none() -> None:
    known = kafka(("10.0.0.3", 39_000), HIGH_BROKER)
    row = unknown_of([*known, *end_of_one(("10.0.0.1", 9092), HIGH_BROKER)])
    assert row.connection == "10.0.0.1:9092>10.0.0.2:54321"


def test_ends_that_are_both_servers_are_told_apart_by_their_ports() -> None:
    known = [*kafka(("10.0.0.9", 30_000), CLIENT), *kafka(("10.0.0.1", 39_000), BROKER)]
    row = unknown_of([*known, *end_of_one(CLIENT, BROKER)])
    assert row.connection == "10.0.0.1:40000>10.0.0.2:9092"
