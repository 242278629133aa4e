from __future__ import annotations

import base64
import csv
import json
import stat

import pyarrow.parquet as pq
import pytest

from kanalyze.cli import analyze
from kanalyze.cli.main import main
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.records import RECORD_COLUMNS, VALUE_COLUMNS
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import path
from tests.support.record_exchanges import fetched, produced
from tests.support.record_sets import ITEMS, TIME_MS, batch_of
from tests.support.row_blocks import matches

BINARY = bytes(range(256))
DATA = {("orders", 0): batch_of([*ITEMS[:2], (2, TIME_MS, b"bin", BINARY, [])])}
PLAIN = [column.name for column in RECORD_COLUMNS if column.name not in VALUE_COLUMNS]


class FakeAnalysis:
    """A fake pipeline with one Produce and one Fetch, with three records each."""

    has_several_captures = False
    progress = (1, 2)
    quality = CaptureQuality()

    def __init__(self, captures, *, row_filter, keep, **_others) -> None:
        self.row_filter, self.keep = row_filter, keep

    def exchange_blocks(self, note_rows, **_):
        assert self.keep(0)
        assert self.keep(1)
        assert not self.keep(3)
        pairs = [produced(DATA), fetched(DATA)]
        note_rows(RowBlock.of_rows([row for _, row in pairs]))
        matching = [pair for pair in pairs if matches(self.row_filter, pair[1])]
        yield [each for each, _ in matching], RowBlock.of_rows([row for _, row in matching])


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(analyze, "Analysis", FakeAnalysis)


def test_records_are_a_table_on_standard_output(fake, capsys):
    assert main(["records", "x.pcap"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[1:5] == ["UTC", "client", "API", "topic"]
    assert len(lines) == 7
    assert "no key" not in "".join(lines)


def test_with_values_the_table_has_values(fake, capsys):
    assert main(["records", "--values", "x.pcap"]) == 0
    text = capsys.readouterr().out
    assert "no key" in text
    assert "\\x00\\x01\\x02" in text
    assert max(map(len, text.splitlines())) < 400


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
@pytest.mark.parametrize("values", [True, False])
def test_files_have_values_only_with_the_option(fake, tmp_path, name, values):
    target = tmp_path / name
    flags = ["--values"] if values else []
    assert main(["records", *flags, "-o", str(target), "x.pcap"]) == 0
    columns = [column for column in RECORD_COLUMNS if values or column.name in PLAIN]
    columns = with_times(columns) if "parquet" in name else columns
    if name == "rows.csv":
        with target.open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
    elif name == "rows.jsonl":
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        header = list(rows[0])
    else:
        table = pq.read_table(target)
        header, rows = table.schema.names, table.to_pylist()
    assert header == [column.name for column in columns]
    assert len(rows) == 6
    assert (b"no key" in target.read_bytes()) == values or name == "rows.parquet"


def test_binary_values_are_base64_in_files(fake, capfd):
    assert main(["records", "--values", "--format", "jsonl", "x.pcap"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert base64.b64decode(rows[2]["value"]) == BINARY
    assert rows[2]["value_encoding"] == "base64"
    assert (rows[1]["key"], rows[1]["value"], rows[1]["value_encoding"]) == (None, "no key", "text")
    assert rows[1]["headers"][1] == {"key": "h", "value": None, "encoding": None}


def test_columns_are_chosen_by_name(fake, capsys):
    assert main(["records", "--columns", "api_name,offset", "x.pcap"]) == 0
    assert capsys.readouterr().out.split()[:4] == ["api_name", "offset", "Produce", "500"]


def test_filters_apply_to_records(fake, capfd):
    assert main(["records", "--api", "Fetch", "--format", "jsonl", "x.pcap"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["api_name"] for row in rows] == ["Fetch"] * 3
    assert main(["records", "--topic", "click*", "--format", "jsonl", "x.pcap"]) == 0
    assert capfd.readouterr().out == ""


def test_a_real_capture_is_read(capfd):
    capture = str(path("any"))
    assert main(["records", "--topic", "small", "--format", "csv", capture]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 1 + 40


def test_max_records_limits_the_records_of_a_batch(fake, tmp_path):
    target = tmp_path / "rows.jsonl"
    assert main(["records", "--max-records", "2", "-o", str(target), "x.pcap"]) == 0
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["problem"] for row in rows] == [None, None, "too_many_records"] * 2


def test_a_file_with_values_is_readable_only_by_its_owner(fake, tmp_path):
    for name in ("rows.csv", "rows.jsonl", "rows.parquet", "rows.txt"):
        target = tmp_path / name
        assert main(["records", "--values", "-o", str(target), "x.pcap"]) == 0
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        # A file that everyone could read becomes private.
        target.chmod(0o644)
        assert main(["records", "--values", "-o", str(target), "x.pcap"]) == 0
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        target.chmod(0o644)
        assert main(["records", "-o", str(target), "x.pcap"]) == 0
        assert stat.S_IMODE(target.stat().st_mode) == 0o644
