"""Findings of what is seen in time and on the network, in captures that were recorded with a fault.

The figures are those of who provoked the fault (``*.truth.json``), not ours.
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
from kanalyze.queries.findings import Finding, findings_of, kind_of_finding
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.quality_facts import QUALITY, QualityFact
from kanalyze.tables.registry import TABLES
from tests.queries.test_findings import MS, START_NS, S, connection, request
from tests.support.captures import TROUBLED, path, truth
from tests.support.filled import filled
from tests.support.findings import findings_in
from tests.support.loss import packets_of
from tests.support.packets import Packet, pcap_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BESIDE = {
    # It is away from when it was killed to when it is there again.
    "fault-killed": {"broker_away"},
    # It asks for metadata after each answer, and heeds none.
    "fault-stale-leader": {"metadata_storm"},
}
"""What may be found beside the fault that a capture was recorded with."""
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
    """Every number in words, in order; what is part of an address or a name is none."""
    return [float(each) for each in re.findall(r"(?<![\w.:])\d+(?:\.\d+)?(?![\w.:]\S)", text)]


def answered(name: str, *keys: str) -> float:
    found: Any = truth(name)
    for key in keys:
        found = found[key]
    return float(found)


@pytest.mark.parametrize("name", TROUBLED)
def test_the_fault_that_a_capture_was_recorded_with_is_found_first(name: str) -> None:
    first = findings_in(name)[0]
    assert first.name == truth(name)["fault"]
    assert CONCERNS[name].items() <= first.concerns.items()
    assert {each.name for each in findings_in(name)} <= {first.name} | BESIDE.get(name, set())
    assert first.first_packet is not None
    assert 1 <= first.first_packet <= truth(name)["packets"]


@pytest.mark.parametrize("name", TROUBLED)
def test_what_to_look_at_next_shows_its_rows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for found in findings_in(name):
        words = [found.command, str(path(name)), *found.options, "--format", "jsonl"]
        assert main(words) == 0, shlex.join(words)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) >= found.weight if found.command == "connections" else lines


def test_it_is_said_how_long_clients_waited_for_a_broker_that_stands_still() -> None:
    timeout_s = answered("fault-killed", "provoked", "client_timeout_s")
    for found in findings_in("fault-killed")[:2]:
        count, waited_s = figures(found.what)
        assert (count, waited_s) == (1, pytest.approx(timeout_s, abs=0.3))
        assert "then the client closed the connection; its TCP acknowledged them" in found.what
    away = findings_in("fault-killed")[-1]
    assert away.name == "broker_away"
    assert re.match(r"38 connections of 1 client in 14\.2 s .*: 38 refused, 0 not", away.what)


def test_it_is_said_after_which_silence_connections_are_cut() -> None:
    told = truth("fault-idle")["provoked"]
    count, silence_s = figures(findings_in("fault-idle")[0].what)
    assert (count, silence_s) == (told["records"], pytest.approx(told["idle_limit_s"], abs=0.3))
    count, silence_s = figures(findings_in("fault-idle-240")[0].what)
    limit_s = answered("fault-idle-240", "provoked", "idle_limit_s")
    assert (count, silence_s) == (1, pytest.approx(limit_s, abs=1))


def test_it_is_said_that_a_connection_was_forgotten_and_how_long_it_had_been_silent() -> None:
    count, _, again, silence_s = figures(findings_in("fault-forgotten")[0].what)
    assert (count, again) == (1, 6)
    assert silence_s == pytest.approx(answered("fault-forgotten", "provoked", "silence_s"), abs=0.3)


def test_it_is_said_how_often_and_how_long_a_member_stood_still() -> None:
    told = truth("fault-heartbeats")["provoked"]
    count, gap_s, session_s = figures(findings_in("fault-heartbeats")[0].what)
    assert (count, session_s) == (told["freezes"], told["session_timeout_s"])
    # From the heartbeat before it, one interval of 1 s earlier at most.
    assert told["freeze_s"] <= gap_s <= told["freeze_s"] + 1.2


def test_it_is_said_what_the_way_takes_of_the_latency() -> None:
    there_and_back_ms = 2 * answered("fault-network", "provoked", "delay_ms")
    slow, requests, whole_ms, trip_ms, *_ = figures(findings_in("fault-network")[0].what)
    assert 0.9 * requests <= slow <= requests
    assert there_and_back_ms <= trip_ms <= there_and_back_ms + 2
    assert trip_ms <= whole_ms


def test_it_is_said_which_broker_is_slow_and_by_how_much() -> None:
    found = findings_in("fault-slow-broker")[0]
    told = truth("fault-slow-broker")
    assert found.concerns["broker"].endswith(f":{told['provoked']['slow_port']:.0f}")
    _, requests, slow_ms, other_ms = figures(found.what)
    assert requests == answered("fault-slow-broker", "produced_records", "orders", "1")
    assert slow_ms >= told["provoked"]["stands_still_ms"] > 3 * other_ms


def test_it_is_said_how_many_requests_wait_for_an_acknowledgment() -> None:
    late, requests, sending_ms = figures(findings_in("fault-nagle")[0].what)
    sent = sum(
        count
        for versions in truth("fault-nagle")["broker_requests"].values()
        for count in versions.values()
    )
    assert requests == sent
    assert answered("fault-nagle", "provoked", "requests") <= late <= sent
    assert 40 <= sending_ms < 50


def test_it_is_said_how_often_the_wrong_broker_was_asked() -> None:
    answers, span_s, partitions, told = figures(findings_in("fault-stale-leader")[0].what)
    errors = truth("fault-stale-leader")["client_listeners"]["errors"]["Produce"]
    assert answers == errors["NOT_LEADER_OR_FOLLOWER"]
    assert (partitions, span_s > 30, told > 30) == (1, True, True)


@pytest.mark.parametrize(
    ("name", "address", "refused"),
    [("fault-nobody", "192.0.2.9:9092", 0), ("fault-wrong-listener", "127.0.0.3:9092", 8)],
)
def test_it_is_said_where_nobody_answers(name: str, address: str, refused: int) -> None:
    [found] = findings_in(name)
    many, vain = (refused, 0) if refused else (1, 1)
    attempts = "1 attempt" if many == 1 else f"{many} attempts"
    assert found.what.startswith(
        f"{attempts} of 1 client to connect to {address}, as named by Metadata: "
        f"{refused} refused, {vain} without any answer"
    )


def test_it_is_said_how_far_a_consumer_is_behind() -> None:
    told = truth("fault-lag")
    behind, partitions, growth, _, uncommitted = figures(findings_in("fault-lag")[0].what)
    produced = told["produced_records"]["orders"]["0"]
    fetched = told["fetched_records"]["orders"]
    # Of what was produced while the last answer was on its way, or after it, it cannot tell.
    assert partitions == 1
    assert 1000 <= growth < behind <= produced - fetched
    assert behind <= uncommitted <= produced


def test_it_is_said_of_how_many_connections_one_direction_is_there() -> None:
    connections = answered("fault-one-way", "broker_listeners", "PLAINTEXT", "connections")
    assert findings_in("fault-one-way")[0].what == (
        f"of {connections:.0f} connections only the packets of the client"
    )


# --- made up: the least that is a fault, and what is just none ---

Tables = dict[str, list[Any]]


def findings(name: str, tables: Tables, **thresholds: float) -> list[Finding]:
    """What is found of one kind."""
    kind = kind_of_finding(built_in("findings")[name])
    with filled(tables) as database:
        return findings_of(
            database, [kind], {f"{name}.{key}": value for key, value in thresholds.items()}
        )


def words(found: Sequence[Finding]) -> list[str]:
    return [each.what for each in found]


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


def test_a_fetch_may_be_held_for_as_long_as_it_allows() -> None:
    held = unanswered(3 * S - 1)
    held["requests"][0] = held["requests"][0]._replace(api_name="Fetch", max_wait_ms=2000)
    assert findings("unanswered", held) == []
    held["connections"] = unanswered(3 * S)["connections"]
    assert len(findings("unanswered", held)) == 1
    # The longest that the wire can say.
    held["requests"][0] = held["requests"][0]._replace(max_wait_ms=2**31 - 1)
    assert findings("unanswered", held) == []


def test_what_comes_when_the_client_has_gone_is_no_answer() -> None:
    late = unanswered(2 * S)
    late["requests"] = [request(latency_ns=2 * S + 1)]
    assert words(findings("unanswered", late))[0].startswith(
        "1 without an answer within 2.0 s; then the client closed the connection; 1 answered after"
    )
    late["requests"] = [request(latency_ns=2 * S)]
    assert findings("unanswered", late) == []


def test_what_is_sent_again_and_again_is_another_fault_than_an_answer_that_is_missing() -> None:
    for again, kind, other in (
        (2, "unanswered", "sent_into_nothing"),
        (3, "sent_into_nothing", "unanswered"),
    ):
        tables = unanswered(4 * S, client_retransmitted_packets=again)
        tables["requests"].insert(0, request(-10 * S, latency_ns=S))
        assert len(findings(kind, tables)) == 1
        assert findings(other, tables) == []
    assert words(findings("sent_into_nothing", tables)) == [
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
    [said] = words(findings("sent_into_nothing", tables))
    assert said.startswith("4 without an answer within 4.0 s, with 6 retransmissions")


def test_what_the_end_of_the_capture_left_unanswered_was_not_sent_into_nothing() -> None:
    lost = {"latency_ns": None, "status": "unanswered"}
    # The broker answers, but is behind: its last response came a second before the end, or less.
    late = request(-10 * S, api_name="Fetch", latency_ns=13 * S + 1)
    assert findings("sent_into_nothing", resent(late, request(0, **lost))) == []
    silent = request(-10 * S, api_name="Fetch", latency_ns=13 * S)
    assert len(findings("sent_into_nothing", resent(silent, request(0, **lost)))) == 1
    # Others of its kind waited as long and were answered.
    for latency_ns, many in ((4 * S, 0), (4 * S - 1, 1)):
        tables = resent(request(-10 * S, latency_ns=latency_ns), request(0, **lost))
        assert len(findings("sent_into_nothing", tables)) == many
    for max_wait_ms, many in ((3001, 0), (3000, 1)):
        tables = resent(request(0, api_name="Fetch", max_wait_ms=max_wait_ms, **lost))
        assert len(findings("sent_into_nothing", tables)) == many
    assert findings("sent_into_nothing", resent(request(0, api_name="JoinGroup", **lost))) == []


def test_without_the_direction_of_the_broker_nothing_was_sent_into_nothing() -> None:
    assert len(findings("sent_into_nothing", resent())) == 1
    assert findings("sent_into_nothing", resent(broker_packets=0)) == []
    assert findings("sent_into_nothing", resent(broker_lost_bytes=1)) == []


def test_connections_that_were_closed_are_counted_not_their_requests() -> None:
    lost = {"latency_ns": None, "status": "unanswered"}
    other = {"connection": "10.0.0.1:50001>10.0.0.2:9092"}
    tables = unanswered(4 * S)
    tables["requests"] = [request(0, **lost), request(MS, **lost), request(0, **lost, **other)]
    tables["connections"].append(tables["connections"][0]._replace(closed_by="broker", **other))
    [said] = words(findings("unanswered", tables))
    assert "; then the client closed 1 of the connections, the broker the others" in said
    old = {**lost, "api_key": 0, "api_version": 2}
    tables["requests"] = [request(0, **old, **other), request(MS, **old, **other)]
    [said] = words(findings("refused_versions", tables))
    assert said.endswith(
        "; 0 answered UNSUPPORTED_VERSION, 1 time the broker closed the connection"
    )


def test_a_request_without_a_response_is_no_response_that_was_not_throttled() -> None:
    tables: Tables = {
        "requests": [
            request(throttle_time_ms=100),
            request(S, throttle_time_ms=0),
            request(2 * S, latency_ns=None, status="unanswered", throttle_time_ms=None),
        ]
    }
    assert words(findings("throttled", tables))[0].startswith("1 of 2 responses throttled")


def cut(silences_s: Sequence[float], apart_s: float = 60, **changes: Any) -> Tables:
    """Connections that are cut after silences, each so long after the one before."""
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
def test_a_cut_comes_after_a_known_limit_or_the_same_silence_each_time(
    silences_s: list[float], *, is_cut: bool
) -> None:
    assert bool(findings("idle_cut", cut(silences_s))) is is_cut
    if is_cut:
        assert findings("idle_cut", cut(silences_s, closed_by="client")) == []


def test_a_broker_that_ends_closes_all_at_once_and_cuts_nothing() -> None:
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
    """A line of a table, of which not much is known."""
    nothing = {
        "string": "",
        "bool": False,
        "list<string>": (),
        "list<struct>": (),
    }
    columns = {
        column.name: None if column.nullable else nothing.get(column.type, 0)
        for column in TABLES[table].columns
    }
    return SimpleNamespace(**{**columns, **values})


def test_a_heartbeat_is_late_after_a_third_of_the_session_timeout() -> None:
    assert len(findings("late_heartbeats", beats(4 * S, 10_000), least_share=0.4)) == 1
    assert findings("late_heartbeats", beats(4 * S - 1, 10_000), least_share=0.4) == []
    for odd_ms in (0, -1, 2**31 - 1):
        assert findings("late_heartbeats", beats(4 * S, odd_ms)) == []
    # The timeout is not in the capture: 45 s.
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


def named(host: str, port: int = 9092) -> Any:
    return made_line("metadata", kind="broker", host=host, port=port)


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_listener_is_wrong_that_was_named_and_never_answers(*, is_refused: bool) -> None:
    vain = attempt(1, is_refused=is_refused)
    for host, port, is_wrong in (
        ("10.0.0.2", 9092, True),
        ("broker.example", 9092, True),
        ("10.0.0.3", 9092, False),
        ("10.0.0.2", 9093, False),
    ):
        tables: Tables = {"connections": [vain], "metadata": [named(host, port)]}
        assert bool(findings("wrong_listener", tables)) is is_wrong, (host, port)
    answering = attempt(2, is_refused=False, broker_payload_bytes=1, protocol="kafka")
    tables = {"connections": [vain, answering], "metadata": [named("10.0.0.2")]}
    assert findings("wrong_listener", tables) == []


def test_a_syn_that_was_sent_once_may_be_answered_after_the_capture() -> None:
    once = attempt(1, is_refused=False, client_syn_retransmissions=0)
    tables: Tables = {"connections": [once], "metadata": [named("10.0.0.2")]}
    assert findings("wrong_listener", tables) == []


def test_a_broker_is_away_that_answers_before_or_after() -> None:
    answering = attempt(9, is_refused=False, broker_payload_bytes=1, protocol="kafka")
    vain = [attempt(number, is_refused=True, at_s=number / 2) for number in range(3)]
    assert words(findings("broker_away", {"connections": [answering, *vain]})) == [
        ("3 connections of 1 client in 1.0 s failed: 3 refused, 0 not answered; 1 others succeeded")
    ]
    assert findings("broker_away", {"connections": vain}) == []
    assert findings("broker_away", {"connections": [answering, *vain[1:]]}) == []
    at_once = [attempt(number, is_refused=True) for number in range(3)]
    assert findings("broker_away", {"connections": [answering, *at_once]}) == []


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
def test_what_a_capture_lacks_is_said(kind: str, changes: dict[str, Any]) -> None:
    sound = connection(**WHOLE)
    assert findings(kind, {"connections": [sound]}) == []
    assert len(findings(kind, {"connections": [sound._replace(**changes)]})) == 1


def test_what_the_capturing_side_dropped_is_said() -> None:
    for packets, said in ((0, []), (7, ["7 packets dropped by the capturing program"])):
        facts = [QualityFact("dropped_packets", None, packets), QualityFact("packets", None, 9)]
        assert words(findings("capture_lost_packets", {QUALITY: facts})) == said


def beyond_nat(packet: Packet) -> Packet:
    """The same packet on the other side of a NAT, a moment later, with another client address."""
    data = bytearray(packet.data)
    is_request = data[36:38] == (9092).to_bytes(2, "big")
    at = 26 if is_request else 30
    data[at : at + 4] = bytes((10, 9, 8, 7))
    return replace(packet, data=bytes(data), time_ns=packet.time_ns + MS)


def test_a_capture_of_both_sides_of_a_nat_holds_each_request_twice(tmp_path: Path) -> None:
    one_side = packets_of("groups")
    both = sorted([*one_side, *map(beyond_nat, one_side)], key=lambda packet: packet.time_ns)
    file = tmp_path / "both.pcap"
    file.write_bytes(pcap_file(both))
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([str(file)]))
        kind = kind_of_finding(built_in("findings")["capture_twice"])
        [found] = findings_of(database, [kind])
        told = database.ask(
            "SELECT count(*) AS n, sum(requests) AS requests FROM connections WHERE requests >= 5 "
            "AND client_ip = '127.0.0.1' AND connection IN "
            "(SELECT connection FROM requests WHERE record_count > 0)"
        ).to_pylist()[0]
    assert found.what == (
        f"{told['n']} connections between 127.0.0.1 and 127.0.0.1:9092 are the same as those "
        f"between 10.9.8.7 and 127.0.0.1:9092: {told['requests']} requests are in the capture twice"
    )


def test_tls_matters_where_kafka_may_be_spoken() -> None:
    web = connection(protocol="tls", broker_port=443)
    assert len(findings("capture_encrypted", {"connections": [web]})) == 1
    assert findings("capture_encrypted", {"connections": [web, connection()]}) == []


def test_what_failed_is_not_said_to_hide_something_nor_to_be_a_storm() -> None:
    failed = connection(protocol="tls", tls_failure="unknown_ca")
    assert findings("capture_encrypted", {"connections": [failed]}) == []
    assert findings("capture_encrypted", {"connections": [failed._replace(tls_failure=None)]})
    many = [
        connection(opened_by="client", end="fin", start_ns=n * MS, duration_ns=MS)
        for n in range(40)
    ]
    refused = [each._replace(tls_failure="unknown_ca") for each in many]
    assert findings("connection_storm", {"connections": many})
    assert findings("connection_storm", {"connections": refused}) == []
    assert findings("tls_failed", {"connections": refused})


def test_of_two_other_brokers_the_slower_one_is_the_measure() -> None:
    def answered_by(ip: str, latency_ms: int) -> list[Any]:
        return [
            request(number * S, latency_ns=latency_ms * MS, broker_time_ns=None, broker_ip=ip)
            for number in range(100)
        ]

    middle = [*answered_by("1", 10), *answered_by("2", 40), *answered_by("3", 150)]
    found = findings("slow_broker", {"requests": middle})
    assert [each.concerns["broker"] for each in found] == ["3:9092"]
