from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.export.open import format_of, open_writer
from kanalyze.export.parquet import ParquetWriter
from kanalyze.export.text_files import CsvWriter, JsonLinesWriter
from tests.support.cases import for_each
from tests.support.rows import row


@for_each(
    "case",
    [
        *((name, None, CsvWriter) for name in ("a.csv", "a.CSV")),
        *((name, None, JsonLinesWriter) for name in ("a.jsonl", "a.ndjson")),
        *((name, None, ParquetWriter) for name in ("a.b.parquet", "a.pq")),
        ("a.txt", "csv", CsvWriter),
        ("a.csv", "jsonl", JsonLinesWriter),
    ],
)
def test_the_file_ending_or_a_given_format_selects_the_writer(tmp_path, case):
    name, file_format, kind = case
    with open_writer(str(tmp_path / name), file_format) as writer:
        assert isinstance(writer, kind)


@for_each("name", ["a", "a.xlsx", ".csv", "a.csv/b"])
def test_an_unknown_file_ending_is_refused(name):
    with pytest.raises(UsageError, match="cannot tell the format"):
        format_of(name)


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
