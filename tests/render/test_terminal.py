from __future__ import annotations

import functools
import io
import re
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import kanalyze
from kanalyze.common.times import ROUND_WIDTHS_NS
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.lines import fitted_table
from kanalyze.render.missing import without_nulls
from kanalyze.render.report_tables import TableOrder, report_tables
from kanalyze.render.terminal import brief_lines, chart_spans, render_report, report_lines
from kanalyze.spec.report import AFTER_CHARTS, BEFORE_CHARTS, SECTIONS
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import CHOSEN, TROUBLED, WHOLE, often, path
from tests.support.golden import assert_golden
from tests.support.quality import capture_quality
from tests.support.rows import (
    START_NS,
    failed,
    fetch,
    orphan,
    partition,
    plain_traffic,
    row,
    unanswered,
)
from tests.support.summaries import summary_of as report_on

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "\x1b[31mred[bold]x[/]\u202egnp\n:smile:"


ALL = TableOrder(sections=SECTIONS)


def rendered(
    summary: dict, width: int, *, colour: bool = False, order: TableOrder | None = None
) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
    )
    render_report(summary, console, order)
    return stream.getvalue()


def summary_of(rows, quality: CaptureQuality | None = None, key_limit: int = 100) -> dict:
    return report_on(list(rows), quality or CaptureQuality(["x.pcap"]), key_limit)


@functools.cache
def usual() -> dict:
    quality = capture_quality(
        captures=["broker-1.pcapng"],
        packets=6_004,
        captured_bytes=4_000_000,
        wire_bytes=4_001_000,
        first_time_ns=START_NS,
        last_time_ns=START_NS + 620_000_000,
        tcp_packets=6_000,
        not_tcp_packets=4,
        connections=10,
        kafka_connections=8,
        tls_connections=1,
        other_connections=1,
        kafka_bytes=750_000,
        decoded_bytes=749_000,
        undecoded_bytes=800,
        skipped_bytes=200,
    )
    quality.count_anomaly(AnomalyKind.LOST_BYTES, 1_460)
    quality.count_anomaly(AnomalyKind.NOT_IN_SYNC, 200)
    rows = [*plain_traffic(3000), orphan(), unanswered(), row(principal="alice", client_id=None)]
    return summary_of(rows, quality)


@functools.cache
def hostile() -> dict:
    rows = [
        failed(HOSTILE, 3, HOSTILE, client_id=HOSTILE, group_id=HOSTILE, principal=HOSTILE),
        row(api_name=HOSTILE, api_key=777, wire=HOSTILE, client_software_name=HOSTILE),
        row(client_id="\u6f22\u5b57" * 40, partitions=[partition("e\u0301" * 60)]),
        row(client_id="x" * 32_000, status="malformed", latency_ns=-5),
    ]
    return summary_of(rows, CaptureQuality([HOSTILE]))


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize(("name", "make"), [("usual", usual), ("hostile", hostile)])
def test_the_report_equals_its_golden_file(name, make, width):
    assert_golden(rendered(make(), width, order=ALL), GOLDEN / f"{name}-{width}.txt")


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("make", [usual, hostile])
def test_every_line_fits_the_terminal(make, width):
    for order in (None, ALL):
        lines = rendered(make(), width, order=order).splitlines()
        assert max(cell_len(line) for line in lines) <= width


def test_control_characters_are_escaped():
    text = rendered(hostile(), 140, order=ALL)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\\u001b[31mred[bold]x[/]\\u202egnp\\n:smile:" in text


def test_without_colour_there_is_no_escape_code():
    assert "\x1b" not in rendered(usual(), 80)


def test_colour_does_not_change_the_text():
    coloured = rendered(usual(), 80, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == rendered(usual(), 80)


def test_a_capture_without_kafka_has_only_the_header():
    quality = capture_quality(["x.pcap"], packets=3, connections=1, other_connections=1)
    assert rendered(summary_of([], quality), 80) == (
        "verdict: nothing can be said: no Kafka requests were found\n"
        "x.pcap\nno packets\n1 TCP connection: 1 other\nWARNING: no Kafka requests found; "
        "if a broker listens on port N, use --port N\n"
    )


def lines_by_api(summary: dict) -> list[str]:
    """Return the lines of the first table."""
    table = rendered(summary, 80, order=ALL).partition("Requests by API, with latency\n")[2]
    return table.partition("\n\n")[0].splitlines()


def test_long_polls_have_their_own_line():
    rows = [fetch(), fetch(waited=True, latency_ns=500_000_000)]
    lines = lines_by_api(summary_of(rows))
    (waited,) = [line for line in lines if line.startswith("Fetch (waited)")]
    (other,) = [line for line in lines if line.startswith("Fetch  ")]
    assert waited.split()[2] == "1"
    assert "500 ms" in waited
    assert other.split()[1] == "1"
    assert "500 ms" not in other


def test_only_the_line_of_long_polls_is_shown_if_all_fetches_waited():
    names = [line.split("  ")[0] for line in lines_by_api(summary_of([fetch(waited=True)]))]
    assert names == ["API", "Fetch (waited)"]


def test_a_count_that_is_too_low_is_marked():
    text = rendered(summary_of([row(), row(record_count=None)]), 140)
    assert "records produced \u22651 " in text


def test_long_tables_count_omitted_lines():
    clients = [row(client_id=f"c{number}") for number in range(25)]
    assert "and 15 more" in rendered(summary_of(clients), 80, order=ALL)


def test_keys_beyond_the_limit_share_one_line():
    clients = [row(client_id=f"c{number}") for number in range(9)]
    assert "(other clients)" in rendered(summary_of(clients, key_limit=5), 80, order=ALL)


def test_times_have_a_date_if_the_capture_spans_days():
    quality = capture_quality(["x"], first_time_ns=START_NS, last_time_ns=START_NS + 86_400 * 10**9)
    text = rendered(summary_of([failed("orders", 6, "X")], quality), 140)
    assert "01-01 00:00:00" in text


# -- what is shown by default ---------------------------------------------------------------------


@functools.cache
def report(name: str) -> dict:
    return kanalyze.report(path(name))


def shown_titles(text: str) -> set[str]:
    """Return the sections that a text shows, of those with a title of their own."""
    titles = {table.name: table.title for table in (*BEFORE_CHARTS, *AFTER_CHARTS) if table.title}
    titles |= {"worst_times": "Worst times, ", "over_time": "Over time, by "}
    lines = text.splitlines()
    return {name for name, title in titles.items() if any(line.startswith(title) for line in lines)}


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", often([*WHOLE, *TROUBLED], CHOSEN))
def test_a_report_without_findings_takes_a_page(name, width):
    summary = report(name)
    lines = [line.plain for line in report_lines(summary, width, repeats_verdict=True)]
    if not summary["findings"]:
        assert len(lines) <= 60
    assert max(cell_len(line) for line in lines) <= width
    assert len(shown_titles("\n".join(lines))) <= 5
    verdict = lines[len(lines) - lines[::-1].index("") :]
    assert verdict[0].startswith("verdict: ")
    assert verdict == lines[: len(verdict)]


@pytest.mark.parametrize("name", often([*WHOLE, *TROUBLED], CHOSEN))
def test_a_brief_report_has_at_most_ten_lines(name):
    for width in (60, 80, 200):
        lines = [line.plain for line in brief_lines(report(name), width)]
        assert len(lines) <= 10
        assert lines[0].startswith("verdict: ")
        assert max(cell_len(line) for line in lines) <= width


@pytest.mark.parametrize("name", ["basics", "errors"])
def test_every_section_is_shown_or_named(name):
    by_default = rendered(report(name), 100)
    everything = shown_titles(rendered(report(name), 100, order=ALL))
    named = " ".join(by_default.split()).partition("(--sections all, or some): ")[2]
    assert shown_titles(by_default) | set(named.split(", ")) == everything
    assert not shown_titles(by_default) & set(named.split(", "))
    two = TableOrder(sections=["clients", "over_time"])
    text = rendered(report(name), 100, order=two)
    assert shown_titles(text) == {"clients", "over_time"}
    assert "--sections" not in text


def test_a_limit_holds_for_tables_that_are_chosen_by_what_was_found():
    clients = [row(client_id=f"c{number}") for number in range(40)]
    text = rendered(summary_of(clients), 80, order=TableOrder(limit=30))
    assert "and 10 more" in text


def test_what_a_finding_concerns_decides_what_is_shown():
    summary = report("errors")
    finding = summary["findings"][0]
    without = {**summary, "findings": []}
    grouped = {**without, "findings": [{**finding, "see": ["groups", "versions"]}]}
    assert {"groups", "versions"} <= shown_titles(rendered(grouped, 100))
    assert not {"groups", "versions"} & shown_titles(rendered(without, 100))


@pytest.mark.parametrize("name", often([*WHOLE, *TROUBLED], CHOSEN))
def test_no_number_is_cut_at_any_width(name):
    summary = without_nulls(report(name))
    for width in range(60, 201, 7):
        for table in chain(*report_tables(summary, ALL, width)):
            title, *lines = [each.plain for each in fitted_table(table.columns, table.rows, width)]
            assert max(map(cell_len, (title, *lines))) <= width
            titles = [column.title for column in table.columns]
            assert len(set(titles)) == len(titles)
            for line, cells in zip(lines, table.rows, strict=True):
                for column, (text, _) in zip(table.columns, cells, strict=True):
                    if column.right and f" {column.title} " in f" {title} ":
                        assert f" {text} " in f" {line} ", (text, line)


@given(
    st.integers(1, 240),
    st.sampled_from(ROUND_WIDTHS_NS),
    st.integers(0, 2 * 10**18),
    st.integers(10, 300),
)
def test_charts_have_round_spans_that_fit(buckets, bucket_ns, start_ns, columns):
    start_ns = start_ns // bucket_ns * bucket_ns
    amounts = list(range(buckets))
    series = {"bucket_ns": bucket_ns, "start_ns": start_ns, "requests": amounts}
    spans = chart_spans(series, columns)
    assert spans.number * spans.repeat <= columns
    assert spans.width_ns in ROUND_WIDTHS_NS or spans.width_ns > ROUND_WIDTHS_NS[-1]
    assert spans.start_ns % spans.width_ns == 0
    assert spans.start_ns <= start_ns < spans.start_ns + spans.width_ns
    assert len(spans.sums(amounts)) == len(spans.largest(amounts)) == spans.number
    assert sum(spans.sums(amounts)) == sum(amounts)
    second_ns = spans.start_ns + spans.width_ns
    in_first = [n for n in amounts if start_ns + n * bucket_ns < second_ns]
    assert spans.sums(amounts)[0] == sum(in_first)
    assert spans.largest(amounts)[0] == max(in_first)
