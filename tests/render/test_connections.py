from __future__ import annotations

import io
from typing import Any

import pytest

from kanalyze.render.table import CONNECTION_TABLE, RowTable, connection_status
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS, ConnectionRow

PLAIN: dict[str, Any] = {
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
    return ConnectionRow(**(PLAIN | MEASURED | changes))


def written(*rows: ConnectionRow, width: int | None = None, colour: bool = False) -> list[str]:
    stream = io.StringIO()
    table = RowTable(
        stream,
        width=width,
        colour=colour,
        readable=CONNECTION_TABLE,
        status_of=connection_status,
    )
    table.write(rows)
    table.close()
    return stream.getvalue().splitlines()


def test_a_connection_is_one_line_with_units_for_people() -> None:
    cells = [cell.strip() for cell in written(connection())[1].split("  ") if cell.strip()]
    assert cells == [
        *("00:00:00.000", "10.0.0.1:50000>10.0.0.2:9092", "kafka", "app"),
        *("2.50 s", "1,234", "5 kB", "12.3 MB", "300 \u00b5s", "250 \u00b5s"),
        *("50 \u00b5s", "fin by client", "-"),
    ]


def test_unknown_values_are_dashes() -> None:
    unknown = dict.fromkeys(column.name for column in CONNECTION_COLUMNS if column.nullable)
    line = written(connection(**unknown, end="open"))[1]
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
    assert written(connection(**changes))[1].endswith(f"  {text}")
    assert connection_status(connection(**changes)) == "unanswered"


def test_duplicates_are_no_problem() -> None:
    with_duplicates = connection(client_duplicate_packets=100, client_duplicate_bytes=5_000)
    assert connection_status(with_duplicates) == "ok"
    assert written(with_duplicates)[1].endswith("  -")


def test_a_second_connection_on_the_same_ports_has_its_number() -> None:
    assert "10.0.0.2:9092 #2" in written(connection(connection_number=2))[1]


def test_colour_marks_resets_and_problems() -> None:
    rows = [connection(), connection(end="reset"), connection(end="limit")]
    assert [connection_status(row) for row in rows] == ["ok", "error", "unanswered"]
    assert ["\x1b" in line for line in written(*rows, colour=True)[1:]] == [False, True, True]


def test_control_characters_are_escaped() -> None:
    text = "\x1b[31m\n"
    lines = written(connection(client_id=text, protocol=text))
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_a_narrow_terminal_leaves_out_the_least_important_columns() -> None:
    title, line = written(connection(), width=100)
    assert max(len(title), len(line)) <= 100
    assert "handshake" in title
    assert "start" not in title
    title, line = written(connection(), width=60)
    assert max(len(title), len(line)) <= 60
    assert "handshake" not in title
    assert "trouble" in title
