from __future__ import annotations

import pytest

from tests.support.cases import for_each
from tests.support.measuring import at, figures, measured, numbered
from tests.support.packets import ACK, FIN, RST, SYN

BATCHES = for_each("batch_packets", [0, 1, 2])
SYN_NS, ANSWER_NS, ACK_NS = 100, 350, 400


def to_broker(identification: int = 1, **named) -> bytes:
    return numbered(identification, **named)


def to_client(identification: int = 1, **named) -> bytes:
    return numbered(identification, to_broker=False, **named)


FIRST = (SYN_NS, to_broker(1, seq=0, flags=SYN))
ANSWER = (ANSWER_NS, to_client(1, seq=900, ack=1, flags=SYN | ACK))
LAST = (ACK_NS, to_broker(2, seq=1, ack=901))


def one(*packets, batch_packets=0):
    (connection,) = measured(at(*packets), batch_packets)
    return connection


def halves(*packets, batch_packets=0):
    measures = one(*packets, batch_packets=batch_packets).measures
    return measures.handshake_rtt_ns, measures.answer_rtt_ns, measures.opener_rtt_ns


# The handshake


@BATCHES
def test_a_handshake_is_timed_as_a_whole_and_in_two_halves(batch_packets):
    assert halves(FIRST, ANSWER, LAST, batch_packets=batch_packets) == (300, 250, 50)


@BATCHES
def test_data_may_end_the_handshake(batch_packets):
    data = (ACK_NS, to_broker(2, seq=1, ack=901, payload=b"x"))
    assert halves(FIRST, ANSWER, data, batch_packets=batch_packets) == (300, 250, 50)


@BATCHES
def test_a_handshake_captured_twice_is_timed_by_its_first_copies(batch_packets):
    packets = [(time + late, data) for time, data in (FIRST, ANSWER, LAST) for late in (0, 20)]
    connection = one(*packets, batch_packets=batch_packets)
    assert connection.measures.handshake_rtt_ns == 300
    assert connection.measures.syn_retransmissions == [0, 0]
    assert connection.measures.duplicate_packets == [2, 1]


@BATCHES
def test_a_retransmitted_syn_leaves_its_half_unknown(batch_packets):
    again = (SYN_NS + 200, to_broker(7, seq=0, flags=SYN))
    connection = one(FIRST, again, ANSWER, LAST, batch_packets=batch_packets)
    assert connection.measures.syn_retransmissions == [1, 0]
    assert connection.measures.syn_time_ns == SYN_NS
    assert halves(FIRST, again, ANSWER, LAST) == (None, None, 50)


@BATCHES
def test_a_retransmitted_syn_ack_leaves_its_half_unknown(batch_packets):
    again = (ANSWER_NS + 10, to_client(7, seq=900, ack=1, flags=SYN | ACK))
    connection = one(FIRST, ANSWER, again, LAST, batch_packets=batch_packets)
    assert connection.measures.syn_retransmissions == [0, 1]
    assert halves(FIRST, ANSWER, again, LAST) == (None, 250, None)


@BATCHES
@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        ((ANSWER, LAST), (None, None, 50)),
        ((FIRST, LAST), (None, None, None)),
        ((FIRST, ANSWER), (None, 250, None)),
        ((LAST,), (None, None, None)),
        ((ANSWER, (SYN_NS + 300, FIRST[1]), LAST), (None, None, 50)),
    ],
    ids=["no SYN", "no answer", "no end", "none", "wrong order"],
)
def test_a_handshake_not_seen_whole_or_in_order_has_null_times(packets, expected, batch_packets):
    assert halves(*packets, batch_packets=batch_packets) == expected


@BATCHES
def test_a_last_ack_captured_before_the_syn_ack_is_not_timed(batch_packets):
    data = (9_000_000, to_broker(3, seq=1, ack=901, payload=b"late"))
    packets = (FIRST, (200, LAST[1]), ANSWER, data)
    assert halves(*packets, batch_packets=batch_packets) == (None, 250, None)


@BATCHES
def test_a_first_segment_that_acknowledges_more_ends_no_handshake(batch_packets):
    more = (ACK_NS, to_broker(2, seq=1, ack=950))
    assert halves(FIRST, ANSWER, more, batch_packets=batch_packets) == (None, 250, None)


@BATCHES
def test_a_simultaneous_opening_has_no_handshake_times(batch_packets):
    crossing = (150, to_client(1, seq=900, flags=SYN))
    packets = (FIRST, crossing, ANSWER, LAST)
    assert halves(*packets, batch_packets=batch_packets) == (None, None, None)


@BATCHES
def test_a_refused_connection_has_no_handshake(batch_packets):
    refusal = (150, to_client(0, seq=0, ack=1, flags=RST | ACK))
    connection = one(FIRST, refusal, batch_packets=batch_packets)
    assert connection.measures.handshake_rtt_ns is None
    assert connection.measures.reset_packets == [0, 1]
    assert (connection.closed_by, connection.end) == (1, "reset")


# Round trips


@BATCHES
def test_each_direction_has_its_round_trips(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"ask")),
        (1070, to_client(2, seq=901, ack=4)),
        (2000, to_client(3, seq=901, ack=4, payload=b"answer")),
        (2005, to_broker(4, seq=4, ack=907)),
    ]
    client, broker = one(*packets, batch_packets=batch_packets).measures.round_trips
    assert (client.samples, client.total_ns) == (1, 70)
    assert (broker.samples, broker.least_ns, broker.most_ns) == (1, 5, 5)


@BATCHES
def test_a_segment_with_a_fin_ends_where_its_fin_does(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, flags=FIN | ACK, payload=b"bye")),
        (1080, to_client(2, seq=901, ack=5)),
    ]
    assert one(*packets, batch_packets=batch_packets).measures.round_trips[0].total_ns == 80


@BATCHES
def test_data_in_a_syn_is_timed(batch_packets):
    packets = [
        (100, to_broker(1, seq=0, flags=SYN, payload=b"fast")),
        (160, to_client(1, seq=900, ack=5, flags=SYN | ACK)),
    ]
    assert one(*packets, batch_packets=batch_packets).measures.round_trips[0].total_ns == 60


@BATCHES
def test_a_reset_acknowledges_nothing(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"ask")),
        (1070, to_client(2, seq=901, ack=4, flags=RST | ACK)),
    ]
    assert one(*packets, batch_packets=batch_packets).measures.round_trips[0].samples == 0


@BATCHES
def test_segments_out_of_window_are_neither_data_nor_acknowledgments(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"ask")),
        (1010, to_client(2, seq=0x70000000, ack=4, payload=b"stray")),
        (1070, to_client(3, seq=901, ack=4)),
    ]
    client, broker = one(*packets, batch_packets=batch_packets).measures.round_trips
    assert (client.total_ns, broker.samples) == (70, 0)


@BATCHES
@pytest.mark.parametrize("sender", [to_broker, to_client])
def test_one_direction_alone_has_no_round_trips(batch_packets, sender):
    packets = [(i * 1000, sender(i + 1, seq=i * 10, ack=77, payload=b"x" * 10)) for i in range(9)]
    connection = one(*packets, batch_packets=batch_packets)
    assert [trips.samples for trips in connection.measures.round_trips] == [0, 0]
    assert connection.payload_bytes == [90, 0]


# Odd packets


@BATCHES
def test_windows_of_0_are_counted_but_not_in_syns_fins_and_resets(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_client(2, seq=901, ack=1, window=0)),
        (1001, to_client(3, seq=901, ack=1, window=0, payload=b"x")),
        (1002, to_client(3, seq=901, ack=1, window=0, payload=b"x")),
        (2000, to_broker(4, seq=1, ack=902, flags=FIN | ACK, window=0)),
        (3000, to_client(5, seq=902, ack=2, flags=RST | ACK, window=0)),
    ]
    measures = one(*packets, batch_packets=batch_packets).measures
    assert measures.zero_window_packets == [0, 2]
    assert measures.duplicate_packets == [0, 1]
    assert (measures.fin_packets, measures.reset_packets) == ([1, 0], [0, 1])


@BATCHES
@pytest.mark.parametrize("payload", [b"", b"\0"])
def test_keep_alive_probes_are_counted_separately(batch_packets, payload):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"hello")),
        (1100, to_client(2, seq=901, ack=6)),
        (75_000_000_000, to_broker(4, seq=5, ack=901, payload=payload)),
        (75_000_000_200, to_client(3, seq=901, ack=6)),
        (76_000_000_000, to_broker(5, seq=6, ack=901)),
    ]
    connection = one(*packets, batch_packets=batch_packets)
    assert connection.measures.keep_alive_packets == [1, 0]
    assert connection.measures.retransmitted_packets == [0, 0]
    assert connection.retransmitted_bytes == [0, 0]
    assert connection.unique_bytes == [5, 0]
    assert connection.measures.round_trips[0].total_ns == 100


@BATCHES
def test_retransmissions_are_counted_once_a_packet(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"hello")),
        (2000, to_broker(4, seq=11, ack=901, payload=b"world")),
        (300_000_000, to_broker(5, seq=1, ack=901, payload=b"hello" + b"....." + b"wor")),
    ]
    connection = one(*packets, batch_packets=batch_packets)
    assert connection.measures.retransmitted_packets == [1, 0]
    assert connection.retransmitted_bytes == [8, 0]
    assert connection.out_of_order_packets == [0, 0]


@BATCHES
def test_nothing_is_measured_unless_requested(batch_packets):
    (connection,) = measured(at(FIRST, ANSWER, LAST), batch_packets, measure=False)
    assert connection.measures is None
    (with_measures,) = measured(at(FIRST, ANSWER, LAST), batch_packets)
    plain = figures(connection)
    assert {name: figures(with_measures)[name] for name in plain} | plain == (
        figures(connection) | {"opened_by": 0}
    )
