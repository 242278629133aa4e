"""``kanalyze live -i``: a capture's packets, sent again on an interface of our own.

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
from typing import TYPE_CHECKING, Any

import dpkt
import pytest

import kanalyze
from tests.support.captures import path
from tests.support.netns import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.support.netns import Namespace

KANALYZE = [sys.executable, "-c", "from kanalyze.cli.main import run; run()"]
LONG_S = 30.0
PACKETS_PER_S = 5_000
"""Sent so fast: each is with the kernel before the next one, and none is lost anywhere."""

TIMES = {
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns"),
    *("latency_ns", "total_time_ns"),
    "waited",  # is told by them
}


@pytest.fixture
def pair(namespace: Namespace) -> Namespace:
    """With the interfaces `one` and `other`, each of which gets what the other one sends."""
    namespace.add_pair()
    return namespace


class Listening:
    """The command, from the moment on when it listens on `other`."""

    def __init__(self, namespace: Namespace, *argv: str) -> None:
        self._namespace = namespace
        # A pipe would fill, and the command would wait until somebody reads.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the block
        self._process = subprocess.Popen(
            namespace.command(*KANALYZE, "live", "-i", "other", *argv),
            stdout=self._output,
            stderr=subprocess.PIPE,
        )
        until_s = time.monotonic() + LONG_S
        while not self._listens():
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < until_s
            time.sleep(0.02)

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._output.close()

    def end(self, number: signal.Signals | None = signal.SIGINT) -> list[dict[str, Any]]:
        """Tell it to end, unless it does by itself; what it wrote."""
        if number is not None:
            self._process.send_signal(number)
        err = self._process.communicate(timeout=LONG_S)[1]
        assert (self._process.returncode, err) == (0, b"")
        self._output.seek(0)
        return [json.loads(line) for line in self._output]

    def _listens(self) -> bool:
        """Whether there is a packet socket that is bound to an interface, and asks for packets."""
        words = self._namespace.command("cat", "/proc/net/packet")
        lines = subprocess.run(
            words, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        # sk RefCnt Type Proto Iface R Rmem User Inode
        return any(int(line.split()[3], 16) and int(line.split()[4]) for line in lines[1:])


def packets_of(name: str) -> list[bytes]:
    with path(name).open("rb") as file:
        return [data for _, data in dpkt.pcap.UniversalReader(file)]


def send(namespace: Namespace, packets: Iterable[bytes]) -> None:
    with namespace.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind(("one", 0))
        for packet in packets:
            sender.send(packet)
            time.sleep(1 / PACKETS_PER_S)


def timeless(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Rows in an order of our own, without times, and names of captures."""
    return sorted(
        repr([(name, value) for name, value in row.items() if name not in {"capture", *TIMES}])
        for row in rows
    )


def rows_of(name: str, *options: str) -> list[dict[str, Any]]:
    words = [*KANALYZE, "requests", "--format", "jsonl", *options, str(path(name))]
    done = subprocess.run(words, check=True, capture_output=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", ["basics", "errors"])
def test_rows_are_those_of_the_file_but_for_times(
    pair: Namespace, name: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    with Listening(pair, "--format", "rows", "--json", str(report)) as listening:
        send(pair, packets_of(name))
        rows = listening.end()
    assert timeless(rows) == timeless(rows_of(name))
    assert {row["capture"] for row in rows} == {"live:other"}
    told = json.loads(report.read_bytes())["capture"]
    expected = kanalyze.report(path(name))["capture"]
    for field in ("packets", "captured_bytes", "wire_bytes"):
        assert told[field] == expected[field]
    assert told["dropped_packets"] == 0


def test_it_ends_by_itself_and_says_that_nothing_was_dropped(pair: Namespace) -> None:
    packets = packets_of("basics")
    with Listening(pair, "--interval", "0.3", "--duration", "2") as listening:
        send(pair, packets)
        lines = listening.end(None)
    assert len(lines) >= 4
    last = lines[-1]["capture"]
    assert (last["source"], last["packets"], last["dropped_packets"]) == (
        "live:other",
        len(packets),
        0,
    )
    assert lines[-1]["rows"] == len(rows_of("basics"))


@pytest.mark.parametrize(
    ("options", "port"), [(["--port", "9092"], 9092), (["--filter", "tcp port 9093"], 9093)]
)
def test_packets_are_filtered(pair: Namespace, options: Sequence[str], port: int) -> None:
    """The same packets come once to this port, once to that one."""
    packets = [packet for packet in packets_of("groups") if b"\x23\x84" in packet[34:38]]
    others = [
        packet[:34] + packet[34:38].replace(b"\x23\x84", b"\x23\x85") + packet[38:]
        for packet in packets
    ]
    with Listening(pair, "--format", "rows", *options) as listening:
        send(pair, (packet for both in zip(packets, others, strict=True) for packet in both))
        rows = listening.end()
    assert {row["broker_port"] for row in rows} == {port}
    assert len(rows) == len(rows_of("groups", "--port", "9092"))


def test_an_interface_goes_down_and_comes_back(pair: Namespace) -> None:
    packets = packets_of("groups")
    half = len(packets) // 2
    with Listening(pair, "--format", "rows") as listening:
        send(pair, packets[:half])
        time.sleep(0.3)
        pair.ip("link", "set", "other", "down")
        time.sleep(0.5)
        pair.ip("link", "set", "other", "up")
        send(pair, packets[half:])
        rows = listening.end()
    assert timeless(rows) == timeless(rows_of("groups"))


@pytest.mark.long
def test_an_interface_is_removed_and_there_is_another_of_its_name(pair: Namespace) -> None:
    packets = packets_of("groups")
    half = len(packets) // 2
    with Listening(pair, "--format", "rows") as listening:
        send(pair, packets[:half])
        time.sleep(0.3)
        pair.ip("link", "del", "one")
        time.sleep(0.5)
        pair.add_pair()
        # It is looked for each second.
        time.sleep(1.5)
        send(pair, packets[half:])
        rows = listening.end()
    assert timeless(rows) == timeless(rows_of("groups"))


def test_no_right_to_capture_is_told_in_one_line(pair: Namespace, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    argv = [*KANALYZE, "live", "-i", "other", "--write", str(tmp_path / "rows")]
    done = subprocess.run(
        pair.command(*words, *argv), capture_output=True, timeout=LONG_S, check=False, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("kanalyze: other: no right to capture: run as root, or let ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_filter_that_makes_no_sense_is_told_in_one_line(pair: Namespace) -> None:
    argv = [*KANALYZE, "live", "-i", "other", "--filter", "porte 22"]
    done = subprocess.run(
        pair.command(*argv), capture_output=True, timeout=LONG_S, check=False, text=True
    )
    assert done.returncode == 2
    assert "porte 22" in done.stderr
    assert done.stderr.count("\n") == 1


def test_interfaces_are_listed(pair: Namespace) -> None:
    pair.ip("link", "set", "one", "down")
    words = pair.command(*KANALYZE, "live", "--list")
    lines = run(*words).splitlines()
    names = {line.split()[0]: line.split()[1] for line in lines}
    assert names == {"lo": "up", "one": "down", "other": "up", "any": "up"}
