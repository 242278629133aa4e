"""Findings in captures with a known fault match the counts of the broker and its clients."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.cli.main import main
from kanalyze.queries.named_findings import with_commands
from tests.support.captures import TROUBLED, WHOLE, path, request_log, truth
from tests.support.findings import findings_in, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAULTS = [name for name in WHOLE if "fault" in truth(name)]
WITH_FINDINGS = [*FAULTS, "errors", "sasl", "tls", "old-0-8-2-2"]
COLUMN = {"requests": "request_packet", "connections": "first_packet"}


def refused(api_name: str, error_name: str) -> Callable[[dict[str, Any]], list[str]]:
    """The broker's log has the number of responses with an error."""
    return lambda facts: [f"{facts['broker_errors'][api_name][error_name]} of "]


def throttled(facts: dict[str, Any]) -> list[str]:
    """For the client that is throttled for longest in the broker's log."""
    waits: dict[str, list[int]] = {}
    for entry in request_log("fault-throttled"):
        wait_ms = entry["response"].get("throttleTimeMs", 0)
        waits.setdefault(entry["requestHeader"]["clientId"], []).append(wait_ms)
    most = max(waits.values(), key=sum)
    throttled_ms = [wait for wait in most if wait]
    return [
        f"{len(throttled_ms)} of {len(most)} responses throttled, {sum(most)} ms in all, ",
        f"{max(most)} ms at most",
    ]


def unknown_topic(facts: dict[str, Any]) -> list[str]:
    entries = [
        entry
        for entry in request_log("fault-metadata-storm")
        if entry["requestHeader"]["requestApiKeyName"] == "METADATA"
    ]
    assert facts["broker_errors"]["Metadata"] == {"UNKNOWN_TOPIC_OR_PARTITION": len(entries)}
    return [f"{len(entries)} requests refused (Metadata: UNKNOWN_TOPIC_OR_PARTITION), over "]


def restless(facts: dict[str, Any]) -> list[str]:
    rounds = facts["clients"][0]["rounds"]
    return [
        f"{2 * rounds} rounds after the first",
        f"{rounds} as members joined (billing-restless)",
        f"{rounds} as members left (billing-restless)",
    ]


def hot_partition(facts: dict[str, Any]) -> list[str]:
    parts = facts["produced_records"]["orders"]
    [hot] = [part for part, records in parts.items() if records > 100]
    return [f"partition {hot} has ", f" of {len(parts)} partitions", f", {parts[hot]} records, "]


def tiny_batches(facts: dict[str, Any]) -> list[str]:
    requests = facts["produce_requests_by_acks"]["1"]
    average_bytes = round(facts["produced_bytes"]["orders"] / requests)
    return [f"{requests} produce requests, ", f" of {average_bytes} B and 1.0 records "]


EXPECTED: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "fault-connection-storm": lambda facts: [
        f"{facts['broker_listeners']['PLAINTEXT']['connections']} short connections to 1 broker"
    ],
    "fault-disk": refused("Produce", "KAFKA_STORAGE_ERROR"),
    "fault-few-replicas": refused("Produce", "NOT_ENOUGH_REPLICAS"),
    "fault-frozen-member": lambda facts: [
        "4 rounds after the first",
        "1 as members were lost without leaving (billing-frozen)",
        "2 as members joined (billing-frozen)",
        "1 as members left (billing-frozen)",
    ],
    "fault-group-changes": lambda facts: [
        "3 rounds after the first",
        "1 as members subscribed to other topics (billing-steady)",
        "2 with the same members and topics, so new partitions",
    ],
    "fault-hot-client": lambda facts: [
        f"% of the bytes of {len(facts['requests_by_client_id'])} clients that produce"
    ],
    "fault-hot-partition": hot_partition,
    "fault-login-loop": lambda facts: [
        f"{facts['clients'][0]['errors']['_AUTHENTICATION']} of ",
        f" of {facts['handshake_requests']['SaslHandshake']} SaslAuthenticate requests refused",
        " to user alice",
    ],
    "fault-metadata-storm": unknown_topic,
    "fault-mutation-quota": lambda facts: [
        f"1 of {facts['broker_requests']['CreateTopics']['7']} CreateTopics requests refused"
    ],
    "fault-next-rebalances": restless,
    "fault-not-allowed": refused("Produce", "TOPIC_AUTHORIZATION_FAILED"),
    "fault-old-client": lambda facts: [
        f"{facts['refused_requests']} requests refused: Produce v1",
        f"{facts['refused_requests']} times the broker closed the connection",
    ],
    "fault-plaintext-to-tls": lambda facts: [
        f"{facts['broker_listeners']['SSL']['failed_handshakes']} connections in ",
        "plaintext on a port of TLS",
    ],
    "fault-rebalances": restless,
    "fault-sessions-evicted": lambda facts: [
        f"{facts['broker_errors']['Fetch']['FETCH_SESSION_ID_NOT_FOUND']} sessions not found",
        f"of the {facts['clients'][0]['consumers']} connections",
    ],
    "fault-throttled": throttled,
    "fault-tiny-batches": tiny_batches,
    "fault-too-large": refused("Produce", "MESSAGE_TOO_LARGE"),
}
"""Parts of the text of the first finding; without a count, what the scenario did."""


@pytest.mark.few(9)
@pytest.mark.parametrize("name", FAULTS)
def test_figures_match_the_counts_of_broker_and_clients(name: str) -> None:
    what = findings_in(name)[0].what
    for words in EXPECTED[name](truth(name)):
        assert words in what


SAYS_ROWS = re.compile(r"(?:of )?(\d+) ")
"""The number of rows in the text of a finding."""
COUNTS_OTHER_THINGS = {
    *("group_behind", "written_twice", "growing_lag", "hot_client", "hot_partition", "rebalances"),
    *("capture_snapped", "capture_twice", "tls_certificate_expires"),
}


def rows_shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, str]]:
    assert main([*words, "--format", "csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.mark.few(10)
@pytest.mark.parametrize(
    "name", [*WITH_FINDINGS, *(name for name in TROUBLED if "fault" in truth(name))]
)
def test_the_command_of_a_finding_shows_exactly_its_rows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [finding for finding in findings_in(name) if finding.command in COLUMN]
    assert found or name not in WITH_FINDINGS
    for finding in found:
        [shown] = with_commands([finding], kinds_of(finding.name), {})
        rows = rows_shown(capsys, shown.command, str(path(name)), *shown.options)
        assert str(finding.first_packet) in {row[COLUMN[finding.command]] for row in rows}
        if finding.name not in COUNTS_OTHER_THINGS:
            said = SAYS_ROWS.match(finding.what)
            assert said is not None, finding.what
            assert len(rows) == int(said[1])


def test_all_commands_select_the_same_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, finding = str(path("fault-few-replicas")), ("--finding", "not_enough_replicas:1")
    rows = rows_shown(capsys, "requests", file, *finding)
    assert main(["decode", file, *finding]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
    records = rows_shown(capsys, "records", file, *finding)
    assert {row["packet"] for row in records} == {row["request_packet"] for row in rows}
    connections = rows_shown(capsys, "connections", file, *finding)
    assert {row["connection"] for row in connections} == {row["connection"] for row in rows}
    saved, packets = str(tmp_path / "saved.duckdb"), str(tmp_path / "packets.pcapng")
    assert main(["save", file, "-o", saved]) == 0
    assert rows_shown(capsys, "requests", saved, *finding) == rows
    assert main(["extract", file, "-o", packets, *finding]) == 0
    assert f"of {len(rows)} requests on" in capsys.readouterr().out


def test_a_number_is_that_of_the_report_with_the_same_filters_and_thresholds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, more = str(path("fault-throttled")), ["--threshold", "throttled.least_throttle_ms=200.5"]
    filters = ["--client-id", "greedy", "--client-id", "pa*", "--slower-than", "1ns"]
    assert main(["report", file, *filters, *more, "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    for number, finding in enumerate(report["findings"], start=1):
        by_number = rows_shown(
            capsys, finding["command"], file, "--finding", str(number), *filters, *more
        )
        assert by_number
        assert by_number == rows_shown(capsys, finding["command"], file, *finding["options"])
    beyond = str(len(report["findings"]) + 1)
    assert main(["requests", file, "--finding", beyond, *filters, *more]) == 2
    assert f"there is no finding {beyond}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--finding", "nope"], "no finding is named 'nope'"),
        (["--finding", "throttled:x"], "no finding is named 'throttled:x'"),
        (["--finding", "0"], "no finding is named '0'"),
        (["--finding", "throttled:9"], "there is no finding throttled:9: there are 3"),
        (["--finding", "capture_lost_packets"], "is about data that the capture lacks"),
        (["--finding", "unanswered", "--errors"], ""),
        (["--finding", "rebalances", "--errors"], "needs all requests of a client"),
        (["--finding", "throttled", "--threshold", "throttled.x=1"], "unknown threshold"),
    ],
)
def test_what_is_wrong_with_the_name_of_a_finding_is_said(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["requests", str(path("fault-throttled")), *words])
    assert status == (2 if message else 0)
    assert message in capsys.readouterr().err


def test_clients_that_ignore_the_throttle_time_are_distinguished() -> None:
    texts = {
        finding.concerns["client_id"]: finding.what for finding in findings_in("fault-throttled")
    }
    within = {name: int(what.partition("; ")[2].split()[0]) for name, what in texts.items()}
    assert within["patient"] <= 2 < 15 < within["greedy"]
