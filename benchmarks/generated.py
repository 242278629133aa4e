"""Captures that no clients have to make for us: what both ends say is made in memory.

    python -m benchmarks.generated KIND TARGET.pcap

*tls* are 50 connections with 1,000 requests of 700 bytes each, that OpenSSL encrypts by TLS 1.3
(AES-256-GCM); *tls-bulk* is one connection with 100 batches of 900 kB. With *-1.2-gcm* it is TLS
1.2 with AES-128-GCM, with *-1.2-cbc* AES-128-CBC and SHA-1. The key log is written beside the
capture. *idle* are 5,000 connections for an hour, of which 20 send records; the others have
heartbeats now and then, and TCP's keepalives in between.
"""

from __future__ import annotations

import random
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.errors import run_main
from tests.support import kafka as k
from tests.support.packets import pcap_file, timed
from tests.support.record_sets import TIME_MS, batch_of
from tests.support.streams import cut
from tests.support.tls_talk import CLIENT, SERVER, Pair, Setting, Talk
from tests.support.traffic import Line, Part, metadata, metadata_answer, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITES: Final = {
    "": Setting(),
    "-1.2-gcm": Setting(ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    "-1.2-cbc": Setting(ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA", options=1 << 19),
}
"""By the end of a kind's name; the option turns encrypt-then-MAC off, as Java has it."""
SHAPES: Final = {"tls-bulk": (1, 100, 900_000), "tls": (50, 1000, 700)}
"""Connections, requests of each, bytes of a batch."""
RECORDS: Final = 9
"""Of a batch."""
IDLE_CONNECTIONS, IDLE_BUSY, IDLE_ROUNDS, IDLE_BUSY_REQUESTS = 5000, 20, 12, 20
IDLE_S, IDLE_BATCH_BYTES = 3600, 700
_HEARTBEATS_EVERY = 4
_SEGMENT_BYTES = 1448
_BATCH_HEAD_BYTES, _RECORD_HEAD_BYTES = 61, 8
_BROKERS = [(f"10.1.0.{number}", 9092) for number in (1, 2, 3)]


def batch(noise: random.Random, size: int) -> bytes:
    """Return a batch of about so many bytes, of records of random bytes."""
    each = (size - _BATCH_HEAD_BYTES) // RECORDS - _RECORD_HEAD_BYTES
    values = [noise.randbytes(each) for _ in range(RECORDS)]
    return batch_of([(number, TIME_MS, None, value, []) for number, value in enumerate(values)])


def conversations(kind: str) -> Iterator[Talk]:
    """Yield encrypted conversations, a connection each; the same bytes of records in each."""
    shape = next(shape for shape in SHAPES if kind.startswith(shape))
    connections, requests, batch_bytes = SHAPES[shape]
    parts = [Part(records=batch(random.Random(3), batch_bytes))]
    turns = []
    for number in range(1, requests + 1):
        turns.append((CLIENT, produce(number, 9, parts, client_id="producer")))
        turns.append((SERVER, produce_answer(number, 9)))
    for _ in range(connections):
        yield Pair(SUITES[kind.removeprefix(shape)]).talk(turns)


def tls(kind: str, target: Path) -> list[bytes]:
    """Return the packets of conversations; write their key log."""
    packets: list[bytes] = []
    logs = []
    for number, talk in enumerate(conversations(kind)):
        line = Line(packets, 40_000 + number, broker=_BROKERS[0]).open()
        for sent in talk.wire:
            pieces = cut(sent.data, [_SEGMENT_BYTES] * (len(sent.data) // _SEGMENT_BYTES))
            line.says(sent.side, *pieces)
        line.close()
        logs.append(talk.keys)
    target.with_suffix(".keys").write_bytes(b"".join(logs))
    return packets


def idle() -> list[bytes]:
    """Return the packets of connections that are silent for most of the time."""
    packets: list[bytes] = []
    noise = random.Random(5)
    parts = [Part(records=batch(noise, IDLE_BATCH_BYTES))]
    lines = [
        Line(packets, 10_000 + number, broker=_BROKERS[number % len(_BROKERS)])
        for number in range(IDLE_CONNECTIONS)
    ]
    for line in lines:
        line.open().client(k.api_versions(1, 0)).broker(k.api_versions_answer_v0(1))
        line.client(metadata(2)).broker(metadata_answer(2, []))
    for round_ in range(IDLE_ROUNDS):
        for number, line in enumerate(lines):
            if number < IDLE_BUSY:
                first = 3 + round_ * IDLE_BUSY_REQUESTS
                for id_ in range(first, first + IDLE_BUSY_REQUESTS):
                    line.client(produce(id_, 9, parts))
                    line.broker(produce_answer(id_, 9))
            elif noise.randrange(_HEARTBEATS_EVERY):
                line.probes(CLIENT)
            else:
                group = f"group-{number % 100}"
                line.client(k.heartbeat(3 + round_, group)).broker(k.heartbeat_answer(3 + round_))
    return packets


def main() -> None:
    """Write what the command line asks for."""
    kind, name = sys.argv[1:]
    target, step_ns = Path(name), 1000
    if kind == "idle":
        packets = idle()
        step_ns = IDLE_S * 1_000_000_000 // len(packets)
    else:
        packets = tls(kind, target)
    target.write_bytes(pcap_file(timed(packets, step_ns)))


if __name__ == "__main__":
    run_main(main)
