"""The columns of the row of an anomaly."""

from __future__ import annotations

from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.tables.anomalies import anomaly_row, stage_of

ENDS = (Endpoint("10.0.0.9", 9092), Endpoint("fe80::1", 50000))
TCP = TcpConnection(1, ENDS, 2, None, 5, 5)


def row_of(anomaly: Anomaly, client_index: int | None = None) -> AnomalyRow:
    return anomaly_row(
        anomaly,
        locate=lambda number: ("b.pcap", number - 100),
        client_index=client_index,
        api_name="Fetch" if anomaly.api_key == 1 else None,
    )


def test_a_row_names_the_place_in_its_own_capture() -> None:
    row = row_of(Anomaly(AnomalyKind.LOST_BYTES, 7, 103, TCP, 1, 12, 40), client_index=1)
    assert (row.kind, row.stage, row.capture, row.packet) == ("lost_bytes", "net", "b.pcap", 3)
    assert row.connection == "[fe80::1]:50000>10.0.0.9:9092"
    assert row.connection_number == 2
    assert (row.client_ip, row.client_port) == ("fe80::1", 50000)
    assert (row.broker_ip, row.broker_port) == ("10.0.0.9", 9092)
    assert (row.sender, row.stream_offset, row.bytes) == ("[fe80::1]:50000", 12, 40)


def test_until_the_client_is_known_the_end_with_the_higher_port_counts_as_the_client() -> None:
    row = row_of(Anomaly(AnomalyKind.LOST_BYTES, connection=TCP))
    assert row.connection == "[fe80::1]:50000>10.0.0.9:9092"
    assert row.sender is None


def test_unknown_values_are_null() -> None:
    row = row_of(Anomaly(AnomalyKind.CAPTURE_TRUNCATED, detail="a.pcap: the file ends"))
    known = {name: value for name, value in row._asdict().items() if value is not None}
    assert known == {
        "kind": "capture_truncated",
        "stage": "capture",
        "detail": "a.pcap: the file ends",
    }


def test_a_message_is_named() -> None:
    row = row_of(Anomaly(AnomalyKind.MALFORMED_BODY, connection=TCP, api_key=1, api_version=11))
    assert (row.stage, row.api_key, row.api_name, row.api_version) == ("connection", 1, "Fetch", 11)


def test_every_kind_has_a_stage_and_every_column_a_meaning() -> None:
    assert {stage_of(kind) for kind in AnomalyKind} == {"capture", "net", "connection"}
    assert [column.name for column in ANOMALY_COLUMNS] == list(AnomalyRow._fields)
    assert all(column.meaning for column in ANOMALY_COLUMNS)
