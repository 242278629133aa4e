from __future__ import annotations

import io
import json
import re

import pytest

from kanalyze.live import rate_jsonl
from kanalyze.live.rate_jsonl import MOST, RatesWriter, rates
from kanalyze.live.window.snapshot import LatestFindings
from kanalyze.live.window.windows import Windows
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.finding import Finding
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.names import AddressNames, NamedAddress
from tests.live.snapshots import CAPTURE, HOSTILE, hostile, nothing, usual
from tests.support.findings import kinds_of
from tests.support.rows import START_NS, row

SECOND_NS = 1_000_000_000


def finding(name: str, last_s: float | None, **concerns: str) -> Finding:
    kind = next(iter(kinds_of(name)))
    return Finding(
        name=name,
        title=kind.query.title,
        severity=kind.severity,
        what="it is slow",
        weight=1,
        sure=kind.sure,
        why=kind.why,
        repair=kind.repair,
        concerns=concerns,
        first_time_ns=None if last_s is None else START_NS,
        last_time_ns=None if last_s is None else START_NS + int(last_s * SECOND_NS),
        first_packet=None,
        command=kind.command,
        options=(),
    )


def written(windows, turns, interval_ns: int = SECOND_NS):
    stream = io.BytesIO()
    output, lines = RatesWriter(windows, stream, interval_ns=interval_ns), []
    for clock_ns in turns:
        output.tick(CAPTURE, START_NS, clock_ns)
        lines.append(stream.getvalue().count(b"\n"))
    return lines, stream.getvalue().decode("ascii").splitlines()


def test_a_line_is_written_each_interval_and_missed_lines_are_not_written_later():
    turns = [0, SECOND_NS - 1, 5 * SECOND_NS + 1, 5 * SECOND_NS + 2, 6 * SECOND_NS]
    counts, _ = written(Windows(), turns)
    assert counts == [0, 0, 1, 1, 2]


def test_rates_are_per_second_of_the_window():
    windows = Windows()
    windows.tick(START_NS)
    windows.add(RowBlock.of_rows([row()] * 6), START_NS + 4 * SECOND_NS)
    line = rates(windows.snapshot(START_NS + 4 * SECOND_NS))
    assert line["kind"] == "rates"
    assert line["time"] == "2026-01-01T00:00:04.000000000Z"
    assert line["window_ns"] == 4 * SECOND_NS
    assert (line["requests_per_s"], line["request_bytes_per_s"]) == (1.5, 300)
    assert line["apis"][0]["requests_per_s"] == 1.5
    assert line["apis"][0]["p99_ns"] == 2_000_000
    assert line["topics"][0]["produced_bytes_per_s"] == 150
    assert line["capture"] is None
    for table in ("clients", "brokers"):
        (entry,) = line[table]
        assert (entry["requests_per_s"], entry["p50_ns"], entry["p99_ns"]) == (
            1.5,
            *[2_000_000] * 2,
        )
    assert line["brokers"][0]["broker"] == str(Endpoint(row().broker_ip, row().broker_port))


def test_the_line_has_groups_and_the_slowest_requests():
    line = rates(usual())
    assert line["groups"][0]["group_id"] == "billing"
    assert line["groups"][0]["longest_join_ns"] == 2_900_000_000
    # That JoinGroup waited on purpose, so it is not a slow request.
    assert "JoinGroup" not in {entry["api_name"] for entry in line["slowest"]}
    assert line["slowest"][0]["latency_ns"] < 2_900_000_000
    slowest = [entry["latency_ns"] for entry in line["slowest"]]
    assert slowest == sorted(slowest, reverse=True)


def test_tables_have_a_maximum_length():
    line = rates(hostile())
    assert len(line["clients"]) == len(line["topics"]) == len(line["slowest"]) == MOST


def test_text_from_the_wire_is_escaped():
    windows, stream = Windows(), io.BytesIO()
    output = RatesWriter(windows, stream, interval_ns=1)
    output.add(RowBlock.of_rows([row(client_id=HOSTILE)]), START_NS)
    output.close()
    text = stream.getvalue()
    assert text.endswith(b"\n")
    assert all(0x20 <= byte < 0x7F for byte in text[:-1])
    assert json.loads(text)["clients"][0]["client_id"] == HOSTILE


@pytest.mark.parametrize("make", [usual, hostile, nothing])
def test_every_field_is_documented(make):
    line = rates(make())
    words = set(re.findall(r"\w+", rate_jsonl.__doc__ or ""))
    fields = set(line) | set(line["capture"] or {})
    for name in ("apis", "clients", "errors", "groups"):
        fields |= {field for entry in line[name] for field in entry}
    assert fields <= words


def test_a_line_has_the_findings_that_are_still_present():
    stream = io.BytesIO()
    output = RatesWriter(Windows(), stream, interval_ns=1)
    now_ns = START_NS + 300 * SECOND_NS
    output.tick(CAPTURE, now_ns, 0)
    output.tick(CAPTURE, now_ns, 1)
    found = [
        finding("slow_broker", last_s=295, broker="10.0.0.2:9092"),
        finding("throttled", last_s=100, client_id="over"),
        finding("hot_client", last_s=None, client_id=HOSTILE),
    ]
    latest = LatestFindings(now_ns, 10, SECOND_NS, tuple(found), {})
    output.tick(CAPTURE._replace(findings=latest), now_ns, 2)
    before, after = (json.loads(line) for line in stream.getvalue().splitlines())
    assert before["findings"] is None
    slow, hot = after["findings"]
    assert (slow["name"], slow["what"], slow["severity"]) == ("slow_broker", "it is slow", 75)
    assert slow["concerns"] == {"broker": "10.0.0.2:9092"}
    assert slow["last_time_ns"] == START_NS + 295 * SECOND_NS
    assert hot["concerns"] == {"client_id": HOSTILE}


def test_a_line_has_the_names_that_its_addresses_have_now():
    windows, stream = Windows(), io.BytesIO()
    windows.add(RowBlock.of_rows([row(client_ip="10.0.0.1", broker_ip="10.0.0.2")]), START_NS)
    known = [NamedAddress("10.0.0.1", "web-1", "web"), NamedAddress("10.0.0.2", until_ns=START_NS)]
    output = RatesWriter(windows, stream, interval_ns=1, names=AddressNames(known))
    output.add(RowBlock.of_rows([]), START_NS)
    output.close()
    line = json.loads(stream.getvalue())
    assert line["names"] == {"10.0.0.1": {"name": "web-1", "app": "web", "zone": None}}
