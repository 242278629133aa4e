from __future__ import annotations

import csv
import io
import json

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.export.csv import CsvWriter, csv_text
from kanalyze.export.schema import choose_columns
from kanalyze.spec.rows.requests import COLUMNS
from tests.support.cases import examples
from tests.support.rows import START_NS, failed, orphan, plain_traffic, row, rows


def written(tmp_path, given_rows, columns=COLUMNS) -> bytes:
    target = tmp_path / "out.csv"
    with CsvWriter(str(target), columns) as writer:
        writer.write(given_rows)
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


def test_numbers_are_exact_and_null_is_empty(tmp_path):
    (cells,) = read_back(written(tmp_path, [row(request_start_ns=START_NS + 1, acks=-1)]))
    assert cells["request_start_ns"] == str(START_NS + 1)
    assert cells["acks"] == "-1"
    assert cells["max_wait_ms"] == ""
    assert cells["principal"] == ""


def test_booleans_are_lower_case(tmp_path):
    cells = read_back(written(tmp_path, [row(waited=True), row(waited=False), row(waited=None)]))
    assert [line["waited"] for line in cells] == ["true", "false", ""]


def test_nested_columns_are_json(tmp_path):
    item = failed("caf\u00e9", 6, "NOT_LEADER_OR_FOLLOWER", anomalies=["trailing_bytes"])
    (cells,) = read_back(written(tmp_path, [item]))
    assert json.loads(cells["errors"]) == [
        {"topic": "caf\u00e9", "partition": 0, "code": 6, "name": "NOT_LEADER_OR_FOLLOWER"}
    ]
    assert json.loads(cells["anomalies"]) == ["trailing_bytes"]
    assert json.loads(cells["partitions"])[0]["record_bytes"] == 100


@settings(max_examples=examples(40))
@given(given_rows=st.lists(rows(), max_size=3))
def test_every_text_can_be_recovered(tmp_path_factory, given_rows):
    lines = read_back(written(tmp_path_factory.mktemp("csv"), given_rows))
    for item, cells in zip(given_rows, lines, strict=True):
        for name in ("client_id", "principal", "group_id", "client_software_name"):
            assert decoded(cells[name]) == getattr(item, name)


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


def test_pandas_reads_the_file(tmp_path):
    traffic = plain_traffic(300)
    frame = pd.read_csv(io.BytesIO(written(tmp_path, traffic)))
    assert frame["latency_ns"].to_list() == [item.latency_ns for item in traffic]
    assert frame["client_id"].to_list() == [item.client_id for item in traffic]
    assert frame.columns.to_list() == [column.name for column in COLUMNS]


def test_columns_can_be_chosen(tmp_path):
    data = written(tmp_path, [orphan()], choose_columns(["status", "client_id"]))
    assert data == b"status,client_id\r\norphan_response,\r\n"


def test_many_different_texts_are_all_written(tmp_path):
    crowd = [row(client_id=f"client-{number}") for number in range(12_000)]
    data = written(tmp_path, crowd, choose_columns(["client_id"]))
    assert data.decode().split("\r\n")[1:-1] == [item.client_id for item in crowd]
