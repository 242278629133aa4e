"""Bytes of streams are found by stream offset, and are zero where none were added."""

from __future__ import annotations

import io
import random
from tempfile import TemporaryFile
from typing import TypeAlias

from kanalyze.anonymization.rewriting import OneWayStream, PieceWriter, stream_at
from kanalyze.anonymization.streams import StreamPieces, StreamRanges, places_of, streams_at
from kanalyze.model.tcp import Endpoint, TcpConnection

Found: TypeAlias = dict[bytes, list[OneWayStream]]


def read(pieces: StreamPieces, stream: int, offset: int, length: int) -> bytes | None:
    found = bytearray(length + 2)
    is_found = pieces.read(stream, offset, length, found, 1)
    assert not found[0]
    assert not found[-1]
    return bytes(found[1:-1]) if is_found else None


def test_any_range_has_the_added_bytes() -> None:
    chance = random.Random(1)
    streams = {number: bytearray(3000) for number in (4, 5, 9)}
    with TemporaryFile() as file:
        writer = PieceWriter(file)
        for content in streams.values():
            for at in range(0, 3000, 150):
                size = chance.randrange(1, 150)
                data = chance.randbytes(size)
                content[at : at + size] = data
        order = [(number, at) for number in streams for at in range(0, 3000, 150)]
        chance.shuffle(order)
        for number, at in order:
            writer.add(number, at, bytes(streams[number][at : at + 150]).rstrip(b"\0"))
        writer.flush()
        pieces = StreamPieces(file, writer.cells())
        for _ in range(500):
            number, at = chance.choice(list(streams)), chance.randrange(-50, 3100)
            length = chance.randrange(1, 700)
            content = streams[number]
            expected = bytes(
                content[place] if 0 <= place < 3000 else 0 for place in range(at, at + length)
            )
            assert read(pieces, number, at, length) == expected
        assert read(pieces, 7, 0, 10) is None
        pieces.close()


def test_nothing_is_read_without_pieces() -> None:
    pieces = StreamPieces(io.BytesIO(), PieceWriter(io.BytesIO()).cells())
    assert read(pieces, 1, 0, 4) is None
    pieces.close()


def test_pieces_of_any_size_are_written_in_order() -> None:
    chance = random.Random(2)
    parts = [chance.randbytes(size) for size in (1, 1 << 19, 1 << 19, 3 << 20, 5, 0, 1 << 20, 7)]
    with TemporaryFile() as file:
        writer = PieceWriter(file)
        for number, part in enumerate(parts):
            writer.add(number, 1000 * number, part)
        writer.flush()
        assert writer.furthest == max(1000 * at + len(part) for at, part in enumerate(parts))
        assert writer.file_bytes == sum(map(len, parts))
        pieces = StreamPieces(file, writer.cells())
        for number, part in enumerate(parts):
            assert read(pieces, number, 1000 * number, len(part)) == part
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


def place(found: Found, ends: bytes, sequence: int, packet: int) -> tuple[int, int] | None:
    streams = found.get(ends)
    if streams is None:
        return None
    stream = stream_at(streams, packet)
    return stream.number, stream.offset_of(sequence)


def places(*connections: tuple[int, int, int]) -> Found:
    found = []
    for serial, first_packet, sequence in connections:
        tcp = TcpConnection(serial, ENDS, serial, 0, 0, 0, first_packet)
        tcp.first_sequence = sequence, 77
        found += places_of(tcp)
    return streams_at([found])


def test_a_stream_offset_is_found_by_addresses_and_sequence_number() -> None:
    found = places((6, 1, 1000))
    assert place(found, CLIENT + BROKER + PORTS, 1010, 1) == (12, 10)
    assert place(found, BROKER + CLIENT + PORTS[2:] + PORTS[:2], 80, 2) == (13, 3)
    assert place(found, CLIENT + BROKER + PORTS, 999, 3) == (12, -1)
    assert place(found, CLIENT + BROKER + PORTS[2:] + PORTS[:2], 80, 2) is None


def test_reused_ports_are_another_connection() -> None:
    found = places((8, 500, 3000), (6, 1, 1000))
    assert place(found, CLIENT + BROKER + PORTS, 1001, 499) == (12, 1)
    assert place(found, CLIENT + BROKER + PORTS, 3001, 500) == (16, 1)


def test_sequence_numbers_wrap() -> None:
    found = places((1, 1, 0xFFFF_FF00))
    at = 0
    for _ in range(50):
        sequence = (0xFFFF_FF00 + at) & 0xFFFF_FFFF
        assert place(found, CLIENT + BROKER + PORTS, sequence, 1) == (2, at)
        at += 200_000_000
