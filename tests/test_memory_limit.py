"""What connections hold is bounded, whatever they send; what is dropped is said."""

from __future__ import annotations

import io
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from kanalyze.errors import UsageError
from kanalyze.pipeline import Analysis
from kanalyze.stages import MemoryBounds
from tests.support import kafka as k
from tests.support.packets import ACK, START_NS, SYN, Packet, pcap_file, segment

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
PIECE = 60_000


def opening(client: tuple[str, int]) -> list[bytes]:
    return [
        segment(seq=0, flags=SYN, client=client),
        segment(to_broker=False, seq=900, ack=1, flags=SYN | ACK, client=client),
        segment(seq=1, ack=901, client=client),
    ]


def greedy(client: tuple[str, int], first: bytes, rest_bytes: int) -> Iterator[bytes]:
    """A connection that sends ``first``, and so many bytes more that say nothing."""
    yield from opening(client)
    sequence = 1
    for piece in (first, *[b"x" * PIECE] * (rest_bytes // PIECE)):
        yield segment(seq=sequence, ack=901, payload=piece, client=client)
        sequence += len(piece)


def unfinished_frames(count: int, size: int) -> Iterator[bytes]:
    """Kafka connections, each with a frame of 90 MB that goes on and on."""
    for number in range(count):
        client = (f"10.1.{number >> 8}.{number & 255}", 50_000)
        hello = k.heartbeat(1) + k.request(999, 0, 2, b"y" * 100)
        large = struct.pack(">i", 90_000_000) + k.request(999, 0, 3, b"")[4:]
        yield from greedy(client, hello + large, size)


def undecided(count: int, size: int) -> Iterator[bytes]:
    """Connections of which the capture holds the middle: nobody can tell yet what they are."""
    for number in range(count):
        client = (f"10.2.{number >> 8}.{number & 255}", 50_000)
        for index in range(size // PIECE):
            yield segment(seq=5 + index * PIECE, ack=901, payload=b"\0\1x" * 20_000, client=client)


def holes(count: int, size: int) -> Iterator[bytes]:
    """Connections that wait for one lost byte behind their first."""
    for number in range(count):
        client = (f"10.3.{number >> 8}.{number & 255}", 50_000)
        yield from opening(client)
        for index in range(size // PIECE):
            yield segment(seq=3 + index * PIECE, ack=901, payload=b"z" * PIECE, client=client)


def unanswered(count: int, requests: int) -> Iterator[bytes]:
    """Connections that ask and ask, and never hear an answer."""
    for number in range(count):
        client = (f"10.4.{number >> 8}.{number & 255}", 50_000)
        data = b"".join(k.heartbeat(index) for index in range(requests))
        yield from opening(client)
        for at in range(0, len(data), PIECE):
            yield segment(seq=1 + at, ack=901, payload=data[at : at + PIECE], client=client)


class Endless(io.RawIOBase):
    """A pcap that is made while it is read, so that it takes no memory itself."""

    def __init__(self, packets: Iterator[bytes]) -> None:
        self._packets = packets
        self._rest = pcap_file([])
        self._count = 0

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            packet = next(self._packets, None)
            if packet is None:
                return 0
            self._count += 1
            self._rest = pcap_file([Packet(packet, START_NS + self._count * 1000)])[24:]
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def peak_mib(packets: Iterator[bytes], max_memory: int) -> tuple[float, Analysis]:
    tracemalloc.start()
    try:
        run = Analysis([Endless(packets)], max_memory_bytes=max_memory)  # type: ignore[list-item]
        for _ in run.row_batches():
            pass
        return tracemalloc.get_traced_memory()[1] / MIB, run
    finally:
        tracemalloc.stop()


CASES = {
    "unfinished frames": (lambda: unfinished_frames(150, 1_200_000), "memory_limit"),
    "undecided": (lambda: undecided(300, 240_000), "memory_limit"),
    "holes": (lambda: holes(60, 1_800_000), "reorder_limit"),
    "unanswered": (lambda: unanswered(20, 3000), "pending_limit"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_memory_stays_within_what_is_allowed(case: str) -> None:
    packets, kind = CASES[case]
    allowed = 32 * MIB
    # Readers, one batch as columns and objects, the tables: the same whatever is allowed.
    base, _ = peak_mib(iter(opening(("10.0.0.1", 50_000))), allowed)
    peak, run = peak_mib(packets(), allowed)
    assert peak - base < 32 + 40
    assert run.quality.anomalies[kind].count > 0
    assert run.quality.payload_bytes > 100 * MIB or case in ("undecided", "unanswered")


def test_shares_add_up_and_too_little_is_refused() -> None:
    bounds = MemoryBounds.of(64 * MIB)
    shares = (bounds.reassembly_bytes, bounds.undecided_bytes, bounds.kafka_bytes)
    assert sum(shares) == 64 * MIB
    with pytest.raises(UsageError, match="at least 32 MiB"):
        MemoryBounds.of(31 * MIB)
