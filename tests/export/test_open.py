from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.export.open import format_of, open_writer
from kanalyze.export.parquet import ParquetWriter
from kanalyze.export.text_files import CsvWriter, JsonLinesWriter
from tests.support.rows import row


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", "csv"),
        ("a.CSV", "csv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("x/a.b.parquet", "parquet"),
        ("a.pq", "parquet"),
    ],
)
def test_the_file_ending_selects_the_format(name, expected):
    assert format_of(name) == expected


@pytest.mark.parametrize("name", ["a", "a.xlsx", ".csv", "a.csv/b"])
def test_an_unknown_file_ending_is_refused(name):
    with pytest.raises(UsageError, match="cannot tell the format"):
        format_of(name)


@pytest.mark.parametrize(
    ("name", "file_format", "kind"),
    [
        ("a.csv", None, CsvWriter),
        ("a.jsonl", None, JsonLinesWriter),
        ("a.parquet", None, ParquetWriter),
        ("a.txt", "csv", CsvWriter),
        ("a.csv", "jsonl", JsonLinesWriter),
    ],
)
def test_a_given_format_goes_before_the_file_ending(tmp_path, name, file_format, kind):
    with open_writer(str(tmp_path / name), file_format) as writer:
        assert isinstance(writer, kind)


def test_standard_output_gets_json_lines(capfdbinary):
    with open_writer("-", columns=["client_id"]) as writer:
        writer.write([row()])
    assert capfdbinary.readouterr().out == b'{"client_id":"app"}\n'


def test_an_unknown_format_or_column_makes_no_file(tmp_path):
    with pytest.raises(UsageError, match="unknown format"):
        open_writer(str(tmp_path / "a.csv"), "xml")
    with pytest.raises(UsageError, match="unknown column"):
        open_writer(str(tmp_path / "a.csv"), columns=["nope"])
    assert list(tmp_path.iterdir()) == []
