from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kanalyze.live.recorder.packet_ring import PacketRing, SelectedPackets
from kanalyze.model.tcp import Endpoint
from kanalyze.net.endpoint_hashes import EndpointHashes
from tests.support.packets import (
    ACK,
    BROKER,
    CLIENT,
    FIN,
    START_NS,
    SYN,
    Packet,
    ethernet,
    ipv4,
    make_batch,
    segment,
    tcp,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLENTY = 1 << 24
HERE = EndpointHashes.of(Endpoint(*CLIENT), Endpoint(*BROKER))
ALWAYS = (0, 1 << 62)


def numbers(taken: Iterable[SelectedPackets]) -> list[int]:
    return [number for each in taken for number in each.packets.number.tolist()]


def fed(packets: Sequence[Packet], at_once: int = 0, limit_bytes: int = PLENTY) -> PacketRing:
    """Return a ring with packets from batches that share a buffer, overwritten after each batch."""
    recent = PacketRing(limit_bytes)
    buffer = bytearray(sum(len(packet.data) + 3 for packet in packets))
    size = at_once or len(packets)
    for first in range(0, len(packets), size):
        batch = make_batch(packets[first : first + size], first + 1, buffer)
        left = recent.add(batch)
        buffer[:] = b"\xa5" * len(buffer)
        assert numbers(left) == []
    return recent


def dialogue(count: int, step_ns: int = 1000, **ends: tuple[str, int]) -> list[Packet]:
    """Return alternating requests and responses of ten bytes each."""
    packets = []
    for turn in range(count):
        to_broker = turn % 2 == 0
        data = segment(to_broker=to_broker, seq=turn // 2 * 10, payload=b"p" * 10, **ends)
        packets.append(Packet(data, START_NS + turn * step_ns))
    return packets


def at(*turns: int) -> tuple[int, ...]:
    return tuple(START_NS + turn * 1000 for turn in turns)


@pytest.mark.parametrize("at_once", [0, 1, 3, 7])
def test_the_packets_of_a_span_each_once_with_their_bytes(at_once: int) -> None:
    packets = dialogue(20)
    recent = fed(packets, at_once)
    recent.mark(HERE, *at(5, 8))
    recent.mark(HERE, *at(7, 10))
    taken = list(recent.release())
    assert numbers(taken) == [6, 7, 8, 9, 10, 11]
    for each in taken:
        batch = each.packets
        for number, start, size in zip(
            batch.number, batch.offset, batch.captured_bytes, strict=True
        ):
            assert bytes(batch.buffer[start : start + size]) == packets[number - 1].data
    assert numbers(recent.release()) == []
    recent.mark(HERE, *at(9, 12))
    assert numbers(recent.release()) == [12, 13]


@pytest.mark.parametrize(
    ("client", "broker"),
    [
        (CLIENT, BROKER),
        (("2001:db8::1", 50000), ("2001:db8::2", 9092)),
        (("::ffff:10.0.0.1", 50000), ("::ffff:10.0.0.2", 9092)),
    ],
)
def test_other_connections_are_left_out(client: tuple[str, int], broker: tuple[str, int]) -> None:
    wanted = dialogue(6, client=client, broker=broker)
    others = [
        *dialogue(6, client=(client[0], 50001), broker=broker),
        *dialogue(6, client=client, broker=(broker[0], 9094)),
        *dialogue(6, client=("10.9.9.9", client[1]), broker=("10.9.9.8", broker[1])),
        # The same four numbers, each in another position.
        *dialogue(6, client=(client[0], broker[1]), broker=(broker[0], client[1])),
        Packet(b"no packet", START_NS),
        Packet(b"", START_NS),
    ]
    packets = [*wanted, *others]
    random.Random(1).shuffle(packets)
    recent = fed(packets, 5)
    recent.mark(EndpointHashes.of(Endpoint(*broker), Endpoint(*client)), *ALWAYS)
    expected = [number for number, each in enumerate(packets, 1) if each in wanted]
    assert numbers(recent.release()) == expected


def test_packets_of_many_connections_are_not_mixed() -> None:
    ends = [((f"10.0.{n % 7}.1", 40000 + n), (f"10.1.{n % 3}.1", 9092)) for n in range(300)]
    packets = [
        each for client, broker in ends for each in dialogue(2, client=client, broker=broker)
    ]
    recent = fed(packets, 70)
    for place, (client, broker) in enumerate(ends):
        recent.mark(EndpointHashes.of(Endpoint(*client), Endpoint(*broker)), *ALWAYS)
        assert numbers(recent.release()) == [2 * place + 1, 2 * place + 2]


def handshake(start_ns: int) -> list[Packet]:
    parts = [
        segment(seq=99, flags=SYN),
        segment(to_broker=False, seq=499, ack=100, flags=SYN | ACK),
        segment(seq=100, ack=500),
    ]
    return [Packet(data, start_ns + place) for place, data in enumerate(parts)]


@pytest.mark.parametrize("at_once", [0, 1, 2])
def test_the_handshake_is_the_last_one_before(at_once: int) -> None:
    second_ns = START_NS + 10**9
    later = [Packet(each.data, each.time_ns + 2 * 10**9) for each in dialogue(4)]
    packets = [*handshake(START_NS), *dialogue(2), *handshake(second_ns), *later]
    packets += handshake(START_NS + 5 * 10**9)
    recent = fed(packets, at_once)
    recent.mark_handshake(HERE, START_NS + 3 * 10**9)
    assert numbers(recent.release()) == [6, 7, 8]


def test_a_handshake_that_comes_later_is_found_too() -> None:
    recent = PacketRing(PLENTY)
    given = []
    for round_ in range(40):
        start_ns = START_NS + round_ * 10**9
        packets = [*handshake(start_ns), *dialogue(200)][: 3 if round_ % 8 == 0 else 203]
        shifted = packets if round_ % 8 == 0 else packets[3:]
        list(recent.add(make_batch(shifted, round_ * 1000 + 1)))
        recent.mark_handshake(HERE, start_ns + 100)
        given += numbers(recent.release())
    assert given == [round_ * 1000 + n for round_ in range(0, 40, 8) for n in (1, 2, 3)]


def test_looking_before_a_handshake_does_not_hide_it() -> None:
    recent = fed([*dialogue(200), *handshake(START_NS + 10**9)], 50)
    for before_ns in (START_NS + 10**6, START_NS + 2 * 10**9):
        recent.mark_handshake(HERE, before_ns)
    assert numbers(recent.release()) == [201, 202, 203]


def test_without_a_syn_no_handshake_is_marked() -> None:
    recent = fed(dialogue(6))
    recent.mark_handshake(HERE, START_NS * 2)
    assert numbers(recent.release()) == []


def test_marked_packets_are_returned_before_they_are_dropped() -> None:
    recent = PacketRing(40_000)
    given = []
    for first in range(0, 1000, 10):
        packets = [Packet(each.data, each.time_ns + first * 10**6) for each in dialogue(10)]
        given += numbers(recent.add(make_batch(packets, first + 1)))
        recent.mark(HERE, START_NS + first * 10**6, START_NS + first * 10**6 + 1000)
        assert recent.buffered_bytes <= 40_000
    given += numbers(recent.release())
    assert given == [first + step for first in range(0, 1000, 10) for step in (1, 2)]


def test_a_packet_larger_than_the_bound_is_held_alone() -> None:
    recent = PacketRing(10)
    for number in (1, 2):
        list(recent.add(make_batch(dialogue(1), number)))
        assert not recent.has(number - 1)
        assert recent.has(number)


def test_a_large_batch_is_cut() -> None:
    recent = PacketRing(100_000)
    list(recent.add(make_batch(dialogue(2000))))
    assert 50_000 < recent.buffered_bytes <= 100_000
    assert recent.has(2000)
    assert not recent.has(1)


def test_small_batches_are_joined_and_nothing_is_lost_on_the_way() -> None:
    packets = dialogue(2000)
    recent = PacketRing(PLENTY)
    for number, packet in enumerate(packets, 1):
        list(recent.add(make_batch([packet], number)))
        if number % 100 == 0:
            recent.mark(HERE, packet.time_ns, packet.time_ns)
            assert recent.comment(number, str(number))
    assert len(recent._chunks) < 30
    taken = list(recent.release())
    assert numbers(taken) == list(range(100, 2001, 100))
    comments = [
        (int(each.packets.number[row]), texts)
        for each in taken
        for row, texts in each.comments.items()
    ]
    assert comments == [(number, [str(number)]) for number in range(100, 2001, 100)]


def test_times_bound_what_is_taken() -> None:
    recent = fed(dialogue(10), 3)
    recent.mark(HERE, *ALWAYS)
    assert numbers(recent.release(START_NS + 4000)) == [1, 2, 3, 4, 5]
    assert numbers(recent.release(START_NS + 4000)) == []
    assert numbers(recent.release()) == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("at_once", [0, 1, 3])
@pytest.mark.parametrize("jump_ns", [-3600 * 10**9, 3600 * 10**9, 365 * 86_400 * 10**9])
def test_a_clock_that_jumps_keeps_them_in_order(jump_ns: int, at_once: int) -> None:
    """Packets from before the clock was set back are released before later packets."""
    packets = [
        Packet(each.data, each.time_ns + jump_ns * (number > 5))
        for number, each in enumerate(dialogue(10))
    ]
    recent = fed(packets, at_once)
    recent.mark(HERE, *ALWAYS)
    assert numbers(recent.release(packets[8].time_ns)) == list(range(1, 10))
    assert numbers(recent.release()) == [10]


def test_clocks_that_contradict_for_long_keep_nothing_for_ever() -> None:
    recent, hour_ns, given = PacketRing(PLENTY), 3600 * 10**9, []
    for turn in range(200):
        time_ns = START_NS + turn * 10**9 - turn % 2 * hour_ns
        list(recent.add(make_batch([Packet(dialogue(1)[0].data, time_ns)], turn + 1)))
        recent.mark(HERE, *ALWAYS)
        given += numbers(recent.release(time_ns - 3 * 10**9))
    assert given == list(range(1, len(given) + 1))
    assert len(given) >= 195


def test_clocks_that_differ_a_little_do_not_hurry() -> None:
    """Two interfaces, some microseconds apart."""
    packets = [
        Packet(dialogue(1)[0].data, START_NS + number * 10_000 - number % 2 * 100_000)
        for number in range(2000)
    ]
    recent = fed(packets, 100)
    recent.mark(HERE, *ALWAYS)
    assert 990 <= len(numbers(recent.release(packets[999].time_ns))) <= 1010


def test_comments_are_for_what_is_marked_and_not_given_out() -> None:
    recent = fed(dialogue(6), 2)
    assert not recent.comment(3, "not marked")
    recent.mark(HERE, *at(2, 3))
    assert recent.comment(3, "a")
    assert recent.comment(3, "b")
    for number in (1, 99, 0, None):
        assert not recent.comment(number, "elsewhere")
    (taken,) = recent.release()
    assert taken.comments == {0: ["a", "b"]}
    assert not recent.comment(3, "too late")


@pytest.mark.parametrize(
    ("sequences", "has_holes"),
    [
        ([100, 110, 120], False),
        ([100, 110, 100, 120], False),  # sent again
        ([100, 120], True),  # lost
        ([100, 120, 110, 130], True),  # in another order
        ([2**32 - 10, 0, 10], False),  # round the circle
        ([2**32 - 10, 10, 0], True),
        ([5, 2**32 - 5, 15], False),  # the one that came late is the first
    ],
)
def test_holes(sequences: list[int], has_holes: bool) -> None:
    packets = [Packet(segment(seq=seq, payload=b"x" * 10), START_NS) for seq in sequences]
    for at_once in (0, 1):
        recent = fed(packets, at_once)
        assert recent.mark(HERE, START_NS, START_NS) is has_holes


def test_syn_and_fin_take_a_number() -> None:
    parts = [(99, SYN, b""), (100, ACK, b"abc"), (103, FIN | ACK, b""), (104, ACK, b"")]
    packets = [Packet(segment(seq=seq, flags=flags, payload=data)) for seq, flags, data in parts]
    assert not fed(packets).mark(HERE, *ALWAYS)


def test_an_unknown_connection_has_no_holes() -> None:
    assert not fed(dialogue(3)).mark(
        EndpointHashes.of(Endpoint("10.9.9.9", 1), Endpoint(*BROKER)), *ALWAYS
    )
    assert not PacketRing(PLENTY).mark(HERE, *ALWAYS)


def test_fragments_come_with_what_they_make() -> None:
    whole = tcp(seq=10, payload=b"f" * 40)
    fragments = [
        ethernet(ipv4(whole[:24], fragment=0x2000)),
        ethernet(ipv4(whole[24:], fragment=3)),
    ]
    packets = [Packet(data, START_NS) for data in (*fragments, segment(seq=50, payload=b"x"))]
    recent = fed(packets)
    recent.mark(HERE, *ALWAYS)
    assert numbers(recent.release()) == [1, 2, 3]


def test_an_endpoint_without_an_ip_address_is_refused() -> None:
    with pytest.raises(ValueError, match="host"):
        EndpointHashes.of(Endpoint("host", 1), Endpoint(*BROKER))


def test_numbers_that_do_not_follow_each_other_are_found() -> None:
    recent = PacketRing(PLENTY)
    for first in (10, 100):
        list(recent.add(make_batch(dialogue(2), first)))
    recent.mark(HERE, *ALWAYS)
    assert recent.comment(101, "here")
    assert not recent.comment(50, "nowhere")
    (taken,) = recent.release()
    assert (numbers([taken]), taken.comments) == ([10, 11, 100, 101], {3: ["here"]})
