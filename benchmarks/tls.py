"""kanalyze beside tshark on TLS: CPU time to decrypt and read the same captures with the same keys.

    python -m benchmarks.tls [--folder FOLDER] [--set SET] ... [--rounds N]

Makes the captures where they are missing: OpenSSL encrypts what a client and a broker say, in
memory. *small* are 50 connections with 1,000 requests of 700 bytes each, *bulk* is one connection
with 100 batches of 900 kB, *large* the same with 500; each of TLS 1.3 (AES-256-GCM), of TLS 1.2
with AES-128-GCM, and with AES-128-CBC and SHA-1. Both commands run in turn, and each pair gives a
quotient; the table, in Markdown, has the medians, and the least and the most of the quotients.
"""

from __future__ import annotations

import argparse
import random
import ssl
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import captures, programs
from benchmarks.errors import BenchmarkError, lines_of, need, run_main
from benchmarks.measure import measure
from tests.support import kafka as k
from tests.support.packets import pcap_file, timed
from tests.support.streams import cut
from tests.support.tls_talk import CLIENT, SERVER, Pair, Setting, Talk
from tests.support.traffic import Line, Part, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITES: Final = {
    "1.3": Setting(),
    "1.2-gcm": Setting(ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    "1.2-cbc": Setting(ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA", options=1 << 19),
}
"""By the end of a set's name; the option turns encrypt-then-MAC off, as Java has it."""
SHAPES: Final = {"small": (50, 1000, 700), "bulk": (1, 100, 900_000), "large": (1, 500, 900_000)}
"""Connections, requests of each, bytes of a batch."""
SETS: Final = [f"{shape}-{suite}" for shape in SHAPES for suite in SUITES]
PORT: Final = 9092
_SEGMENT_BYTES: Final = 1448
_BATCH_HEAD_BYTES: Final = 61
_TSHARK_KAFKA: Final = f"tls.port=={PORT},kafka"


def conversations(name: str) -> Iterator[Talk]:
    """Yield the conversations of a set, a connection each; the same bytes of records in each."""
    shape, _, suite = name.partition("-")
    connections, requests, batch_bytes = SHAPES[shape]
    noise = random.Random(3)
    head = k.record_batch(9, batch_bytes - _BATCH_HEAD_BYTES)[:_BATCH_HEAD_BYTES]
    batch = head + noise.randbytes(batch_bytes - _BATCH_HEAD_BYTES)
    turns = []
    for number in range(1, requests + 1):
        turns.append((CLIENT, produce(number, 9, [Part(records=batch)], client_id="producer")))
        turns.append((SERVER, produce_answer(number, 9)))
    for _ in range(connections):
        yield Pair(SUITES[suite]).talk(turns)


def make(name: str, folder: Path) -> tuple[Path, Path]:
    """Return the capture of a set and its key log; they are made where they are missing."""
    capture, keys = (folder / f"tls-{name}.{kind}" for kind in ("pcap", "keys"))
    if capture.exists() and keys.exists():
        return capture, keys
    folder.mkdir(parents=True, exist_ok=True)
    packets: list[bytes] = []
    logs = []
    for number, talk in enumerate(conversations(name)):
        line = Line(packets, 40_000 + number).open()
        for sent in talk.wire:
            pieces = cut(sent.data, [_SEGMENT_BYTES] * (len(sent.data) // _SEGMENT_BYTES))
            line.says(sent.side, *pieces)
        line.close()
        logs.append(talk.keys)
    keys.write_bytes(b"".join(logs))
    capture.write_bytes(pcap_file(timed(packets)))
    return capture, keys


def commands(capture: Path, keys: Path, rows: Path) -> tuple[list[str], list[str]]:
    """Return the commands: of kanalyze, of tshark."""
    words = ["requests", str(capture), "--keylog", str(keys), "--jobs", "1", "-o", str(rows)]
    tshark = programs.tshark_command(capture, [])
    tshark += ["-o", f"tls.keylog_file:{keys}", "-d", f"tcp.port=={PORT},tls", "-d", _TSHARK_KAFKA]
    return [programs.KANALYZE, *words], tshark


def check(capture: Path, keys: Path, expected: int) -> int:
    """Return how many messages tshark decrypts; raise where it is not about all."""
    _, command = commands(capture, keys, Path("rows"))
    lines = (line.rstrip("\n") for line in lines_of(*command))
    found = sum(len(sizes.split(",")) for line in lines if (sizes := line.rpartition("\t")[2]))
    programs.check_same_work(capture, expected, found)
    return found


def compare(name: str, folder: Path, rounds: int) -> str:
    """Return the line of a set."""
    capture, keys = make(name, folder)
    connections, requests, _ = SHAPES[name.partition("-")[0]]
    found = check(capture, keys, 2 * connections * requests)
    with tempfile.TemporaryDirectory() as place:
        both = commands(capture, keys, Path(place) / "rows.parquet")
        measure(both[0])  # brings the file into the page cache
        pairs = [[measure(command).cpu_s for command in both] for _ in range(rounds)]
    ours_s, theirs_s = (statistics.median(pair[which] for pair in pairs) for which in (0, 1))
    quotients = sorted(theirs / ours for ours, theirs in pairs)
    cells = [name, f"{capture.stat().st_size / 1e6:,.0f}", f"{found:,}", f"{ours_s:.2f}"]
    cells += [f"{theirs_s:.2f}", f"{statistics.median(quotients):.1f}"]
    return "| " + " | ".join([*cells, f"{quotients[0]:.1f}-{quotients[-1]:.1f}"]) + " |"


def main() -> None:
    """Measure what the command line asks for; print the table."""
    parser = argparse.ArgumentParser(description="kanalyze beside tshark on TLS.")
    parser.add_argument("--folder", type=Path, default=captures.FOLDER, help="of the captures")
    parser.add_argument("--set", action="append", choices=SETS, help="default: all but large")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        raise BenchmarkError("there is nothing to tell of no rounds")
    need(programs.TSHARK)
    print("| set | MB | messages | kanalyze CPU s | tshark CPU s | tshark ÷ | of the pairs |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in arguments.set or [each for each in SETS if not each.startswith("large")]:
        print(compare(name, arguments.folder, arguments.rounds), flush=True)


if __name__ == "__main__":
    run_main(main)
