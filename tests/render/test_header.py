from __future__ import annotations

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.header import header_lines
from kanalyze.tables.quality import CaptureQuality
from tests.support.cases import for_each
from tests.support.quality import capture_quality
from tests.support.rows import START_NS, orphan, row
from tests.support.summaries import summary_of


def lines_of(rows=(), key_limit: int = 100, **quality) -> list[str]:
    summary = summary_of(list(rows), capture_quality(**quality), key_limit)
    return [line.plain for line in header_lines(summary)]


WARNINGS = (
    # A sound capture has none.
    ([row()], {"kafka_connections": 1, "kafka_bytes": 250, "decoded_bytes": 250}, None),
    ([row()], {"late_packets": 1}, None),
    ([row()], {"lost_bytes": 1460}, "1.46 kB sent but not in the capture"),
    ([row()], {"snapped_bytes": 10}, "10 B cut off by the snap length"),
    ([row()], {"dropped_packets": 1}, "1 packet dropped while capturing"),
    ([row()], {"unreadable_packets": 2}, "2 packets with unreadable headers"),
    (
        [row()],
        {"late_packets": 3, "late_bytes": 1460},
        "1.46 kB sent after the end of a connection, not read",
    ),
    (
        [row()],
        {"out_of_window_packets": 1, "out_of_window_bytes": 10},
        "1 packet (10 B) with a sequence number outside the window, not read",
    ),
    (
        [row()],
        {"before_start_bytes": 50},
        "50 B before the first byte seen of a connection, not read",
    ),
    (
        [row()],
        {"kafka_bytes": 200, "decoded_bytes": 100, "undecoded_bytes": 60, "skipped_bytes": 40},
        (
            "50.00 % of the Kafka bytes not decoded: 60 B in messages that could not be "
            "decoded to the end, 40 B skipped because frame boundaries were lost"
        ),
    ),
    (
        [],
        {"connections": 1, "tls_connections": 1},
        "no Kafka requests found; 1 TLS connection not decrypted: give a key log (--keylog FILE)",
    ),
    ([], {"kafka_connections": 1}, "no Kafka requests match"),
    ([row(), orphan()], {}, "1 response without a request"),
    (
        [row(client_id=str(n)) for n in range(9)],
        {"key_limit": 5},
        "too many clients to list each: the rest is summed up",
    ),
)


@for_each("case", WARNINGS)
def test_what_is_missing_is_a_warning(case):
    rows, quality, expected = case
    lines = [line for line in lines_of(rows, **quality) if line.startswith("WARNING")]
    assert lines == ([] if expected is None else [f"WARNING: {expected}"])


def test_names_and_comments_of_captures_are_escaped_and_at_most_three():
    lines = lines_of(
        packets=1,
        first_time_ns=START_NS,
        last_time_ns=START_NS,
        interfaces={f"eth{n}": 1 for n in range(5)},
        comments={"rack \x1b[2J 2": 1},
        packet_comments=2,
    )
    assert lines[3:6] == [
        "captured on eth0; eth1; eth2; and 2 more",
        "comment: rack \\u001b[2J 2",
        "2 comments on packets",
    ]


def test_an_empty_capture_says_that_it_has_no_packets():
    assert lines_of(captures=["x.pcap"])[:2] == ["x.pcap", "no packets"]


def test_the_head_has_times_packets_and_connections():
    lines = lines_of(
        [row()],
        captures=["a", "b", "c"],
        packets=1,
        wire_bytes=1500,
        first_time_ns=START_NS,
        last_time_ns=START_NS + 2_500_000_000,
        connections=3,
        kafka_connections=2,
        tls_connections=1,
    )
    assert lines[0] == "a and 2 more"
    assert lines[1] == "2026-01-01 00:00:00.000 to 2026-01-01 00:00:02.500 UTC (2.50 s)"
    assert lines[2] == "1 packet, 1.50 kB on the wire"
    assert lines[3] == "3 TCP connections: 2 Kafka, 1 TLS"


HEADS = (
    (
        {"retransmitted_bytes": 1460, "out_of_order_packets": 1},
        "1.46 kB retransmitted, 1 packet out of order",
    ),
    ({"out_of_order_packets": 2}, "2 packets out of order"),
    (
        {"duplicate_bytes": 2_000, "retransmitted_bytes": 10},
        "10 B retransmitted, 2 kB captured more than once",
    ),
    ({"captures": ["\x1b[2J.pcap"]}, "\\u001b[2J.pcap"),
    ({"rows": [row(throttle_time_ms=250), row()]}, "1 response throttled, 250 ms in all"),
    (
        {
            "connections": 6,
            "tls_connections": 2,
            "other_connections": 4,
            "other_protocols": {"tls": 2, "http": 3, "none": 1},
        },
        "6 TCP connections: 2 TLS, 4 other (3 http, 1 without payload)",
    ),
)


@for_each("case", HEADS)
def test_the_head_has_what_was_counted(case):
    counts, expected = case
    assert expected in lines_of(**counts)


def test_anomalies_are_listed_with_the_most_frequent_first():
    quality = CaptureQuality()
    quality.count_anomaly(AnomalyKind.LOST_BYTES, 5)
    quality.count_anomaly(AnomalyKind.TRAILING_BYTES, 5, count=3)
    lines = [line.plain for line in header_lines(summary_of(quality=quality))]
    assert lines[-1] == "anomalies: trailing_bytes 3, lost_bytes 1"


def test_anomalies_of_a_filtered_report_are_said_to_be_of_all_clients():
    quality = CaptureQuality()
    quality.count_anomaly(AnomalyKind.TRAILING_BYTES, 5, count=3)
    summary = {**summary_of(quality=quality), "filter": {"client_id": ["app"]}}
    lines = [line.plain for line in header_lines(summary)]
    assert "only requests that match: client id app" in lines
    assert lines[-1] == "anomalies in the whole capture, of all clients: trailing_bytes 3"


def test_tunnels_and_packets_that_are_not_analysed_are_counted():
    other_packets = {f"kind {number}": number for number in range(1, 9)}
    lines = lines_of(tunnels={"VXLAN": 12, "GRE": 1500}, other_packets=other_packets)
    assert "inside tunnels, by TCP packets: 1,500 GRE, 12 VXLAN" in lines
    (line,) = [line for line in lines if line.startswith("packets not analysed")]
    assert line.endswith(
        "8 kind 8, 7 kind 7, 6 kind 6, 5 kind 5, 4 kind 4, 3 kind 3, 3 of other kinds"
    )
