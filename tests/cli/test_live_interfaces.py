"""``kanalyze live -i``: packets of a capture, sent again on a virtual interface; its filters.

Without root, ip or tcpdump these tests are not selected (see tests/conftest.py, which says so).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import dpkt
import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import often, path
from tests.support.disorder.transformation import WAY
from tests.support.listening import COMMAND, WITHOUT_LIBPCAP, Listening
from tests.support.netns import run
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.support.netns import Namespace


KANALYZE = [sys.executable, "-c", COMMAND]

TIMES = {
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns"),
    *("latency_ns", "total_time_ns"),
    "waited",  # follows from times
    "request_send_ns",
    "response_send_ns",
    *WAY,
}


@pytest.fixture
def pair(namespace: Namespace) -> Namespace:
    """A namespace with a pair of interfaces, `one` and `other`, that are connected."""
    namespace.add_pair()
    return namespace


def last_rows_of(listening: Listening) -> list[dict[str, Any]]:
    """End the command; return its lines. Its standard error must be empty."""
    lines, err = listening.end()
    assert err == ""
    return [json.loads(line) for line in lines]


def packets_of(name: str) -> list[bytes]:
    with path(name).open("rb") as file:
        return [data for _, data in dpkt.pcap.UniversalReader(file)]


def without(columns: set[str], rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return rows, sorted, without some columns."""
    return sorted(
        repr([(name, value) for name, value in row.items() if name not in columns]) for row in rows
    )


def timeless(rows: Iterable[dict[str, Any]]) -> list[str]:
    return without({"capture", *TIMES}, rows)


@cache
def rows_of(name: str, *options: str) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        rows = Path(folder, "rows.jsonl")
        assert main(["requests", "-o", str(rows), *options, str(path(name))]) == 0
        return [json.loads(line) for line in rows.read_bytes().splitlines()]


@pytest.mark.parametrize("name", often(["basics", "errors"], ["errors"]))
def test_rows_are_those_of_the_file_except_for_times(
    pair: Namespace, name: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    with Listening(pair, "--format", "rows", "--json", str(report)) as listening:
        packets = packets_of(name)
        pair.send(packets)
        listening.wait_for(len(packets))
        rows = last_rows_of(listening)
    assert timeless(rows) == timeless(rows_of(name))
    assert {row["capture"] for row in rows} == {"live:other"}
    capture = json.loads(report.read_bytes())["capture"]
    expected = kanalyze.report(path(name))["capture"]
    for field in ("packets", "captured_bytes", "wire_bytes"):
        assert capture[field] == expected[field]
    assert capture["dropped_packets"] == 0


def test_lines_count_packets_and_dropped_packets(pair: Namespace) -> None:
    packets = packets_of("basics")
    with Listening(pair, "--interval", "0.1") as listening:
        pair.send(packets)
        listening.wait_for(len(packets))
        lines = last_rows_of(listening)
    last = lines[-1]["capture"]
    assert (last["source"], last["packets"], last["dropped_packets"]) == (
        "live:other",
        len(packets),
        0,
    )
    assert lines[-1]["rows"] == len(rows_of("basics"))
    times = [line["time_ns"] for line in lines]
    assert times == sorted(times)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("options", "port"), [(["--port", "9092"], 9092), (["--filter", "tcp port 9093"], 9093)]
)
def test_packets_are_filtered(pair: Namespace, options: Sequence[str], port: int) -> None:
    """Each packet comes twice: first to one port, then to another."""
    packets = [packet for packet in packets_of("groups") if b"\x23\x84" in packet[34:38]]
    others = [
        packet[:34] + packet[34:38].replace(b"\x23\x84", b"\x23\x85") + packet[38:]
        for packet in packets
    ]
    with Listening(pair, "--format", "rows", *options) as listening:
        pair.send(packet for both in zip(packets, others, strict=True) for packet in both)
        listening.wait_for(len(packets))
        rows = last_rows_of(listening)
    assert {row["broker_port"] for row in rows} == {port}
    assert len(rows) == len(rows_of("groups", "--port", "9092"))


@pytest.mark.long
def test_capturing_continues_after_an_interface_was_down(pair: Namespace) -> None:
    packets = packets_of("groups")
    half = len(packets) // 2
    with Listening(pair, "--format", "rows") as listening:
        pair.send(packets[:half])
        listening.wait_for(half)
        pair.ip("link", "set", "other", "down")
        time.sleep(0.5)  # the run may try to read in this time
        pair.set_up("other")
        pair.send(packets[half:])
        listening.wait_for(len(packets))
        rows = last_rows_of(listening)
    assert timeless(rows) == timeless(rows_of("groups"))


@pytest.mark.long
def test_capturing_continues_on_a_new_interface_of_the_same_name(pair: Namespace) -> None:
    packets = packets_of("groups")
    half = len(packets) // 2
    with Listening(pair, "--format", "rows") as listening:
        pair.send(packets[:half])
        listening.wait_for(half)
        pair.ip("link", "del", "one")
        assert pair.count_listeners() == 0
        pair.add_pair()
        # A removed interface is checked each second.
        wait_until(lambda: pair.count_listeners() == 1)
        pair.send(packets[half:])
        listening.wait_for(len(packets))
        rows = last_rows_of(listening)
    assert timeless(rows) == timeless(rows_of("groups"))


def test_a_missing_right_to_capture_is_reported_in_one_line(
    pair: Namespace, ordinary_user: Callable[[], list[str]], tmp_path: Path
) -> None:
    argv = [*KANALYZE, "live", "-i", "other", "--write", str(tmp_path / "rows")]
    done = subprocess.run(
        pair.command(*ordinary_user(), *argv),
        capture_output=True,
        timeout=LONG_S,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("kanalyze: other: no right to capture: run as root, or let ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_interfaces_are_listed(pair: Namespace) -> None:
    pair.ip("link", "set", "one", "down")
    words = pair.command(*KANALYZE, "live", "--list")
    lines = run(*words).splitlines()
    names = {line.split()[0]: line.split()[1] for line in lines}
    assert names == {"lo": "up", "one": "down", "other": "up", "any": "up"}


COPIED_MESSAGE = "kanalyze: libpcap is not installed: kanalyze filters packets, not the kernel\n"
NOT_COMPARED = {"capture", "request_packet", "response_packet", *TIMES}
"""Columns that differ: names of captures, packet numbers (after the filter), and times."""


def comparable(lines: Iterable[bytes]) -> list[str]:
    return without(NOT_COMPARED, map(json.loads, lines))


def output_of(*words: str, data: bytes | None = None) -> bytes:
    return subprocess.run(words, input=data, check=True, capture_output=True, timeout=LONG_S).stdout


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("argv", "count"),
    [
        (["--port", "9103"], 1369),
        (["--port", "9092", "--port", "9113", "--host", "127.0.0.0/8"], 199),
    ],
)
def test_the_process_selects_the_packets_that_the_kernel_selects(
    pair: Namespace, argv: list[str], count: int
) -> None:
    packets = [packet for packet in packets_of("cluster") if len(packet) <= 1514]
    options = ["--format", "rows", *argv]
    with (
        Listening(pair, *options) as by_kernel,
        Listening(pair, *options, before=WITHOUT_LIBPCAP) as by_process,
    ):
        pair.send(packets)
        rows, err = rows_after(by_kernel, count)
        assert err == ""
        assert len(rows) > 5
        assert rows_after(by_process, count) == (rows, COPIED_MESSAGE)


def rows_after(listening: Listening, count: int) -> tuple[list[str], str]:
    """Wait for a number of packets; return the rows, sorted, and the standard error."""
    listening.wait_for(count)
    lines, err = listening.end()
    return comparable(lines), err


def test_without_a_filter_there_is_no_message_about_libpcap(pair: Namespace) -> None:
    with Listening(pair, "--format", "rows", before=WITHOUT_LIBPCAP) as listening:
        assert listening.end() == ([], "")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("cluster", "tcp port 9103"),
        ("cluster", "not dst port 9103 and (greater 70 or src port 9092)"),
        ("any", "src or dst net 127.0 and tcp portrange 9092-9094 and not 59160-59180"),
        ("ipv6", "ip6 host ::1 and not port 44132"),
    ],
)
def test_a_pipe_is_filtered_as_by_tcpdump(namespace: Namespace, name: str, expression: str) -> None:
    whole = path(name).read_bytes()
    filtering = ["tcpdump", "-r", str(path(name)), "-Z", "root", "-w", "-", expression]
    filtered = output_of(*namespace.command(*filtering))
    expected = output_of(*KANALYZE, "requests", "--format", "jsonl", "-", data=filtered)
    live = ("live", "-", "--format", "rows", "--filter", expression)
    output = output_of(*KANALYZE, *live, data=whole)
    assert comparable(output.splitlines()) == comparable(expected.splitlines())
    assert len(output.splitlines()) > 5
    assert len(filtered) < 0.95 * len(whole)
