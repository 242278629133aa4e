"""TLS on a plaintext port, and plaintext on a TLS port, in segments of any size."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

import kanalyze
from tests.support import tls_captures

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "tls-other-port"
_FILE_HEADER, _PACKET_HEADER, _IP = 24, 16, 14
_LENGTH, _SEQUENCE, _DATA_OFFSET = 2, 4, 12


def packets(pcap: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The header and the bytes of each packet."""
    at = _FILE_HEADER
    while at < len(pcap):
        (size,) = struct.unpack_from("<I", pcap, at + 8)
        start = at + _PACKET_HEADER
        yield pcap[at:start], pcap[start : start + size]
        at = start + size


def pieces(packet: bytes, most: int) -> list[bytes]:
    """A packet of TCP over IPv4, as several with at most ``most`` bytes of payload each."""
    tcp = _IP + (packet[_IP] & 15) * 4
    payload = tcp + (packet[tcp + _DATA_OFFSET] >> 4) * 4
    end = _IP + int.from_bytes(packet[_IP + _LENGTH : _IP + _LENGTH + 2], "big")
    (sequence,) = struct.unpack_from(">I", packet, tcp + _SEQUENCE)
    found = []
    for at in range(payload, max(end, payload + 1), most):
        data = packet[at : min(at + most, end)]
        one = bytearray(packet[:payload] + data)
        struct.pack_into(">H", one, _IP + _LENGTH, payload - _IP + len(data))
        struct.pack_into(">I", one, tcp + _SEQUENCE, (sequence + at - payload) % (1 << 32))
        found.append(bytes(one))
    return found


def cut(pcap: bytes, most: int) -> bytes:
    """The capture with its payload in segments of at most ``most`` bytes."""
    made = bytearray(pcap[:_FILE_HEADER])
    for header, packet in packets(pcap):
        for one in pieces(packet, most):
            made += header[:8] + struct.pack("<2I", len(one), len(one)) + one
    return bytes(made)


def figures_of(path) -> list[tuple[object, ...]]:
    return [
        (
            *(row.client_port, row.protocol, row.tls_version, row.tls_failure),
            *(row.requests, row.skipped_bytes, row.client_payload_bytes, row.broker_payload_bytes),
        )
        for row in kanalyze.connections(path)
    ]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6])
def test_figures_do_not_depend_on_the_size_of_segments(most, tmp_path):
    path = tls_captures.path(NAME)
    made = tmp_path / "cut.pcap"
    made.write_bytes(cut(path.read_bytes(), most))
    assert figures_of(made) == figures_of(path)
    assert sum(skipped or 0 for *_, skipped, _, _ in figures_of(path)) == 8 * 7  # an alert each
