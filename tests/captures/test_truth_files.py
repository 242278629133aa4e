"""The captures' truth files agree with themselves; no analyzer and no broker is needed."""

import gzip
import importlib.util
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import for_each

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "captures"
PROVENANCE = ROOT / "tools" / "record" / "lab" / "provenance.py"
LIMIT = 20_000_000
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


# Their records were refused for good; all other refusals were of batches that were sent again.
REFUSED_FOR_GOOD = {
    ("errors", "errors-small"),
    ("sasl", "sasl-look"),
    ("fault-too-large", "orders"),
    ("fault-not-allowed", "salaries"),
}
# Records that were sent again and again, and given up in the end.
GIVEN_UP = {("fault-few-replicas", "ledger"): 1}


def sent_to_readers(given: dict[str, list[int]], aborted: int) -> int:
    """Records that came to the clients, if a committed reader leaves out what was aborted."""
    whole = sum(sum(counts) for counts in given.values())
    return whole + aborted * len(given["read_committed"])


def logged_requests(truth: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Of a listener with SASL the log has only what came after; else only what could be read."""
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
    """The packets of a whole file; a file cut short fails."""
    count = 0
    if content[:4] in PCAP_MAGICS:
        place = 24
        while place < len(content):
            place += 16 + struct.unpack_from("<I", content, place + 8)[0]
            count += 1
    else:
        place = 0
        while place < len(content):
            kind, length = struct.unpack_from("<II", content, place)
            assert length >= 12
            count += kind == ENHANCED_PACKET
            place += length
    assert place == len(content)
    return count


def test_there_are_captures_and_they_are_small() -> None:
    assert len(TRUTHS) >= 13
    assert sum(file.stat().st_size for file in CAPTURES.iterdir()) < LIMIT
    found = {file.name for file in CAPTURES.iterdir() if file.suffix in {".pcap", ".pcapng"}}
    assert found == {truth["capture"] for truth in TRUTHS.values()}


def test_provenance_is_written_from_the_truth_files() -> None:
    spec = importlib.util.spec_from_file_location("provenance", PROVENANCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page(CAPTURES) == (CAPTURES / "PROVENANCE.md").read_text()


@for_each("name", TRUTHS)
def test_a_capture_is_whole(name: str) -> None:
    truth = TRUTHS[name]
    assert truth["dropped_by_kernel"] == 0
    assert packets((CAPTURES / truth["capture"]).read_bytes()) == truth["packets"]


@for_each("name", LOGGED)
def test_the_log_holds_the_requests_that_were_counted(name: str) -> None:
    truth, logged = TRUTHS[name], LOGGED[name]
    counts = Counter(on_wire(exchange) for exchange in logged)
    told = {
        (api, version): number
        for api, versions in logged_requests(truth).items()
        for version, number in versions.items()
    }
    assert counts == told
    for listener, table in truth["broker_listeners"].items():
        if "requests" in table:
            here = sum(one["listener"] == listener for one in logged)
            assert table["requests"] == here + truth.get("refused_requests", 0)


@pytest.mark.parametrize("name", [name for name in TRUTHS if TRUTHS[name].get("principals")])
def test_a_truth_file_tells_principals_and_no_password(name: str) -> None:
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
        again = 0 if (name, topic) in REFUSED_FOR_GOOD else refused
        assert truth["client_sent"][topic] == number - again
    isolated = truth.get("client_consumed_by_isolation", {})
    for topic, number in truth["fetched_records"].items():
        if topic in isolated:
            assert number == sent_to_readers(isolated[topic], truth["client_aborted"][topic])
        else:
            assert truth["client_consumed"][topic] == number
