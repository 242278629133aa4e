"""Memory for connections is bounded, whatever they send; what is dropped is reported."""

from __future__ import annotations

import io
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.errors import UsageError
from kanalyze.runtime.memory import MemoryBounds
from kanalyze.runtime.pipeline import Analysis
from tests.support import kafka as k
from tests.support.captures import often
from tests.support.exchange_batches import exchange_batches
from tests.support.packets import ACK, START_NS, SYN, Packet, pcap_file, segment
from tests.support.traffic import Line, Part, capture_of, fetch, fetch_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MIB = 1 << 20
PIECE = 60_000


def opening(client: tuple[str, int]) -> list[bytes]:
    return [
        segment(seq=0, flags=SYN, client=client),
        segment(to_broker=False, seq=900, ack=1, flags=SYN | ACK, client=client),
        segment(seq=1, ack=901, client=client),
    ]


def greedy(client: tuple[str, int], first: bytes, rest_bytes: int) -> Iterator[bytes]:
    """A connection that sends ``first``, and then ``rest_bytes`` of filler."""
    yield from opening(client)
    sequence = 1
    for piece in (first, *[b"x" * PIECE] * (rest_bytes // PIECE)):
        yield segment(seq=sequence, ack=901, payload=piece, client=client)
        sequence += len(piece)


def unfinished_frames(count: int, size: int) -> Iterator[bytes]:
    """Kafka connections, each with a frame of 90 MB that does not end."""
    for number in range(count):
        client = (f"10.1.{number >> 8}.{number & 255}", 50_000)
        hello = k.heartbeat(1) + k.request(999, 0, 2, b"y" * 100)
        large = struct.pack(">i", 90_000_000) + k.request(999, 0, 3, b"")[4:]
        yield from greedy(client, hello + large, size)


def undecided(count: int, size: int) -> Iterator[bytes]:
    """Connections captured from the middle on, whose protocol is not detected yet."""
    for number in range(count):
        client = (f"10.2.{number >> 8}.{number & 255}", 50_000)
        for index in range(size // PIECE):
            yield segment(seq=5 + index * PIECE, ack=901, payload=b"\0\1x" * 20_000, client=client)


def holes(count: int, size: int) -> Iterator[bytes]:
    """Connections with one lost byte after their first: all that follows is buffered."""
    for number in range(count):
        client = (f"10.3.{number >> 8}.{number & 255}", 50_000)
        yield from opening(client)
        for index in range(size // PIECE):
            yield segment(seq=3 + index * PIECE, ack=901, payload=b"z" * PIECE, client=client)


def unanswered(count: int, requests: int) -> Iterator[bytes]:
    """Connections with requests that are never answered."""
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
def test_memory_stays_within_the_limit(case: str) -> None:
    packets, kind = CASES[case]
    limit_bytes = 32 * MIB
    # Readers, one batch as columns and objects, the tables: the same with any limit.
    base, _ = peak_mib(iter(opening(("10.0.0.1", 50_000))), limit_bytes)
    peak, run = peak_mib(packets(), limit_bytes)
    assert peak - base < 32 + 40
    assert run.quality.anomalies[kind].count > 0
    assert run.quality.payload_bytes > 100 * MIB or case in ("undecided", "unanswered")


def test_shares_of_memory_add_up_and_too_low_a_limit_is_refused() -> None:
    bounds = MemoryBounds.of(64 * MIB)
    shares = (bounds.reassembly_bytes, bounds.undecided_bytes, bounds.kafka_bytes)
    assert sum(shares) == 64 * MIB
    with pytest.raises(UsageError, match="at least 32 MiB"):
        MemoryBounds.of(31 * MIB)


# -- rows -----------------------------------------------------------------------------------------


def quiet_session(partitions: int, fetches: int) -> bytes:
    """A fetch session that does not change: each of its rows has all partitions."""
    packets: list[bytes] = []
    line = Line(packets).open()
    # The topic's name stays unknown, so that its partitions are made anew for each row.
    requested = [Part("", b"\1" * 16, partition) for partition in range(partitions)]
    for number in range(fetches):
        line.client(fetch(number, 13, [] if number else requested, session_id=7, epoch=number))
        line.broker(fetch_answer(number, 13, [], session_id=7))
    for number in range(fetches, fetches + 40):
        line.client(k.produce(number, acks=1)).broker(k.produce_answer(number))
    line.close()
    return capture_of(packets)


def all_rows(capture: str) -> None:
    assert sum(1 for _ in kanalyze.requests(capture)) == QUIET_FETCHES + 40


def some_rows(capture: str) -> None:
    assert sum(1 for _ in kanalyze.requests(capture, api="Fetch")) == QUIET_FETCHES


def summed_up(capture: str) -> None:
    assert kanalyze.report(capture)["totals"]["requests"] == QUIET_FETCHES + 40


def written(row_format: str) -> Callable[[str], None]:
    def write(capture: str) -> None:
        destination = f"{capture}.{row_format}"
        arguments = ["--format", row_format, "--jobs", "1", "--max-memory", "32M"]
        assert main(["requests", *arguments, "-o", destination, capture]) == 0

    return write


def decoded(capture: str) -> None:
    for pairs in exchange_batches(Analysis([capture])):
        assert pairs


QUIET_FETCHES = 400
WAYS = {
    **{name: written(name) for name in ("csv", "jsonl", "parquet", "table")},
    "rows": all_rows,
    "rows that pass a filter": some_rows,
    "report": summed_up,
    "exchanges": decoded,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("way", often(WAYS, ("parquet", "report", "exchanges")))
def test_rows_of_many_partitions_are_not_held_all_at_once(way: str, tmp_path: Path) -> None:
    capture = tmp_path / "session.pcap"
    capture.write_bytes(quiet_session(1000, QUIET_FETCHES))
    tracemalloc.start()
    try:
        WAYS[way](str(capture))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 * MIB
