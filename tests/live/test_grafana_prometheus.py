"""The dashboard's queries, run by a Prometheus that scrapes ``kanalyze live``.

Results are compared with the rows that the same process writes. Without Prometheus this file is not
collected (see conftest.py, which says so).
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kanalyze.live.metrics import LATENCY_EDGES_NS
from tests.live.test_grafana import PANELS
from tests.support.captures import path
from tests.support.cut_captures import packets_of
from tests.support.packets import Blocks, Packet
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long

QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
KANALYZE = [sys.executable, "-c", "from kanalyze.cli.main import run; run()"]
ROUNDS, ROUND_S = 20, 1.0
"""Number of times that the capture is played, and the seconds that each takes."""
DROPPED_A_ROUND = 3
WINDOW_S = 10
SETTLE_S = 2.0
"""After this time, all packets have been counted and scraped."""
NAME = "basics"
BROKER_PORT = 9092

Labels = frozenset[tuple[str, str]]


class Prometheus:
    """A Prometheus server that scrapes one target each half second; tests query its API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, query: str, at_s: float | None = None) -> dict[Labels, float]:
        """Return the series of a query, at a time or now."""
        parameters = {"query": query} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
        url = f"{self._url}/api/v1/query?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=LONG_S) as response:
            answer = json.loads(response.read())
        assert (answer["status"], answer["data"]["resultType"]) == ("success", "vector"), answer
        return {
            frozenset(series["metric"].items()): float(series["value"][1])
            for series in answer["data"]["result"]
        }

    def sums(self, metric: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return the sums of a metric by some of its labels, without those that are 0."""
        series = self.ask(f"sum by ({', '.join(labels)}) ({metric})")
        sums = {
            tuple(dict(key).get(name, "") for name in labels): total
            for key, total in series.items()
        }
        return {key: total for key, total in sums.items() if total}


class Observed(NamedTuple):
    prometheus: Prometheus
    rows: list[dict[str, Any]]
    packets: int
    captured_bytes: int
    played_until_s: float
    """The time when the last packet was played."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def running(*command: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def prometheus_of(target: str, folder: Path) -> Iterator[Prometheus]:
    settings = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [{"job_name": "kafka", "static_configs": [{"targets": [target]}]}],
    }
    config = folder / "prometheus.json"  # JSON is YAML
    config.write_text(json.dumps(settings))
    address = f"127.0.0.1:{free_port()}"
    command = [
        *("prometheus", f"--config.file={config}", f"--web.listen-address={address}"),
        f"--storage.tsdb.path={folder / 'data'}",
    ]
    with (folder / "log").open("wb") as log, running(*command, stderr=log):
        server = Prometheus(f"http://{address}")

        def is_up() -> bool:
            with contextlib.suppress(OSError):
                return server.ask("up") == {frozenset(up_labels(target)): 1}
            return False

        wait_until(is_up)
        yield server


def up_labels(target: str) -> list[tuple[str, str]]:
    return [("__name__", "up"), ("instance", target), ("job", "kafka")]


def rounds_of(name: str) -> Iterator[bytes]:
    """Yield a capture again and again, as one pcapng file that is still being written.

    Its times continue from round to round, and the last one is about now. In each round clients
    have other addresses, so that connections differ.
    """
    blocks, packets = Blocks(), packets_of(path(name))
    first_ns = packets[0].time_ns
    step_ns = packets[-1].time_ns - first_ns + 1_000_000
    begin_ns = time.time_ns() + int(ROUNDS * ROUND_S * 1e9) - ROUNDS * step_ns
    yield blocks.section() + blocks.interface(options=blocks.option(9, b"\x09"))
    for number in range(ROUNDS):
        shift_ns = begin_ns + number * step_ns - first_ns
        parts = [
            blocks.enhanced(
                Packet(moved(packet.data, number), wire_bytes=packet.wire_bytes),
                packet.time_ns + shift_ns,
            )
            for packet in packets
        ]
        dropped = struct.pack("<Q", DROPPED_A_ROUND * (number + 1))
        yield b"".join(parts) + blocks.statistics(0, blocks.option(5, dropped))


def moved(data: bytes, number: int) -> bytes:
    """Return a packet of Ethernet, IPv4 and TCP with the client in another network."""
    assert data[12:15] == b"\x08\x00\x45"
    is_from_broker = int.from_bytes(data[34:36], "big") == BROKER_PORT
    offset = 32 if is_from_broker else 28
    return data[:offset] + bytes([number]) + data[offset + 1 :]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    target = f"127.0.0.1:{free_port()}"
    folder = tmp_path_factory.mktemp("prometheus")
    command = [
        *(*KANALYZE, "live", "-", "--format", "rows", "--metrics", target),
        *("--write", str(folder / "rows"), "--save", str(folder / "saved.pcapng")),
    ]
    packets = packets_of(path(NAME))
    lines: list[bytes] = []
    pipe = subprocess.PIPE
    with (
        running(*command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as live,
        prometheus_of(target, folder) as prometheus,
    ):
        assert live.stdin is not None
        assert live.stdout is not None
        reading = threading.Thread(target=lines.extend, args=(live.stdout,))
        reading.start()
        head, *rounds = rounds_of(NAME)
        live.stdin.write(head)
        for data in rounds:
            began_s = time.monotonic()
            live.stdin.write(data)
            live.stdin.flush()
            time.sleep(max(ROUND_S - (time.monotonic() - began_s), 0))
        played_until_s = time.time()
        total = ROUNDS * len(packets)
        wait_until(lambda: prometheus.sums("kanalyze_capture_packets_total") == {(): total})
        time.sleep(SETTLE_S)
        # While the pipe is open: a process that has ended cannot be scraped.
        rows = [json.loads(line) for line in tuple(lines)]
        captured_bytes = ROUNDS * sum(len(packet.data) for packet in packets)
        yield Observed(prometheus, rows, total, captured_bytes, played_until_s)
        live.stdin.close()
        assert live.wait(LONG_S) == 0
        reading.join()


def query_of(title: str) -> str:
    """Return the first query of a panel, as Grafana would run it."""
    return filled_in(dict(reversed(QUERIES))[title])


def filled_in(query: str) -> str:
    return query.replace("$instance", ".*").replace("$__rate_interval", f"{WINDOW_S}s")


def value_of(observed: Observed, title: str) -> float:
    (value,) = observed.prometheus.ask(query_of(title), observed.played_until_s).values()
    return value


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_every_query_has_an_answer(observed: Observed, title: str, query: str) -> None:
    series = observed.prometheus.ask(filled_in(query), observed.played_until_s)
    assert series, title
    assert all(math.isfinite(value) and value >= 0 for value in series.values()), series


def requests(observed: Observed) -> list[dict[str, Any]]:
    return [row for row in observed.rows if row["status"] != "orphan_response"]


def test_capture_panels_show_the_packets_that_were_played(observed: Observed) -> None:
    sums = observed.prometheus.sums
    assert sums("kanalyze_capture_packets_total") == {(): observed.packets}
    assert sums("kanalyze_capture_bytes_total") == {(): observed.captured_bytes}
    assert sums("kanalyze_capture_dropped_packets_total") == {(): ROUNDS * DROPPED_A_ROUND}
    assert sums("kanalyze_connections_total")[()] >= ROUNDS
    rows = requests(observed)
    assert len(rows) > ROUNDS * 100
    assert sums("kanalyze_requests_total", "api") == Counter((row["api_name"],) for row in rows)
    # The capture is played until now.
    assert 0 <= value_of(observed, "Last packet") < 5
    assert 0 < value_of(observed, "Memory") < 1 << 30


def test_rates_are_those_of_the_played_packets(observed: Observed) -> None:
    """Windows and rounds do not begin together, so rates differ somewhat."""
    rate = len(requests(observed)) / ROUNDS / ROUND_S
    assert value_of(observed, "Requests") == pytest.approx(rate, rel=0.2)
    assert value_of(observed, "Packets") == pytest.approx(
        observed.packets / ROUNDS / ROUND_S, rel=0.2
    )
    assert value_of(observed, "Packets dropped") == pytest.approx(
        DROPPED_A_ROUND / ROUND_S, rel=0.4
    )
    errors = sum(row["status"] == "error" for row in observed.rows)
    assert value_of(observed, "Errors") == pytest.approx(errors / len(requests(observed)), rel=0.2)


def test_a_quantile_is_in_the_bucket_of_the_quantile_of_rows(observed: Observed) -> None:
    values = sorted(
        row["latency_ns"]
        for row in observed.rows
        if row["latency_ns"] is not None and not row["waited"]
    )
    actual_ns = values[math.ceil(0.99 * len(values)) - 1]
    edges = [0, *LATENCY_EDGES_NS]
    above = next(edge for edge in edges if edge >= actual_ns)
    below = edges[edges.index(above) - 1]
    assert below <= value_of(observed, "Latency p99") * 1e9 <= above
