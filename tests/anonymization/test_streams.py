"""Bytes of streams are found by stream offset, and are zero where none were added."""

from __future__ import annotations

import io
import random
from tempfile import TemporaryFile

from kanalyze.anonymization.streams import StreamPieces, StreamPlaces, StreamRanges
from kanalyze.model.tcp import Endpoint, TcpConnection


def test_any_range_has_the_added_bytes() -> None:
    chance = random.Random(1)
    streams = {number: bytearray(3000) for number in (4, 5, 9)}
    with TemporaryFile() as file:
        pieces = StreamPieces(file)
        for content in streams.values():
            for at in range(0, 3000, 150):
                size = chance.randrange(1, 150)
                data = chance.randbytes(size)
                content[at : at + size] = data
        order = [(number, at) for number in streams for at in range(0, 3000, 150)]
        chance.shuffle(order)
        for number, at in order:
            pieces.add(number, at, bytes(streams[number][at : at + 150]).rstrip(b"\0"))
        pieces.sort()
        for _ in range(500):
            number, at = chance.choice(list(streams)), chance.randrange(-50, 3100)
            length = chance.randrange(1, 700)
            content = streams[number]
            expected = bytes(
                content[place] if 0 <= place < 3000 else 0 for place in range(at, at + length)
            )
            assert pieces.read(number, at, length) == expected
        assert pieces.read(7, 0, 10) is None
        pieces.close()


def test_nothing_is_read_without_pieces() -> None:
    pieces = StreamPieces(io.BytesIO())
    pieces.sort()
    assert pieces.read(1, 0, 4) is None
    pieces.close()


def test_a_payload_is_cut_before_a_range_that_contains_its_end() -> None:
    ranges = StreamRanges()
    for begin, end in ((500, 600), (100, 200)):
        ranges.add(3, begin, end)
    ranges.sort()
    assert ranges.without_end(3, 50, 100) == 50
    assert ranges.without_end(3, 50, 150) == 50
    assert ranges.without_end(3, 120, 30) == 0
    assert ranges.without_end(3, 50, 151) == 151
    assert ranges.without_end(3, 0, 100) == 100
    assert ranges.without_end(3, 0, 550) == 500
    assert ranges.without_end(4, 0, 550) == 550


ENDS = Endpoint("192.0.2.1", 50000), Endpoint("192.0.2.2", 9092)
CLIENT, BROKER = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
PORTS = (50000).to_bytes(2) + (9092).to_bytes(2)


def places(*connections: tuple[int, int, int]) -> StreamPlaces:
    found = StreamPlaces()
    for serial, first_packet, sequence in connections:
        tcp = TcpConnection(serial, ENDS, serial, 0, 0, 0, first_packet)
        tcp.first_sequence = [sequence, 77]
        found.add(tcp)
    found.sort()
    return found


def test_a_stream_offset_is_found_by_addresses_and_sequence_number() -> None:
    found = places((6, 1, 1000))
    assert found.find(CLIENT, BROKER, PORTS, 1010, 1) == (12, 10)
    assert found.find(BROKER, CLIENT, PORTS[2:] + PORTS[:2], 80, 2) == (13, 3)
    assert found.find(CLIENT, BROKER, PORTS, 999, 3) == (12, -1)
    assert found.find(CLIENT, BROKER, PORTS[2:] + PORTS[:2], 80, 2) is None


def test_reused_ports_are_another_connection() -> None:
    found = places((8, 500, 3000), (6, 1, 1000))
    assert found.find(CLIENT, BROKER, PORTS, 1001, 499) == (12, 1)
    assert found.find(CLIENT, BROKER, PORTS, 3001, 500) == (16, 1)


def test_sequence_numbers_wrap() -> None:
    found = places((1, 1, 0xFFFF_FF00))
    at = 0
    for _ in range(50):
        sequence = (0xFFFF_FF00 + at) & 0xFFFF_FFFF
        assert found.find(CLIENT, BROKER, PORTS, sequence, 1) == (2, at)
        at += 200_000_000
