"""Findings about time and the network, in captures that were recorded with a fault.

The expected figures are from the program that provoked the fault (``*.truth.json``).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.api.tables import fill
from kanalyze.cli.main import main
from kanalyze.queries.database import Database
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import findings_of, kind_of_finding
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.anomalies import QUALITY, QualityFact
from kanalyze.spec.rows.tables import TABLES
from tests.queries.test_findings import MS, START_NS, S, connection, request
from tests.support.captures import TROUBLED, path, truth
from tests.support.filled import filled
from tests.support.findings import findings_in
from tests.support.loss import packets_of
from tests.support.packets import Packet, pcap_file
from tests.support.rows import partition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kanalyze.queries.finding import Finding

ALSO_ALLOWED = {
    # The broker is away from when it was killed until it is restarted.
    "fault-killed": {"broker_away"},
    # Its own fetches show it, and so do its commits.
    "fault-lag": {"group_behind"},
    # It is what the client does when there is no topic.
    "fault-metadata-storm": {"metadata_storm"},
    # Some of the packets that are late are lost.
    "fault-network": {"packets_lost"},
    # The client requests metadata after each response, and ignores it.
    "fault-stale-leader": {"metadata_storm"},
}
"""Findings that are allowed beside the fault that a capture was recorded with."""
CONCERNS = {
    "fault-killed": {"client_id": "checkout", "broker": "127.0.0.1:9092"},
    "fault-idle": {"client_id": "nightly-export", "broker": "127.0.0.1:9092"},
    "fault-idle-240": {"client_id": "nightly-export", "broker": "127.0.0.1:9092"},
    "fault-forgotten": {
        "client_id": "nightly-export",
        "broker": "10.77.0.1:9092",
        "api_name": "Produce",
    },
    "fault-heartbeats": {"client_id": "billing", "group_id": "billing-group"},
    "fault-network": {"client_id": "branch-office", "broker": "10.77.0.1:9092"},
    "fault-slow-broker": {"broker": "127.0.0.1:9102", "api_name": "Produce"},
    "fault-nagle": {"client_id": "gateway", "client_ip": "127.0.0.1"},
    "fault-stale-leader": {"client_id": "shop", "topic": "orders"},
    "fault-nobody": {"client_ip": "127.0.0.1", "broker": "192.0.2.9:9092"},
    "fault-wrong-listener": {"client_ip": "127.0.0.1", "broker": "127.0.0.3:9092"},
    "fault-lag": {"client_id": "indexer", "topic": "orders"},
    "fault-one-way": {"broker": "127.0.0.1:9092"},
}


def figures(text: str) -> list[float]:
    """Every number in a text, in order, except in addresses and names."""
    return [float(number) for number in re.findall(r"(?<![\w.:])\d+(?:\.\d+)?(?![\w.:]\S)", text)]


def counted_in_truth(name: str, *keys: str) -> float:
    value: Any = truth(name)
    for key in keys:
        value = value[key]
    return float(value)


@pytest.mark.parametrize("name", TROUBLED)
def test_the_fault_a_capture_was_recorded_with_is_found_first(name: str) -> None:
    first = findings_in(name)[0]
    assert first.name == truth(name)["fault"]
    assert CONCERNS[name].items() <= first.concerns.items()
    assert {finding.name for finding in findings_in(name)} <= {first.name} | ALSO_ALLOWED.get(
        name, set()
    )
    assert first.first_packet is not None
    assert 1 <= first.first_packet <= truth(name)["packets"]


@pytest.mark.parametrize("name", TROUBLED)
def test_the_command_of_a_finding_shows_its_rows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for finding in findings_in(name):
        command_line = [finding.command, str(path(name)), *finding.options, "--format", "jsonl"]
        assert main(command_line) == 0, shlex.join(command_line)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) >= finding.weight if finding.command == "connections" else lines


def test_a_frozen_broker_is_reported_with_the_waiting_time_of_clients() -> None:
    timeout_s = counted_in_truth("fault-killed", "provoked", "client_timeout_s")
    for finding in findings_in("fault-killed")[:2]:
        count, waited_s = figures(finding.what)
        assert (count, waited_s) == (1, pytest.approx(timeout_s, abs=0.3))
        assert "then the client closed the connection; nobody else asked" in finding.what
        assert "its TCP acknowledged them: its process hangs" in finding.what
    away = findings_in("fault-killed")[-1]
    assert away.name == "broker_away"
    assert re.match(r"38 connections of 1 client in 14\.2 s .*: 38 refused, 0 not", away.what)


def test_idle_cuts_are_reported_with_the_length_of_the_silence() -> None:
    facts = truth("fault-idle")["provoked"]
    count, silence_s = figures(findings_in("fault-idle")[0].what)
    assert (count, silence_s) == (facts["records"], pytest.approx(facts["idle_limit_s"], abs=0.3))
    count, silence_s = figures(findings_in("fault-idle-240")[0].what)
    limit_s = counted_in_truth("fault-idle-240", "provoked", "idle_limit_s")
    assert (count, silence_s) == (1, pytest.approx(limit_s, abs=1))


def test_a_forgotten_connection_is_reported_with_the_length_of_its_silence() -> None:
    count, _, again, silence_s = figures(findings_in("fault-forgotten")[0].what)
    assert (count, again) == (1, 6)
    assert silence_s == pytest.approx(
        counted_in_truth("fault-forgotten", "provoked", "silence_s"), abs=0.3
    )


def test_late_heartbeats_are_reported_with_their_number_and_gap() -> None:
    facts = truth("fault-heartbeats")["provoked"]
    count, gap_s, session_s = figures(findings_in("fault-heartbeats")[0].what)
    assert (count, session_s) == (facts["freezes"], facts["session_timeout_s"])
    # The gap begins at the heartbeat before, at most one interval of 1 s earlier.
    assert facts["freeze_s"] <= gap_s <= facts["freeze_s"] + 1.2


def test_a_slow_network_is_reported_with_its_part_of_the_latency() -> None:
    round_trip_ms = 2 * counted_in_truth("fault-network", "provoked", "delay_ms")
    slow, requests, whole_ms, trip_ms, *_ = figures(findings_in("fault-network")[0].what)
    assert 0.9 * requests <= slow <= requests
    assert round_trip_ms <= trip_ms <= round_trip_ms + 2
    assert trip_ms <= whole_ms


def test_a_slow_broker_is_reported_with_its_latency() -> None:
    finding = findings_in("fault-slow-broker")[0]
    facts = truth("fault-slow-broker")
    assert finding.concerns["broker"].endswith(f":{facts['provoked']['slow_port']:.0f}")
    slow, requests, other_ms, _, _, slow_ms = figures(finding.what)
    assert requests == counted_in_truth("fault-slow-broker", "produced_records", "orders", "1")
    assert 1 <= slow < requests
    assert slow_ms >= facts["provoked"]["stands_still_ms"] > 3 * other_ms


def test_delayed_acknowledgments_are_reported_with_the_number_of_requests() -> None:
    late, requests, sending_ms = figures(findings_in("fault-nagle")[0].what)
    sent = sum(
        count
        for versions in truth("fault-nagle")["broker_requests"].values()
        for count in versions.values()
    )
    assert requests == sent
    assert counted_in_truth("fault-nagle", "provoked", "requests") <= late <= sent
    assert 40 <= sending_ms < 50


def test_a_stale_leader_is_reported_with_the_number_of_errors() -> None:
    answers, span_s, partitions, after_metadata_s = figures(
        findings_in("fault-stale-leader")[0].what
    )
    errors = truth("fault-stale-leader")["client_listeners"]["errors"]["Produce"]
    assert answers == errors["NOT_LEADER_OR_FOLLOWER"]
    assert (partitions, span_s > 30, after_metadata_s > 30) == (1, True, True)


@pytest.mark.parametrize(
    ("name", "address", "refused"),
    [("fault-nobody", "192.0.2.9:9092", 0), ("fault-wrong-listener", "127.0.0.3:9092", 8)],
)
def test_a_wrong_listener_is_reported_with_its_address(
    name: str, address: str, refused: int
) -> None:
    [finding] = findings_in(name)
    failed, unanswered_count = (refused, 0) if refused else (1, 1)
    attempts = "1 attempt" if failed == 1 else f"{failed} attempts"
    assert finding.what.startswith(
        f"{attempts} of 1 client to connect to {address}, as named by Metadata: "
        f"{refused} refused, {unanswered_count} without any answer"
    )


def test_lag_is_reported_in_records() -> None:
    facts = truth("fault-lag")
    behind, partitions, growth, _, uncommitted = figures(findings_in("fault-lag")[0].what)
    produced = facts["produced_records"]["orders"]["0"]
    fetched = facts["fetched_records"]["orders"]
    # It cannot know the records that were produced after the broker sent the last response.
    assert partitions == 1
    assert 1000 <= growth < behind <= produced - fetched
    assert behind <= uncommitted <= produced


def test_connections_with_one_direction_are_counted() -> None:
    connections = counted_in_truth("fault-one-way", "broker_listeners", "PLAINTEXT", "connections")
    assert findings_in("fault-one-way")[0].what == (
        f"of {connections:.0f} connections only the packets of the client"
    )


# --- made-up rows: the least that is a fault, and rows just below ---

Tables = dict[str, list[Any]]


def findings(name: str, tables: Tables, **thresholds: float) -> list[Finding]:
    """The findings of one kind."""
    kind = kind_of_finding(built_in("findings")[name])
    with filled(tables) as database:
        return findings_of(
            database, [kind], {f"{name}.{key}": value for key, value in thresholds.items()}
        )


def texts(found: Sequence[Finding]) -> list[str]:
    return [finding.what for finding in found]


def unanswered(waited_ns: int, **changes: Any) -> Tables:
    sound = {
        "closed_by": "client",
        "closed_ns": START_NS + waited_ns,
        "client_lost_bytes": 0,
        "broker_lost_bytes": 0,
    }
    return {
        "requests": [request(latency_ns=None, status="unanswered")],
        "connections": [connection(**{**sound, **changes})],
    }


def test_a_request_is_unanswered_after_a_second_unless_the_answer_may_be_missing() -> None:
    assert len(findings("unanswered", unanswered(S))) == 1
    assert findings("unanswered", unanswered(S - 1)) == []
    assert findings("unanswered", unanswered(S, broker_packets=0)) == []
    assert findings("unanswered", unanswered(S, broker_lost_bytes=1)) == []
    assert findings("unanswered", unanswered(S, closed_ns=None)) == []
    assert findings("unanswered", unanswered(3 * S), least_wait_s=3.1) == []
    joining = unanswered(S)
    joining["requests"][0] = joining["requests"][0]._replace(api_name="JoinGroup")
    assert findings("unanswered", joining) == []


def test_a_fetch_may_be_held_back_up_to_its_max_wait() -> None:
    held = unanswered(3 * S - 1)
    held["requests"][0] = held["requests"][0]._replace(api_name="Fetch", max_wait_ms=2000)
    assert findings("unanswered", held) == []
    held["connections"] = unanswered(3 * S)["connections"]
    assert len(findings("unanswered", held)) == 1
    # The longest wait that the field can hold.
    held["requests"][0] = held["requests"][0]._replace(max_wait_ms=2**31 - 1)
    assert findings("unanswered", held) == []


def test_a_response_after_the_client_closed_is_no_answer() -> None:
    late = unanswered(2 * S)
    late["requests"] = [request(latency_ns=2 * S + 1)]
    assert texts(findings("unanswered", late))[0].startswith(
        "1 without an answer within 2.0 s; then the client closed the connection, and 1 answer "
    )
    late["requests"] = [request(latency_ns=2 * S)]
    assert findings("unanswered", late) == []


def waits(*rows: Any, others: Sequence[Any] = (), closed_s: float = 10) -> list[Finding]:
    """Findings of requests on one connection, and of ``others`` on another, to the same broker."""
    tables = unanswered(int(closed_s * S))
    elsewhere = {"connection": "10.0.0.9:50001>127.0.0.1:9092", "client_id": "else"}
    tables["requests"] = [*rows, *(row._replace(**elsewhere) for row in others)]
    tables["connections"].append(tables["connections"][0]._replace(**elsewhere, closed_ns=None))
    return findings("unanswered", tables)


LOST: dict[str, Any] = {"latency_ns": None, "status": "unanswered"}


def test_a_request_before_answered_ones_was_skipped() -> None:
    later = [request(number * S, request_packet=number) for number in (1, 2, 3)]
    for count, words in ((1, "1 later request on the connection was"), (3, "3 later requests on")):
        [text] = texts(waits(request(0, **LOST), *later[:count]))
        assert text.startswith(f"1 without an answer within 10.0 s: skipped, though {words}")
        assert "hangs" not in text
    # The answer to the later request came after the client had closed the connection.
    [text] = texts(waits(request(0, **LOST), request(S, latency_ns=10 * S)))
    assert "skipped" not in text


def test_who_waits_behind_another_is_only_counted() -> None:
    heartbeat = request(2 * S, api_name="Heartbeat", **LOST)
    write = request(S, api_name="Produce", acks=-1, **LOST)
    [finding] = waits(write, heartbeat)
    assert finding.concerns["api_name"] == "Produce"
    assert finding.what.startswith("1 without an answer within 9.0 s, and 1 request behind;")
    # What it waited behind was a member that waited for others.
    assert waits(request(S, api_name="JoinGroup", **LOST), heartbeat) == []
    # It was answered at last, so only the time since then counts.
    for answered_s, found in ((9.5, 0), (9, 1), (5, 1)):
        late = request(S, int((answered_s - 1) * S), api_name="OffsetCommit")
        assert len(waits(late, heartbeat)) == found


def test_what_others_were_answered_meanwhile_says_whether_the_broker_hangs() -> None:
    write = request(0, api_name="Produce", acks=-1, **LOST)
    others = [request(number * S // 2, client_id="else") for number in range(20)]
    [text] = texts(waits(write, others=others))
    assert text.endswith(
        "; meanwhile the broker answered 9 other requests, so its process runs: a write with "
        "acks=all waits for replicas"
    )
    # Those before the middle of the wait do not show that it runs at its end.
    silent = [*others[:9], *(row._replace(response_start_ns=None) for row in others[10:])]
    [text] = texts(waits(write, others=silent))
    assert "; meanwhile the broker answered none of 9 other requests; its TCP ack" in text
    [text] = texts(waits(write))
    assert "; nobody else asked the broker meanwhile; its TCP acknowledged them" in text


def announces(ranges: str, **changes: Any) -> Any:
    broker = {"broker_ip": a_broker()[0], "broker_port": a_broker()[1]}
    return made_line("metadata", **{"kind": "versions", "announced": ranges, **broker, **changes})


def a_broker() -> tuple[str, int]:
    row = request()
    return row.broker_ip, row.broker_port


def test_a_version_that_was_not_announced_is_no_hanging_broker() -> None:
    tables = unanswered(61 * S)
    fetch = {"api_key": 1, "api_name": "Fetch", "api_version": 12}
    tables["requests"] = [request(**LOST, **fetch)]
    for ranges, words in (
        (
            "0:0-7 1:4-11 11:0-12",
            "Fetch v12; the broker announced Fetch v4 to 11; 1 time the client closed it",
        ),
        (
            "0:0-7 1:13-17",
            "Fetch v12; the broker announced Fetch v13 to 17; 1 time the client closed it",
        ),
        ("0:0-17 11:0-17", "Fetch v12; the broker announced no Fetch; 1 time the client closed it"),
    ):
        tables["metadata"] = [announces(ranges)]
        assert findings("unanswered", tables) == []
        [text] = texts(findings("refused_versions", tables))
        assert text.startswith(f"1 request refused: {words}")
        assert text.endswith("; 1 time the client closed it, after it got no answer")
    for lines in (
        [announces("0:0-7 1:4-12")],
        # Another broker of the same address, such as a load balancer's, does.
        [announces("1:4-11"), announces("1:4-17")],
        [announces("1:4-11", broker_port=1)],
        [],
    ):
        tables["metadata"] = lines
        assert len(findings("unanswered", tables)) == 1
        assert findings("refused_versions", tables) == []


def test_repeated_retransmissions_are_another_finding_than_missing_answers() -> None:
    for retransmissions, kind, other in (
        (2, "unanswered", "sent_into_nothing"),
        (3, "sent_into_nothing", "unanswered"),
    ):
        tables = unanswered(4 * S, client_retransmitted_packets=retransmissions)
        tables["requests"].insert(0, request(-10 * S, latency_ns=S))
        assert len(findings(kind, tables)) == 1
        assert findings(other, tables) == []
    assert texts(findings("sent_into_nothing", tables)) == [
        (
            "1 without an answer within 4.0 s, with 3 retransmissions; "
            "before, the connection was idle for 9.0 s"
        )
    ]


def resent(*rows: Any, **changes: Any) -> Tables:
    """A connection whose client retransmitted, and whose last packet came 4 s after the first."""
    tables = unanswered(4 * S, closed_ns=None, client_retransmitted_packets=3, **changes)
    tables["connections"][0] = tables["connections"][0]._replace(end_ns=START_NS + 4 * S)
    if rows:
        tables["requests"] = list(rows)
    return tables


def test_retransmissions_of_a_connection_are_counted_once() -> None:
    lost = {"latency_ns": None, "status": "unanswered"}
    tables = resent(request(0, **lost), request(MS, **lost), request(2 * MS, **lost))
    other = {"connection": "10.0.0.1:50001>10.0.0.2:9092"}
    tables["requests"].append(request(3 * MS, **lost, **other))
    tables["connections"].append(tables["connections"][0]._replace(**other))
    [text] = texts(findings("sent_into_nothing", tables))
    assert text.startswith("4 without an answer within 4.0 s, with 6 retransmissions")


def test_requests_unanswered_at_the_end_of_the_capture_are_not_lost() -> None:
    lost = {"latency_ns": None, "status": "unanswered"}
    # The broker still answers, but late: its last response came at most a second before the end.
    late = request(-10 * S, api_name="Fetch", latency_ns=13 * S + 1)
    assert findings("sent_into_nothing", resent(late, request(0, **lost))) == []
    silent = request(-10 * S, api_name="Fetch", latency_ns=13 * S)
    assert len(findings("sent_into_nothing", resent(silent, request(0, **lost)))) == 1
    # Other requests of the same API waited as long and were answered.
    for latency_ns, finding_count in ((4 * S, 0), (4 * S - 1, 1)):
        tables = resent(request(-10 * S, latency_ns=latency_ns), request(0, **lost))
        assert len(findings("sent_into_nothing", tables)) == finding_count
    for max_wait_ms, finding_count in ((3001, 0), (3000, 1)):
        tables = resent(request(0, api_name="Fetch", max_wait_ms=max_wait_ms, **lost))
        assert len(findings("sent_into_nothing", tables)) == finding_count
    assert findings("sent_into_nothing", resent(request(0, api_name="JoinGroup", **lost))) == []


def test_without_packets_of_the_broker_requests_are_not_lost() -> None:
    assert len(findings("sent_into_nothing", resent())) == 1
    assert findings("sent_into_nothing", resent(broker_packets=0)) == []
    assert findings("sent_into_nothing", resent(broker_lost_bytes=1)) == []


def test_closed_connections_are_counted_and_not_their_requests() -> None:
    lost = {"latency_ns": None, "status": "unanswered"}
    other = {"connection": "10.0.0.1:50001>10.0.0.2:9092"}
    tables = unanswered(4 * S)
    tables["requests"] = [request(0, **lost), request(MS, **lost), request(0, **lost, **other)]
    tables["connections"].append(tables["connections"][0]._replace(closed_by="broker", **other))
    [text] = texts(findings("unanswered", tables))
    assert "; then the client closed 1 of the connections, the broker the others" in text
    old = {**lost, "api_key": 0, "api_version": 2}
    tables["requests"] = [request(0, **old, **other), request(MS, **old, **other)]
    [text] = texts(findings("refused_versions", tables))
    assert text.endswith("; 1 time the broker closed the connection")


def test_a_missing_response_is_not_counted_as_a_response_without_throttling() -> None:
    tables: Tables = {
        "requests": [
            request(throttle_time_ms=100),
            request(S, throttle_time_ms=0),
            request(2 * S, latency_ns=None, status="unanswered", throttle_time_ms=None),
        ]
    }
    assert texts(findings("throttled", tables))[0].startswith("1 of 2 responses throttled")


def cut(silences_s: Sequence[float], apart_s: float = 60, **changes: Any) -> Tables:
    """Connections that are cut after silences; each begins ``apart_s`` after the one before."""
    tables: Tables = {"requests": [], "connections": []}
    for number, silence_s in enumerate(silences_s, start=1):
        own = {"connection": f"10.0.0.1:{number}>10.0.0.2:9092", "connection_number": 1}
        at_ns = int(number * apart_s * S)
        tables["requests"].append(request(at_ns, latency_ns=0, **own))
        closed_ns = START_NS + at_ns + int(silence_s * S)
        tables["connections"].append(
            connection(closed_ns=closed_ns, **{"closed_by": "broker", **own, **changes})
        )
    return tables


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("silences_s", "is_cut"),
    [
        ([240], True),
        ([235], True),
        ([234.9], False),
        ([540], True),
        ([605], True),
        ([605.1], False),
        ([30, 30, 30], True),
        ([30, 30], False),
        ([30, 30, 34], False),
        ([30, 31, 33], True),
        ([1.9, 1.9, 1.9], False),
    ],
)
def test_a_cut_follows_a_known_limit_or_the_same_silence_each_time(
    silences_s: list[float], *, is_cut: bool
) -> None:
    assert bool(findings("idle_cut", cut(silences_s))) is is_cut
    if is_cut:
        assert findings("idle_cut", cut(silences_s, closed_by="client")) == []


def test_a_broker_that_stops_closes_all_connections_without_a_cut() -> None:
    assert findings("idle_cut", cut([30, 30, 30], apart_s=0.5)) == []


def slow_to_send(count: int, of: int, sending_ms: float, **changes: Any) -> Tables:
    late = [
        request(number * S, request_end_ns=START_NS + number * S + int(sending_ms * MS))
        for number in range(count)
    ]
    others = [request(number * S) for number in range(count, of)]
    return {
        "requests": [*late, *others],
        "connections": [connection(client_out_of_order_packets=0, **changes)],
    }


def test_a_request_that_waits_for_an_acknowledgment_takes_40_or_200_ms_to_send() -> None:
    for sending_ms, is_late in ((39, 1), (49, 1), (50, 0), (38, 0), (199, 1), (209, 1), (100, 0)):
        found = findings("delayed_acknowledgment", slow_to_send(5, 500, sending_ms))
        assert len(found) == is_late, sending_ms
    assert findings("delayed_acknowledgment", slow_to_send(5, 501, 40)) == []
    assert findings("delayed_acknowledgment", slow_to_send(4, 4, 40)) == []
    lossy = slow_to_send(5, 5, 200, client_retransmitted_packets=1)
    assert findings("delayed_acknowledgment", lossy) == []


def beats(gap_ns: int, session_ms: int | None) -> Tables:
    member = {"group_id": "g", "member_id": "m", "api_name": "Heartbeat", "api_key": 12}
    tables: Tables = {
        "requests": [request(0, latency_ns=0, **member), request(gap_ns, **member)],
        "connections": [connection(client_lost_bytes=0)],
    }
    if session_ms is not None:
        tables["groups"] = [group_event(session_timeout_ms=session_ms)]
    return tables


def group_event(**changes: Any) -> Any:
    return made_line("groups", event="join", group_id="g", member_id="m", **changes)


def made_line(table: str, **values: Any) -> Any:
    """A line of a table with few known values."""
    empty_values = {
        "string": "",
        "bool": False,
        "list<string>": (),
        "list<struct>": (),
    }
    columns = {
        column.name: None if column.nullable else empty_values.get(column.type, 0)
        for column in TABLES[table].columns
    }
    return SimpleNamespace(**{**columns, **values})


def test_a_heartbeat_is_late_after_a_third_of_the_session_timeout() -> None:
    assert len(findings("late_heartbeats", beats(4 * S, 10_000), least_share=0.4)) == 1
    assert findings("late_heartbeats", beats(4 * S - 1, 10_000), least_share=0.4) == []
    for odd_ms in (0, -1, 2**31 - 1):
        assert findings("late_heartbeats", beats(4 * S, odd_ms)) == []
    # As long as between its other requests: so is its heartbeat.interval.ms.
    regular = beats(4 * S, 10_000)
    last = regular["requests"][1]
    regular["requests"] += [last._replace(request_start_ns=last.request_start_ns + 4 * S)]
    assert findings("late_heartbeats", regular) == []
    regular["requests"] += [last._replace(request_start_ns=last.request_start_ns + 11 * S)]
    assert len(findings("late_heartbeats", regular)) == 1
    # The timeout is not in the capture: the default, 45 s, is assumed.
    assert len(findings("late_heartbeats", beats(16 * S, None))) == 1
    assert findings("late_heartbeats", beats(15 * S, None)) == []


def attempt(number: int, *, is_refused: bool, at_s: float = 0, **changes: Any) -> Any:
    ends = {"closed_by": "broker", "end": "reset", "broker_packets": 1} if is_refused else {}
    return connection(
        **{
            "connection": f"10.0.0.1:{number}>10.0.0.2:9092",
            "connection_number": 1,
            "broker_ip": "10.0.0.2",
            "broker_port": 9092,
            "protocol": "none",
            "opened_by": "client",
            "closed_by": None,
            "end": "open",
            "broker_packets": 0,
            "client_payload_bytes": 0,
            "broker_payload_bytes": 0,
            "client_syn_retransmissions": 0 if is_refused else 2,
            "start_ns": START_NS + int(at_s * S),
            **ends,
            **changes,
        }
    )


def listed_broker(host: str, port: int = 9092) -> Any:
    return made_line("metadata", kind="broker", host=host, port=port)


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_listener_in_metadata_that_never_answers_is_wrong(*, is_refused: bool) -> None:
    failed = attempt(1, is_refused=is_refused)
    for host, port, is_wrong in (
        ("10.0.0.2", 9092, True),
        ("broker.example", 9092, True),
        ("10.0.0.3", 9092, False),
        ("10.0.0.2", 9093, False),
    ):
        tables: Tables = {"connections": [failed], "metadata": [listed_broker(host, port)]}
        assert bool(findings("wrong_listener", tables)) is is_wrong, (host, port)
    answering = attempt(2, is_refused=False, broker_payload_bytes=1, protocol="kafka")
    tables = {"connections": [failed, answering], "metadata": [listed_broker("10.0.0.2")]}
    assert findings("wrong_listener", tables) == []


def test_a_single_syn_may_be_answered_after_the_capture() -> None:
    once = attempt(1, is_refused=False, client_syn_retransmissions=0)
    tables: Tables = {"connections": [once], "metadata": [listed_broker("10.0.0.2")]}
    assert findings("wrong_listener", tables) == []


def serving(number: int, at_s: float) -> Any:
    """A connection that the broker accepted."""
    return attempt(
        number, is_refused=False, at_s=at_s, broker_payload_bytes=1, protocol="kafka", end="open"
    )


def answered_by_it(at_s: float, latency_ns: int | None = MS, **changes: Any) -> Any:
    return request(
        int(at_s * S), latency_ns, broker_ip="10.0.0.2", broker_port=9092, client_id="c", **changes
    )


def refusing(first_s: float = 10, count: int = 3) -> list[Any]:
    return [attempt(n, is_refused=True, at_s=first_s + n / 2) for n in range(count)]


def away(**tables: list[Any]) -> str:
    [finding] = findings("broker_away", tables)
    assert findings("broker_restarted", tables) == []
    return finding.what


def test_a_broker_that_answers_before_or_after_is_away() -> None:
    assert away(connections=[serving(9, 0), *refusing()]) == (
        "3 connections of 1 client in 1.0 s failed: 3 refused, 0 not answered; 1 other succeeded; "
        "it was not seen to come back"
    )
    assert findings("broker_away", {"connections": refusing()}) == []
    assert findings("broker_away", {"connections": [serving(9, 0), *refusing(count=2)]}) == []
    at_once = [attempt(number, is_refused=True, at_s=5) for number in range(3)]
    assert findings("broker_away", {"connections": [serving(9, 0), *at_once]}) == []
    # The capture begins while a cluster starts; later the broker is away for a moment.
    starts = [attempt(n, is_refused=True, at_s=n / 10) for n in range(3)]
    moment = [attempt(n, is_refused=True, at_s=20 + n) for n in range(2)]
    assert findings("broker_away", {"connections": [*starts, serving(9, 1), *moment]}) == []


def test_a_broker_that_is_away_is_named_by_its_port_of_clients() -> None:
    tried = [attempt(n, is_refused=True, at_s=10 + n, broker_port=9093) for n in range(9)]
    connections = [serving(9, 0), *refusing(), *tried]
    connections.append(serving(10, 0)._replace(broker_port=9093))
    beat = answered_by_it(1, api_key=63, api_name="BrokerHeartbeat")
    requests = [beat._replace(broker_port=9093)]
    found = findings("broker_away", {"connections": connections, "requests": requests})
    assert [each.concerns["broker"] for each in found] == ["10.0.0.2:9092", "10.0.0.2:9093"]


def test_a_broker_is_back_when_it_copies_partitions_again() -> None:
    def copying(at_s: float, **changes: Any) -> Any:
        values = {"client_ip": "10.0.0.2", "broker_ip": "10.0.0.3", **changes}
        return serving(20, at_s)._replace(client_id="broker-2-fetcher-0", **values)

    connections = [serving(9, 0), *refusing()]
    for copies, is_back in (
        ([copying(30)], True),
        ([copying(5, end_ns=START_NS + 10 * S), copying(30)], True),
        # The node's controller ends last.
        ([copying(5)._replace(client_id="raft-client-2"), copying(30)], True),
        # It went on copying all the time: only that port was closed.
        ([copying(5, end_ns=START_NS + 99 * S), copying(30)], False),
        # Brokers of one machine cannot be told apart by their address.
        ([copying(30, broker_ip="10.0.0.2", broker_port=9093)], False),
    ):
        [finding] = findings("broker_away", {"connections": [*connections, *copies]}) or [None]
        [note] = findings("broker_restarted", {"connections": [*connections, *copies]}) or [None]
        assert (finding is None, note is not None) == (is_back, is_back)
        assert note is None or note.last_time_ns == START_NS + 30 * S


def test_a_broker_that_answers_on_open_connections_is_not_gone() -> None:
    connections = [serving(9, 0), *refusing()]
    assert away(connections=connections, requests=[answered_by_it(10.5)]).endswith(
        "; but on connections that were open it answered 1 request meanwhile; it was not seen to "
        "come back"
    )
    some = [*connections, serving(10, 10.4), serving(11, 12)]
    assert "; 3 others succeeded, of which 1 meanwhile" in away(connections=some)


def test_a_restart_without_a_failed_write_is_no_fault() -> None:
    connections = [serving(9, 0), *refusing(), serving(10, 40)]
    requests = [answered_by_it(1), answered_by_it(9), answered_by_it(50)]
    tables: Tables = {"connections": connections, "requests": requests}
    assert findings("broker_away", tables) == []
    [finding] = findings("broker_restarted", tables)
    assert finding.what == (
        "left, and was back 31.0 s later; 3 connections failed meanwhile, no write; others "
        "answered 0 of 1 client"
    )
    assert (finding.first_time_ns, finding.last_time_ns) == (
        START_NS + 9 * S + MS,
        START_NS + 40 * S,
    )
    # Clients that know other brokers try twice.
    twice = {**tables, "connections": [serving(9, 0), *refusing(count=2), serving(10, 40)]}
    [text] = texts(findings("broker_restarted", twice))
    assert "; 2 connections failed meanwhile" in text
    came = {"connections": [*refusing(0), serving(10, 40)]}
    [text] = texts(findings("broker_restarted", came))
    assert text == (
        "not reachable at first; it came 40.0 s later; 3 connections failed meanwhile, no write; "
        "others answered 0 of 1 client"
    )
    moved = request(11 * S, client_ip=connections[1].client_ip)
    [text] = texts(findings("broker_restarted", {**tables, "requests": [*requests, moved]}))
    assert text.endswith("; others answered 1 of 1 client")
    for bad, words in (
        (answered_by_it(9.5, None, status="unanswered"), "; it left 1 write unanswered"),
        (request(20 * S, status="error", error_code=19), "; 1 write failed for want of replicas"),
        (request(20 * S, 8 * S), "; the longest write meanwhile took 8.0 s"),
    ):
        text = away(connections=connections, requests=[*requests, bad])
        assert "; it was back 31.0 s after its last answer" in text
        assert words in text
    # A heartbeat or a fetch that was waiting there is no loss.
    fetch = answered_by_it(9.5, None, status="unanswered", api_name="Fetch", api_key=1)
    assert findings("broker_away", {**tables, "requests": [*requests, fetch]}) == []


def test_a_controller_that_is_away_is_called_one() -> None:
    beat = answered_by_it(1, api_key=63, api_name="BrokerHeartbeat")
    text = away(connections=[serving(9, 0), *refusing()], requests=[beat])
    assert "; the address is a controller's; it was not seen" in text


def asks(*seconds: float, **changes: Any) -> list[Any]:
    metadata = {"api_name": "Metadata", "api_key": 3, **changes}
    return [request(int(at_s * S), **metadata) for at_s in seconds]


def test_metadata_is_stormed_for_only_as_long_as_requests_follow_each_other() -> None:
    often = [float(n) for n in range(31)]
    [text] = texts(findings("metadata_storm", {"requests": asks(*often, 60, 90)}))
    assert text == (
        "31 Metadata requests in 30.0 s on 1 connection, 0 answered with an error; "
        "meanwhile it neither produced nor fetched"
    )
    # 14 in 41 s, 13 of them in 10 s.
    assert findings("metadata_storm", {"requests": asks(*(n * 0.8 for n in range(13)), 41)}) == []
    assert findings("metadata_storm", {"requests": asks(*often[:15], *(n + 6 for n in often))})
    assert findings("metadata_storm", {"requests": asks(*often[:25], 40, 50, 60)}) == []


def test_a_storm_of_metadata_says_whether_the_client_makes_progress() -> None:
    often = asks(*range(31))
    some = [request(n * S, status="ok" if n % 2 else "error", error_code=6) for n in range(10)]
    other = [request(S, client_id="another")]
    [text] = texts(findings("metadata_storm", {"requests": [*often, *some, *other]}))
    assert text.endswith("; meanwhile 5 of 10 requests to produce or to fetch succeeded")


def test_a_client_that_looks_for_a_broker_that_is_away_does_not_storm() -> None:
    often = asks(*range(31))
    ip = often[0].client_ip
    for failed_s, client_ip, found in ((10, ip, 0), (-1, ip, 1), (31, ip, 1), (10, "10.3.3.3", 1)):
        failed = attempt(1, is_refused=True, at_s=failed_s, client_ip=client_ip)
        tables: Tables = {"requests": often, "connections": [failed]}
        assert len(findings("metadata_storm", tables)) == found
    # What the broker says of a topic is no matter of another broker.
    wrong = asks(*range(31), status="error", error_code=3)
    failed = attempt(1, is_refused=True, at_s=10, client_ip=ip)
    tables = {"requests": wrong, "connections": [failed]}
    assert len(findings("metadata_storm", tables)) == 1


WHOLE = {
    "client_lost_bytes": 0,
    "broker_lost_bytes": 0,
    "client_snapped_bytes": 0,
    "broker_snapped_bytes": 0,
}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("capture_lost_packets", {"broker_lost_bytes": 1}),
        ("capture_snapped", {"client_snapped_bytes": 1}),
        ("capture_one_way", {"broker_packets": 0, "opened_by": "client", "client_packets": 3}),
        ("capture_one_way", {"client_packets": 0, "broker_packets": 3}),
        ("capture_encrypted", {"protocol": "tls"}),
    ],
)
def test_missing_parts_of_a_capture_are_reported(kind: str, changes: dict[str, Any]) -> None:
    sound = connection(**WHOLE)
    assert findings(kind, {"connections": [sound]}) == []
    assert len(findings(kind, {"connections": [sound._replace(**changes)]})) == 1


def test_packets_dropped_by_the_capturing_program_are_reported() -> None:
    for packets, expected in ((0, []), (7, ["7 packets dropped by the capturing program"])):
        facts = [QualityFact("dropped_packets", None, packets), QualityFact("packets", None, 9)]
        assert texts(findings("capture_lost_packets", {QUALITY: facts})) == expected


def beyond_nat(packet: Packet) -> Packet:
    """The packet beyond a NAT: a moment later, and with another client address."""
    data = bytearray(packet.data)
    is_request = data[36:38] == (9092).to_bytes(2, "big")
    at = 26 if is_request else 30
    data[at : at + 4] = bytes((10, 9, 8, 7))
    return replace(packet, data=bytes(data), time_ns=packet.time_ns + MS)


def test_a_capture_of_both_sides_of_a_nat_has_each_request_twice(tmp_path: Path) -> None:
    one_side = packets_of("groups")
    both = sorted([*one_side, *map(beyond_nat, one_side)], key=lambda packet: packet.time_ns)
    file = tmp_path / "both.pcap"
    file.write_bytes(pcap_file(both))
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([str(file)]))
        kind = kind_of_finding(built_in("findings")["capture_twice"])
        [finding] = findings_of(database, [kind])
        sums = database.ask(
            "SELECT count(*) AS n, sum(requests) AS requests FROM connections "
            "WHERE requests > 0 AND client_ip = '127.0.0.1'"
        ).to_pylist()[0]
    assert finding.what == (
        f"{sums['n']} connections between 127.0.0.1 and 127.0.0.1:9092 are the same as those "
        f"between 10.9.8.7 and 127.0.0.1:9092: {sums['requests']} requests are in the capture twice"
    )


US = 1_000
CLIENT, OTHER_CLIENT, BROKER, OTHER_BROKER = "10.0.0.1", "10.9.9.9", "10.0.0.2", "10.0.0.3"


def side(
    client: tuple[str, int],
    broker: str,
    sent_us: Sequence[int],
    answered_us: Sequence[int],
    **changes: Any,
) -> Tables:
    """A connection, and its requests with ids from 1 on, as librdkafka counts them."""
    ip, port = client
    own = {
        "connection": f"{ip}:{port}>{broker}:9092",
        "connection_number": 1,
        "client_ip": ip,
        "client_port": port,
        "broker_ip": broker,
        "broker_port": 9092,
    }
    times = {"start_ns": START_NS + sent_us[0] * US, "end_ns": START_NS + answered_us[-1] * US}
    plain = {"partitions": [], "record_count": None, "api_name": "Metadata", "api_key": 3}
    requests = [
        request(sent * US, (answered - sent) * US, correlation_id=n, **{**own, **plain, **changes})
        for n, (sent, answered) in enumerate(zip(sent_us, answered_us, strict=True), start=1)
    ]
    return {
        "requests": requests,
        "connections": [connection(requests=len(requests), **own, **times)],
    }


def both(one: Tables, other: Tables) -> Tables:
    return {table: [*one[table], *other[table]] for table in one}


def copied(count: int, apart_us: int, *, client: Any, broker: str, **changes: Any) -> Tables:
    """Requests before and after a NAT: every packet of the second side comes later."""
    sent = [n * 7_000 for n in range(count)]
    answered = [at + 2_000 for at in sent]
    later = ([at + apart_us for at in times] for times in (sent, answered))
    return both(
        side((CLIENT, 5000), BROKER, sent, answered, **changes),
        side(client, broker, *later, **changes),
    )


@pytest.mark.parametrize("count", [1, 2, 6])
def test_packets_before_and_after_a_nat_are_twice_in_the_capture_without_records(
    count: int,
) -> None:
    for client, broker in (((CLIENT, 5000), OTHER_BROKER), ((OTHER_CLIENT, 5000), BROKER)):
        [text] = texts(findings("capture_twice", copied(count, 40, client=client, broker=broker)))
        words = "1 request is" if count == 1 else f"{count} requests are"
        assert text.endswith(f": {words} in the capture twice")
    # Few requests may be alike by chance.
    far = copied(count, 6_000, client=(CLIENT, 5000), broker=OTHER_BROKER)
    assert len(findings("capture_twice", far)) == (count >= 5)


def test_copies_on_both_sides_of_a_full_second_are_twice_in_the_capture() -> None:
    before_us = -20 - START_NS // US % 1_000_000
    sent = [before_us + n * 7_000 for n in range(6)]
    answered = [at + 2_000 for at in sent]
    later = ([at + 40 for at in times] for times in (sent, answered))
    tables = both(
        side((CLIENT, 5000), BROKER, sent, answered),
        side((CLIENT, 5000), OTHER_BROKER, *later),
    )
    starts_s = {row.start_ns // S for row in tables["connections"]}
    assert len(starts_s) == 2
    assert len(findings("capture_twice", tables)) == 1


def test_with_another_port_the_offsets_of_records_or_the_times_show_a_copy() -> None:
    other = {"client": (OTHER_CLIENT, 6000), "broker": BROKER}
    assert findings("capture_twice", copied(6, 40, **other)) == []
    produced = {"api_name": "Produce", "api_key": 0, "partitions": [partition(base_offset=7)]}
    assert len(findings("capture_twice", copied(2, 40, **other, **produced))) == 1
    # Without an answer (acks=0) there is no offset.
    produced["partitions"] = [partition(base_offset=None)]
    assert findings("capture_twice", copied(6, 40, **other, **produced)) == []
    # Each request passes the first side first, and each response the second.
    sent = [n * 7_000 for n in range(6)]
    tables = both(
        side((CLIENT, 5000), BROKER, sent, [at + 2_000 for at in sent]),
        side((OTHER_CLIENT, 6000), BROKER, [at + 40 for at in sent], [at + 1_960 for at in sent]),
    )
    assert len(findings("capture_twice", tables)) == 1


def test_clients_that_count_from_one_alike_are_no_copies() -> None:
    """librdkafka counts the requests of each connection from 1, and connects to all brokers."""
    for client, broker in (((CLIENT, 5001), OTHER_BROKER), ((OTHER_CLIENT, 5001), BROKER)):
        for count in (1, 2, 6):
            for apart_us in (0, 40, 3_000):
                tables = copied(count, apart_us, client=client, broker=broker)
                assert findings("capture_twice", tables) == [], (client, broker, count, apart_us)
    # The same port, but the responses are of different brokers.
    sent = [0, 7_000]
    tables = both(
        side((CLIENT, 5000), BROKER, sent, [at + 2_000 for at in sent], response_bytes=100),
        side((CLIENT, 5000), OTHER_BROKER, sent, [at + 2_000 for at in sent], response_bytes=101),
    )
    assert findings("capture_twice", tables) == []


def test_a_copy_is_found_among_many_connections_that_look_the_same() -> None:
    tables = copied(2, 40, client=(CLIENT, 5000), broker=OTHER_BROKER)
    for number in range(100):
        at_us = [number * 300, number * 300 + 7_000]
        other = side((CLIENT, 7000 + number), BROKER, at_us, [at + 2_000 for at in at_us])
        tables = both(tables, other)
    assert len(findings("capture_twice", tables)) == 1


def test_tls_is_reported_only_if_it_may_carry_kafka() -> None:
    web = connection(protocol="tls", broker_port=443)
    assert len(findings("capture_encrypted", {"connections": [web]})) == 1
    assert findings("capture_encrypted", {"connections": [web, connection()]}) == []


def test_failed_tls_connections_are_neither_encrypted_traffic_nor_a_storm() -> None:
    failed = connection(protocol="tls", tls_failure="unknown_ca")
    assert findings("capture_encrypted", {"connections": [failed]}) == []
    assert findings("capture_encrypted", {"connections": [failed._replace(tls_failure=None)]})
    many = [
        connection(opened_by="client", end="fin", start_ns=n * MS, duration_ns=MS)
        for n in range(40)
    ]
    refused = [closed._replace(tls_failure="unknown_ca") for closed in many]
    assert findings("connection_storm", {"connections": many})
    assert findings("connection_storm", {"connections": refused}) == []
    assert findings("tls_failed", {"connections": refused})


def answered_by(ip: str, latency_ms: int, **changes: Any) -> list[Any]:
    times = {"latency_ns": latency_ms * MS, "broker_time_ns": None}
    return [request(number * S, broker_ip=ip, **{**times, **changes}) for number in range(100)]


def test_a_slow_broker_is_compared_with_the_slowest_other_broker() -> None:
    middle = [*answered_by("1", 10), *answered_by("2", 40), *answered_by("3", 150)]
    found = findings("slow_broker", {"requests": middle})
    assert [finding.concerns["broker"] for finding in found] == ["3:9092"]


def test_brokers_are_compared_with_others_that_do_the_same() -> None:
    fetch = {"api_name": "Fetch", "api_key": 1}
    fast = [*answered_by("1", 1, **fetch), *answered_by("2", 1, **fetch)]
    for asker, port, is_slow in (
        ("indexer", 9092, True),
        # Brokers copy from the third, consumers read from the others.
        ("broker-2-fetcher-0", 9092, False),
        ("broker-x-fetcher-0", 9092, True),
        ("raft-client-2", 9093, False),
        ("indexer", 9093, True),
    ):
        other = answered_by("3", 100, client_id=asker, broker_port=port, **fetch)
        assert bool(findings("slow_broker", {"requests": [*fast, *other]})) is is_slow, asker
    # A controller answers ApiVersions more slowly than brokers do, but like another controller.
    asked = {"api_name": "ApiVersions", "api_key": 18}
    fast = [*answered_by("1", 1, **asked), *answered_by("2", 1, **asked)]
    slow = answered_by("3", 100, broker_port=9093, **asked)
    vote = request(broker_ip="3", broker_port=9093, api_key=52, api_name="Vote")
    assert findings("slow_broker", {"requests": [*fast, *slow]})
    assert findings("slow_broker", {"requests": [*fast, *slow, vote]}) == []
    # Brokers of the same port say more than those of another listener.
    alike = answered_by("4", 100, broker_port=9093, **asked)
    assert findings("slow_broker", {"requests": [*fast, *slow, *alike]}) == []


@pytest.mark.parametrize(("by_chance", "begin_s", "end_s"), [(11, 50, 68), (93, 51, 69)])
def test_when_a_broker_was_slow_does_not_depend_on_one_request_that_is_late_by_chance(
    by_chance: int, begin_s: int, end_s: int
) -> None:
    rows = [*answered_by("1", 10), *answered_by("2", 10)]
    for number in (*range(50, 70), by_chance):
        rows[100 + number] = rows[100 + number]._replace(latency_ns=90 * MS)
    [finding] = findings("slow_broker", {"requests": rows})
    times = (finding.first_time_ns, finding.last_time_ns)
    assert times == (START_NS + begin_s * S, START_NS + end_s * S)
    assert finding.what.startswith("21 of 100 requests took more than 10.0 ms")


def test_a_few_late_answers_and_one_pause_are_no_slow_broker() -> None:
    def found(late: Callable[[int], bool], count: int = 1000) -> int:
        """Look for slow brokers where some of many requests, ten a second, are late."""
        others, own = (
            [
                request(n * S // 10, broker_ip=ip, latency_ns=10 * MS, broker_time_ns=None)
                for n in range(count)
            ]
            for ip in "12"
        )
        rows = [row._replace(latency_ns=90 * MS) if late(n) else row for n, row in enumerate(own)]
        return len(findings("slow_broker", {"requests": [*others, *rows]}))

    assert found(lambda n: n % 10 == 0)
    assert not found(lambda n: n % 11 == 0), "fewer than one of ten"
    assert not found(lambda n: n % 100 < 7), "some pauses of less than a second"
    assert not found(lambda n: n < 20, 100), "all within two seconds"
    assert found(lambda n: n < 30, 100)


def test_waiting_behind_a_slow_response_is_time_of_the_broker() -> None:
    fast = answered_by("1", 10)
    for queued_ms, is_slow in ((90, 1), (5, 0)):
        behind = {"broker_time_ns": 5 * MS, "pipeline_wait_ns": queued_ms * MS}
        own = [row._replace(**behind) for row in answered_by("2", 95)]
        assert len(findings("slow_broker", {"requests": [*fast, *own]})) == is_slow


def test_brokers_that_copy_partitions_are_no_clients_with_much_traffic() -> None:
    def fetched(name: str, size: int) -> Any:
        return request(client_id=name, api_name="Fetch", api_key=1, response_bytes=size)

    others = [fetched(f"c{n}", 1_000) for n in range(9)]
    for name, found in (("broker-1-fetcher-0", 0), ("broker-1", 1), ("raft-client-1", 0)):
        assert len(findings("hot_client", {"requests": [*others, fetched(name, 10**6)]})) == found


def test_a_partition_of_many_is_hot_if_it_has_a_good_part_of_the_bytes() -> None:
    for others, found in ((10, 1), (300, 0)):
        parts = [partition("orders", n, record_bytes=10_000) for n in range(others)]
        hot = partition("orders", others, record_bytes=100_000)
        tables: Tables = {"requests": [request(partitions=[*parts, hot])]}
        assert len(findings("hot_partition", tables)) == found
