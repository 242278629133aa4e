from __future__ import annotations

from kanalyze.api.inputs import make_filter
from kanalyze.batch.archive.blocks import to_arrow_stream
from kanalyze.batch.archive.row_sink import PacketAnomalies, anomalies_of_packets
from kanalyze.export.arrow import BatchMaker
from kanalyze.export.schema import arrow_schema
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.tables.anomalies import anomaly_row


def row(packet: int | None, time_ns: int | None) -> AnomalyRow:
    anomaly = Anomaly(AnomalyKind.BAD_IP_HEADER, packet=packet, time_ns=time_ns, detail="x")
    return anomaly_row(
        anomaly, locate=lambda number: ("a.pcap", number), client_index=None, api_name=None
    )


def stream_of(capture: str, part: int, *rows: AnomalyRow) -> PacketAnomalies:
    return capture, part, to_arrow_stream([BatchMaker(ANOMALY_COLUMNS).of_rows(rows)])


def test_packet_numbers_count_within_the_capture_and_discarded_parts_are_left_out():
    streams = [
        stream_of("a.pcap", 0, row(1, 5), row(None, None)),
        stream_of("a.pcap", 1, row(3, 6)),
        stream_of("a.pcap", 2, row(3, 7)),
        stream_of("b.pcap", 3, row(4, 8)),
    ]
    before = {("a.pcap", 0): 0, ("a.pcap", 2): 100, ("b.pcap", 3): 0}
    batches = list(anomalies_of_packets(before, make_filter(None), streams))
    assert all(rows.schema == arrow_schema(ANOMALY_COLUMNS) for rows in batches)
    packets = [packet for rows in batches for packet in rows.column("packet").to_pylist()]
    assert packets == [1, None, 103, 4]


def test_anomalies_of_packets_are_filtered():
    stream = stream_of("a.pcap", 0, row(1, 5 * 10**9), row(2, 9 * 10**9))
    row_filter = make_filter(None, since="7")
    (rows,) = anomalies_of_packets({("a.pcap", 0): 0}, row_filter, [stream])
    assert rows.column("packet").to_pylist() == [2]
