from __future__ import annotations

import json

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.export.jsonl import JsonLinesWriter
from kanalyze.export.schema import choose_columns
from kanalyze.spec.rows.requests import COLUMNS
from tests.support.cases import examples
from tests.support.rows import START_NS, plain_traffic, row, rows


def written(tmp_path, given_rows, columns=COLUMNS) -> bytes:
    target = tmp_path / "out.jsonl"
    with JsonLinesWriter(str(target), columns) as writer:
        for item in given_rows:
            writer.write([item])
    return target.read_bytes()


@settings(max_examples=examples(40))
@given(given_rows=st.lists(rows(), max_size=3))
def test_every_row_is_an_object_with_every_column(tmp_path_factory, given_rows):
    data = written(tmp_path_factory.mktemp("jsonl"), given_rows)
    expected = []
    for item in given_rows:
        plain = item._asdict()
        plain["errors"] = [part._asdict() for part in item.errors]
        plain["partitions"] = [part._asdict() for part in item.partitions]
        expected.append(plain)
    assert [json.loads(line) for line in data.splitlines()] == expected


def test_nothing_from_the_wire_is_written_raw(tmp_path):
    data = written(tmp_path, [row(client_id="\x1b[31m\u202e\u00e9\n\x9b")])
    assert all(32 <= byte < 127 for byte in data.rstrip(b"\n"))
    assert data.count(b"\n") == 1


def test_integers_are_exact(tmp_path):
    data = written(tmp_path, [row(request_start_ns=START_NS + 1)])
    assert f'"request_start_ns":{START_NS + 1},'.encode() in data


def test_columns_can_be_chosen_even_a_single_one(tmp_path):
    assert written(tmp_path, [row()], choose_columns(["client_id"])) == b'{"client_id":"app"}\n'
    assert written(tmp_path, [row()], choose_columns(["status", "errors"])) == (
        b'{"status":"ok","errors":[]}\n'
    )


def test_no_rows_make_an_empty_file(tmp_path):
    assert written(tmp_path, []) == b""


def test_pandas_reads_the_file(tmp_path):
    traffic = plain_traffic(100)
    written(tmp_path, traffic)
    frame = pd.read_json(tmp_path / "out.jsonl", lines=True)
    assert frame["latency_ns"].to_list() == [item.latency_ns for item in traffic]
