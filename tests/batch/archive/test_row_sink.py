from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.api.inputs import make_filter
from kanalyze.batch.archive.blocks import dump_report
from kanalyze.batch.archive.row_sink import PacketAnomalies, anomalies_of_packets
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.tables.anomalies import anomaly_row

if TYPE_CHECKING:
    from kanalyze.spec.rows.anomalies import AnomalyRow


def row(packet: int | None, time_ns: int | None) -> AnomalyRow:
    anomaly = Anomaly(AnomalyKind.BAD_IP_HEADER, packet=packet, time_ns=time_ns, detail="x")
    return anomaly_row(
        anomaly, locate=lambda number: ("a.pcap", number), client_index=None, api_name=None
    )


def told(capture: str, part: int, *rows: AnomalyRow) -> PacketAnomalies:
    return capture, part, dump_report(rows)


def test_packet_numbers_count_within_the_capture_and_discarded_parts_are_left_out():
    parts = [
        told("a.pcap", 0, row(1, 5), row(None, None)),
        told("a.pcap", 1, row(3, 6)),
        told("a.pcap", 2, row(3, 7)),
        told("b.pcap", 3, row(4, 8)),
    ]
    before = {("a.pcap", 0): 0, ("a.pcap", 2): 100, ("b.pcap", 3): 0}
    found = anomalies_of_packets(before, make_filter(None), parts)
    packets = [row.packet for rows in found for row in rows]
    assert packets == [1, None, 103, 4]


def test_anomalies_of_packets_are_filtered():
    part = told("a.pcap", 0, row(1, 5 * 10**9), row(2, 9 * 10**9))
    row_filter = make_filter(None, since="7")
    (rows,) = anomalies_of_packets({("a.pcap", 0): 0}, row_filter, [part])
    assert [row.packet for row in rows] == [2]
