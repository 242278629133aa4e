"""``kanalyze requests``, ``connections`` and ``anomalies``."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kanalyze.cli.main import main
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.anomalies import AnomalyRow
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.spec.rows.requests import COLUMNS
from tests.support import kafka as k
from tests.support.captures import analysis, path
from tests.support.traffic import Line, answers, asks, capture_of

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_are_a_table_on_standard_output(fake, capsys):
    assert main(["requests", "x.pcap"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["2026-01-01", "UTC", "client", "from"]
    assert len(lines) == 4


def test_a_table_fits_the_width_that_the_environment_gives(fake, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["requests", "x.pcap"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet", "rows.txt"])
def test_the_file_extension_sets_the_format(fake, capsys, tmp_path, name):
    target = tmp_path / name
    assert main(["requests", "-o", str(target), "x.pcap"]) == 0
    assert capsys.readouterr().out == ""
    data = target.read_bytes()
    count = {
        "rows.csv": lambda: len(list(csv.reader(io.StringIO(data.decode())))) - 1,
        "rows.jsonl": lambda: len([json.loads(line) for line in data.splitlines()]),
        "rows.parquet": lambda: pq.read_table(target).num_rows,
        "rows.txt": lambda: len(data.splitlines()) - 1,
    }[name]
    assert count() == 3


def test_the_format_option_overrides_the_file_extension(fake, tmp_path):
    target = tmp_path / "rows.csv"
    assert main(["requests", "--format", "jsonl", "-o", str(target), "x.pcap"]) == 0
    assert json.loads(target.read_text().splitlines()[0])["capture"] == "x.pcap"


@pytest.mark.parametrize("row_format", ["csv", "jsonl"])
def test_formats_for_programs_go_to_standard_output(fake, capfd, row_format):
    assert main(["requests", "--format", row_format, "--columns", "api_name", "x.pcap"]) == 0
    assert "Fetch" in capfd.readouterr().out


def test_columns_are_chosen_by_name(fake, capsys):
    assert main(["requests", "--columns", "client_id, latency_ns", "x.pcap"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["client_id", "latency_ns"]


def test_filters_apply_to_the_rows(fake, capsys):
    assert main(["requests", "--errors", "--columns", "error_name", "x.pcap"]) == 0
    assert capsys.readouterr().out.split() == ["error_name", "NOT_LEADER_OR_FOLLOWER"]


def test_the_header_is_written_without_rows(fake, capfd):
    fake.rows = ()
    assert main(["requests", "--format", "csv", "x.pcap"]) == 0
    assert capfd.readouterr().out.strip() == ",".join(column.name for column in COLUMNS)


def listed_connections(capsys, *arguments: str) -> list[dict[str, object]]:
    assert main(["connections", "--format", "jsonl", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_connection_has_a_row_that_counts_its_requests(capsys) -> None:
    rows, quality = analysis("basics")
    connections = listed_connections(capsys, str(path("basics")))
    assert len(connections) == quality.connections
    assert sum(row["requests"] for row in connections) == len(rows)  # type: ignore[misc]
    assert {row["connection"] for row in connections} == {row.connection for row in rows}
    assert {row["protocol"] for row in connections} == {"kafka"}


def test_tls_is_recognized_by_content(capsys) -> None:
    protocols = [row["protocol"] for row in listed_connections(capsys, str(path("tls")))]
    assert protocols.count("tls") == analysis("tls")[1].tls_connections


def test_filters_of_connections_apply_to_clients_and_times(capsys) -> None:
    capture = str(path("basics"))
    everything = listed_connections(capsys, capture)
    some = listed_connections(capsys, capture, "--client-id", "kafka_python-*")
    assert 0 < len(some) < len(everything)
    assert all(str(row["client_id"]).startswith("kafka_python-") for row in some)
    assert listed_connections(capsys, capture, "--client-ip", "203.0.113.0/24") == []
    middle = sorted(int(str(row["start_ns"])) for row in everything)[len(everything) // 2]
    until = listed_connections(capsys, capture, "--until", f"{middle / 10**9:.9f}")
    assert 0 < len(until) < len(everything)


def test_a_table_and_parquet_of_connections_are_written(tmp_path, capsys) -> None:
    assert main(["connections", str(path("basics"))]) == 0
    assert capsys.readouterr().out.split()[1:4] == ["UTC", "connection", "protocol"]
    target = tmp_path / "connections.parquet"
    assert main(["connections", str(path("basics")), "-o", str(target)]) == 0
    table = pq.read_table(target)
    assert table.column_names == [column.name for column in with_times(CONNECTION_COLUMNS)]
    assert table.num_rows == analysis("basics")[1].connections


def listed_anomalies(capsys, *arguments: str) -> list[dict[str, object]]:
    assert main(["anomalies", "--format", "jsonl", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_bytes_cut_by_the_snap_length_are_listed_by_direction(capsys) -> None:
    rows = listed_anomalies(capsys, str(path("snaplen")), "--kind", "snapped_bytes")
    assert list(rows[0]) == list(AnomalyRow._fields)
    assert max(Counter((row["connection"], row["sender"]) for row in rows).values()) == 2
    assert {row["kind"] for row in rows} == {"snapped_bytes"}
    assert main(["report", "--json", "-", str(path("snaplen"))]) == 0
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert sum(row["bytes"] for row in rows) == quality["snapped_bytes"]  # type: ignore[misc]
    assert quality["anomalies"]["snapped_bytes"] == {
        "count": len(rows),
        "bytes": quality["snapped_bytes"],
    }


def test_filters_of_anomalies_apply_to_addresses_and_times(capsys) -> None:
    rows = listed_anomalies(capsys, str(path("snaplen")))
    client = rows[-1]["client_ip"]
    assert listed_anomalies(capsys, str(path("snaplen")), "--client-ip", str(client)) == rows
    assert listed_anomalies(capsys, str(path("snaplen")), "--client-ip", "203.0.113.1") == []
    assert listed_anomalies(capsys, str(path("snaplen")), "--broker", "127.0.0.1:1") == []
    late = str(int(rows[-1]["time_ns"]) // 10**9 + 1)  # type: ignore[call-overload]
    assert listed_anomalies(capsys, str(path("snaplen")), "--since", late) == []
    assert listed_anomalies(capsys, str(path("snaplen")), "--until", late) == rows


def test_a_cut_file_is_an_anomaly_that_names_it(tmp_path, capsys) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(path("mock").read_bytes()[:5000])
    (row,) = listed_anomalies(capsys, str(cut), "--kind", "capture_truncated")
    assert row["stage"] == "capture"
    assert "cut.pcap" in str(row["detail"])


def damaged(tmp_path: Path) -> Path:
    """Write a capture with one bad message of each kind."""
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(3):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    # A Metadata request of 2^24 topics, one with bytes after it, an unknown API and version.
    line.client(asks(3, 1, 10, b"\1\0\0\0")).broker(answers(3, 1, 10, b"\0\0\0\5"))
    line.client(asks(3, 1, 11, b"\0\0\0\0more")).broker(answers(3, 1, 11, b"\0" * 12))
    line.client(k.request(999, 0, 12, b"x")).broker(k.response(12, b"x"))
    line.client(k.request(12, 77, 13, b"\xff" * 9, tags=b"\0")).close()
    target = tmp_path / "damaged.pcap"
    target.write_bytes(capture_of(packets))
    return target


def test_details_are_the_problems_that_decode_reports(tmp_path, capsys) -> None:
    capture = str(damaged(tmp_path))
    rows = listed_anomalies(capsys, capture)
    details: dict[object, list[object]] = {}
    for row in rows:
        details.setdefault(row["kind"], []).append(row["detail"])
    too_many = "an array of more elements than there are bytes"
    assert details["malformed_body"] == [
        f"topics, byte 22: {too_many}",
        f"brokers, byte 12: {too_many}",
    ]
    assert details["trailing_bytes"][0] == "byte 22: bytes after the message"
    assert set(details["unknown_api"]) == {"no definition has this API"}
    assert details["unknown_api_version"] == ["known are the versions 0-4"]
    assert main(["decode", capture]) == 0
    problems = [
        line[name]
        for line in map(json.loads, capsys.readouterr().out.splitlines())
        for name in ("requestProblem", "responseProblem")
        if name in line
    ]
    decoded = {(problem["kind"], problem["reason"]) for problem in problems}
    for kind, reason in decoded:
        assert any(str(detail).endswith(reason) for detail in details[kind]), (kind, reason)
    assert {kind for kind, _ in decoded} == details.keys() - {"unanswered_request"}


def test_tables_and_files_of_anomalies_have_the_detail(tmp_path, capsys) -> None:
    capture = str(damaged(tmp_path))
    assert main(["anomalies", capture]) == 0
    assert "topics, byte 22: an array of more" in capsys.readouterr().out
    target = tmp_path / "anomalies.csv"
    assert main(["anomalies", capture, "-o", str(target)]) == 0
    with target.open() as file:
        details = [row["detail"] for row in csv.DictReader(file)]
    assert "topics, byte 22: an array of more elements than there are bytes" in details


def _rows_of(capsys, *options: str) -> list[dict[str, str]]:
    assert main(["requests", str(path("errors")), "--format", "csv", *options]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_the_first_rows_by_a_column(capsys):
    every = _rows_of(capsys)
    slowest = sorted(every, key=lambda row: -int(row["latency_ns"] or -1))
    assert _rows_of(capsys, "--sort", "latency_ns", "--limit", "7") == slowest[:7]
    assert _rows_of(capsys, "--limit", "7") == every[:7]
    clients = sorted(row["client_id"] for row in every)
    found = _rows_of(capsys, "--sort", "client_id", "--limit", "65536")
    assert [row["client_id"] for row in found] == clients


def test_the_packets_of_the_first_rows_by_a_column(capsys):
    (slowest,) = _rows_of(capsys, "--sort", "latency_ns", "--limit", "1")
    argv = ["requests", str(path("errors")), "--wireshark", "--sort", "latency_ns", "--limit", "1"]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    for packet in (slowest["request_packet"], slowest["response_packet"]):
        assert packet in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sort", "latency_ns"], "--sort needs --limit"),
        (["--sort", "errors", "--limit", "1"], "cannot be sorted by errors"),
        (["--sort", "latency", "--limit", "1"], "unknown column: 'latency'"),
    ],
)
def test_rows_that_cannot_be_sorted(options, message, capsys):
    assert main(["requests", str(path("errors")), *options]) == 2
    assert message in capsys.readouterr().err
