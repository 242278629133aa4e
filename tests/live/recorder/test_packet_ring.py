"""The ring of the latest packets, and the tokens in them that are redacted."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.live.recorder.packet_ring import (
    PacketRing,
    SegmentPayloads,
    SelectedPackets,
    TokenRedactor,
)
from kanalyze.model.streams import TokenBytes
from kanalyze.model.tcp import Endpoint, TcpConnection
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


SENDER = (1, 2)
NS_PER_S = 1_000_000_000


def connection(serial: int = 1) -> TcpConnection:
    ends = (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", 9092))
    tcp_connection = TcpConnection(serial, ends, 1, 0, START_NS, START_NS)
    tcp_connection.first_sequence = 100, 500
    return tcp_connection


def token(
    offset: int, length: int | None = 4, of_connection: TcpConnection | None = None
) -> TokenBytes:
    end = None if length is None else offset + length
    return TokenBytes(of_connection or CONNECTION, 0, offset, offset, end, START_NS)


CONNECTION = connection()


def redacted(
    redactor: TokenRedactor, sequence: int, payload: bytes, time_ns: int = START_NS
) -> bytes:
    """Return the payload of a segment after redaction."""
    data = bytearray(b"\xee" * 3 + tcp(seq=sequence, payload=payload))
    start = len(data) - len(payload)
    size = np.array([len(payload)])
    segments = SegmentPayloads(
        np.array([0]),
        np.array([time_ns]),
        np.array([sequence]),
        size,
        np.array([start]),
        size,
        np.array([50000 << 16 | 9092], np.uint32),
    )
    redactor.redact(memoryview(data), segments, SENDER)
    return bytes(data[start:])


def test_a_new_length_of_a_token_replaces_the_earlier_one() -> None:
    redactor = TokenRedactor()
    redactor.add(SENDER, token(2, None), 0)
    assert redacted(redactor, 100, b"12345678") == b"12" + bytes(6)
    assert redacted(redactor, 90, b"12345678") == b"12345678"
    assert redacted(redactor, 5000, b"12345678") == bytes(8)
    redactor.add(SENDER, token(2, 3), 0)
    assert redacted(redactor, 100, b"12345678") == b"12\0\0\x00678"
    redactor.add(SENDER, token(2, 0), 0)
    assert redacted(redactor, 100, b"12345678") == b"12345678"
    assert not redactor


def test_segments_of_other_senders_are_not_redacted() -> None:
    redactor = TokenRedactor()
    redactor.add((1, 3), token(0), 0)
    assert redacted(redactor, 100, b"12345678") == b"12345678"


def test_tokens_are_kept_for_a_minute_of_possible_retransmissions() -> None:
    redactor = TokenRedactor()
    redactor.add(SENDER, token(0), 10 * NS_PER_S)
    redactor.drop(70 * NS_PER_S)
    assert redactor
    redactor.drop(70 * NS_PER_S + 1)
    assert not redactor
    assert len(redactor.connections) == 0


def test_a_segment_long_after_the_end_of_a_connection_is_not_redacted() -> None:
    ended = connection()
    ended.end = "fin"
    redactor = TokenRedactor()
    redactor.add(SENDER, token(0, 4, ended), 0)
    assert redacted(redactor, 100, b"1234", START_NS + 60 * NS_PER_S) == bytes(4)
    assert redacted(redactor, 100, b"1234", START_NS + 61 * NS_PER_S) == b"1234"


def test_everything_from_a_sender_with_too_many_tokens_is_redacted() -> None:
    redactor = TokenRedactor()
    for offset in range(0, 8 * 257, 8):
        redactor.add(SENDER, token(offset), 0)
    assert redacted(redactor, 5, b"1234") == bytes(4)
    assert redacted(redactor, 1 << 31, b"1234") == bytes(4)
    redactor.drop(61 * NS_PER_S)
    assert not redactor


def test_the_older_half_of_too_many_tokens_is_dropped() -> None:
    redactor = TokenRedactor()
    for number in range((1 << 14) + 1):
        assert not redactor.is_full
        redactor.add((number, 2), token(0), number)
    assert redactor.is_full
    redactor.drop_half()
    assert not redactor.is_full
    assert min(redactor.connections) > (1 << 14) // 3


LARGE_LIMIT_BYTES = 1 << 24
HASHES = EndpointHashes.of(Endpoint(*CLIENT), Endpoint(*BROKER))
ALL_TIMES = (0, 1 << 62)


def numbers(taken: Iterable[SelectedPackets]) -> list[int]:
    return [number for selected in taken for number in selected.packets.number.tolist()]


def filled_ring(
    packets: Sequence[Packet], at_once: int = 0, limit_bytes: int = LARGE_LIMIT_BYTES
) -> PacketRing:
    """Return a ring with packets of batches whose shared buffer is overwritten after each."""
    ring = PacketRing(limit_bytes)
    buffer = bytearray(sum(len(packet.data) + 3 for packet in packets))
    size = at_once or len(packets)
    for first in range(0, len(packets), size):
        batch = make_batch(packets[first : first + size], first + 1, buffer)
        released = ring.add(batch)
        buffer[:] = b"\xa5" * len(buffer)
        assert numbers(released) == []
    return ring


def dialogue(count: int, step_ns: int = 1000, **ends: tuple[str, int]) -> list[Packet]:
    """Return alternating requests and responses of ten bytes each."""
    packets = []
    for number in range(count):
        to_broker = number % 2 == 0
        data = segment(to_broker=to_broker, seq=number // 2 * 10, payload=b"p" * 10, **ends)
        packets.append(Packet(data, START_NS + number * step_ns))
    return packets


def times_of(*numbers_: int) -> tuple[int, ...]:
    return tuple(START_NS + number * 1000 for number in numbers_)


@pytest.mark.parametrize("at_once", [0, 1, 3, 7])
def test_marked_packets_are_released_once_with_their_bytes(at_once: int) -> None:
    packets = dialogue(20)
    ring = filled_ring(packets, at_once)
    ring.mark(HASHES, *times_of(5, 8))
    ring.mark(HASHES, *times_of(7, 10))
    taken = list(ring.release())
    assert numbers(taken) == [6, 7, 8, 9, 10, 11]
    for selected in taken:
        batch = selected.packets
        for number, start, size in zip(
            batch.number, batch.offset, batch.captured_bytes, strict=True
        ):
            assert bytes(batch.buffer[start : start + size]) == packets[number - 1].data
    assert numbers(ring.release()) == []
    ring.mark(HASHES, *times_of(9, 12))
    assert numbers(ring.release()) == [12, 13]


@pytest.mark.parametrize(
    ("client", "broker"),
    [
        (CLIENT, BROKER),
        (("2001:db8::1", 50000), ("2001:db8::2", 9092)),
        (("::ffff:10.0.0.1", 50000), ("::ffff:10.0.0.2", 9092)),
    ],
)
def test_packets_of_other_connections_are_not_released(
    client: tuple[str, int], broker: tuple[str, int]
) -> None:
    expected_packets = dialogue(6, client=client, broker=broker)
    others = [
        *dialogue(6, client=(client[0], 50001), broker=broker),
        *dialogue(6, client=client, broker=(broker[0], 9094)),
        *dialogue(6, client=("10.9.9.9", client[1]), broker=("10.9.9.8", broker[1])),
        # The same addresses and ports in other positions.
        *dialogue(6, client=(client[0], broker[1]), broker=(broker[0], client[1])),
        Packet(b"no packet", START_NS),
        Packet(b"", START_NS),
    ]
    packets = [*expected_packets, *others]
    random.Random(1).shuffle(packets)
    ring = filled_ring(packets, 5)
    ring.mark(EndpointHashes.of(Endpoint(*broker), Endpoint(*client)), *ALL_TIMES)
    expected = [number for number, packet in enumerate(packets, 1) if packet in expected_packets]
    assert numbers(ring.release()) == expected


def test_packets_of_many_connections_are_not_mixed() -> None:
    ends = [((f"10.0.{n % 7}.1", 40000 + n), (f"10.1.{n % 3}.1", 9092)) for n in range(300)]
    packets = [
        packet for client, broker in ends for packet in dialogue(2, client=client, broker=broker)
    ]
    ring = filled_ring(packets, 70)
    for number, (client, broker) in enumerate(ends):
        ring.mark(EndpointHashes.of(Endpoint(*client), Endpoint(*broker)), *ALL_TIMES)
        assert numbers(ring.release()) == [2 * number + 1, 2 * number + 2]


def handshake(start_ns: int) -> list[Packet]:
    parts = [
        segment(seq=99, flags=SYN),
        segment(to_broker=False, seq=499, ack=100, flags=SYN | ACK),
        segment(seq=100, ack=500),
    ]
    return [Packet(data, start_ns + number) for number, data in enumerate(parts)]


@pytest.mark.parametrize("at_once", [0, 1, 2])
def test_the_last_handshake_before_a_time_is_marked(at_once: int) -> None:
    second_ns = START_NS + 10**9
    later = [Packet(packet.data, packet.time_ns + 2 * 10**9) for packet in dialogue(4)]
    packets = [*handshake(START_NS), *dialogue(2), *handshake(second_ns), *later]
    packets += handshake(START_NS + 5 * 10**9)
    ring = filled_ring(packets, at_once)
    # A search for an earlier one, which finds none, hides no later one.
    for before_ns in (START_NS - 1, START_NS + 3 * 10**9):
        ring.mark_handshake(HASHES, before_ns)
    assert numbers(ring.release()) == [6, 7, 8]


def test_a_later_handshake_is_found() -> None:
    ring = PacketRing(LARGE_LIMIT_BYTES)
    released = []
    for round_ in range(40):
        start_ns = START_NS + round_ * 10**9
        packets = [*handshake(start_ns), *dialogue(200)][: 3 if round_ % 8 == 0 else 203]
        shifted = packets if round_ % 8 == 0 else packets[3:]
        list(ring.add(make_batch(shifted, round_ * 1000 + 1)))
        ring.mark_handshake(HASHES, start_ns + 100)
        released += numbers(ring.release())
    assert released == [round_ * 1000 + n for round_ in range(0, 40, 8) for n in (1, 2, 3)]


def test_marked_packets_are_returned_before_they_are_dropped() -> None:
    ring = PacketRing(40_000)
    released = []
    for first in range(0, 1000, 10):
        packets = [Packet(packet.data, packet.time_ns + first * 10**6) for packet in dialogue(10)]
        released += numbers(ring.add(make_batch(packets, first + 1)))
        ring.mark(HASHES, START_NS + first * 10**6, START_NS + first * 10**6 + 1000)
        assert ring.buffered_bytes <= 40_000
    released += numbers(ring.release())
    assert released == [first + step for first in range(0, 1000, 10) for step in (1, 2)]


def test_a_packet_larger_than_the_limit_is_kept_alone() -> None:
    ring = PacketRing(10)
    for number in (1, 2):
        list(ring.add(make_batch(dialogue(1), number)))
        assert not ring.has(number - 1)
        assert ring.has(number)


def test_the_oldest_packets_of_a_large_batch_are_dropped() -> None:
    ring = PacketRing(100_000)
    list(ring.add(make_batch(dialogue(2000))))
    assert 50_000 < ring.buffered_bytes <= 100_000
    assert ring.has(2000)
    assert not ring.has(1)


def test_small_batches_are_joined_without_loss() -> None:
    packets = dialogue(2000)
    ring = PacketRing(LARGE_LIMIT_BYTES)
    for number, packet in enumerate(packets, 1):
        list(ring.add(make_batch([packet], number)))
        if number % 100 == 0:
            ring.mark(HASHES, packet.time_ns, packet.time_ns)
            assert ring.comment(number, str(number))
    assert len(ring._chunks) < 30
    taken = list(ring.release())
    assert numbers(taken) == list(range(100, 2001, 100))
    comments = [
        (int(selected.packets.number[row]), texts)
        for selected in taken
        for row, texts in selected.comments.items()
    ]
    assert comments == [(number, [str(number)]) for number in range(100, 2001, 100)]


def test_only_packets_up_to_a_time_are_released() -> None:
    ring = filled_ring(dialogue(10), 3)
    ring.mark(HASHES, *ALL_TIMES)
    assert numbers(ring.release(START_NS + 4000)) == [1, 2, 3, 4, 5]
    assert numbers(ring.release(START_NS + 4000)) == []
    assert numbers(ring.release()) == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("at_once", [0, 1, 3])
@pytest.mark.parametrize("jump_ns", [-3600 * 10**9, 3600 * 10**9, 365 * 86_400 * 10**9])
def test_packets_are_released_in_order_after_the_clock_jumps(jump_ns: int, at_once: int) -> None:
    """Packets from before the clock was set back are released before later packets."""
    packets = [
        Packet(packet.data, packet.time_ns + jump_ns * (number > 5))
        for number, packet in enumerate(dialogue(10))
    ]
    ring = filled_ring(packets, at_once)
    ring.mark(HASHES, *ALL_TIMES)
    assert numbers(ring.release(packets[8].time_ns)) == list(range(1, 10))
    assert numbers(ring.release()) == [10]


def test_packets_of_two_clocks_an_hour_apart_are_released() -> None:
    ring, hour_ns, released = PacketRing(LARGE_LIMIT_BYTES), 3600 * 10**9, []
    for number in range(200):
        time_ns = START_NS + number * 10**9 - number % 2 * hour_ns
        list(ring.add(make_batch([Packet(dialogue(1)[0].data, time_ns)], number + 1)))
        ring.mark(HASHES, *ALL_TIMES)
        released += numbers(ring.release(time_ns - 3 * 10**9))
    assert released == list(range(1, len(released) + 1))
    assert len(released) >= 195


def test_packets_of_clocks_that_differ_little_are_not_released_early() -> None:
    """The clocks of two interfaces may differ by some microseconds."""
    packets = [
        Packet(dialogue(1)[0].data, START_NS + number * 10_000 - number % 2 * 100_000)
        for number in range(2000)
    ]
    ring = filled_ring(packets, 100)
    ring.mark(HASHES, *ALL_TIMES)
    assert 990 <= len(numbers(ring.release(packets[999].time_ns))) <= 1010


def test_comments_are_only_for_marked_packets_that_are_not_released() -> None:
    ring = filled_ring(dialogue(6), 2)
    assert not ring.comment(3, "not marked")
    ring.mark(HASHES, *times_of(2, 3))
    assert ring.comment(3, "a")
    assert ring.comment(3, "b")
    for number in (1, 99, 0):
        assert not ring.comment(number, "elsewhere")
    (taken,) = ring.release()
    assert taken.comments == {0: ["a", "b"]}
    assert not ring.comment(3, "too late")


@pytest.mark.parametrize(
    ("sequences", "has_holes"),
    [
        ([100, 110, 120], False),
        ([100, 110, 100, 120], False),  # retransmitted
        ([100, 120], True),  # lost
        ([100, 120, 110, 130], True),  # in another order
        ([2**32 - 10, 0, 10], False),  # wraps around
        ([2**32 - 10, 10, 0], True),
        ([5, 2**32 - 5, 15], False),  # the late segment is the first one
    ],
)
def test_holes_in_sequence_numbers_are_reported(sequences: list[int], has_holes: bool) -> None:
    packets = [Packet(segment(seq=seq, payload=b"x" * 10), START_NS) for seq in sequences]
    for at_once in (0, 1):
        ring = filled_ring(packets, at_once)
        assert ring.mark(HASHES, START_NS, START_NS) is has_holes


def test_syn_and_fin_consume_a_sequence_number() -> None:
    parts = [(99, SYN, b""), (100, ACK, b"abc"), (103, FIN | ACK, b""), (104, ACK, b"")]
    packets = [Packet(segment(seq=seq, flags=flags, payload=data)) for seq, flags, data in parts]
    assert not filled_ring(packets).mark(HASHES, *ALL_TIMES)


def test_fragments_are_released_with_their_connection() -> None:
    whole = tcp(seq=10, payload=b"f" * 40)
    fragments = [
        ethernet(ipv4(whole[:24], fragment=0x2000)),
        ethernet(ipv4(whole[24:], fragment=3)),
    ]
    packets = [Packet(data, START_NS) for data in (*fragments, segment(seq=50, payload=b"x"))]
    ring = filled_ring(packets)
    ring.mark(HASHES, *ALL_TIMES)
    assert numbers(ring.release()) == [1, 2, 3]
