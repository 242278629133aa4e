from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.common.times import parse_time_ns
from kanalyze.export.open import open_writer
from kanalyze.export.schema import choose_columns
from kanalyze.export.text_files import CsvWriter, JsonLinesWriter, csv_text
from kanalyze.spec.rows.requests import COLUMNS
from tests.support.cases import examples, for_each
from tests.support.rows import START_NS, failed, orphan, plain_traffic, row, rows, unanswered

if TYPE_CHECKING:
    from pathlib import Path


def written(folder, given_rows, columns=COLUMNS, ending="csv") -> bytes:
    target = folder / f"out.{ending}"
    with (CsvWriter if ending == "csv" else JsonLinesWriter)(str(target), columns) as writer:
        for first in range(0, len(given_rows), 10):
            writer.write(given_rows[first : first + 10])
    return target.read_bytes()


def read_back(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))


def decoded(cell: str) -> str | None:
    """Decode a text cell as the docstring of the module tells readers to."""
    if not cell:
        return None
    quoted = cell.removeprefix("'").replace('"', '\\"')
    return json.loads(f'"{quoted}"')


def test_the_first_line_names_the_columns(tmp_path):
    assert written(tmp_path, []) == (",".join(c.name for c in COLUMNS) + "\r\n").encode()
    data = written(tmp_path, [orphan()], choose_columns(["status", "client_id"]))
    assert data == b"status,client_id\r\norphan_response,\r\n"


def test_numbers_are_exact_null_is_empty_and_nested_columns_are_json(tmp_path):
    changes = {"request_start_ns": START_NS + 1, "waited": True, "anomalies": ["trailing_bytes"]}
    one, two = read_back(written(tmp_path, [failed("é", 6, "X", **changes), row(waited=False)]))
    assert (one["request_start_ns"], one["acks"]) == (str(START_NS + 1), "-1")
    assert (one["max_wait_ms"], one["principal"]) == ("", "")
    assert (one["waited"], two["waited"]) == ("true", "false")
    errors = [{"topic": "é", "partition": 0, "code": 6, "name": "X"}]
    assert json.loads(one["errors"]) == errors
    assert json.loads(one["anomalies"]) == ["trailing_bytes"]
    assert json.loads(one["partitions"])[0]["record_bytes"] == 100


@settings(max_examples=examples(40))
@given(given_rows=st.lists(rows(), max_size=3))
def test_every_text_can_be_recovered(tmp_path_factory, given_rows):
    lines = read_back(written(tmp_path_factory.mktemp("csv"), given_rows))
    for item, cells in zip(given_rows, lines, strict=True):
        for name in ("client_id", "principal", "group_id", "client_software_name"):
            assert decoded(cells[name]) == getattr(item, name)


@settings(max_examples=examples(40))
@given(given_rows=st.lists(rows(), max_size=3))
def test_other_writers_of_csv_quote_the_same_cells(tmp_path_factory, given_rows):
    data = written(tmp_path_factory.mktemp("csv"), given_rows).decode()
    again = io.StringIO(newline="")
    csv.writer(again).writerows(csv.reader(io.StringIO(data, newline="")))
    assert again.getvalue() == data


@settings(max_examples=examples(40))
@given(given_rows=st.lists(rows(), max_size=3))
def test_lists_in_csv_are_those_of_json_lines(tmp_path_factory, given_rows):
    folder = tmp_path_factory.mktemp("lists")
    columns = choose_columns(["partitions", "errors", "anomalies"])
    cells = read_back(written(folder, given_rows, columns))
    objects = written(folder, given_rows, columns, ending="jsonl").splitlines()
    for row_cells, line in zip(cells, objects, strict=True):
        assert {name: json.loads(cell) for name, cell in row_cells.items()} == json.loads(line)


@given(st.text(st.characters()))
def test_a_cell_is_printable_and_no_formula(text):
    cell = csv_text(text)
    assert cell.isprintable()
    assert cell
    assert cell == "-" or cell[0] not in FORMULAS
    assert all(part.strip(' "')[:1] not in set(FORMULAS) for part in cell.split(";")[1:])
    assert decoded(cell) == text


FORMULAS = "=+-@\uff1d\uff0b\uff0d\uff20"
"""``= + - @``, and their full-width forms."""


@pytest.mark.parametrize("sign", FORMULAS)
@pytest.mark.parametrize("before", ["", ";", "a;", "a; ", 'a;"', "a;;'"])
def test_no_part_of_a_cell_is_a_formula_if_semicolons_separate_cells(tmp_path, sign, before):
    """Spreadsheets do so in countries that write numbers with a comma."""
    text = f"{before}{sign}cmd|' /C calc'!A0"
    data = written(tmp_path, [failed(text, 6, "X", client_id=text)]).decode()
    for cell in data.replace(",", ";").split(";"):
        assert cell.strip(' "\r\n')[:1] not in set(FORMULAS) or cell == "-" or is_number(cell)
    (cells,) = read_back(data.encode())
    assert decoded(cells["client_id"]) == text
    assert json.loads(cells["errors"])[0]["topic"] == text


def is_number(cell: str) -> bool:
    return cell.removeprefix("-").isdigit()


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("app", "app"),
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("'quoted", "''quoted"),
        ("", "'"),
        ("\t=1", "\\t=1"),
        ("a\x1b[31m", "a\\u001b[31m"),
        ("a\nb", "a\\nb"),
    ],
)
def test_texts_that_a_spreadsheet_would_run_are_guarded(text, cell):
    assert csv_text(text) == cell


@for_each("ending", ["csv", "jsonl"])
def test_pandas_reads_the_file(tmp_path, ending):
    traffic = plain_traffic(300)
    data = io.BytesIO(written(tmp_path, traffic, ending=ending))
    frame = pd.read_csv(data) if ending == "csv" else pd.read_json(data, lines=True)
    assert frame["latency_ns"].to_list() == [item.latency_ns for item in traffic]
    assert frame["client_id"].to_list() == [item.client_id for item in traffic]
    assert frame.columns.to_list() == [column.name for column in COLUMNS]


# -- JSON Lines -----------------------------------------------------------------------------------


@settings(max_examples=examples(40))
@given(given_rows=st.lists(rows(), max_size=3))
def test_every_row_is_an_object_with_every_column(tmp_path_factory, given_rows):
    data = written(tmp_path_factory.mktemp("jsonl"), given_rows, ending="jsonl")
    expected = []
    for item in given_rows:
        plain = item._asdict()
        plain["errors"] = [part._asdict() for part in item.errors]
        plain["partitions"] = [part._asdict() for part in item.partitions]
        expected.append(plain)
    assert [json.loads(line) for line in data.splitlines()] == expected


def test_nothing_from_the_wire_is_written_raw(tmp_path):
    columns = choose_columns(["client_id", "request_start_ns", "errors"])
    rows = [row(client_id="\x1b[31m\u202e\u00e9\n\x9b", request_start_ns=START_NS + 1)]
    assert written(tmp_path, rows, columns, "jsonl") == (
        b'{"client_id":"\\u001b[31m\\u202e\\u00e9\\n\\u009b",'
        b'"request_start_ns":1767225600000000001,"errors":[]}\n'
    )
    assert written(tmp_path, [], columns, "jsonl") == b""


# -- timestamps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
def test_times_that_are_named_are_written_as_iso_8601(file_format: str, tmp_path: Path) -> None:
    names = ["request_start_time", "client_id", "request_start_ns", "response_start_time"]
    rows = [row(), unanswered(), row(request_start_ns=1)]
    file = tmp_path / f"x.{file_format}"
    with open_writer(str(file), file_format, names) as writer:
        writer.write(rows)
    with file.open(newline="") as text:
        lines = (
            list(csv.DictReader(text))
            if file_format == "csv"
            else [json.loads(line) for line in text]
        )
    assert [list(line) for line in lines] == [names] * len(rows)
    for line, sent in zip(lines, rows, strict=True):
        assert parse_time_ns(line["request_start_time"]) == sent.request_start_ns
        assert int(line["request_start_ns"]) == sent.request_start_ns
        end = line["response_start_time"]
        assert (parse_time_ns(end) if end else None) == sent.response_start_ns


def test_without_names_texts_have_no_timestamps(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    with open_writer(str(file)) as writer:
        writer.write([row()])
    assert "request_start_time" not in file.read_text()
