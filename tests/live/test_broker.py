"""Three live runs capture the traffic of a real broker and real clients at the same time.

Rows are compared with the broker's own log of requests, and with counts of the clients.
Without the broker these tests are not selected (see tests/conftest.py, which says so).
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kanalyze.spec.rows.requests import COLUMNS
from tests.support import broker
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

KANALYZE = str(Path(sys.executable).parent / "kanalyze")
PORT = 9092
FILTER = f"tcp port {PORT}"
TOPIC, PARTITIONS = "orders", 3
RECORDS = 600
"""Number of records that each client writes and reads."""
CAPTURE_COLUMNS = frozenset({"capture", "request_packet", "response_packet"})
"""Columns that depend on the capture: each run has its own name and its own numbers."""
TIME_COLUMNS = sorted(column.name for column in COLUMNS if column.unit == "ns")
LIBRARIES = ("confluent", "kafka_python", "aiokafka")
QUIET_S = 2.0
"""After this time, the kernel has delivered all buffered packets."""
CLOCK_NS = 100_000_000
"""Times may differ by this much: on loopback the kernel reads its clock for each capture."""

Row = dict[str, Any]


class Traffic(NamedTuple):
    """The same minute of traffic, in the broker's log and in the outputs of all runs."""

    completed: list[dict[str, Any]]
    """Requests in the broker's log."""
    clients: list[dict[str, Any]]
    live: list[Row]
    piped: list[Row]
    saved: list[Row]
    report: dict[str, Any]
    """The report of the run on the interface."""
    saved_packets: int


@pytest.fixture(scope="module")
def real_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with broker.started(tmp_path_factory.mktemp("broker")) as lab:
        yield lab


@pytest.fixture(scope="module")
def traffic(real_broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    with broker.importable():
        from lab import requestlog
    lab, folder = real_broker, tmp_path_factory.mktemp("traffic")
    lab.create_topics({TOPIC: {"partitions": PARTITIONS}})
    lab.broker.wait_idle()
    mark = lab.broker.completed()
    tcpdump = ["tcpdump", "-i", "lo", "-U", "-n", "-Z", "root", "--time-stamp-precision=nano"]
    live, report = [KANALYZE, "live", "--port", str(PORT), "--format", "rows"], folder / "report"
    saved, tcpdump_log = folder / "saved.pcap", folder / "tcpdump.txt"
    pipe = subprocess.PIPE
    with (
        (folder / "live.jsonl").open("wb") as live_rows,
        (folder / "piped.jsonl").open("wb") as piped_rows,
        tcpdump_log.open("wb") as errors,
        running(lab, [*live, "-i", "lo", "--json", str(report)], stdout=live_rows) as listening,
        running(lab, [*tcpdump, "-w", "-", FILTER], stdout=pipe, stderr=errors) as writing,
        running(lab, ["tee", str(saved)], stdin=writing.stdout, stdout=pipe) as saving,
        running(lab, [*live, "-"], stdin=saving.stdout, stdout=piped_rows) as reading,
    ):
        wait_until(lambda: count_listeners(lab) == 2)
        drive(lab)
        lab.broker.wait_idle()
        time.sleep(QUIET_S)
        for process in (listening, writing):
            process.send_signal(signal.SIGINT)
        assert [process.wait(LONG_S) for process in (listening, writing, saving, reading)] == [
            0
        ] * 4
    assert "\n0 packets dropped by kernel" in tcpdump_log.read_text()
    rows = subprocess.run(
        [KANALYZE, "requests", "--port", str(PORT), "--format", "jsonl", str(saved)],
        check=True,
        capture_output=True,
    ).stdout
    completed = requestlog.exchanges(lab.broker.completed_since(mark))
    return Traffic(
        [request for request in completed if request["listener"] == "PLAINTEXT"],
        lab.clients,
        rows_of((folder / "live.jsonl").read_bytes()),
        rows_of((folder / "piped.jsonl").read_bytes()),
        rows_of(rows),
        json.loads(report.read_text()),
        int(re.findall(r"(\d+) packets? captured", tcpdump_log.read_text())[0]),
    )


@contextlib.contextmanager
def running(lab: Any, words: list[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in the network namespace of the broker; end it after the block."""
    with subprocess.Popen(lab.namespace.command(words), **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def drive(lab: Any) -> None:
    """Let each client write records and read them."""
    for partition, library in enumerate(LIBRARIES):
        sends = [{"topic": TOPIC, "partition": partition, "count": RECORDS, "size": 700}]
        lab.worker(library, "produce", acks="all", sends=sends)
        lab.worker(library, "consume", assign=[[TOPIC, partition]], count=RECORDS, statistics=True)


def count_listeners(lab: Any) -> int:
    """Return the number of bound packet sockets."""
    command = lab.namespace.command(["cat", "/proc/net/packet"])
    lines = subprocess.run(command, check=True, capture_output=True).stdout.splitlines()
    return sum(line.split()[5] == b"1" for line in lines[1:])


def rows_of(lines: bytes) -> list[Row]:
    return [json.loads(line) for line in lines.splitlines()]


def without_capture_columns(rows: list[Row]) -> list[Row]:
    """Return rows without the columns that depend on the capture, sorted."""
    kept = [{name: row[name] for name in row if name not in CAPTURE_COLUMNS} for row in rows]
    return sorted(kept, key=lambda row: (row["connection"], row["correlation_id"]))


def timeless(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in row if name not in TIME_COLUMNS} for row in rows]


def times(rows: list[Row]) -> list[int | None]:
    return [row[name] for row in rows for name in TIME_COLUMNS]


def test_requests_are_those_in_the_log_of_the_broker(traffic: Traffic) -> None:
    of_broker = Counter(
        "".join(
            word.capitalize() for word in request["requestHeader"]["requestApiKeyName"].split("_")
        )
        for request in traffic.completed
    )
    assert Counter(row["api_name"] for row in traffic.live) == of_broker
    assert of_broker["Produce"] > len(LIBRARIES)


def test_requests_are_those_that_clients_counted(traffic: Traffic) -> None:
    counted = [client for client in traffic.clients if "statistics" in client]
    assert len(counted) == 2
    for client in counted:
        requests: Counter[str] = Counter()
        for broker_statistics in client["statistics"]["brokers"].values():
            requests.update(broker_statistics["req"])
        live = [row for row in traffic.live if row["client_id"] == client["client_id"]]
        live_counts = Counter(row["api_name"] for row in live)
        assert {api: live_counts[api] for api in ("Produce", "Fetch")} == {
            api: requests[api] for api in ("Produce", "Fetch")
        }


def test_records_are_those_that_clients_wrote_and_read(traffic: Traffic) -> None:
    written: Counter[str] = Counter()
    read: Counter[str] = Counter()
    for row in traffic.live:
        if row["api_name"] == "Produce":
            written[row["client_id"]] += row["record_count"]
        elif row["api_name"] == "Fetch":
            read[row["client_id"]] += row["record_count"] or 0
    assert written == of_clients(traffic, "produce", "acknowledged")
    assert read == of_clients(traffic, "consume", "consumed")
    assert set(written.values()) == set(read.values()) == {RECORDS}


def of_clients(traffic: Traffic, op: str, counter: str) -> Counter[str]:
    return Counter(
        {
            client["client_id"]: sum(client[counter][TOPIC].values())
            for client in traffic.clients
            if client["op"] == op
        }
    )


def test_no_packet_is_dropped_and_all_are_counted(traffic: Traffic) -> None:
    quality = traffic.report["quality"]
    assert quality["dropped_packets"] == 0
    assert quality["packets"] == traffic.saved_packets
    assert quality["anomalies"] == {}


def test_rows_are_those_of_a_capture_that_tcpdump_saved(traffic: Traffic) -> None:
    live, saved = without_capture_columns(traffic.live), without_capture_columns(traffic.saved)
    assert timeless(live) == timeless(saved)
    for live_ns, saved_ns in zip(times(live), times(saved), strict=True):
        assert live_ns == saved_ns or abs(live_ns - saved_ns) < CLOCK_NS
    assert {row["capture"] for row in traffic.live} == {"live:lo"}


def test_rows_are_the_same_through_a_pipe_from_tcpdump(traffic: Traffic) -> None:
    assert without_capture_columns(traffic.piped) == without_capture_columns(traffic.saved)
    assert {row["capture"] for row in traffic.piped} == {"-"}
