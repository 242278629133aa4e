"""Ends that connections go to are servers in other connections too."""

from __future__ import annotations

import pytest

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.known_servers import KnownServers
from kanalyze.model.tcp import Endpoint, TcpConnection

CLIENT, BROKER, OTHER = Endpoint("a", 50_000), Endpoint("b", 9092), Endpoint("c", 40_000)


def tcp(one: Endpoint, two: Endpoint, opened_by: int | None = None) -> TcpConnection:
    return TcpConnection(1, (one, two), 1, opened_by, 0, 0)


@pytest.mark.parametrize(("opened_by", "client_index"), [(0, None), (None, 0), (1, 0)])
def test_the_end_a_connection_goes_to_is_a_server(opened_by, client_index) -> None:
    servers = KnownServers()
    servers.note(tcp(CLIENT, BROKER, opened_by), client_index)
    assert servers.client_of(tcp(BROKER, OTHER)) == 1
    assert servers.client_of(tcp(OTHER, BROKER)) == 0
    assert servers.client_of(tcp(CLIENT, OTHER)) is None


def test_two_servers_show_no_client() -> None:
    servers = KnownServers()
    servers.note(tcp(CLIENT, BROKER), 0)
    servers.note(tcp(CLIENT, OTHER), 0)
    assert servers.client_of(tcp(OTHER, BROKER)) is None


def test_servers_are_bounded_and_saved() -> None:
    servers, other = KnownServers(), KnownServers()
    for port in range(5000):
        servers.note(tcp(CLIENT, Endpoint("b", port)), 0)
    load(other, save(servers))
    assert len(save(other)) == 4096
    with pytest.raises(ValueError, match="more servers"):
        load(other, (*save(servers), ("b", 9999)))
