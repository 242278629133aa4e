"""Packets without a time, in pcapng's Simple Packet Blocks: null, and not 1970."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kanalyze
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.capture.reader import open_capture
from kanalyze.cli.main import main
from kanalyze.model.packets import NO_TIME
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.spec.rows.requests import COLUMNS
from tests.support.captures import often, path
from tests.support.packets import (
    START_NS,
    Blocks,
    Packet,
    packets_in,
    pcap_file,
    segment,
)

ROOT = Path(__file__).parent.parent
NOT_ABOUT_TIME = [
    *("connection", "connection_number", "client_software_name", "principal", "wire", "api_key"),
    *("api_version", "correlation_id", "client_id", "request_bytes", "response_bytes"),
    *("request_packet", "response_packet", "status", "error_code", "errors", "partitions"),
    *("record_count", "record_bytes", "group_id", "member_id", "transactional_id", "anomalies"),
]
CAPTURES = ["mock", "errors", "groups", "transactions", "waits", "loopback", "sasl", "codecs"]


def packets_of(file) -> list[Packet]:
    with open_capture(file) as reader:
        return packets_in(reader)


def without_times(packets, timed=lambda _: False) -> bytes:
    """A pcapng file; ``timed`` tells by index which packets have a time."""
    blocks = Blocks()
    parts = [
        blocks.section(),
        blocks.interface(packets[0].link_type, options=blocks.option(9, b"\x09")),
    ]
    for index, packet in enumerate(packets):
        has_time = timed(index)
        parts.append(blocks.enhanced(packet, packet.time_ns) if has_time else blocks.simple(packet))
    return b"".join(parts)


@pytest.fixture
def untimed(tmp_path):
    """Return a function that writes a capture without times, and returns its path."""

    def write(name: str, timed=lambda _: False) -> str:
        file = tmp_path / f"{name}.pcapng"
        file.write_bytes(without_times(packets_of(path(name)), timed))
        return str(file)

    return write


def times_of(row, columns):
    return {
        column.name: getattr(row, column.name)
        for column in columns
        if column.is_time or column.unit == "ns"
    }


def test_the_constant_of_c_is_that_of_python():
    text = (ROOT / "kanalyze" / "model" / "streams.pxd").read_text()
    assert re.findall(r"NO_TIME = (-?\d+)", text) == [str(NO_TIME)]


@pytest.mark.parametrize("name", often(CAPTURES, ["mock", "errors", "groups"]))
def test_rows_are_those_of_the_capture_without_any_time(name, untimed):
    timed_rows, rows = list(kanalyze.requests(path(name))), list(kanalyze.requests(untimed(name)))
    assert len(rows) == len(timed_rows) > 0
    for timed_row, row in zip(timed_rows, rows, strict=True):
        for column in NOT_ABOUT_TIME:
            assert getattr(row, column) == getattr(timed_row, column), column
        times = times_of(row, COLUMNS)
        # Without any time it is known too that what never waits did not.
        assert times.pop("waited_ns") == (0 if row.waited is False else None)
        assert row.waited in (None, False) or timed_row.waited
        assert set(times.values()) == {None}
    [*connections] = kanalyze.connections(untimed(name))
    assert len(connections) == len(list(kanalyze.connections(path(name))))
    for connection in connections:
        given = times_of(connection, CONNECTION_COLUMNS)
        assert {key: value for key, value in given.items() if value is not None} == {}
    assert {row.time_ns for row in kanalyze.anomalies(untimed(name))} <= {None}


def test_a_report_says_it_and_has_null_in_place_of_figures(untimed):
    report = kanalyze.report(untimed("errors"))
    timed = kanalyze.report(path("errors"))
    assert report["capture"]["packets"] == timed["capture"]["packets"]
    assert report["quality"]["untimed_packets"] == report["capture"]["packets"]
    assert timed["quality"]["untimed_packets"] == 0
    for name in ("first_time_ns", "first_time", "last_time_ns", "last_time", "duration_ns"):
        assert report["capture"][name] is None
    for name in ("rows", "requests", "responses", "ok", "error", "request_bytes"):
        assert report["totals"][name] == timed["totals"][name]
    assert "1970" not in json.dumps(report)
    assert [line["latency"]["p50_ns"] for line in report["apis"] if line.get("latency")] in (
        [],
        [None] * len(report["apis"]),
    )


@pytest.mark.parametrize(
    "command",
    [
        *("report", "report --format md", "report --format json", "report --html {}/a.html"),
        *("requests", "requests --format csv", "connections", "anomalies", "records", "decode"),
        *("save -o {}/a.duckdb", "requests -o {}/a.parquet", "compare --format json {file}"),
        *("report --format html -o {}/b.html", "sql"),
    ],
)
def test_no_command_shows_1970(command, untimed, tmp_path, capsys):
    file = untimed("mock")
    words = command.format(tmp_path, file=file).split()
    query = ["SELECT * FROM requests"] if command == "sql" else []
    assert main([*words, file, *query]) == 0
    captured = capsys.readouterr()
    assert "1970-" not in captured.out
    assert "23:59:59.999999" not in captured.out
    if words[0] in ("requests", "connections", "records", "decode"):
        assert "packets without a time, as in pcapng's Simple Packet Blocks" in captured.err
    if command == "report":
        assert "no packet has a time" in captured.out
        assert "packets without a time" in captured.out


def test_what_has_no_time_matches_no_time(untimed, capsys):
    file = untimed("mock")
    for command in ("requests", "connections"):
        for option in (
            "--since 10:00",
            "--until 10:00",
            "--since 1970-01-01",
            "--until 2099-01-01",
        ):
            assert main([command, "--format", "jsonl", *option.split(), file]) == 0
            assert capsys.readouterr().out == ""
    assert main(["requests", "--format", "jsonl", "--slower-than", "0ms", file]) == 0
    assert capsys.readouterr().out == ""


def test_in_a_capture_with_both_each_packet_has_its_own(untimed):
    """Every third packet has a time: what is between two of them is known, nothing else is."""
    timed_rows = list(kanalyze.requests(path("errors")))
    file = untimed("errors", lambda index: index % 3 == 0)
    rows = list(kanalyze.requests(file))
    assert len(rows) == len(timed_rows)
    known = 0
    for timed_row, row in zip(timed_rows, rows, strict=True):
        for name, packet in (
            ("request_start_ns", row.request_packet),
            ("response_start_ns", row.response_packet),
        ):
            has_time = packet is not None and packet % 3 == 1
            expected = getattr(timed_row, name) if has_time else None
            assert getattr(row, name) == expected
        if row.latency_ns is not None:
            assert row.latency_ns == timed_row.latency_ns
            known += 1
        for name in ("request_send_ns", "response_send_ns", "total_time_ns"):
            assert getattr(row, name) in (None, getattr(timed_row, name))
    assert 0 < known < len(rows)
    for row in kanalyze.connections(file):
        for name in ("start_ns", "end_ns", "duration_ns", "handshake_rtt_ns", "rtt_min_ns"):
            value = getattr(row, name, None)
            assert value is None or value < 10**18 or name in ("start_ns", "end_ns")
            assert value is None or value >= 0
    report = kanalyze.report(file)
    assert (
        report["capture"]["first_time_ns"]
        == kanalyze.report(path("errors"))["capture"]["first_time_ns"]
    )


@pytest.mark.parametrize("is_first_timed", [True, False])
def test_a_round_trip_is_measured_between_two_times_only(is_first_timed, tmp_path):
    packets = [
        Packet(data, START_NS + index * 10**6)
        for index, data in enumerate(
            [
                segment(seq=99, flags=2),
                segment(to_broker=False, seq=499, ack=100, flags=18),
                segment(seq=100, ack=500, flags=16),
                segment(seq=100, ack=500, flags=24, payload=b"x" * 50),
                segment(to_broker=False, seq=500, ack=150, flags=16),
            ]
        )
    ]
    file = tmp_path / "a.pcapng"
    file.write_bytes(without_times(packets, lambda index: (index % 2 == 0) == is_first_timed))
    [row] = kanalyze.connections(str(file))
    given = times_of(row, CONNECTION_COLUMNS)
    times = {"start_ns", "end_ns", "duration_ns"}
    assert {key for key, value in given.items() if value is not None} <= times
    assert given["end_ns"] == packets[4 if is_first_timed else 3].time_ns
    assert (given["start_ns"] is None) == (not is_first_timed)


def test_extract_says_that_it_cannot_find_them(untimed, tmp_path, capsys):
    out = tmp_path / "out.pcapng"
    assert main(["extract", "-o", str(out), untimed("mock")]) == 2
    assert "have no times, by which extract finds their packets" in capsys.readouterr().err
    assert not out.exists()
    half = untimed("errors", lambda index: index > 200)
    assert main(["extract", "-o", str(out), half]) == 0
    assert "that match have no times: their packets are left out" in capsys.readouterr().err
    times = {packet.time_ns for packet in packets_of(out)}
    assert times
    assert NO_TIME not in times


def test_an_anonymous_capture_keeps_them(untimed, tmp_path):
    out = tmp_path / "out.pcapng"
    for timed in (lambda _: False, lambda index: index % 2):
        file = untimed("mock", timed)
        kanalyze.anonymize(file, output=out, force=True)
        before, after = packets_of(file), packets_of(out)
        assert [each.time_ns for each in after] == [each.time_ns for each in before]
        assert [len(each.data) for each in after] == [len(each.data) for each in before]
        rows = list(kanalyze.requests(out))
        assert [row.request_bytes for row in rows] == [
            row.request_bytes for row in kanalyze.requests(file)
        ]


def test_captures_without_times_are_read_after_others_and_in_their_order(tmp_path):
    data = [bytes([n]) * 20 for n in range(6)]
    (tmp_path / "a.pcapng").write_bytes(without_times([Packet(each) for each in data[:2]]))
    (tmp_path / "b.pcap").write_bytes(
        pcap_file([Packet(data[2], START_NS), Packet(data[3], START_NS + 9)])
    )
    mixed = [Packet(data[4], START_NS + 5), Packet(data[5], START_NS + 6)]
    (tmp_path / "c.pcapng").write_bytes(without_times(mixed, lambda index: index == 0))
    merged = MergedCaptures(find_inputs([tmp_path]))
    found = []
    for batch in merged.batches():
        for start, size in zip(batch.offset, batch.captured_bytes, strict=True):
            found.append(bytes(batch.buffer[start : start + size]))
    assert found == [data[2], data[4], data[5], data[3], data[0], data[1]]


def test_a_live_run_refuses_them(untimed):
    with Path(untimed("mock")).open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "kanalyze", "live", "-", "--format", "jsonl"],
            stdin=file,
            capture_output=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 2
    assert b"has packets without a time" in done.stderr


def test_a_batch_has_the_same_rows(untimed, tmp_path, capsys):
    file = untimed("mock")
    out = tmp_path / "archive"
    assert main(["batch", "--engine", "process", "--jobs", "1", "--out", str(out), file]) == 0
    assert "no packet has a time" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert report["totals"]["rows"] == len(list(kanalyze.requests(file)))
    assert report["quality"]["untimed_packets"] == report["capture"]["packets"]
