"""Findings in captures with a known fault match the counts of the broker and its clients."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.capture_commands import rows_of_finding
from kanalyze.cli.main import main
from tests.support.captures import TROUBLED, WHOLE, path, request_log, truth
from tests.support.findings import findings_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.queries.findings import Finding
    from kanalyze.spec.rows.requests import Row

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


def metadata_storm(facts: dict[str, Any]) -> list[str]:
    """For the connection with most requests; on its first connection a client sends only one."""
    entries = [
        entry
        for entry in request_log("fault-metadata-storm")
        if entry["requestHeader"]["requestApiKeyName"] == "METADATA"
    ]
    [(_, most)] = Counter(entry["client"] for entry in entries).most_common(1)
    assert facts["broker_errors"]["Metadata"] == {"UNKNOWN_TOPIC_OR_PARTITION": len(entries)}
    return [f"{most} Metadata requests in ", f"{most} answered with an error"]


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
    "fault-metadata-storm": metadata_storm,
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


@pytest.mark.few(10)
@pytest.mark.parametrize("name", WITH_FINDINGS)
def test_the_command_of_a_finding_shows_its_rows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert findings_in(name)
    for finding in findings_in(name):
        column = COLUMN[finding.command]
        words = [finding.command, str(path(name)), *finding.options]
        assert main([*words, "--format", "csv", "--columns", column]) == 0
        lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert str(finding.first_packet) in {line[column] for line in lines}


COUNTS = re.compile(
    r"(?:99 % of )?(\d+) (?:of \d+ )?(?:"
    r"(?:\w+ )?requests?(?: refused| took| in |, | of versions)|responses? throttled"
    r"|without an answer|gaps? without requests|sessions not found|answers? [A-Z]|within)"
)
"""The number of requests in the text of a finding."""
COUNT_NO_REQUESTS = {"growing_lag", "hot_client", "hot_partition", "rebalances"}


@pytest.mark.few(12)
@pytest.mark.parametrize(
    "name", [*WITH_FINDINGS, *(name for name in TROUBLED if "fault" in truth(name))]
)
def test_the_filter_of_a_finding_selects_all_requests_that_it_counted(name: str) -> None:
    """The time range of the filter has to begin at the requests: responses come later."""
    found = [finding for finding in findings_in(name) if finding.command == "requests"]
    rows = list(kanalyze.requests(path(name))) if found else []
    for finding in found:
        row_filter = rows_of_finding(finding.to_dict())
        selected = [row for row in rows if row_filter.matches(row)]
        assert finding.first_packet in {row.request_packet for row in selected}
        if finding.name not in COUNT_NO_REQUESTS:
            counted = COUNTS.match(finding.what)
            assert counted is not None, finding.what
            assert len([row for row in selected if has_error_of(finding, row)]) >= int(counted[1])


def has_error_of(finding: Finding, row: Row) -> bool:
    """Return true if a request has the error that a finding names; True if it names none."""
    error_name, topic = (finding.concerns.get(name) for name in ("error_name", "topic"))
    return error_name is None or (error_name, topic) in {
        (error.name, topic and error.topic) for error in row.errors
    }


def test_clients_that_ignore_the_throttle_time_are_distinguished() -> None:
    texts = {
        finding.concerns["client_id"]: finding.what for finding in findings_in("fault-throttled")
    }
    within = {name: int(what.partition("; ")[2].split()[0]) for name, what in texts.items()}
    assert within["patient"] <= 2 < 15 < within["greedy"]
