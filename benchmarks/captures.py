"""Makes the captures to measure on: real clients and brokers, over real TCP.

    python -m benchmarks.captures [--folder FOLDER] [--kind KIND] ...

*bulk*, *small* and *many* are librdkafka's clients and its mock cluster, *mixed* and *compressed*
the same clients and brokers of Apache Kafka, *java* and *java-own-counters* these brokers and their
own clients. Each is recorded by tcpdump on the loopback of a network namespace made for it, whose
MTU is 1500 and whose segments are as long as packets, as between machines. Needs Linux, root, ip
and tcpdump; confluent-kafka is installed into an environment of its own in $KANALYZE_CACHE (or the
user's cache folder). Kafka's brokers need Java and Maven (see `benchmarks.brokers`). *lossy* is
*mixed* with packets dropped (see `benchmarks.drop`); *idle* and those whose names begin with *tls*
are made in memory (see `benchmarks.generated`). A capture that exists is kept as it is. None that
is recorded is the same twice.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import brokers
from benchmarks.errors import BenchmarkError, need, need_root, output_of, run_main

if TYPE_CHECKING:
    from collections.abc import Iterator

MIXED, LOSSY, COMPRESSED, IDLE, TLS = "mixed", "lossy", "compressed", "idle", "tls"
OF_JAVA = tuple(brokers.SHAPES)
OF_BROKERS = (*OF_JAVA, MIXED, COMPRESSED)
"""With brokers of Apache Kafka; the others have librdkafka's mock cluster."""
KINDS = ("bulk", "small", "many", *OF_JAVA, MIXED, LOSSY, COMPRESSED, TLS, IDLE)
MORE_OF_TLS = ("tls-1.2-gcm", "tls-1.2-cbc", "tls-bulk", "tls-bulk-1.2-gcm", "tls-bulk-1.2-cbc")
"""Made and measured where they are asked for."""
FOLDER = Path(__file__).resolve().parent / "captures"
CLIENT = "confluent-kafka==2.16.1"
_TRAFFIC = Path(__file__).resolve().parent / "traffic.py"
_BUFFER_KIB = 262_144


def client_python() -> Path:
    """Return the Python of an environment with the client library, made when missing."""
    cache = Path(os.environ.get("KANALYZE_CACHE") or Path.home() / ".cache" / "kanalyze")
    folder = cache / f"benchmarks-{CLIENT.replace('==', '-')}"
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        output_of(sys.executable, "-m", "venv", "--clear", str(folder))
        output_of(str(python), "-m", "pip", "install", "-q", CLIENT)
        (folder / ".complete").touch()
    return python


@contextmanager
def namespace() -> Iterator[tuple[str, ...]]:
    """Make a network namespace; give the words that run a command inside it."""
    name = f"kanalyze-bench-{os.getpid()}"
    output_of("ip", "netns", "add", name)
    try:
        whole_packets = ("mtu", "1500", "gso_max_size", "1500", "gso_max_segs", "1")
        output_of("ip", "-n", name, "link", "set", "lo", "up", *whole_packets)
        yield ("ip", "netns", "exec", name)
    finally:
        output_of("ip", "netns", "del", name)


def wait_until_it_listens(tcpdump: subprocess.Popen[str]) -> None:
    """Read tcpdump's first lines; raise when it ends instead."""
    said = ""
    for line in tcpdump.stderr or ():
        said = line.strip()
        if "listening on" in said:
            return
    raise BenchmarkError(f"tcpdump does not listen: {said}")


def stop(tcpdump: subprocess.Popen[str]) -> None:
    """End tcpdump after it has written all; raise when packets were dropped."""
    time.sleep(2.0)  # the kernel hands over what is left within a second
    tcpdump.send_signal(signal.SIGINT)
    try:
        _, told = tcpdump.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        raise BenchmarkError("tcpdump did not stop") from None
    dropped = re.search(r"(\d+) packets? dropped by kernel", told)
    if dropped is None or int(dropped.group(1)):
        raise BenchmarkError(f"tcpdump dropped packets: {' '.join(told.split())[-200:]}")


@contextmanager
def listening(inside: tuple[str, ...], packet_filter: str, target: Path) -> Iterator[None]:
    """Record the loopback of a namespace. The file appears only when it is whole."""
    part = target.with_suffix(".part")
    words = ["tcpdump", "-i", "lo", "-n", "-Z", "root", "-B", str(_BUFFER_KIB), "-w", str(part)]
    command = [*inside, *words, "--time-stamp-precision=nano", packet_filter]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tcpdump:
        try:
            wait_until_it_listens(tcpdump)
            yield
            stop(tcpdump)
        finally:
            tcpdump.kill()
    part.rename(target)


def record(kind: str, target: Path) -> None:
    """Record one kind of traffic."""
    need("ip", "tcpdump")
    need_root()
    traffic = () if kind in OF_JAVA else (str(client_python()), str(_TRAFFIC), kind)
    with namespace() as inside:
        if kind not in OF_BROKERS:
            with listening(inside, "tcp", target):
                output_of(*inside, *traffic)
            return
        with (
            brokers.cluster(inside) as cluster,
            listening(inside, cluster.packet_filter, target),
        ):
            if kind in OF_JAVA:
                brokers.java_traffic(inside, cluster, readers=brokers.SHAPES[kind])
            else:
                output_of(*inside, *traffic, cluster.addresses)


def capture(kind: str, folder: Path = FOLDER) -> Path:
    """Return the capture of this kind, made when it is missing."""
    target = folder / f"{kind}.pcap"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"making {target.name}", file=sys.stderr, flush=True)
    # What is made is made in a process of its own: those who measure memory have to stay small.
    if kind == LOSSY:
        whole = capture(MIXED, folder)
        told = output_of(sys.executable, "-m", "benchmarks.drop", str(whole), str(target))
        print(f"{target.name}: {whole.name}, {told.strip()}", file=sys.stderr)
    elif kind == IDLE or kind.startswith(TLS):
        output_of(sys.executable, "-m", "benchmarks.generated", kind, str(target))
    else:
        record(kind, target)
    return target


def keys_of(kind: str, folder: Path = FOLDER) -> Path | None:
    """Return the key log of a kind of captures; None where nothing is encrypted."""
    return folder / f"{kind}.keys" if kind.startswith(TLS) else None


def make_repeated(source: Path, times: int, target: Path) -> int:
    """Make a capture of so many times ``source``; return its packets (see `benchmarks.repeat`)."""
    # In a process of its own: those who measure memory have to stay small.
    words = [str(source.resolve()), str(times), str(target.resolve())]
    told = output_of(sys.executable, "-m", "benchmarks.repeat", *words)
    return int(told.split()[0])


def main() -> None:
    """Make the captures that the command line names, or all of them."""
    parser = argparse.ArgumentParser(description="Record the captures that benchmarks run on.")
    parser.add_argument("--kind", action="append", choices=(*KINDS, *MORE_OF_TLS))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    # However this is ended, the brokers and the namespace go with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for kind in arguments.kind or KINDS:
        file = capture(kind, arguments.folder)
        print(file.name, f"{file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    run_main(main)
