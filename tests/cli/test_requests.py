from __future__ import annotations

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from kanalyze.cli.main import main
from kanalyze.spec.rows.requests import COLUMNS


def test_rows_are_a_table_on_standard_output(fake, capsys):
    assert main(["requests", "x.pcap"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["time", "client", "from"]
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "rows.xml"], "cannot tell the format of 'rows.xml'"),
        (["--columns", "nope"], "unknown column: 'nope'"),
        (["--columns", ","], "columns: name at least one"),
    ],
)
def test_an_invalid_output_is_reported_in_one_line(fake, capsys, arguments, message):
    assert main(["requests", *arguments, "x.pcap"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet", "rows.txt"])
def test_an_interrupted_command_leaves_no_file(fake, tmp_path, name):
    fake.error = KeyboardInterrupt()
    assert main(["requests", "-o", str(tmp_path / name), "x.pcap"]) == 130
    assert list(tmp_path.iterdir()) == []
