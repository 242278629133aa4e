from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.net.tcp.reassembly import Reassembler
from tests.support.cases import examples
from tests.support.measuring import at, check_figures_in_batches, measured, numbered
from tests.support.packets import ACK, SYN, Packet, make_batch

CLIENT_V6, BROKER_V6 = ("2001:db8::1", 50000), ("2001:db8::2", 9092)


def talk(turns: int, isn: int = 0, **named) -> list[tuple[int, bytes]]:
    """An opening, then turns of 30 bytes in two segments, their acknowledgment, 7 bytes back."""
    packets = [
        (10, numbered(1, seq=isn, flags=SYN, **named)),
        (20, numbered(1, to_broker=False, seq=isn + 900, ack=isn + 1, flags=SYN | ACK, **named)),
        (30, numbered(2, seq=isn + 1, ack=isn + 901, **named)),
    ]
    client_seq, broker_seq = isn + 1, isn + 901
    for turn in range(turns):
        now, number = 1000 * (turn + 1), 4 * turn + 3
        packets += [
            (now, numbered(number, seq=client_seq, ack=broker_seq, payload=b"x" * 10, **named)),
            (
                now + 1,
                numbered(
                    number + 1, seq=client_seq + 10, ack=broker_seq, payload=b"x" * 20, **named
                ),
            ),
            (
                now + 90,
                numbered(number, to_broker=False, seq=broker_seq, ack=client_seq + 30, **named),
            ),
            (
                now + 200,
                numbered(
                    number + 1,
                    to_broker=False,
                    seq=broker_seq,
                    ack=client_seq + 30,
                    payload=b"y" * 7,
                    **named,
                ),
            ),
            (now + 205, numbered(number + 2, seq=client_seq + 30, ack=broker_seq + 7, **named)),
        ]
        client_seq, broker_seq = client_seq + 30, broker_seq + 7
    return packets


@pytest.mark.few(16)
@pytest.mark.parametrize("isn", [0, 0xFFFFFFF0, 0x7FFFFF00, 0xFFFFFB00])
@pytest.mark.parametrize("batch_packets", [0, 3, 7, 11])
def test_groups_in_order_are_measured_like_segments_one_by_one(isn, batch_packets):
    (connection,) = measured(at(*talk(50, isn)), batch_packets)
    client, broker = connection.measures.round_trips
    assert (client.samples, client.least_ns, client.most_ns) == (50, 89, 89)
    assert (broker.samples, broker.total_ns) == (50, 250)


@pytest.mark.few(4)
@pytest.mark.parametrize("batch_packets", [1, 4, 13, 60])
def test_many_connections_in_one_batch_do_not_mix(batch_packets):
    families = [{"client": ("10.0.0.1", port)} for port in (1, 2, 3)]
    families.append({"client": CLIENT_V6, "broker": BROKER_V6})
    packets = [
        (time + i * 2, data)
        for i, named in enumerate(families)
        for time, data in talk(20, isn=i * 77, **named)
    ]
    mixed = at(*sorted(packets, key=lambda packet: packet[0]))
    connections = measured(mixed, batch_packets)
    assert len(connections) == 4
    for connection in connections:
        assert [trips.samples for trips in connection.measures.round_trips] == [20, 20]
        assert connection.measures.round_trips[0].total_ns == 20 * 89
        assert connection.measures.handshake_rtt_ns == 20


@pytest.mark.parametrize("batch_packets", [0, 1, 2, 5])
def test_odd_packets_that_do_not_disturb_the_streams_are_counted(batch_packets):
    quiet = [
        (9000, numbered(500, seq=61, ack=915, window=0)),
        (9001, numbered(500, seq=61, ack=915, window=0)),
        (75_000_009_000, numbered(501, seq=60, ack=915)),
        (75_000_009_500, numbered(600, to_broker=False, seq=915, ack=61)),
    ]
    packets = at(*talk(2), *quiet, (75_000_010_000, numbered(502, seq=61, ack=915, payload=b"z")))
    opening, rest = packets[:3], packets[3:]
    (whole,) = measured(packets, batch_packets)
    reassembler = Reassembler(measure=True)
    reassembler.feed(make_batch(opening))
    (update,) = reassembler.feed(make_batch(rest, 4)).updates
    for measures in (whole.measures, update.connection.measures):
        assert measures.zero_window_packets == [1, 0]
        assert measures.duplicate_packets == [1, 0]
        assert measures.keep_alive_packets == [1, 0]


STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 9),
        st.sampled_from(["next"] * 9 + ["old", "skip", "copy"]),
        st.integers(0, 5),
    ),
    max_size=40,
)


@settings(max_examples=examples(150))
@given(STEPS, st.integers(1, 9), st.sampled_from([0, 2**32 - 40]))
def test_a_talk_with_some_disorder_gives_the_same_figures_in_any_batches(
    steps, batch_packets, origin
):
    """Segments are mostly in order, so that most batches are measured at once."""
    sent, packets, last = [origin, origin], [], None
    for number, (to_broker, length, kind, behind) in enumerate(steps, 1):
        mine = int(to_broker)
        if kind == "copy" and last is not None:
            packets.append(Packet(last, number * 1000))
            continue
        start = sent[mine] + {"old": -behind, "skip": behind}.get(kind, 0)
        last = numbered(
            number,
            to_broker=to_broker,
            seq=start,
            ack=sent[1 - mine] - (behind if kind == "next" else 0),
            payload=b"x" * length,
        )
        sent[mine] = max(sent[mine], start + length)
        packets.append(Packet(last, number * 1000))
    check_figures_in_batches(packets, batch_packets)
