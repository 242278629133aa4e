"""Filters of ``kanalyze live``, beside tcpdump and beside the kernel.

Without root, ip or tcpdump these tests are not selected (see tests/conftest.py, which says so).
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.support.captures import path
from tests.support.disorder import packets_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.netns import Namespace

COMMAND = "from kanalyze.cli.main import run; run()"
KANALYZE = [sys.executable, "-c", COMMAND]
WITHOUT_LIBPCAP = """\
import sys
class Without:
    def find_spec(self, name, *_):
        if name == "scapy.libs.winpcapy":
            raise OSError("Cannot find libpcap.so library")
sys.meta_path.insert(0, Without())
"""
"""What scapy raises where there is no libpcap."""
WITHOUT_SCAPY = """\
import sys
sys.modules["scapy"] = None
"""
COPIED = "kanalyze: packets are filtered in the process, after they were copied: "
NO_LIBPCAP = f"{COPIED}a filter in the kernel needs libpcap, which is not found\n"
NO_SCAPY = f"{COPIED}a filter in the kernel needs scapy: pip install 'kanalyze[live]'\n"
LONG_S = 30.0
PACKETS_PER_S = 5_000
NOT_COMPARED = {
    *("request_packet", "response_packet", "request_start_ns", "request_end_ns"),
    *("response_start_ns", "response_end_ns", "latency_ns", "total_time_ns", "waited"),
}
"""Numbers count what the kernel let through; and the two are not asked at the same time."""


@pytest.fixture
def pair(namespace: Namespace) -> Namespace:
    """With the interfaces `one` and `other`, each of which gets what the other one sends."""
    namespace.add_pair()
    return namespace


class Listening:
    """The command on `other`, in a process that begins with some lines of its own."""

    def __init__(self, namespace: Namespace, before: str, *argv: str) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the block
        words = [sys.executable, "-c", before + COMMAND, "live", "-i", "other", *argv]
        self._process = subprocess.Popen(
            namespace.command(*words), stdout=self._output, stderr=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._output.close()

    def end(self) -> tuple[list[str], str]:
        """Its rows, in an order of our own, and what it told."""
        self._process.send_signal(signal.SIGINT)
        told = self._process.communicate(timeout=LONG_S)[1].decode()
        assert self._process.returncode == 0, told
        self._output.seek(0)
        return comparable(self._output.readlines()), told


def wait_for_sockets(namespace: Namespace, count: int) -> None:
    """Wait until so many packet sockets are bound to an interface, and ask for packets."""
    until_s = time.monotonic() + LONG_S
    while True:
        lines = run(*namespace.command("cat", "/proc/net/packet")).splitlines()[1:]
        # sk RefCnt Type Proto Iface R Rmem User Inode
        bound = [line for line in lines if int(line.split()[3], 16) and int(line.split()[4])]
        if len(bound) == count:
            return
        assert time.monotonic() < until_s
        time.sleep(0.02)


def run(*words: str, data: bytes | None = None) -> bytes:
    return subprocess.run(words, input=data, check=True, capture_output=True, timeout=LONG_S).stdout


def comparable(lines: Iterable[bytes]) -> list[str]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return sorted(
        repr([pair for pair in row.items() if pair[0] not in {"capture", *NOT_COMPARED}])
        for row in rows
    )


def send(namespace: Namespace, packets: Iterable[bytes]) -> None:
    with namespace.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind(("one", 0))
        for packet in packets:
            sender.send(packet)
            time.sleep(1 / PACKETS_PER_S)


@pytest.mark.parametrize(
    "argv",
    [
        ["--port", "9103"],
        ["--filter", "port 9092 or 9113 and not less 60", "--host", "127.0.0.0/8"],
    ],
)
def test_the_process_takes_what_the_kernel_takes(pair: Namespace, argv: list[str]) -> None:
    packets = [packet.data for packet in packets_of("cluster") if len(packet.data) <= 1514]
    options = ["--format", "rows", *argv]
    with (
        Listening(pair, "", *options) as by_kernel,
        Listening(pair, WITHOUT_LIBPCAP, *options) as by_process,
        Listening(pair, WITHOUT_SCAPY, *options) as without_scapy,
    ):
        wait_for_sockets(pair, 3)
        send(pair, packets)
        rows, told = by_kernel.end()
        assert told == ""
        assert len(rows) > 5
        assert by_process.end() == (rows, NO_LIBPCAP)
        assert without_scapy.end() == (rows, NO_SCAPY)


def test_without_a_filter_nothing_is_said_of_libpcap(pair: Namespace) -> None:
    with Listening(pair, WITHOUT_LIBPCAP, "--format", "rows") as listening:
        wait_for_sockets(pair, 1)
        assert listening.end() == ([], "")


@pytest.mark.parametrize("before", ["", WITHOUT_LIBPCAP])
@pytest.mark.parametrize("text", ["porte 22", "tcp) or (udp"])
def test_a_wrong_filter_is_told_in_one_line_either_way(
    pair: Namespace, before: str, text: str
) -> None:
    words = [sys.executable, "-c", before + COMMAND, "live", "-i", "other", "--filter", text]
    done = subprocess.run(
        pair.command(*words, "--port", "9092"),
        capture_output=True,
        timeout=LONG_S,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"kanalyze: filter {text!r}: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("cluster", "tcp port 9103"),
        ("cluster", "not dst port 9103 and (greater 70 or src port 9092)"),
        ("any", "src or dst net 127.0 and tcp portrange 9092-9094 and not 59160-59180"),
        ("ipv6", "ip6 host ::1 and not port 44132"),
    ],
)
def test_a_pipe_is_filtered_as_tcpdump_filters(
    namespace: Namespace, name: str, expression: str
) -> None:
    whole = path(name).read_bytes()
    filtering = ["tcpdump", "-r", str(path(name)), "-Z", "root", "-w", "-", expression]
    filtered = run(*namespace.command(*filtering))
    expected = run(*KANALYZE, "requests", "--format", "jsonl", "-", data=filtered)
    found = run(*KANALYZE, "live", "-", "--format", "rows", "--filter", expression, data=whole)
    assert comparable(found.splitlines()) == comparable(expected.splitlines())
    assert len(found.splitlines()) > 5
    assert len(filtered) < 0.95 * len(whole)
