from __future__ import annotations

from typing import Any

import pytest

from kanalyze.kafka.session.events import ConnectionSummary
from kanalyze.model.tcp import Endpoint, RoundTrips, TcpConnection, TcpMeasures
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS, ConnectionRow
from kanalyze.tables.connections import connection_row
from tests.support.measuring import at, measured, numbered
from tests.support.packets import ACK, BROKER, CLIENT, FIN, SYN


def connection(**changes: Any) -> TcpConnection:
    ends = (Endpoint("10.0.0.1", 50000), Endpoint("2001:db8::1", 9092))
    tcp = TcpConnection(1, ends, 2, 0, 1_000, 9_000, 7)
    tcp.end, tcp.closed_by = "fin", 1
    for name, value in changes.items():
        setattr(tcp, name, value)
    return tcp


def measures_of(**changes: Any) -> TcpMeasures:
    measures = TcpMeasures()
    for name, value in changes.items():
        setattr(measures, name, value)
    return measures


def row(tcp: TcpConnection, client_index: int | None = 0, **named: Any) -> ConnectionRow:
    summary = ConnectionSummary(tcp, "kafka", client_index)._replace(**named)
    return connection_row(summary, lambda number: ("a.pcap", number - 4))


def test_a_row_has_both_ends_and_the_duration() -> None:
    made = row(connection())
    assert made.connection == "10.0.0.1:50000>[2001:db8::1]:9092"
    assert (made.client_ip, made.client_port) == ("10.0.0.1", 50000)
    assert (made.broker_ip, made.broker_port) == ("2001:db8::1", 9092)
    assert (made.start_ns, made.end_ns, made.duration_ns) == (1_000, 9_000, 8_000)
    assert (made.opened_by, made.closed_by, made.end) == ("client", "broker", "fin")
    assert (made.capture, made.first_packet, made.connection_number) == ("a.pcap", 3, 2)
    assert made.client_known is True


def test_the_client_may_be_the_end_that_sent_second() -> None:
    made = row(connection(), client_index=1)
    assert made.connection == "[2001:db8::1]:9092>10.0.0.1:50000"
    assert (made.opened_by, made.closed_by) == ("broker", "client")


def test_if_the_client_is_unknown_the_first_sender_counts_as_the_client() -> None:
    made = row(connection(opened_by=None, closed_by=None), client_index=None)
    assert made.connection.startswith("10.0.0.1")
    assert (made.client_known, made.opened_by, made.closed_by) == (False, None, None)


def test_facts_of_the_kafka_session_are_copied() -> None:
    known = {"client_id": "app", "principal": "alice", "requests": 5, "decoded_bytes": 100}
    made = row(connection(), **known, software_name="lib", software_version="1.2")
    assert {name: getattr(made, name) for name in known} == known
    assert (made.client_software_name, made.client_software_version) == ("lib", "1.2")
    assert made.skipped_bytes == 0
    other = row(connection(), protocol="http")
    assert {other.requests, other.decoded_bytes, other.skipped_bytes, other.client_id} == {None}


def test_without_measures_only_measured_columns_are_null() -> None:
    made = row(connection(), protocol="http")
    nullable = {column.name for column in CONNECTION_COLUMNS if column.nullable}
    nulls = {name for name in ConnectionRow._fields if getattr(made, name) is None}
    known = {"opened_by", "closed_by", "first_packet", "start_ns", "end_ns", "duration_ns"}
    assert nulls == nullable - known


OF_TCP = (
    *("packets", "payload_bytes", "retransmitted_bytes", "duplicate_bytes", "lost_bytes"),
    *("out_of_order_packets", "snapped_bytes"),
)
OF_MEASURES = {
    "duplicate_packets": "duplicate_packets",
    "retransmitted_packets": "retransmitted_packets",
    "keep_alive_packets": "keep_alives",
    "zero_window_packets": "zero_windows",
    "reset_packets": "resets",
    "fin_packets": "fins",
    "syn_retransmissions": "syn_retransmissions",
}


@pytest.mark.parametrize("client_index", [0, 1])
def test_counts_are_in_the_columns_of_their_end(client_index: int) -> None:
    pairs = {name: [10 * i + 1, 10 * i + 2] for i, name in enumerate((*OF_TCP, *OF_MEASURES))}
    measures = measures_of(**{name: pairs[name] for name in OF_MEASURES})
    counts = {name: pairs[name] for name in OF_TCP}
    made = row(connection(measures=measures, **counts), client_index)
    for name, pair in pairs.items():
        column = OF_MEASURES.get(name, name)
        assert getattr(made, f"client_{column}") == pair[client_index]
        assert getattr(made, f"broker_{column}") == pair[1 - client_index]


def test_round_trips_to_the_broker_are_measured_by_client_data() -> None:
    trips = (RoundTrips(4, 400, 50, 150), RoundTrips(2, 7, 3, 4))
    made = row(connection(measures=measures_of(round_trips=trips)))
    assert (made.broker_rtt_min_ns, made.broker_rtt_mean_ns, made.broker_rtt_max_ns) == (
        *(50, 100),
        150,
    )
    assert (made.client_rtt_min_ns, made.client_rtt_mean_ns, made.client_rtt_max_ns) == (3, 3, 4)
    assert (made.broker_rtt_samples, made.client_rtt_samples) == (4, 2)


def test_the_two_parts_of_the_handshake_are_assigned_to_their_ends() -> None:
    measures = measures_of(
        syn_time_ns=100, syn_ack_time_ns=350, handshake_ack_time_ns=400, opened_by=0
    )
    made = row(connection(measures=measures))
    assert made.handshake_rtt_ns == 300
    assert (made.broker_handshake_rtt_ns, made.client_handshake_rtt_ns) == (250, 50)
    opened_by_broker = row(connection(measures=measures), client_index=1)
    assert opened_by_broker.handshake_rtt_ns == 300
    assert opened_by_broker.broker_handshake_rtt_ns == 50
    assert opened_by_broker.client_handshake_rtt_ns == 250


def test_packets_make_a_row() -> None:
    packets = at(
        (100, numbered(1, seq=0, flags=SYN)),
        (350, numbered(1, to_broker=False, seq=900, ack=1, flags=SYN | ACK)),
        (400, numbered(2, seq=1, ack=901)),
        (1_000, numbered(3, seq=1, ack=901, payload=b"hello")),
        (1_070, numbered(2, to_broker=False, seq=901, ack=6)),
        (2_000, numbered(4, seq=6, ack=901, flags=FIN | ACK)),
    )
    (tcp,) = measured(packets)
    made = row(tcp)
    assert made.connection == f"{CLIENT[0]}:{CLIENT[1]}>{BROKER[0]}:{BROKER[1]}"
    assert (made.handshake_rtt_ns, made.broker_rtt_mean_ns) == (300, 70)
    assert (made.client_rtt_mean_ns, made.client_rtt_samples) == (None, 0)
    assert (made.end, made.closed_by, made.client_fins) == ("open", "client", 1)


def test_only_columns_declared_nullable_are_null() -> None:
    filled = row(connection(measures=TcpMeasures()))
    for made in (filled, row(connection()), row(connection(), protocol="tls")):
        for column in CONNECTION_COLUMNS:
            assert column.nullable or getattr(made, column.name) is not None
