"""What `kanalyze live` holds: packets a second without a drop, CPU time a packet, memory.

    python -m benchmarks.live [--seconds N] [--rate N] [--folder FOLDER] [--kind bulk|small] ...
        [--only mock|replay] [--profile FILE]

Needs Linux, root, `ip` and what `benchmarks.captures` takes. `kanalyze live --format jsonl` listens
in a network namespace whose interfaces have an MTU of 1500, while

- *mock*: real clients and librdkafka's mock cluster talk there as fast as they can, again and again
  for so long (on loopback, where the mock cluster listens; they share the cores with us);
- *replay*: a capture of such traffic is sent over an interface at a fixed rate, again and again
  from other clients, so that each connection opens, speaks and closes. Without `--rate` the highest
  rate is searched that goes through with nothing dropped, in short runs, and held for so long.

CPU and memory are those of the `kanalyze` process alone, without its start and its end.
`--profile` lets cProfile write where its time goes, which takes some of that time itself.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.captures import FOLDER, capture, client_python
from benchmarks.errors import BenchmarkError, need, need_root, output_of, run_main
from benchmarks.live_capture import MESSAGE
from benchmarks.process_tree import cpu_s_of, peak_bytes_of
from benchmarks.programs import KANALYZE
from benchmarks.repeat import RECORD_HEADER_BYTES, repetitions
from tests.support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KINDS = ("small", "bulk")
WAYS = ("mock", "replay")
NEAR = 1.08
"""A rate is found when this many times as much is dropped from."""
FIRST_RATE = 40_000
MIN_RATE, MAX_RATE = 1_000, 2_000_000
MIN_TRY_S = 5.0
BEHIND = 0.97
"""A sender that gets less of its rate out is what is measured, no longer who reads."""

_TRAFFIC = Path(__file__).resolve().parent / "traffic.py"
_SMALLER_PACKETS = ("gso_max_size", "1500", "gso_max_segs", "1")
_LIMIT_S = 60.0
_PACKETS_AT_ONCE = 64
_IOVEC = np.dtype([("data", np.uintp), ("bytes", np.uintp)])


class Held(NamedTuple):
    """What a run came to."""

    seconds: float
    """While packets were sent."""
    packets: int
    dropped: int
    rows: int
    cpu_s: float
    """User and system, from before the first packet to after the last."""
    peak_bytes: int
    """Resident memory."""
    sent: int | None = None
    """None where nobody counts."""

    @property
    def rate(self) -> float:
        """Packets a second, those dropped among them."""
        return (self.packets + self.dropped) / self.seconds

    def __str__(self) -> str:
        cpu_us = self.cpu_s / max(self.packets, 1) * 1e6
        return (
            f"{self.rate:,.0f} packets/s for {self.seconds:.1f} s, {self.dropped:,} dropped, "
            f"CPU {cpu_us:.2f} us a packet ({self.cpu_s / self.seconds:.0%} of a core), "
            f"peak {self.peak_bytes / (1 << 20):.0f} MiB, {self.rows:,} rows"
        )


class Live:
    """`kanalyze live` on an interface, from its first line on; :meth:`end` says what it counted."""

    def __init__(self, namespace: Namespace, interface: str, profile: Path | None) -> None:
        profiler = [] if profile is None else [sys.executable, "-m", "cProfile", "-o", str(profile)]
        self._folder = tempfile.TemporaryDirectory()
        self._report = Path(self._folder.name) / "report.json"
        self._lines = Path(self._folder.name) / "lines.jsonl"
        self._errors = Path(self._folder.name) / "errors.txt"
        words = [KANALYZE, "live", "-i", interface, "--format", "jsonl"]
        words += ["--json", str(self._report)]
        with self._lines.open("wb") as lines, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                namespace.command(*profiler, *words), stdout=lines, stderr=errors
            )

    def __enter__(self) -> Live:
        try:
            self._wait(lambda: bool(self._last(1)))
        except BaseException:
            self.__exit__()
            raise
        self._began_s, self._cpu_began_s = time.monotonic(), cpu_s_of(self._process.pid)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def end(self, sent: int | None = None) -> Held:
        """Let it read what is left and end; nothing is sent any more."""
        seconds = time.monotonic() - self._began_s
        self._wait(self._is_idle)
        pid = self._process.pid
        cpu_s, peak_bytes = cpu_s_of(pid) - self._cpu_began_s, peak_bytes_of(pid)
        self._process.send_signal(signal.SIGINT)
        if self._process.wait(_LIMIT_S):
            raise BenchmarkError(self._said())
        line = self._last(1)[0]
        state = line["capture"]
        reported = json.loads(self._report.read_text())
        if reported["quality"]["packets"] != state["packets"]:
            raise BenchmarkError("the report counts other packets than the lines")
        return Held(
            seconds,
            state["packets"],
            state["dropped_packets"],
            line["rows"],
            cpu_s,
            peak_bytes,
            sent,
        )

    def _is_idle(self) -> bool:
        """Whether no packet came between two lines."""
        return len({line["capture"]["packets"] for line in self._last(2)}) == 1

    def _last(self, count: int) -> list[dict[str, Any]]:
        """Return the last lines, as many as there are."""
        *whole, _ = self._lines.read_bytes().split(b"\n")
        return [json.loads(line) for line in whole[-count:]]

    def _wait(self, is_so: Callable[[], bool]) -> None:
        until_s = time.monotonic() + _LIMIT_S
        time.sleep(1.5)  # two lines
        while not is_so():
            if self._process.poll() is not None or time.monotonic() > until_s:
                raise BenchmarkError(self._said())
            time.sleep(0.5)

    def _said(self) -> str:
        said = self._errors.read_text(errors="replace").strip().splitlines()
        return f"kanalyze live: {said[-1] if said else 'no answer'}"


# -- the mock cluster -----------------------------------------------------------------------------


def measure_mock(kind: str, seconds: float, profile: Path | None) -> Held:
    """Listen to real clients and the mock cluster."""
    with Namespace() as namespace:
        namespace.ip("link", "set", "lo", "mtu", "1500", *_SMALLER_PACKETS)
        with Live(namespace, "lo", profile) as live:
            until_s = time.monotonic() + seconds
            command = namespace.command(str(client_python()), str(_TRAFFIC), kind)
            while time.monotonic() < until_s:
                output_of(*command)
            return live.end()


# -- a capture, sent at a rate --------------------------------------------------------------------


class Sending(NamedTuple):
    """What is sent, how many packets a second, how long."""

    source: Path
    rate: int
    seconds: float


def send(interface: str, sending: Sending) -> int:
    """Send a capture again and again; return how many packets."""
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    sent = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.setsockopt(263, 20, 1)  # PACKET_QDISC_BYPASS
        sender.bind((interface, 0))
        began_s: float | None = None
        for messages in _messages(sending.source):
            began_s = time.monotonic() if began_s is None else began_s
            at = 0
            while at < len(messages):
                elapsed_s = time.monotonic() - began_s
                if elapsed_s >= sending.seconds:
                    return sent
                if sent > elapsed_s * sending.rate:
                    time.sleep(0.0002)
                    continue
                count = min(_PACKETS_AT_ONCE, len(messages) - at)
                pointer = ctypes.c_void_p(messages.ctypes.data + at * messages.itemsize)
                done = sendmmsg(sender.fileno(), pointer, count, 0)
                if done < 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
                at, sent = at + done, sent + done
    return sent


def _messages(source: Path) -> Iterator[np.ndarray]:
    """Give the packets of each repetition as `struct mmsghdr`, valid until the next one."""
    parts: np.ndarray | None = None
    for data, starts in repetitions(source, 1 << 24):
        if parts is None:  # all repetitions are in the same memory
            lengths = data[(starts + 8)[:, None] + np.arange(4)].view("<u4").ravel()
            parts = np.empty(len(starts), _IOVEC)
            parts["data"] = data.ctypes.data + starts + RECORD_HEADER_BYTES
            parts["bytes"] = lengths
            messages = np.zeros(len(starts), MESSAGE)
            messages["parts"] = parts.ctypes.data + np.arange(len(starts)) * _IOVEC.itemsize
            messages["part_count"] = 1
        yield messages


def measure_replay(sending: Sending, profile: Path | None = None) -> Held:
    """Send, and listen at the other end."""
    with Namespace() as namespace:
        namespace.add_pair()
        with Live(namespace, "other", profile) as live:
            words = [sys.executable, "-m", "benchmarks.live", "--send", str(sending.source)]
            words += ["--rate", str(sending.rate), "--seconds", str(sending.seconds)]
            done = subprocess.run(
                namespace.command(*words), check=True, stdout=subprocess.PIPE, text=True
            )
            held = live.end(int(done.stdout))
    # The sender reads its capture first.
    return held._replace(seconds=sending.seconds)


def is_held(held: Held, rate: int) -> bool:
    """Return true if nothing was lost; raise where the sender was too slow to say."""
    if held.dropped:
        return False
    if held.sent is not None and held.sent < BEHIND * rate * held.seconds:
        raise BenchmarkError(f"the sender is the limit, nothing was dropped: {held}")
    return True


def search(source: Path, seconds: float) -> Iterator[tuple[int, Held]]:
    """Give runs and their rates; the last is that of the highest rate held, ``seconds`` long."""
    try_s = max(seconds / 6, MIN_TRY_S)
    good, bad = 0, MAX_RATE
    rate = FIRST_RATE
    while bad > NEAR * good:
        held = measure_replay(Sending(source, rate, try_s))
        yield rate, held
        if is_held(held, rate):
            good = rate
        else:
            bad = rate
        if bad < MIN_RATE:
            raise BenchmarkError("packets are dropped at any rate")
        # Doubled until it is too high, then halved by ratio.
        rate = 2 * good if bad == MAX_RATE else round((max(good, bad // 4) * bad) ** 0.5)
    rate = good
    while True:
        held = measure_replay(Sending(source, rate, seconds))
        yield rate, held
        if is_held(held, rate):
            return
        rate = round(rate / NEAR)


# -- the command ----------------------------------------------------------------------------------


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure kanalyze live.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, help="packets a second (default: searched)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where captures are, or go")
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all")
    parser.add_argument("--only", choices=WAYS)
    parser.add_argument("--profile", type=Path, metavar="FILE")
    parser.add_argument("--send", type=Path, metavar="CAPTURE", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    if arguments.send is not None:
        print(send("one", Sending(arguments.send, arguments.rate, arguments.seconds)))
        return
    need("ip", "tcpdump")
    need_root()
    for way in WAYS if arguments.only is None else (arguments.only,):
        for kind in arguments.kind or KINDS:
            _measure(way, kind, arguments)


def _measure(way: str, kind: str, arguments: argparse.Namespace) -> None:
    if way == "mock":
        held = measure_mock(kind, arguments.seconds, arguments.profile)
        print(f"mock, {kind}: {held}", flush=True)
        return
    source = capture(kind, arguments.folder)
    if arguments.rate is not None:
        sending = Sending(source, arguments.rate, arguments.seconds)
        print(f"replay, {kind}: {measure_replay(sending, arguments.profile)}", flush=True)
        return
    for rate, held in search(source, arguments.seconds):
        print(f"replay, {kind}, {rate:,} asked for: {held}", flush=True)


if __name__ == "__main__":
    run_main(main)
