"""Kafka 0.7 through all stages: a capture in, rows and a report out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.packets import pcap_file, segment, timed

if TYPE_CHECKING:
    from pathlib import Path


def talk(port: int, *turns: tuple[bool, bytes]) -> list[bytes]:
    """A connection seen from the middle: (to the broker, bytes) in turn."""
    packets, seqs = [], {True: 1000, False: 5000}
    for to_broker, data in turns:
        packets.append(
            segment(
                to_broker=to_broker,
                seq=seqs[to_broker],
                ack=seqs[not to_broker],
                payload=data,
                client=("10.0.0.1", port),
            )
        )
        seqs[to_broker] += len(data)
    return packets


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A producer and a consumer of Kafka 0.7, and a client of a later version."""
    at, turns = 64, []
    for payload in (b"first", b"second", b"third"):
        messages = old.message(payload)
        turns += [(True, old.fetch(at)), (False, old.fetched(messages))]
        at += len(messages)
    packets = talk(50001, (True, old.produce()), (True, old.produce(topic="clicks")))
    packets += talk(50002, *turns, (True, old.fetch(at)))
    packets += talk(50003, (True, k.heartbeat(1)), (False, k.heartbeat_answer(1)))
    path = tmp_path / "old.pcap"
    path.write_bytes(pcap_file(timed(packets)))
    return str(path)


def test_rows_name_their_wire_protocol(capture: str) -> None:
    found = [(row.wire, row.api_name, row.status) for row in kanalyze.requests(capture)]
    assert sorted(found) == [
        ("kafka", "Heartbeat", "ok"),
        *[("kafka-0.7", "Fetch", "ok")] * 3,
        ("kafka-0.7", "Fetch", "unanswered"),
        *[("kafka-0.7", "Produce", "one_way")] * 2,
    ]


def test_filters_take_the_api_names_of_kafka_07(capture: str) -> None:
    assert len(list(kanalyze.requests(capture, api="Produce", topic="clicks"))) == 1
    assert list(kanalyze.requests(capture, api="MultiFetch")) == []


def test_a_report_counts_kafka_07_separately(capture: str) -> None:
    summary = kanalyze.report(capture)
    wires = {(api["wire"], api["api_name"]): api["requests"] for api in summary["apis"]}
    assert wires == {
        ("kafka", "Heartbeat"): 1,
        ("kafka-0.7", "Fetch"): 4,
        ("kafka-0.7", "Produce"): 2,
    }
    topics = {topic["topic"]: topic for topic in summary["topics"]}
    assert topics["orders"]["produced_records"] == 1
    assert topics["orders"]["fetched_records"] == 3
    assert topics["clicks"]["produced_records"] == 1


def test_rows_of_both_wires_fit_one_table(capture: str) -> None:
    table = kanalyze.requests(capture).to_arrow()
    assert table.num_rows == 7
    assert table["correlation_id"].null_count == 6


def test_messages_are_decoded_and_records_are_listed(
    capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", "--api", "Produce", capture]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["request"]["topic"] for entry in entries] == ["orders", "clicks"]
    assert main(["decode", "--api", "Fetch", capture]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["request"]["maxSize"] for entry in entries] == [65536] * 4
    assert main(["records", "--values", "--format", "jsonl", capture]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(row["value"] for row in rows) == ["first", "hello", "hello", "second", "third"]
