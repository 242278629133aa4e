"""``kanalyze live -`` with ``--port``, ``--host`` and ``--filter``: kanalyze filters a pipe."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from kanalyze.capture.live.kernel_filter import load_libpcap
from kanalyze.cli.main import main
from kanalyze.render.missing import unnamed_topics_text
from tests.support import libpcap
from tests.support.captures import path
from tests.support.disorder import TRANSFORMATIONS, packets_of
from tests.support.listening import COMMAND, WITHOUT_LIBPCAP
from tests.support.packets import Packet, make_batch, pcap_file
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.piped import Done

PACKET_COLUMNS = ("request_packet", "response_packet")


def rows_in(
    done: Done | subprocess.CompletedProcess[bytes], *, unnamed_topics: int = 0
) -> list[dict[str, Any]]:
    says = unnamed_topics_text(unnamed_topics, 0)
    assert (done.returncode, done.stderr.decode()) == (0, f"kanalyze: {says}\n" if says else "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        del row["capture"]
    return sorted(rows, key=repr)


def captured(name: str) -> list[Packet]:
    return [
        Packet(packet.data, packet.time_ns, packet.wire_bytes, packet.link_type)
        for packet in packets_of(name)
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "argv", "expression"),
    [
        ("cluster", ["--port", "9103"], "tcp port 9103"),
        ("cluster", ["--port", "9103", "--port", "9092"], "tcp and port 9103 or 9092"),
        ("cluster", ["--filter", "port 9092 or 9113"], "port 9092 or 9113"),
        ("cluster", ["--filter", "less 9000", "--port", "9103"], "less 9000 and port 9103"),
        ("any", ["--host", "127.0.0.0/8"], "tcp and net 127.0.0.0/8"),
        ("ipv6", ["--host", "::1"], "tcp and host ::1"),
        ("ipv6", ["--filter", "not src portrange 44140-44170"], "not src portrange 44140-44170"),
    ],
)
def test_rows_are_those_of_a_filtered_capture(name, argv, expression, run, tmp_path: Path):
    packets = captured(name)
    is_selected = libpcap.taken(expression, make_batch(packets))
    numbers = [number for number, selected in enumerate(is_selected, 1) if selected]
    filtered = tmp_path / "filtered.pcap"
    kept = [packets[number - 1] for number in numbers]
    filtered.write_bytes(pcap_file(kept, link_type=kept[0].link_type))
    ports = [word for at in range(len(argv)) if argv[at] == "--port" for word in argv[at : at + 2]]
    # The one broker that is selected did not say the name of a topic that has an id in its rows.
    unnamed = int(name == "cluster" and "9092" not in expression)
    done = run("requests", "--format", "jsonl", *ports, str(filtered))
    expected = rows_in(done, unnamed_topics=unnamed)
    # Rows of live have the packet numbers of the whole capture.
    for row in expected:
        row.update(
            {
                column: numbers[row[column] - 1]
                for column in PACKET_COLUMNS
                if row[column] is not None
            }
        )
    report = tmp_path / "report.json"
    words = ["live", "-", "--format", "rows", "--json", str(report), *argv]
    rows = rows_in(run(*words, data=path(name).read_bytes()))
    assert rows == sorted(expected, key=repr)
    assert len(rows) > 5
    assert json.loads(report.read_bytes())["capture"]["packets"] == len(numbers)


# -- without libpcap ------------------------------------------------------------------------------


@pytest.fixture
def without_libpcap(monkeypatch) -> Iterator[None]:
    def refuse(name: str) -> None:
        raise OSError(name)

    load_libpcap.cache_clear()
    monkeypatch.setattr("ctypes.CDLL", refuse)
    yield
    load_libpcap.cache_clear()


@pytest.mark.usefixtures("without_libpcap")
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-", "--filter", "tcp"], "a filter needs libpcap, which is not installed"),
        (["-i", "lo", "--filter", "tcp"], "a filter needs libpcap, which is not installed"),
        (["-i", "no-such-one", "--port", "1"], "no-such-one: no such interface"),
    ],
)
def test_a_missing_libpcap_or_interface_is_reported_in_one_line(argv, message, capsys):
    assert main(["live", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"kanalyze: {message}")
    assert err.count("\n") == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("label", ["VLAN", "VXLAN"])
def test_ports_and_hosts_match_inside_of_encapsulations(label, run):
    """For a pipe, `--port` and `--host` do not need libpcap."""
    altered = TRANSFORMATIONS[label].alter(packets_of("cluster"), random.Random(label))
    packets = [
        Packet(packet.data, packet.time_ns, packet.wire_bytes, packet.link_type)
        for packet in altered
    ]
    words = ["live", "-", "--format", "rows", "--port", "9103", "--host", "127.0.0.1"]
    command = [sys.executable, "-c", WITHOUT_LIBPCAP + COMMAND, *words]
    rows = rows_in(
        subprocess.run(
            command, input=pcap_file(packets), capture_output=True, timeout=LONG_S, check=False
        )
    )
    assert rows == rows_in(run(*words, data=path("cluster").read_bytes()))
    assert len(rows) > 5


# -- requests -------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("basics", ("--client-id", "*-consumer*", "--slower-than", "1ms", "--api", "Fetch")),
        ("basics", ("--client-ip", "127.0.0.0/8", "--topic", "b*", "--group", "*")),
        ("errors", ("--errors", "--broker", "127.0.0.1")),
    ],
)
def test_request_filters_select_the_same_rows_as_in_other_commands(name, argv, run, tmp_path: Path):
    expected = rows_in(run("requests", "--format", "jsonl", *argv, str(path(name))))
    report, rows = tmp_path / "report.json", tmp_path / "rows"
    words = ["live", "-", "--format", "rows", "--json", str(report), "--write", str(rows), *argv]
    printed = rows_in(run(*words, data=path(name).read_bytes()))
    assert printed == expected != []
    expected_report = json.loads(run("report", "--json", "-", *argv, str(path(name))).stdout)
    live_report = json.loads(report.read_bytes())
    for part in ("totals", "filter", "apis", "clients"):
        assert live_report[part] == expected_report[part]
    written = sum(pq.read_metadata(file).num_rows for file in rows.glob("*.parquet"))
    assert written == len(expected)


def test_rates_count_only_requests_that_match_the_filter(run):
    data = path("basics").read_bytes()
    done = run("live", "-", "--format", "jsonl", "--api", "Metadata", data=data)
    last = json.loads(done.stdout.splitlines()[-1])
    assert {api["api_name"] for api in last["apis"]} == {"Metadata"}
