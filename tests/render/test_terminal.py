from __future__ import annotations

import functools
import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.terminal import render_report
from kanalyze.tables.quality import CaptureQuality
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


def rendered(summary: dict, width: int, *, colour: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
    )
    render_report(summary, console)
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
    assert_golden(rendered(make(), width), GOLDEN / f"{name}-{width}.txt")


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("make", [usual, hostile])
def test_every_line_fits_the_terminal(make, width):
    lines = rendered(make(), width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_control_characters_are_escaped():
    text = rendered(hostile(), 140)
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
        "x.pcap\nno packets\n1 TCP connection: 1 other\nWARNING: no Kafka requests found; "
        "if a broker listens on port N, use --port N\n"
    )


def lines_by_api(summary: dict) -> list[str]:
    """Return the lines of the first table."""
    table = rendered(summary, 80).partition("Requests by API, with latency\n")[2]
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
    assert "and 15 more" in rendered(summary_of(clients), 80)


def test_keys_beyond_the_limit_share_one_line():
    clients = [row(client_id=f"c{number}") for number in range(9)]
    assert "(other clients)" in rendered(summary_of(clients, key_limit=5), 80)


def test_times_have_a_date_if_the_capture_spans_days():
    quality = capture_quality(["x"], first_time_ns=START_NS, last_time_ns=START_NS + 86_400 * 10**9)
    text = rendered(summary_of([failed("orders", 6, "X")], quality), 140)
    assert "01-01 00:00:00" in text
