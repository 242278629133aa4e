from __future__ import annotations

import io
from typing import Any

import pytest

from kanalyze.render.table import RowTable, record_columns, record_status
from kanalyze.spec.rows.records import HeaderItem, RecordRow

ALL_NULL: dict[str, Any] = dict.fromkeys(RecordRow._fields)
PLAIN: dict[str, Any] = ALL_NULL | {
    "time_ns": 1_767_225_600_000_000_000,
    "client_id": "app",
    "api_name": "Fetch",
    "topic": "orders",
    "partition": 3,
    "offset": 42,
    "timestamp_ms": 1_767_225_600_123,
    "key_bytes": 1,
    "value_bytes": 2,
    "header_count": 0,
    "key": "k",
    "key_encoding": "text",
    "value": "\\x00\\xff",
    "value_encoding": "escaped",
    "headers": [],
    "codec": "zstd",
    "crc_ok": True,
    "packet": 7,
}


def record(**changes: Any) -> RecordRow:
    return RecordRow(**(PLAIN | changes))


def written(*rows: RecordRow, values: bool = True, colour: bool = False) -> list[str]:
    stream = io.StringIO()
    table = RowTable(
        stream,
        width=None,
        colour=colour,
        readable=record_columns(values=values),
        status_of=record_status,
    )
    table.write(rows)
    table.close()
    return stream.getvalue().splitlines()


def test_a_record_is_one_line() -> None:
    assert written(record(), values=False)[1].split() == [
        *("00:00:00.000000", "app", "Fetch", "orders", "3", "42"),
        *("2026-01-01", "00:00:00.123", "1", "2", "0", "-", "-", "-", "zstd", "-", "ok", "7"),
    ]


def test_keys_values_and_headers_are_shown_only_with_values() -> None:
    headers = [HeaderItem("a", "1", "text"), HeaderItem("b", None, None)]
    line = written(record(headers=headers))[1]
    assert line.split()[11:15] == ["k", "\\x00\\xff", "a=1,", "b=-"]
    assert "\\x00" not in written(record(headers=headers), values=False)[1]


def test_null_and_empty_values_are_shown_differently() -> None:
    line = written(record(key=None, value="", value_encoding="text"))[1]
    assert line.split()[11:13] == ["-", '""']


def test_control_characters_are_escaped() -> None:
    text = "\x1b[31m\n"
    headers = [HeaderItem(text, text, "text")]
    lines = written(
        record(topic=text, client_id=text, key=text, value=text, value_encoding="text"),
        record(headers=headers, topic=None, topic_id=text),
    )
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_long_values_are_cut() -> None:
    long_text = "x" * 5000
    for encoding in ("text", "escaped"):
        headers = [HeaderItem("h", long_text, encoding)] * 500
        line = written(record(value=long_text, value_encoding=encoding, headers=headers))[1]
        assert len(line) < 600
        assert "\u2026" in line


@pytest.mark.parametrize("time_ms", [-1000, 2**63 - 1, -(2**63)])
def test_a_time_outside_of_the_calendar_is_a_number(time_ms: int) -> None:
    assert str(time_ms) in written(record(timestamp_ms=time_ms))[1]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"problem": "unknown_codec", "crc_ok": False}, "unknown_codec"),
        ({"crc_ok": False}, "bad crc"),
        ({"is_control": True, "control_type": "abort", "is_transactional": True}, "abort"),
        ({"is_transactional": True, "producer_id": 5, "producer_epoch": 1}, "transactional"),
    ],
)
def test_the_state_names_problems_and_transactions(changes: dict[str, Any], state: str) -> None:
    assert f"  {state}  " in written(record(**changes))[1]


def test_colour_marks_records_with_problems() -> None:
    lines = written(record(), record(crc_ok=False), record(problem="cut_batch"), colour=True)
    assert ["\x1b" in line for line in lines[1:]] == [False, True, True]


def test_schemas_traces_delays_and_matches_are_shown() -> None:
    row = record(
        delay_ns=1_500_000,
        key_schema_id=7,
        value_schema_guid="8979",
        trace_id="0af7",
        found_in="k@0",
    )
    stream = io.StringIO()
    readable = record_columns(values=False, search=True)
    table = RowTable(stream, width=None, colour=False, readable=readable, status_of=record_status)
    table.write([row])
    table.close()
    assert stream.getvalue().splitlines()[1].split()[11:15] == ["k@0", "1.500", "7/8979", "0af7"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"key_schema_id": 7}, "7/-"), ({"value_schema_id": 8}, "8"), ({}, "-")],
)
def test_the_schema_of_the_key_is_before_that_of_the_value(changes, expected) -> None:
    assert written(record(**changes), values=False)[1].split()[12] == expected


def test_a_record_of_an_aborted_transaction_is_shown_as_aborted() -> None:
    row = record(is_transactional=True, is_aborted=True)
    assert written(row, values=False)[1].split()[-2] == "aborted"
