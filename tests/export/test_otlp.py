"""Requests are spans by OpenTelemetry's own definitions, in a file and at a collector."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.export.otlp import SpanWriter
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as made
from tests.support import traffic
from tests.support.captures import NAMES, often, path
from tests.support.collector import attributes_of, collecting, spans_of
from tests.support.piped import run_piped
from tests.support.record_sets import TIME_MS, batch_of

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

OFTEN = ("basics", "errors", "old-0-7", "snaplen", "waits")
CLIENT, INTERNAL = 3, 1
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def written(folder: Path, *arguments: object) -> list[Any]:
    target = folder / "spans.jsonl"
    command = ["requests", "--format", "otlp", "-o", str(target), *map(str, arguments)]
    assert main(command) == 0
    return spans_of(target.read_bytes().splitlines())


def of_rows(*rows: Row) -> list[Any]:
    lines: list[bytes] = []
    SpanWriter(lines.append).write_block(RowBlock.of_rows(rows))
    return spans_of(lines)


@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_each_request_is_a_span_with_its_parts_inside(tmp_path: Path, name: str) -> None:
    spans = written(tmp_path, path(name))
    roots = {span.trace_id: span for span in spans if not span.parent_span_id}
    rows = [row for row in kanalyze.requests(path(name)) if row.began_ns is not None]
    assert len({span.span_id for span in spans}) == len(spans)
    expected = Counter(
        (row.api_name, row.began_ns, row.client_id, row.broker_port, row.group_id, row.status)
        for row in rows
    )
    found = [(span, attributes_of(span)) for span in roots.values()]
    assert expected == Counter(
        (
            about.get("messaging.operation.name"),
            span.start_time_unix_nano,
            about.get("messaging.client.id"),
            about["server.port"],
            about.get("messaging.consumer.group.name"),
            about["kanalyze.status"],
        )
        for span, about in found
    )
    for span, about in found:
        assert span.kind == CLIENT
        assert (span.status.code == 2) == ("error.type" in about)
        assert about["messaging.system"] == "kafka"
    for span in spans:
        root = roots[span.trace_id]
        assert root.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano
        if span is not root:
            assert (span.kind, span.parent_span_id) == (INTERNAL, root.span_id)


def test_the_parts_of_a_held_back_fetch_are_its_latency(tmp_path: Path) -> None:
    spans = written(tmp_path, "--api", "Fetch", path("waits"))
    parts: dict[bytes, Counter[str]] = {}
    for span in spans:
        if span.parent_span_id:
            ns = span.end_time_unix_nano - span.start_time_unix_nano
            parts.setdefault(span.parent_span_id, Counter())[span.name] += ns
    waits = [each for each in parts.values() if each["waits on purpose"]]
    assert waits
    rows = kanalyze.requests(path("waits"), api="Fetch")
    totals = {row.total_time_ns for row in rows if row.waited}
    assert {sum(each.values()) for each in waits} <= totals


def test_a_produce_and_a_fetch_of_the_same_offsets_are_linked(tmp_path: Path) -> None:
    spans = written(tmp_path, path("basics"))
    by_id = {span.span_id: span for span in spans}
    links = [(span, link) for span in spans for link in span.links]
    assert links
    for span, link in links:
        other = by_id[link.span_id]
        assert other.trace_id == link.trace_id
        assert {span.name.split()[0], other.name.split()[0]} == {"Produce", "Fetch"}
        about, others = attributes_of(span), attributes_of(other)
        assert about["messaging.destination.name"] == others["messaging.destination.name"]
        assert attributes_of(link)["messaging.kafka.offset"] >= 0


def test_every_run_makes_the_same_ids_of_captures_and_of_a_saved_file(tmp_path: Path) -> None:
    saved = tmp_path / "saved.duckdb"
    assert main(["save", str(path("basics")), "-o", str(saved)]) == 0
    again = written(tmp_path, path("basics"))
    assert written(tmp_path, path("basics")) == again
    assert written(tmp_path, saved) == again


def test_requests_that_nothing_tells_apart_have_ids_of_their_own() -> None:
    row = made.row(correlation_id=None)
    assert len({span.trace_id for span in of_rows(row, row, row)}) == 3


def test_texts_from_the_wire_are_short_and_valid() -> None:
    (span, *_) = of_rows(made.row(client_id="\ud800" + "x" * 40_000))
    client = attributes_of(span)["messaging.client.id"]
    assert (client[:2], len(client)) == ("?x", 1024)


def test_a_request_about_several_topics_names_them_apart() -> None:
    parts = [made.partition("a", 1), made.partition("b", 2)]
    (span, *_) = of_rows(made.row(partitions=parts))
    about = attributes_of(span)
    assert span.name == "Produce"
    assert [each.string_value for each in about["kanalyze.topics"].values] == ["a", "b"]
    assert not about.keys() & {"messaging.destination.name", "messaging.kafka.offset"}


def test_spans_in_headers_of_records_are_linked_from_the_request_that_has_them(
    tmp_path: Path,
) -> None:
    header = ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())
    records = batch_of([(at, TIME_MS, b"k", b"v", [header]) for at in range(3)])
    has, lacks = traffic.Part(records=records), traffic.Part(records=batch_of())
    packets: list[bytes] = []
    line = traffic.Line(packets).open()
    # Both in one packet: only one of them has the header.
    line.client(traffic.produce(1, 9, [has]) + traffic.produce(2, 9, [lacks]))
    line.broker(traffic.produce_answer(1, 9), traffic.produce_answer(2, 9))
    capture = tmp_path / "traced.pcap"
    capture.write_bytes(traffic.capture_of(packets))
    spans = [span for span in written(tmp_path, "--traceparent", capture) if span.kind == CLIENT]
    assert [
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] for span in spans
    ] == [[(TRACE, PARENT)], []]


def test_a_collector_gets_what_a_file_gets(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, a=b")
    with collecting() as collector:
        collector.statuses = [503]  # it asks for another attempt
        collector.rejected = 2
        assert main(["requests", "--otlp", collector.url, str(path("basics"))]) == 0
    assert spans_of(collector.messages) == written(tmp_path, path("basics"))
    assert collector.headers[0]["Authorization"] == "Bearer x"
    assert "2 spans rejected: too old" in capsys.readouterr().err


def test_live_sends_the_same_spans(tmp_path: Path, monkeypatch, capfdbinary) -> None:
    with collecting() as collector:
        done = run_piped(
            *("live", "-", "--format", "rows", "--otlp", collector.url),
            data=path("basics").read_bytes(),
            monkeypatch=monkeypatch,
            captured=capfdbinary,
        )
    assert done.returncode == 0, done.stderr
    ids = {span.span_id for span in spans_of(collector.messages)}
    assert ids == {span.span_id for span in written(tmp_path, path("basics"))}


def test_a_live_run_goes_on_without_its_collector(monkeypatch, capfdbinary) -> None:
    with collecting() as collector:
        url = collector.url
    done = run_piped(
        *("live", "-", "--format", "rows", "--otlp", url),
        data=path("basics").read_bytes(),
        monkeypatch=monkeypatch,
        captured=capfdbinary,
    )
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(list(kanalyze.requests(path("basics"))))
    refused, lost = done.stderr.decode().splitlines()[:2]
    assert refused == f"kanalyze: cannot send to {url}/v1/traces: Connection refused"
    assert "messages were not sent" in lost


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--otlp", "ftp://x"], "not the URL of a collector: 'ftp://x' (http://HOST:4318)"),
        (["--otlp", "http://127.0.0.1:1"], "cannot send to http://127.0.0.1:1/v1/traces"),
        (["--format", "otlp", "--columns", "client_id"], "spans of OpenTelemetry have all columns"),
        (["--format", "csv", "--otlp", "http://h"], "spans of OpenTelemetry have all columns"),
        (["--traceparent"], "--traceparent is about spans"),
        (["--otlp", "http://h", "-o", "x"], "--otlp sends spans in place of writing them"),
        (["--format", "otlp", "--traceparent", "--limit", "3"], "--traceparent reads requests in"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(options: list[str], message: str, capsys) -> None:
    assert main(["requests", *options, str(path("basics"))]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kanalyze: {message}")
