"""Whether `kanalyze live` takes no more memory after an hour than after five minutes.

    python -m benchmarks.soak [--minutes N] [--rate N] [--folder FOLDER]

Needs Linux, root, `ip` and what `benchmarks.captures` takes. In a network namespace a capture of
5,516 short connections is sent over an interface at a moderate rate, again and again from other
clients; one in 200 of them leaves without a word, as clients do behind a firewall that forgets
them. Meanwhile all that `kanalyze live` can do is on: lines, metrics (scraped every 15 s), rows in
files of which the oldest go, and the packets of what is slow. Prints the resident memory minute by
minute, and what the end is of minute five.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.captures import FOLDER, capture
from benchmarks.errors import BenchmarkError, need, need_root, run_main
from benchmarks.live import Sending, send
from benchmarks.process_tree import resident_bytes_of
from benchmarks.programs import KANALYZE
from benchmarks.repeat import RECORD_HEADER_BYTES, record_starts
from tests.support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "many"
FIRST_MINUTE = 5
SCRAPE_EVERY_S = 15.0
SCRAPE = "import urllib.request as r; print(len(r.urlopen('http://127.0.0.1:9308/metrics').read()))"
_METRICS = "127.0.0.1:9308"
_START_S = 20.0
_ETHERNET_BYTES = 14
_FIN_OR_RST = 0x05
_LEAVES_WITHOUT_A_WORD = 200


class Sample(NamedTuple):
    """What was seen at a moment."""

    seconds: float
    resident_bytes: int
    line: dict[str, Any]
    """The last line of `--format jsonl`."""


def soak(source: Path, rate: int, minutes: float) -> Iterator[Sample]:
    """Listen for so long; give samples."""
    with Namespace() as namespace, tempfile.TemporaryDirectory() as text:
        namespace.ip("link", "set", "lo", "up")
        namespace.add_pair()
        folder = Path(text)
        lines = folder / "lines.jsonl"
        words = [KANALYZE, "live", "-i", "other", "--format", "jsonl", "--metrics", _METRICS]
        words += ["--write", str(folder / "rows"), "--write-every", "60", "--write-files", "5"]
        words += [
            "--save",
            str(folder / "kept.pcapng"),
            "--save-errors",
            "--save-slower-than",
            "5ms",
        ]
        words += ["--json", str(folder / "report.json")]
        with lines.open("wb") as stdout, (folder / "errors.txt").open("wb") as stderr:
            live = subprocess.Popen(namespace.command(*words), stdout=stdout, stderr=stderr)
        seconds = minutes * 60
        sending = [sys.executable, "-m", "benchmarks.soak", "--send", str(source)]
        sending += ["--rate", str(rate), "--minutes", str(minutes)]
        sender: subprocess.Popen[bytes] | None = None
        try:
            _wait_for_line(live, lines)
            sender = subprocess.Popen(namespace.command(*sending))
            began_s = time.monotonic()
            while (elapsed_s := time.monotonic() - began_s) < seconds:
                _scrape(namespace)
                time.sleep(min(SCRAPE_EVERY_S, seconds - elapsed_s))
                if live.poll() is not None:
                    raise BenchmarkError((folder / "errors.txt").read_text(errors="replace"))
                yield Sample(time.monotonic() - began_s, resident_bytes_of(live.pid), _last(lines))
            if sender.wait(60):
                raise BenchmarkError("the sender failed")
            time.sleep(3)
            live.send_signal(signal.SIGTERM)
            if live.wait(60):
                raise BenchmarkError((folder / "errors.txt").read_text(errors="replace"))
            report = json.loads((folder / "report.json").read_text())
            print(f"packets in the report: {report['quality']['packets']:,}")
            for kept in sorted(folder.rglob("*")):
                print(f"{kept.relative_to(folder)}: {kept.stat().st_size:,} bytes")
        finally:
            for process in (sender, live):
                if process is not None and process.poll() is None:
                    process.kill()
                    process.wait()


def _scrape(namespace: Namespace) -> None:
    subprocess.run(
        namespace.command(sys.executable, "-c", SCRAPE), check=True, stdout=subprocess.DEVNULL
    )


def _wait_for_line(live: subprocess.Popen[bytes], lines: Path) -> None:
    until_s = time.monotonic() + _START_S
    while not lines.stat().st_size:
        if live.poll() is not None or time.monotonic() > until_s:
            raise BenchmarkError("kanalyze live did not start")
        time.sleep(0.2)


def _last(lines: Path) -> dict[str, Any]:
    *whole, _ = lines.read_bytes().split(b"\n")
    last: dict[str, Any] = json.loads(whole[-1])
    return last


def without_some_ends(source: Path, target: Path) -> None:
    """Copy a capture without the ends of one connection in 200: FIN and RST are left out."""
    data = np.fromfile(source, np.uint8)
    starts = record_starts(data, source.name)
    ip = starts + RECORD_HEADER_BYTES + _ETHERNET_BYTES
    tcp = ip + (data[ip] & 15).astype(np.int64) * 4
    ports = data[tcp[:, None] + np.arange(4)].view(">u2").max(axis=1)
    is_end = (data[tcp + 13] & _FIN_OR_RST) > 0
    kept = ~(is_end & (ports % _LEAVES_WITHOUT_A_WORD == 0))
    ends = np.append(starts[1:], len(data))
    with target.open("wb") as out:
        out.write(data[: starts[0]].data)
        for start, end in zip(starts[kept].tolist(), ends[kept].tolist(), strict=True):
            out.write(data[start:end].data)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Let kanalyze live run for long.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=2_000, help="packets a second")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where captures are, or go")
    parser.add_argument("--send", type=Path, metavar="CAPTURE", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run, print a line a minute, and what the end is of minute five."""
    arguments = _arguments()
    if arguments.send is not None:
        send("one", Sending(arguments.send, arguments.rate, arguments.minutes * 60))
        return
    need("ip", "tcpdump")
    need_root()
    source = capture(KIND, arguments.folder)
    with tempfile.TemporaryDirectory() as folder:
        sent = Path(folder) / "sent.pcap"
        without_some_ends(source, sent)
        _print(soak(sent, arguments.rate, arguments.minutes))


def _print(samples: Iterator[Sample]) -> None:
    minute = 0
    first: Sample | None = None
    last: Sample | None = None
    print("| minute | resident MiB | open connections | packets | dropped | rows |")
    print("|---:|---:|---:|---:|---:|---:|")
    for last in samples:
        if last.seconds < 60 * (minute + 1) - 1:
            continue
        minute += 1
        state = last.line["capture"]
        print(
            f"| {minute} | {last.resident_bytes / (1 << 20):.1f} | {state['connections']:,} "
            f"| {state['packets']:,} | {state['dropped_packets']:,} | {last.line['rows']:,} |",
            flush=True,
        )
        if minute == FIRST_MINUTE:
            first = last
    if first is not None and last is not None:
        grown = last.resident_bytes / first.resident_bytes - 1
        print(f"at the end {grown:+.1%} of minute {FIRST_MINUTE}")


if __name__ == "__main__":
    run_main(main)
