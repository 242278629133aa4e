from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cases import examples
from tests.support.measuring import at, check_figures_in_batches, measured, numbered
from tests.support.packets import ACK, SYN, Packet

CLIENT_V6, BROKER_V6 = ("2001:db8::1", 50000), ("2001:db8::2", 9092)


def talk(turns: int, isn: int = 0, **named) -> list[tuple[int, bytes]]:
    """An opening, then turns of 30 bytes in two segments, their acknowledgment, 7 bytes back."""
    packets = [
        (10, numbered(1, seq=isn, flags=SYN, **named)),
        (20, numbered(1, to_broker=False, seq=isn + 900, ack=isn + 1, flags=SYN | ACK, **named)),
        (30, numbered(2, seq=isn + 1, ack=isn + 901, **named)),
    ]
    for turn in range(turns):
        now, number = 1000 * (turn + 1), 4 * turn + 3
        begin, end = isn + 1 + 30 * turn, isn + 31 + 30 * turn
        back = {"to_broker": False, "seq": isn + 901 + 7 * turn, "ack": end} | named
        asked = {"ack": back["seq"]} | named
        packets += [
            (now, numbered(number, seq=begin, payload=b"x" * 10, **asked)),
            (now + 1, numbered(number + 1, seq=begin + 10, payload=b"x" * 20, **asked)),
            (now + 90, numbered(number, **back)),
            (now + 200, numbered(number + 1, payload=b"y" * 7, **back)),
            (now + 205, numbered(number + 2, seq=end, **asked | {"ack": back["seq"] + 7})),
        ]
    return packets


@pytest.mark.few(8)
@pytest.mark.parametrize("isn", [0, 0xFFFFFFF0, 0x7FFFFF00, 0xFFFFFB00])
@pytest.mark.parametrize("batch_packets", [0, 1, 4, 13, 60])
def test_connections_in_one_batch_are_measured_like_segments_one_by_one(isn, batch_packets):
    families = [{"client": ("10.0.0.1", port)} for port in (1, 2, 3)]
    families.append({"client": CLIENT_V6, "broker": BROKER_V6})
    packets = [
        (time + i * 2, data)
        for i, named in enumerate(families)
        for time, data in talk(20, isn=isn + i * 77, **named)
    ]
    mixed = at(*sorted(packets, key=lambda packet: packet[0]))
    connections = measured(mixed, batch_packets)
    assert len(connections) == 4
    for connection in connections:
        client, broker = connection.measures.round_trips
        assert (client.samples, client.least_ns, client.most_ns) == (20, 89, 89)
        assert (broker.samples, broker.total_ns) == (20, 100)
        assert connection.measures.handshake_rtt_ns == 20


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
