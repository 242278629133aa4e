"""The network's share of the round trips of connections: what no receiver delayed."""

from __future__ import annotations

import io

import pytest

import kanalyze
from kanalyze.runtime.pipeline import Analysis
from tests.support import kafka as k
from tests.support.captures import path
from tests.support.packets import pcap_file, timed
from tests.support.traffic import Line

MS = 1_000_000


def test_delayed_acknowledgments_do_not_make_a_broker_on_the_same_host_far() -> None:
    rows = list(kanalyze.connections(str(path("basics"))))
    assert max(row.broker_rtt_mean_ns or 0 for row in rows) > 5 * MS
    assert all(row.broker_rtt_ns is not None for row in rows)
    assert max(row.broker_rtt_ns or 0 for row in rows) < MS
    assert max(row.client_rtt_ns or 0 for row in rows) < MS


@pytest.mark.parametrize("place", ["client", "between", "broker"])
def test_round_trips_of_connections_are_those_of_their_requests(place: str) -> None:
    file = str(path("basics").parent / "latency" / f"{place}.pcap")
    last = {row.connection: row for row in kanalyze.requests(file)}
    for connection in kanalyze.connections(file):
        row = last[connection.connection]
        assert connection.broker_rtt_ns == row.broker_network_ns
        assert connection.client_rtt_ns == row.client_network_ns


def test_a_round_trip_that_may_be_a_delayed_acknowledgment_alone_is_not_known() -> None:
    packets: list[bytes] = []
    Line(packets).client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    run = Analysis([io.BytesIO(pcap_file(timed(packets, MS)))])
    (row,) = [row for rows in run.connection_batches() for row in rows]
    assert (row.broker_rtt_samples, row.broker_rtt_min_ns) == (1, MS)
    assert row.broker_rtt_ns is None
