from __future__ import annotations

import pytest

from kanalyze.live.rate_jsonl import rates
from kanalyze.live.view.alerts import alerts
from kanalyze.live.window.snapshot import Amounts, CaptureState, LatestFindings
from kanalyze.live.window.windows import Windows
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.files import built_in
from kanalyze.queries.finding import Finding
from kanalyze.queries.findings import kind_of_finding
from kanalyze.runtime.monitor import InFlight, InFlightRequest, TlsConnections
from kanalyze.tables.columns.block import RowBlock
from tests.live.snapshots import HOSTILE, hostile, nothing, usual
from tests.support.rows import START_NS, failed, fetch, orphan, row

SECOND_NS = 1_000_000_000
STATE = CaptureState("live:eth0", 0, 0, 0, 0, 0)


def alert_texts(snapshot) -> list[str]:
    return [alert.text for alert in alerts(snapshot)]


def calm():
    """Return a snapshot in which nothing is wrong."""
    snapshot = usual()._replace(errors=(), groups=())
    return snapshot._replace(traffic=snapshot.traffic._replace(errors=0))


def after_seconds(seconds: int, *, packets: int, rows=(), source: str = STATE.source):
    """Return a snapshot after some seconds with packets that contain these rows."""
    windows = Windows()
    for second in range(seconds + 1):
        state = STATE._replace(packets=packets * second, source=source)
        windows.add_capture(state, START_NS + second * SECOND_NS)
    end_ns = START_NS + seconds * SECOND_NS
    windows.add(
        RowBlock.of_rows([item._replace(response_start_ns=end_ns) for item in rows]), end_ns
    )
    return windows.snapshot(end_ns)


def test_normal_traffic_has_no_alerts():
    assert alert_texts(calm()) == []
    assert alert_texts(nothing()) == []
    assert alert_texts(after_seconds(10, packets=100, rows=[row()])) == []


def test_files_that_cannot_be_written_are_an_alert():
    full = usual().capture._replace(problems=("cannot write rows to \x1b[31mred: No space left",))
    assert alert_texts(calm()._replace(capture=full)) == [
        r"cannot write rows to \u001b[31mred: No space left"
    ]


def test_refused_connections_and_unread_data_are_alerts():
    doubts = {
        "refused_connections": 7,
        "refused_by": {"10.0.0.2:9092": 7},
        "unanswered_connections": 1,
        "unanswered_by": {"10.0.0.3:9092": 1},
        "unread_ports": {"9092": {"connections": 2, "packets": 9, "bytes": 7200}},
        "late_packets": 2,
        "late_bytes": 10,
        "out_of_window_packets": 3,
        "out_of_window_bytes": 30,
        "before_start_bytes": 50,
    }
    capture = usual().capture._replace(doubts=doubts)
    unread = (
        "2 connections on port 9092 not recognised as Kafka, 7.20 kB in 9 packets: "
        "use --port 9092 to read it as Kafka"
    )
    assert alert_texts(calm()._replace(capture=capture)) == [
        "7 connections refused by 10.0.0.2:9092 since the capture began",
        "1 connection without an answer from 10.0.0.3:9092 since the capture began",
        unread,
        "10 B sent after the end of a connection, not read",
        "3 packets (30 B) with a sequence number outside the window, not read",
        "50 B before the first byte seen of a connection, not read",
    ]
    line = rates(calm()._replace(capture=capture))["capture"]
    assert doubts.items() <= line.items()


# -- wrong figures --------------------------------------------------------------------------------


def test_dropped_packets_in_the_window_are_the_first_alert():
    snapshot = usual()._replace(dropped_packets=840, window_ns=10 * SECOND_NS)
    first = next(iter(alerts(snapshot)))
    assert first.text.startswith("84/s packets dropped before they were read (0.99 %)")
    assert "red" in first.style
    # Drops before the window are no alert: the first line of the view counts them.
    before = snapshot.capture._replace(dropped_packets=840)
    assert alert_texts(calm()._replace(capture=before)) == []


@pytest.mark.parametrize(
    ("source", "hint"), [("live:eth0", "another interface"), ("-", "is the pipe flushed")]
)
def test_no_packets_since_the_start_are_an_alert(source, hint):
    assert alert_texts(after_seconds(2, packets=0, source=source)) == []
    (text,) = alert_texts(after_seconds(7, packets=0, source=source))
    assert text.startswith("no packets yet for 7 s: ")
    assert hint in text


def test_no_more_packets_are_an_alert():
    windows = Windows()
    windows.add_capture(STATE._replace(packets=5), START_NS)
    later_ns = START_NS + 42 * SECOND_NS
    windows.add_capture(STATE._replace(packets=5), later_ns)
    assert alert_texts(windows.snapshot(later_ns)) == ["no packets for 42 s"]
    windows.add_capture(STATE._replace(packets=6), later_ns)
    windows.add(RowBlock.of_rows([row(response_start_ns=later_ns)]), later_ns)
    assert alert_texts(windows.snapshot(later_ns + 4 * SECOND_NS)) == []
    snapshot = windows.snapshot(later_ns + 6 * SECOND_NS)
    assert snapshot.packets == 1  # the window still has packets
    assert alert_texts(snapshot) == ["no packets for 6 s"]


def test_packets_without_kafka_are_an_alert():
    assert alert_texts(after_seconds(1, packets=100)) == []
    snapshot = after_seconds(5, packets=100)
    assert alert_texts(snapshot) == ["packets, but no Kafka in them: another port, or TLS?"]
    assert alert_texts(snapshot._replace(rows=7)) == ["packets, but no requests for 5 s"]
    assert alert_texts(snapshot._replace(filters="--api Fetch")) == [
        "packets, but no requests with --api Fetch"
    ]
    (text,) = alert_texts(after_seconds(5, packets=100, rows=[orphan()]))
    assert text.startswith("responses without requests")
    in_flight = snapshot.capture._replace(in_flight=InFlight(1, ()))
    for rows in (0, 7):
        assert alert_texts(snapshot._replace(rows=rows, capture=in_flight)) == []
    assert alert_texts(after_seconds(5, packets=9, rows=[fetch(waited=True)])) == []


def with_tls(snapshot, decrypted: int, encrypted: int, given_up: int | None):
    counts = TlsConnections(decrypted, encrypted, given_up)
    return snapshot._replace(capture=snapshot.capture._replace(tls=counts))


def test_the_alert_about_tls_without_kafka_names_the_option():
    quiet = after_seconds(5, packets=100)
    (text,) = alert_texts(with_tls(quiet, 0, 3, None))
    assert text == (
        "packets, but no Kafka in them: 3 connections have TLS, which --keylog FILE decrypts"
    )
    (text, more) = alert_texts(with_tls(quiet, 0, 1, 1))
    assert text == "packets, but no Kafka in them: 1 connection has TLS"
    assert more == "1 connection has TLS and no secret in the key log, since the capture began"


def test_connections_without_a_secret_are_an_alert_even_if_others_are_decrypted():
    assert alert_texts(with_tls(calm(), 3, 2, 0)) == []
    assert alert_texts(with_tls(calm(), 3, 2, 2)) == [
        "2 connections have TLS and no secret in the key log, since the capture began"
    ]


# -- traffic with problems ------------------------------------------------------------------------


def test_a_request_without_a_response_is_an_alert():
    snapshot = calm()
    broker, client = Endpoint("10.0.0.9", 9092), Endpoint("10.0.0.1", 40000)
    start_ns = snapshot.time_ns - 12_300_000_000
    oldest = InFlightRequest(start_ns, 0, "Produce", HOSTILE, client, broker)

    def waiting(anomalies=None, history=snapshot.history, **changes) -> list[str]:
        in_flight = InFlight(37, (oldest._replace(**changes),))
        capture = snapshot.capture._replace(in_flight=in_flight, anomalies=anomalies)
        return alert_texts(snapshot._replace(capture=capture, history=history))

    (text,) = waiting()
    assert text.startswith("no response for 12 s: Produce from \\u001b[31m")
    assert text.endswith("to 10.0.0.9:9092 (37 requests wait)")
    assert "(key 999)" in waiting(api_name=None, api_key=999)[0]
    # In a capture with gaps, the response may be in a gap.
    (text,) = waiting({AnomalyKind.LOST_BYTES: 1})
    assert text.startswith("no response, unless it was lost, for 12 s: Produce")
    assert waiting({AnomalyKind.TRAILING_BYTES: 1}) == waiting()
    assert waiting(start_ns=snapshot.time_ns - 9_000_000_000) == []
    # If no request at all has a response, another reason is more likely.
    silent = tuple(step._replace(response_bytes=0) for step in snapshot.history)
    _, text = waiting(history=silent)
    assert text == "requests without responses: is one direction captured elsewhere?"
    idle = snapshot.capture._replace(in_flight=InFlight(0, ()))
    assert alert_texts(snapshot._replace(capture=idle)) == []


def failing(error_share: float):
    rows = [row()] * (1000 - round(1000 * error_share))
    refused = [failed(topic, 6, "NOT_LEADER_OR_FOLLOWER") for topic in ("a", "b", "c")]
    other = failed("d", 3, "UNKNOWN_TOPIC_OR_PARTITION", api_name="Fetch")
    rows += [*refused, other, other][: round(1000 * error_share)] * (1 + round(200 * error_share))
    return after_seconds(5, packets=100, rows=rows)


def test_the_alert_names_the_most_frequent_error_over_all_topics():
    (text,) = alert_texts(failing(0.1))
    assert "of requests fail, most with NOT_LEADER_OR_FOLLOWER: Produce" in text
    assert alert_texts(failing(0.005)) == []


def slow(p99_ns: int, usual_ns: int, *, steps: int = 60):
    """Return a snapshot with another latency in the steps before the window."""
    snapshot = calm()
    window = -(-snapshot.window_ns // snapshot.step_ns)
    before = (usual_ns,) * (steps - window)
    return snapshot._replace(
        p99_ns=p99_ns,
        p99_history=(*before, *[p99_ns] * window),
        history=(Amounts(1, 0, 0, 0),) * steps,
    )


def test_latency_far_above_the_usual_one_is_an_alert():
    assert alert_texts(slow(30_000_000, 11_000_000)) == []
    (text,) = alert_texts(slow(90_000_000, 11_000_000))
    assert text.startswith("p99 is 90 ms, usually 11 ms")
    assert alert_texts(slow(4_000_000, 100_000)) == []
    # Without enough history, or of few requests.
    assert alert_texts(slow(90_000_000, 11_000_000, steps=20)) == []
    snapshot = slow(90_000_000, 11_000_000)
    few = snapshot.traffic._replace(requests=50)
    assert alert_texts(snapshot._replace(traffic=few)) == []


def test_the_alert_names_the_slow_api_and_no_long_poll():
    snapshot = slow(90_000_000, 11_000_000)
    names = {api.api_name: api for api in snapshot.apis if not api.waited}
    fetches = names["Fetch"]._replace(p99_ns=95_000_000)
    waiting = fetches._replace(waited=True, requests=10**6)
    join = waiting._replace(api_key=11, api_name="JoinGroup", p99_ns=10**12)
    (text,) = alert_texts(snapshot._replace(apis=(waiting, join, names["Produce"], fetches)))
    assert text == "p99 is 90 ms, usually 11 ms: Fetch"


def finding(**changes) -> Finding:
    kind = kind_of_finding(built_in("findings")["throttled"])
    result = Finding(
        *("throttled", kind.query.title.rstrip("."), kind.severity, "3 of 9 responses", 30.0),
        *(kind.sure, kind.why, kind.repair, {"client_id": "billing"}),
        *(START_NS, calm().time_ns - SECOND_NS, 7, "requests", ()),
    )
    return result._replace(**changes)


def with_findings(*findings: Finding):
    snapshot = calm()
    return snapshot._replace(
        findings=LatestFindings(snapshot.time_ns, 9, SECOND_NS, tuple(findings), {})
    )


def test_findings_are_alerts_with_their_own_texts():
    assert alert_texts(with_findings()) == []
    finding_alerts = list(alerts(with_findings(finding(), finding(severity=80))))
    assert [alert.text for alert in finding_alerts] == [
        "Clients that a broker throttles: billing: 3 of 9 responses"
    ] * 2
    assert [alert.style for alert in finding_alerts] == ["bold yellow", "bold red"]
    old_ns = calm().time_ns - calm().recent_ns - 1
    assert alert_texts(with_findings(finding(last_time_ns=old_ns))) == []
    assert len(alert_texts(with_findings(finding(last_time_ns=None)))) == 1


def test_control_characters_in_alerts_are_escaped():
    assert all(text.isprintable() for text in alert_texts(hostile()))
    hostile_finding = finding(what=HOSTILE, concerns={"client_id": HOSTILE, "topic": HOSTILE})
    (text,) = alert_texts(with_findings(hostile_finding))
    assert text.isprintable()
