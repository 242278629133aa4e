from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.render.table import ANOMALY_TABLE, RowTable, anomaly_status
from kanalyze.tables.anomalies import anomaly_row

if TYPE_CHECKING:
    from kanalyze.spec.rows.anomalies import AnomalyRow

TCP = TcpConnection(1, (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", 9092)), 2, 0, 5, 5)


def row_of(anomaly: Anomaly) -> AnomalyRow:
    return anomaly_row(anomaly, locate=lambda n: ("a.pcap", n), client_index=0, api_name="Fetch")


def table_lines(*anomalies: Anomaly) -> list[str]:
    text = io.StringIO()
    table = RowTable(
        text, width=None, colour=False, readable=ANOMALY_TABLE, status_of=anomaly_status
    )
    table.write([row_of(anomaly) for anomaly in anomalies])
    table.close()
    return text.getvalue().splitlines()


def test_a_line_has_time_packet_kind_connection_and_size() -> None:
    time_ns = 1_700_000_000_123_456_789
    head, line = table_lines(
        Anomaly(AnomalyKind.MALFORMED_BODY, time_ns, 17, TCP, 0, 4096, 2048, 1, 11, None, "why")
    )
    assert head.split() == [
        *("time", "packet", "anomaly", "connection", "sender"),
        *("offset", "size", "message", "detail"),
    ]
    assert line.split() == [
        *("22:13:20.123456", "17", "malformed_body", "10.0.0.1:50000>10.0.0.2:9092", "#2"),
        *("10.0.0.1:50000", "4096", "2.05", "kB", "Fetch", "v11", "why"),
    ]


def test_unknown_values_are_dashes() -> None:
    _, line = table_lines(Anomaly(AnomalyKind.CAPTURE_CORRUPT, detail="\x1b[31mred"))
    assert line.split()[:3] == ["-", "-", "capture_corrupt"]
    assert "\x1b" not in line


def test_the_colour_depends_on_the_kind_of_anomaly() -> None:
    kinds = (AnomalyKind.CAPTURE_CORRUPT, AnomalyKind.LOST_BYTES, AnomalyKind.NOT_IN_SYNC)
    assert [anomaly_status(row_of(Anomaly(kind))) for kind in kinds] == [
        "error",
        "unanswered",
        "malformed",
    ]
