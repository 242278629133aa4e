from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len

from kanalyze.common.zones import zone_of
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.render.table import (
    ANOMALY_TABLE,
    CONNECTION_TABLE,
    RowTable,
    anomaly_status,
    connection_status,
    record_columns,
    record_status,
)
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS, ConnectionRow
from kanalyze.spec.rows.records import HeaderItem, RecordRow
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.anomalies import anomaly_row
from tests.support.golden import assert_golden
from tests.support.rows import (
    START_NS,
    failed,
    fetch,
    orphan,
    partition,
    plain_traffic,
    row,
    unanswered,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.render.table import ReadableColumn
    from kanalyze.spec.rows.anomalies import AnomalyRow

GOLDEN = Path(__file__).parent / "golden"
MIXED = [
    row(),
    fetch(waited=True, client_id="a-consumer-with-a-rather-long-name", group_id="billing"),
    failed("orders", 6, "NOT_LEADER_OR_FOLLOWER"),
    unanswered(),
    orphan(),
    row(client_id="\x1b[31mred[bold]x[/]\u202e\n", api_name=None, api_key=999),
    row(partitions=[partition("orders"), partition("clicks"), partition(None, topic_id="id")]),
]


def columns(*names):
    by_name = {column.name: column for column in COLUMNS}
    return [by_name[name] for name in names]


def written(*batches, width=None, colour=False, columns_chosen=None) -> str:
    stream = io.StringIO()
    table = RowTable(stream, width=width, colour=colour, columns=columns_chosen)
    for batch in batches:
        table.write(batch)
    table.close()
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_equals_its_golden_file(width):
    assert_golden(written(MIXED, width=width), GOLDEN / f"table-{width}.txt")


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_every_line_fits_the_width(width):
    lines = written(MIXED + plain_traffic(100), width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_there_is_a_line_of_titles_and_a_line_for_each_row():
    assert len(written(MIXED[:3], MIXED[3:], width=80).splitlines()) == len(MIXED) + 1


def test_without_rows_the_table_has_only_titles():
    assert written(width=80).split()[:2] == ["time", "client"]
    assert written([]) == written()


def test_control_characters_are_escaped():
    text = written(MIXED)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\\u001b[31mred[bold]x[/]\\u202e\\n" in text


def test_colour_marks_failures_only_if_enabled():
    lines = written([row(), failed("orders", 6, "X")], colour=True).splitlines()
    assert lines[2].startswith("\x1b[31m")
    assert "\x1b" not in lines[1]
    assert "\x1b" not in written(MIXED)


def test_values_of_chosen_columns_are_not_formatted():
    columns_chosen = columns("client_id", "latency_ns", "waited", "errors", "anomalies")
    text = written([failed("orders", 6, "X", anomalies=["a", "b"])], columns_chosen=columns_chosen)
    assert text.splitlines()[1].split() == ["app", "2000000", "-", "orders:0:6:X", "a,", "b"]
    assert written([fetch(waited=False)], columns_chosen=columns("waited")) == "waited\nfalse\n"


def test_every_column_can_be_shown():
    text = written(MIXED, columns_chosen=COLUMNS)
    assert text.splitlines()[0].split() == [column.name for column in COLUMNS]


def test_a_later_longer_number_is_not_cut():
    columns_chosen = columns("request_packet", "client_id")
    batches = [row(request_packet=1)] * 1000, [row(request_packet=10**15)]
    assert str(10**15) in written(*batches, columns_chosen=columns_chosen, width=80)


def test_a_later_longer_text_is_cut_only_on_a_terminal():
    columns_chosen = columns("client_id", "status")
    batches = [row()] * 1000, [row(client_id="x" * 40)]
    assert written(*batches, columns_chosen=columns_chosen, width=80).endswith(
        "\nxxxx\u2026xxxx  ok\n"
    )
    assert written(*batches, columns_chosen=columns_chosen).endswith("\n" + "x" * 40 + "  ok\n")


def test_widths_depend_on_many_rows_even_with_small_batches():
    batches = [[row(client_id="x" * number)] for number in range(1, 30)]
    assert "x" * 29 in written([], *batches, width=80, columns_chosen=columns("client_id"))


def test_rows_are_buffered_until_the_widths_are_known():
    stream = io.StringIO()
    table = RowTable(stream, width=80, colour=False)
    table.write([row()] * 999)
    assert stream.getvalue() == ""
    table.write([row()])
    assert len(stream.getvalue().splitlines()) == 1001


def test_times_have_microseconds():
    assert "00:00:00.000000" in written([row()])


# -- other rows -----------------------------------------------------------------------------------


def lines_of(
    rows: Iterable[Any],
    readable: tuple[ReadableColumn, ...],
    status_of: Callable[[Any], str],
    **options: Any,
) -> list[str]:
    stream = io.StringIO()
    options = {"width": None, "colour": False, **options}
    table = RowTable(stream, readable=readable, status_of=status_of, **options)
    table.write(rows)
    table.close()
    return stream.getvalue().splitlines()


def record_lines(*rows: RecordRow, values: bool = True, colour: bool = False) -> list[str]:
    return lines_of(rows, record_columns(values=values), record_status, colour=colour)


def connection_lines(
    *rows: ConnectionRow, width: int | None = None, colour: bool = False
) -> list[str]:
    return lines_of(rows, CONNECTION_TABLE, connection_status, width=width, colour=colour)


def anomaly_lines(*anomalies: Anomaly) -> list[str]:
    return lines_of(map(anomaly_row_of, anomalies), ANOMALY_TABLE, anomaly_status)


def test_control_characters_of_other_rows_are_escaped() -> None:
    text = "\x1b[31m\n"
    headers = [HeaderItem(text, text, "text")]
    texts = {"topic": text, "client_id": text, "key": text, "value": text}
    lines = [
        *record_lines(
            record(**texts, value_encoding="text"),
            record(headers=headers, topic=None, topic_id=text),
        ),
        *connection_lines(connection(client_id=text, protocol=text)),
    ]
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)


ALL_NULL: dict[str, Any] = dict.fromkeys(RecordRow._fields)
PLAIN_RECORD: dict[str, Any] = ALL_NULL | {
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
    return RecordRow(**(PLAIN_RECORD | changes))


def test_a_record_is_one_line() -> None:
    assert record_lines(record(), values=False)[1].split() == [
        *("00:00:00.000000", "app", "Fetch", "orders", "3", "42"),
        *("2026-01-01", "00:00:00.123", "1", "2", "0", "-", "-", "-", "zstd", "-", "ok", "7"),
    ]


def test_keys_values_and_headers_are_shown_only_with_values() -> None:
    headers = [HeaderItem("a", "1", "text"), HeaderItem("b", None, None)]
    line = record_lines(record(headers=headers))[1]
    assert line.split()[11:15] == ["k", "\\x00\\xff", "a=1,", "b=-"]
    assert "\\x00" not in record_lines(record(headers=headers), values=False)[1]


def test_null_and_empty_values_are_shown_differently() -> None:
    line = record_lines(record(key=None, value="", value_encoding="text"))[1]
    assert line.split()[11:13] == ["-", '""']


def test_long_values_are_cut() -> None:
    long_text = "x" * 5000
    for encoding in ("text", "escaped"):
        headers = [HeaderItem("h", long_text, encoding)] * 500
        line = record_lines(record(value=long_text, value_encoding=encoding, headers=headers))[1]
        assert len(line) < 600
        assert "\u2026" in line


@pytest.mark.parametrize("time_ms", [-1000, 2**63 - 1, -(2**63)])
def test_a_time_outside_of_the_calendar_is_a_number(time_ms: int) -> None:
    assert str(time_ms) in record_lines(record(timestamp_ms=time_ms))[1]


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
    assert f"  {state}  " in record_lines(record(**changes))[1]


def test_colour_marks_records_with_problems() -> None:
    lines = record_lines(record(), record(crc_ok=False), record(problem="cut_batch"), colour=True)
    assert ["\x1b" in line for line in lines[1:]] == [False, True, True]


def test_schemas_traces_delays_and_matches_are_shown() -> None:
    delayed = record(
        delay_ns=1_500_000,
        key_schema_id=7,
        value_schema_guid="8979",
        trace_id="0af7",
        found_in="k@0",
    )
    readable = record_columns(values=False, search=True)
    line = lines_of([delayed], readable, record_status)[1]
    assert line.split()[11:15] == ["k@0", "1.500", "7/8979", "0af7"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"key_schema_id": 7}, "7/-"), ({"value_schema_id": 8}, "8"), ({}, "-")],
)
def test_the_schema_of_the_key_is_before_that_of_the_value(changes, expected) -> None:
    assert record_lines(record(**changes), values=False)[1].split()[12] == expected


def test_a_record_of_an_aborted_transaction_is_shown_as_aborted() -> None:
    aborted = record(is_transactional=True, is_aborted=True)
    assert record_lines(aborted, values=False)[1].split()[-2] == "aborted"


PLAIN_CONNECTION: dict[str, Any] = {
    column.name: None if column.nullable else 0 for column in CONNECTION_COLUMNS
} | {
    "connection": "10.0.0.1:50000>10.0.0.2:9092",
    "connection_number": 1,
    "protocol": "kafka",
    "client_id": "app",
    "start_ns": 1_767_225_600_000_000_000,
    "duration_ns": 2_500_000_000,
    "requests": 1234,
    "client_payload_bytes": 5_000,
    "broker_payload_bytes": 12_300_000,
    "handshake_rtt_ns": 300_000,
    "broker_rtt_ns": 250_000,
    "client_rtt_ns": 50_000,
    "broker_rtt_mean_ns": 18_000_000,
    "client_rtt_mean_ns": 19_000_000,
    "end": "fin",
    "closed_by": "client",
}
MEASURED = dict.fromkeys(
    (
        f"{end}_{name}"
        for end in ("client", "broker")
        for name in ("retransmitted_packets", "syn_retransmissions", "zero_windows")
    ),
    0,
)


def connection(**changes: Any) -> ConnectionRow:
    return ConnectionRow(**(PLAIN_CONNECTION | MEASURED | changes))


def test_a_connection_is_one_line_with_units_for_people() -> None:
    cells = [cell.strip() for cell in connection_lines(connection())[1].split("  ") if cell.strip()]
    assert cells == [
        *("00:00:00.000", "10.0.0.1:50000>10.0.0.2:9092", "kafka", "app"),
        *("2.50 s", "1,234", "5 kB", "12.3 MB", "300 \u00b5s", "250 \u00b5s"),
        *("50 \u00b5s", "fin by client", "-"),
    ]


def test_unknown_values_of_a_connection_are_dashes() -> None:
    unknown = dict.fromkeys(column.name for column in CONNECTION_COLUMNS if column.nullable)
    line = connection_lines(connection(**unknown, end="open"))[1]
    assert line.split()[3] == "-"
    assert line.split()[-2:] == ["open", "-"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"client_retransmitted_packets": 2, "broker_retransmitted_packets": 1}, "3 retransmitted"),
        ({"broker_zero_windows": 1}, "1 zero window"),
        ({"client_syn_retransmissions": 1}, "1 SYN again"),
        ({"client_out_of_order_packets": 4}, "4 out of order"),
        ({"broker_lost_bytes": 1_460}, "1.46 kB lost"),
    ],
)
def test_problems_are_described_in_words(changes: dict[str, Any], text: str) -> None:
    assert connection_lines(connection(**changes))[1].endswith(f"  {text}")
    assert connection_status(connection(**changes)) == "unanswered"


def test_duplicates_are_no_problem() -> None:
    with_duplicates = connection(client_duplicate_packets=100, client_duplicate_bytes=5_000)
    assert connection_status(with_duplicates) == "ok"
    assert connection_lines(with_duplicates)[1].endswith("  -")


def test_a_second_connection_on_the_same_ports_has_its_number() -> None:
    assert "10.0.0.2:9092 #2" in connection_lines(connection(connection_number=2))[1]


def test_colour_marks_resets_and_problems() -> None:
    rows = [connection(), connection(end="reset"), connection(end="limit")]
    assert [connection_status(each) for each in rows] == ["ok", "error", "unanswered"]
    assert ["\x1b" in line for line in connection_lines(*rows, colour=True)[1:]] == [
        False,
        True,
        True,
    ]


def test_a_narrow_terminal_leaves_out_the_least_important_columns() -> None:
    title, line = connection_lines(connection(), width=100)
    assert max(len(title), len(line)) <= 100
    assert "handshake" in title
    assert "start" not in title
    title, line = connection_lines(connection(), width=60)
    assert max(len(title), len(line)) <= 60
    assert "handshake" not in title
    assert "trouble" in title


TCP = TcpConnection(1, (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", 9092)), 2, 0, 5, 5)


def anomaly_row_of(anomaly: Anomaly) -> AnomalyRow:
    return anomaly_row(anomaly, locate=lambda n: ("a.pcap", n), client_index=0, api_name="Fetch")


def test_a_line_has_time_packet_kind_connection_and_size() -> None:
    time_ns = 1_700_000_000_123_456_789
    head, line = anomaly_lines(
        Anomaly(AnomalyKind.MALFORMED_BODY, time_ns, 17, TCP, 0, 4096, 2048, 1, 11, None, "why")
    )
    assert head.split() == [
        *("2023-11-14", "UTC", "packet", "anomaly", "connection", "sender"),
        *("offset", "size", "message", "detail"),
    ]
    assert line.split() == [
        *("22:13:20.123456", "17", "malformed_body", "10.0.0.1:50000>10.0.0.2:9092", "#2"),
        *("10.0.0.1:50000", "4096", "2.05", "kB", "Fetch", "v11", "why"),
    ]


def test_unknown_values_of_an_anomaly_are_dashes() -> None:
    _, line = anomaly_lines(Anomaly(AnomalyKind.CAPTURE_CORRUPT, detail="\x1b[31mred"))
    assert line.split()[:3] == ["-", "-", "capture_corrupt"]
    assert "\x1b" not in line


def test_the_colour_depends_on_the_kind_of_anomaly() -> None:
    kinds = (AnomalyKind.CAPTURE_CORRUPT, AnomalyKind.LOST_BYTES, AnomalyKind.NOT_IN_SYNC)
    assert [anomaly_status(anomaly_row_of(Anomaly(kind))) for kind in kinds] == [
        "error",
        "unanswered",
        "malformed",
    ]


# -- dates and zones ------------------------------------------------------------------------------


def test_the_title_has_the_date_and_a_line_says_that_another_day_began():
    rows = [
        row(request_start_ns=START_NS),
        row(request_start_ns=START_NS + 86_400 * 10**9),
        row(request_start_ns=None, response_start_ns=None),
        row(request_start_ns=START_NS + 86_401 * 10**9),
    ]
    stream = io.StringIO()
    table = RowTable(stream, width=200, colour=False, zone=zone_of("Asia/Tokyo"))
    table.write(rows)
    table.close()
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("2026-01-01 JST  ")
    assert [line[:15].rstrip() for line in lines[1:]] == [
        "09:00:00.000000",
        "2026-01-02 JST",
        "09:00:00.000000",
        "-",
        "09:00:01.000000",
    ]
