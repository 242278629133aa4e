"""The captures agree with their truth files; no analyzer and no broker is needed."""

import gzip
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import for_each
from tools.record.lab.provenance import page

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "captures"
LIMIT_BYTES = 20_000_000
PCAP_MAGICS = {b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"}
ENHANCED_PACKET = 6

TRUTHS = {
    file.name.partition(".")[0]: json.loads(file.read_text())
    for file in sorted(CAPTURES.glob("*.truth.json"))
}
LOGGED = {
    name: [
        json.loads(line)
        for line in gzip.decompress(
            (CAPTURES / f"{name}.broker.jsonl.gz").read_bytes()
        ).splitlines()
    ]
    for name in TRUTHS
    if (CAPTURES / f"{name}.broker.jsonl.gz").exists()
}


# Topics whose records were refused for good; all other refused batches were sent again.
REFUSED_FOR_GOOD = {
    ("errors", "errors-small"),
    ("sasl", "sasl-look"),
    ("fault-too-large", "orders"),
    ("fault-not-allowed", "salaries"),
}
# Records that were sent again and again, and given up in the end.
GIVEN_UP = {("fault-few-replicas", "ledger"): 1}


def sent_to_readers(consumed: dict[str, list[int]], aborted: int) -> int:
    """Records sent to the clients: those of read_committed do not count the aborted ones."""
    whole = sum(sum(counts) for counts in consumed.values())
    return whole + aborted * len(consumed["read_committed"])


def logged_requests(truth: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The requests that the log has: those after the login with SASL, else the complete ones."""
    names = ("broker_requests", "authenticated_requests", "completed_requests")
    [found] = [truth[name] for name in names if name in truth]
    return dict(found)


def on_wire(exchange: dict[str, Any]) -> tuple[str, str]:
    if exchange["isForwarded"]:
        return "Envelope", "0"
    header = exchange["requestHeader"]
    name = "".join(part.capitalize() for part in header["requestApiKeyName"].split("_"))
    return name, str(header["requestApiVersion"])


def packets(content: bytes) -> int:
    """Count the packets of a file; fail if it is cut short."""
    count = 0
    if content[:4] in PCAP_MAGICS:
        at = 24
        while at < len(content):
            at += 16 + struct.unpack_from("<I", content, at + 8)[0]
            count += 1
    else:
        at = 0
        while at < len(content):
            kind, length = struct.unpack_from("<II", content, at)
            assert length >= 12
            count += kind == ENHANCED_PACKET
            at += length
    assert at == len(content)
    return count


def test_there_are_captures_and_they_are_small() -> None:
    assert len(TRUTHS) >= 13
    assert sum(file.stat().st_size for file in CAPTURES.iterdir()) < LIMIT_BYTES
    found = {file.name for file in CAPTURES.iterdir() if file.suffix in {".pcap", ".pcapng"}}
    assert found == {truth["capture"] for truth in TRUTHS.values()}


def test_provenance_is_written_from_the_truth_files() -> None:
    assert page(CAPTURES) == (CAPTURES / "PROVENANCE.md").read_text()


@for_each("name", TRUTHS)
def test_no_packet_of_a_capture_is_missing(name: str) -> None:
    truth = TRUTHS[name]
    assert truth["dropped_by_kernel"] == 0
    assert packets((CAPTURES / truth["capture"]).read_bytes()) == truth["packets"]


@for_each("name", LOGGED)
def test_the_log_holds_the_requests_that_were_counted(name: str) -> None:
    truth, logged = TRUTHS[name], LOGGED[name]
    counts = Counter(on_wire(exchange) for exchange in logged)
    counted = {
        (api, version): number
        for api, versions in logged_requests(truth).items()
        for version, number in versions.items()
    }
    assert counts == counted
    for listener, table in truth["broker_listeners"].items():
        if "requests" in table:
            logged_here = sum(one["listener"] == listener for one in logged)
            assert table["requests"] == logged_here + truth.get("refused_requests", 0)


@pytest.mark.parametrize("name", [name for name in TRUTHS if TRUTHS[name].get("principals")])
def test_a_truth_file_has_principals_and_no_password(name: str) -> None:
    assert set(TRUTHS[name]["principals"].values()) == {"User:alice", "User:bob"}
    text = (CAPTURES / f"{name}.truth.json").read_text()
    assert "-secret" not in text


@for_each("name", LOGGED)
def test_one_way_requests_have_no_response(name: str) -> None:
    truth = TRUTHS[name]
    one_way = truth["produce_requests_by_acks"].get("0", 0)
    refused = truth.get("refused_requests", 0)
    abandoned = truth["requests_without_response"] - one_way - refused
    assert 0 <= abandoned <= sum(logged_requests(truth).get("Fetch", {}).values())


@pytest.mark.parametrize("name", [name for name in LOGGED if TRUTHS[name].get("whole", True)])
def test_broker_and_clients_counted_the_same_records(name: str) -> None:
    truth = TRUTHS[name]
    for topic, number in truth.get("sent_records", {}).items():
        refused = truth["rejected_records"].get(topic, 0) - GIVEN_UP.get((name, topic), 0)
        sent_again = 0 if (name, topic) in REFUSED_FOR_GOOD else refused
        assert truth["client_sent"][topic] == number - sent_again
    isolated = truth.get("client_consumed_by_isolation", {})
    for topic, number in truth["fetched_records"].items():
        if topic in isolated:
            assert number == sent_to_readers(isolated[topic], truth["client_aborted"][topic])
        else:
            assert truth["client_consumed"][topic] == number
