"""``kanalyze live -`` with ``--port``, ``--host`` and ``--filter``: kanalyze filters a pipe."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from kanalyze.capture.live.libpcap import load_libpcap
from kanalyze.cli.main import main
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

PLACES = ("request_packet", "response_packet")


def rows_in(done: Done | subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    assert (done.returncode, done.stderr) == (0, b"")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        del row["capture"]
    return sorted(rows, key=repr)


def captured(name: str) -> list[Packet]:
    return [
        Packet(one.data, one.time_ns, one.wire_bytes, one.link_type) for one in packets_of(name)
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
def test_rows_are_those_of_a_capture_that_was_filtered(name, argv, expression, run, tmp_path: Path):
    packets = captured(name)
    is_taken = libpcap.taken(expression, make_batch(packets))
    numbers = [number for number, taken in enumerate(is_taken, 1) if taken]
    filtered = tmp_path / "filtered.pcap"
    kept = [packets[number - 1] for number in numbers]
    filtered.write_bytes(pcap_file(kept, link_type=kept[0].link_type))
    ports = [word for at in range(len(argv)) if argv[at] == "--port" for word in argv[at : at + 2]]
    expected = rows_in(run("requests", "--format", "jsonl", *ports, str(filtered)))
    # Packets keep their numbers of the whole capture.
    for row in expected:
        row.update({place: numbers[row[place] - 1] for place in PLACES if row[place] is not None})
    report = tmp_path / "report.json"
    words = ["live", "-", "--format", "rows", "--json", str(report), *argv]
    found = rows_in(run(*words, data=path(name).read_bytes()))
    assert found == sorted(expected, key=repr)
    assert len(found) > 5
    assert json.loads(report.read_bytes())["capture"]["packets"] == len(numbers)


def test_where_nothing_matches_it_comes_to_its_end(run):
    data = path("basics").read_bytes()
    done = run("live", "-", "--format", "rows", "--port", "1", data=data)
    assert rows_in(done) == []


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--filter", "porte 22"], "filter 'porte 22': "),
        (["--filter", "tcp) or (udp", "--port", "1"], "filter 'tcp) or (udp': "),
        (["--filter", "port 1\n22"], "filter 'port 1\\n22': "),
        (["--host", "broker"], "not an address or a network: 'broker'"),
    ],
)
def test_an_invalid_filter_is_reported_in_one_line(argv, told, capsys, tmp_path):
    assert main(["live", "-", *argv, "--write", str(tmp_path / "rows")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kanalyze: ")
    assert told in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


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
    ("argv", "told"),
    [
        (["-", "--filter", "tcp"], "a filter needs libpcap, which is not installed"),
        (["-i", "lo", "--filter", "tcp"], "a filter needs libpcap, which is not installed"),
        (["-i", "no-such-one", "--port", "1"], "no-such-one: no such interface"),
    ],
)
def test_one_line_says_what_is_missing(argv, told, capsys):
    assert main(["live", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"kanalyze: {told}")
    assert err.count("\n") == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("label", ["VLAN", "VXLAN"])
def test_ports_and_hosts_are_seen_through_what_is_around_them(label, run):
    """Also without libpcap, which `--port` and `--host` do not need for a pipe."""
    altered = TRANSFORMATIONS[label].alter(packets_of("cluster"), random.Random(label))
    packets = [Packet(one.data, one.time_ns, one.wire_bytes, one.link_type) for one in altered]
    words = ["live", "-", "--format", "rows", "--port", "9103", "--host", "127.0.0.1"]
    command = [sys.executable, "-c", WITHOUT_LIBPCAP + COMMAND, *words]
    found = rows_in(
        subprocess.run(
            command, input=pcap_file(packets), capture_output=True, timeout=LONG_S, check=False
        )
    )
    assert found == rows_in(run(*words, data=path("cluster").read_bytes()))
    assert len(found) > 5


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
def test_requests_are_filtered_as_by_every_command(name, argv, run, tmp_path: Path):
    expected = rows_in(run("requests", "--format", "jsonl", *argv, str(path(name))))
    report, rows = tmp_path / "report.json", tmp_path / "rows"
    words = ["live", "-", "--format", "rows", "--json", str(report), "--write", str(rows), *argv]
    found = rows_in(run(*words, data=path(name).read_bytes()))
    assert found == expected != []
    wanted = json.loads(run("report", "--json", "-", *argv, str(path(name))).stdout)
    made = json.loads(report.read_bytes())
    for part in ("totals", "filter", "apis", "clients"):
        assert made[part] == wanted[part]
    written = sum(pq.read_metadata(file).num_rows for file in rows.glob("*.parquet"))
    assert written == len(expected)


def test_the_lines_of_rates_are_of_what_was_filtered(run):
    data = path("basics").read_bytes()
    done = run("live", "-", "--format", "jsonl", "--api", "Metadata", data=data)
    last = json.loads(done.stdout.splitlines()[-1])
    assert {api["api_name"] for api in last["apis"]} == {"Metadata"}


def test_an_unknown_api_is_reported_before_reading(capsys):
    assert main(["live", "-", "--api", "Fetsch"]) == 2
    assert "unknown API: 'Fetsch'; did you mean Fetch" in capsys.readouterr().err
