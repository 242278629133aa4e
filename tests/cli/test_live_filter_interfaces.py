"""Filters of ``kanalyze live``, compared with tcpdump and with the kernel.

Without root, ip or tcpdump these tests are not selected (see tests/conftest.py, which says so).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.captures import path
from tests.support.disorder import packets_of
from tests.support.disorder.transformation import WAY
from tests.support.listening import COMMAND, WITHOUT_LIBPCAP, Listening
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.netns import Namespace

KANALYZE = [sys.executable, "-c", COMMAND]
COPIED_MESSAGE = "kanalyze: libpcap is not installed: kanalyze filters packets, not the kernel\n"
NOT_COMPARED = {
    *("capture", "request_packet", "response_packet", "request_start_ns", "request_end_ns"),
    *("response_start_ns", "response_end_ns", "latency_ns", "total_time_ns", "waited"),
    *("request_send_ns", "response_send_ns", *WAY),
}
"""Columns that differ: names of captures, packet numbers (after the filter), and times."""


@pytest.fixture
def pair(namespace: Namespace) -> Namespace:
    """A namespace with a pair of interfaces, `one` and `other`, that are connected."""
    namespace.add_pair()
    return namespace


def run(*words: str, data: bytes | None = None) -> bytes:
    return subprocess.run(words, input=data, check=True, capture_output=True, timeout=LONG_S).stdout


def comparable(lines: Iterable[bytes]) -> list[str]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return sorted(
        repr([(name, value) for name, value in row.items() if name not in NOT_COMPARED])
        for row in rows
    )


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
    packets = [packet.data for packet in packets_of("cluster") if len(packet.data) <= 1514]
    options = ["--format", "rows", *argv]
    with (
        Listening(pair, *options) as by_kernel,
        Listening(pair, *options, before=WITHOUT_LIBPCAP) as by_process,
    ):
        pair.send(packets)
        rows, err = rows_of(by_kernel, count)
        assert err == ""
        assert len(rows) > 5
        assert rows_of(by_process, count) == (rows, COPIED_MESSAGE)


def rows_of(listening: Listening, count: int) -> tuple[list[str], str]:
    """Wait for a number of packets; return the rows, sorted, and the standard error."""
    listening.wait_for(count)
    lines, err = listening.end()
    return comparable(lines), err


def test_without_a_filter_there_is_no_message_about_libpcap(pair: Namespace) -> None:
    with Listening(pair, "--format", "rows", before=WITHOUT_LIBPCAP) as listening:
        assert listening.end() == ([], "")


@pytest.mark.parametrize("text", ["porte 22", "tcp) or (udp"])
def test_an_invalid_filter_is_reported_in_one_line(pair: Namespace, text: str) -> None:
    words = [sys.executable, "-c", COMMAND, "live", "-i", "other", "--filter", text]
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
    filtered = run(*namespace.command(*filtering))
    expected = run(*KANALYZE, "requests", "--format", "jsonl", "-", data=filtered)
    output = run(*KANALYZE, "live", "-", "--format", "rows", "--filter", expression, data=whole)
    assert comparable(output.splitlines()) == comparable(expected.splitlines())
    assert len(output.splitlines()) > 5
    assert len(filtered) < 0.95 * len(whole)
