"""The page in a browser: its figures and selections. It sends no requests."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.model.tcp import Endpoint
from kanalyze.render.html import html_page
from kanalyze.render.units import bytes_text, count_text, duration_text, rate_text
from tests.queries.test_page import many_rows
from tests.render.html.test_page import HOSTILE, hostile_page
from tests.support import rows as sample_rows
from tests.support import tls_captures
from tests.support.browser import Page, browser_page
from tests.support.captures import NAMES, analysis, often
from tests.support.captures import path as capture_path
from tests.support.pages import report_and_cube, report_and_cube_of
from tests.support.plain_report import plain_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.spec.rows.requests import Row

AXE = Path(__file__).parent / "axe" / "axe.min.js"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""SHA-256 of axe-core 4.14.1 in npm."""
IS_READY = "document.documentElement.dataset.ready === 'yes'"
CAPTURE = "basics"
TEXTS_OF_TABLES = """
    Object.fromEntries([...document.querySelectorAll("main section table[id]")].map((table) =>
        [table.id, [...table.tBodies[0].rows].slice(0, 12).map((row) =>
            [...row.cells].map((cell) => cell.textContent))]))
"""
LINES_OF_TABLE = """(() => {
    const table = document.getElementById("%s-table");
    document.querySelector("#%s .rest button")?.click();
    const titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    return [...table.tBodies[0].rows].map((row) => Object.fromEntries(
        [...row.cells].map((cell, at) => [titles[at], cell.textContent])));
})()"""
TITLES_OF_PARTS = {
    "each": "total_time_ns",
    "sending": "request_send_ns",
    "network": "broker_network_ns",
    "waited for resent": "retransmission_wait_ns",
    "queued": "pipeline_wait_ns",
    "in broker": "broker_time_ns",
    "response": "response_send_ns",
    "to client": "client_network_ns",
}
QUANTILES = ("p50", "p90", "p99", "max")
NUMBERS = (
    *(0, 1, 9, 10, 99, 999, 1_000, 1_005, 1_015, 1_025, 9_995, 9_999, 10_050, 99_950, 99_999),
    *(100_500, 999_499, 999_500, 999_999, 1_000_000, 1_234_567, 12_345_678, 999_500_000),
    *(10**9, 119_400_000_000, 119_500_000_000, 3_599_999_999_999, 10**13, 86_400 * 10**9, 2**53),
)
"""Sizes and latencies at which the number of digits, or the unit, changes."""
DRAWINGS = """
    Object.fromEntries(["histogram", "heat", "parts", "waterfall", "timeline"].map((id) =>
        [id, document.getElementById(id).innerHTML]))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with browser_page() as page:
        yield page


@cache
def written(folder: Path, name: str) -> Path:
    path = folder / f"{name}.html"
    path.write_text(html_page(*report_and_cube_of(name)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def page(browser: Page, folder: Path) -> Iterator[Page]:
    """The page of a capture, newly opened."""
    path = written(folder, CAPTURE)
    show(browser, path)
    yield browser
    assert browser.console == []
    assert browser.asked_for == [path.as_uri()]


def show(browser: Page, path: Path, *, width: int = 1300, scheme: str = "light") -> None:
    browser.console.clear()
    browser.asked_for.clear()
    set_size(browser, width)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.tell("Emulation.setEmulatedMedia", features=features)
    browser.open(path)
    browser.wait_for(IS_READY)


def open_page(browser: Page, folder: Path, report: dict[str, Any], cube: dict[str, Any]) -> None:
    """Open the page of a report."""
    path = folder / "page.html"
    path.write_text(html_page(report, cube), encoding="utf-8")
    show(browser, path)


def set_size(browser: Page, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.tell("Emulation.setDeviceMetricsOverride", **size)


def choose(page: Page, title: str, text: str) -> None:
    """Choose an option of a control, as a user does."""
    page.run(f"""(() => {{
        const labels = [...document.querySelectorAll("#controls label")];
        const box = labels.find((label) => label.firstChild.data === {json.dumps(title)})
            .querySelector("select");
        box.value = [...box.options].find((option) => option.text === {json.dumps(text)}).value;
        box.dispatchEvent(new Event("change"));
    }})()""")


def tile(page: Page, name: str) -> str:
    text: str = page.run(f"document.getElementById('tile-{name}').textContent")
    return text


def lines_of(page: Page, table: str) -> list[dict[str, str]]:
    """Return all lines of a table, each by the titles of its columns."""
    lines: list[dict[str, str]] = page.run(LINES_OF_TABLE % (table, table))
    return lines


def by_name(page: Page, table: str) -> dict[str, dict[str, str]]:
    """Return the lines of a table by their first cell."""
    return {next(iter(line.values())): line for line in lines_of(page, table)}


# -- newly opened ---------------------------------------------------------------------------------


def test_without_scripts_findings_are_shown_and_a_line_says_what_is_missing(
    browser: Page, folder: Path
) -> None:
    browser.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(written(folder, "errors"))
        text = browser.run("document.body.innerText")
    finally:
        browser.tell("Emulation.setScriptExecutionDisabled", value=False)
    assert_findings_alone(text)


def test_a_browser_that_cannot_run_the_scripts_shows_the_same(browser: Page, folder: Path) -> None:
    """Browsers before 2023 have no DecompressionStream."""
    script = browser.tell(
        "Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.DecompressionStream"
    )
    try:
        browser.open(written(folder, "errors"))
        assert_findings_alone(browser.run("document.body.innerText"))
    finally:
        browser.tell("Page.removeScriptToEvaluateOnNewDocument", **script)
        browser.console.clear()


def assert_findings_alone(text: str) -> None:
    report, _ = report_and_cube_of("errors")
    assert all(finding["title"] in text for finding in report["findings"])
    assert "Figures, charts and tables need scripts" in text
    assert "Over time" not in text
    assert "nothing" not in text


def test_figures_are_written_as_in_the_terminal(browser: Page, folder: Path) -> None:
    rows = [
        sample_rows.row(client_id=f"{number}", request_bytes=number, latency_ns=number)
        for number in NUMBERS
    ]
    report, cube = report_and_cube(rows)
    open_page(browser, folder, report, cube)
    lines = by_name(browser, "clients")
    assert {name: (line["sent"], line["max"]) for name, line in lines.items()} == {
        f"{number}": (bytes_text(number), duration_text(number)) for number in NUMBERS
    }
    times = lines_of(browser, "times")
    assert times[0]["requests"] == rate_text(len(rows), cube["bucket_ns"])


def test_the_share_of_errors_is_of_those_that_were_read(browser: Page, folder: Path) -> None:
    failed = {"status": "error", "error_code": 27, "error_name": "REBALANCE_IN_PROGRESS"}
    unread = {"status": "malformed", "error_code": None, "error_name": None}
    rows = [sample_rows.row(**changes) for changes in ({}, {}, failed, unread, unread, unread)]
    open_page(browser, folder, *report_and_cube(rows))
    assert tile(browser, "errors") == "1 (33.33 %, 3 not read)"


def test_drawings_show_the_shares_of_the_rows(browser: Page, folder: Path) -> None:
    latencies_ns = (1_000_000,) * 3 + (80_000_000,)
    rows = [
        sample_rows.row(
            latency_ns=latency_ns,
            total_time_ns=4 * latency_ns,
            request_send_ns=latency_ns,
            broker_network_ns=0,
            retransmission_wait_ns=0,
            pipeline_wait_ns=0,
            broker_time_ns=3 * latency_ns,
            response_send_ns=0,
        )
        for latency_ns in latencies_ns
    ]
    open_page(browser, folder, *report_and_cube(rows))
    bars = browser.run("document.querySelector('#histogram .bar').getAttribute('d')")
    assert [float(top) for top in re.findall(r"V([\d.]+)h", bars)] == [8, 108]
    squares = browser.run(
        "[...document.querySelectorAll('#heat path:not(.axis)')].map((path) => "
        "[path.getAttribute('class'), path.getAttribute('d').split('z').length - 1])"
    )
    assert sorted(squares) == [["heat0", 1], ["heat4", 1]]
    for drawing, count in (("parts", 2), ("waterfall", 4)):
        widths = browser.run(
            f"['sending', 'broker'].map((part) => [...document.querySelectorAll('#{drawing} .'"
            " + part)].map((bar) => Number(bar.getAttribute('width'))))"
        )
        assert [len(part) for part in widths] == [count] * 2
        for sending, broker in zip(*widths, strict=True):
            assert broker == pytest.approx(3 * sending, abs=0.5) or broker <= 10


def test_negative_latencies_have_quantiles_and_drawings(browser: Page, folder: Path) -> None:
    latencies_ns = (-10_000, -10_000, -1, 0, 1, 5_000, 2**62, -(2**62))
    rows = [
        sample_rows.row(latency_ns=latency_ns, broker_time_ns=None) for latency_ns in latencies_ns
    ]
    open_page(browser, folder, *report_and_cube(rows))
    assert tile(browser, "p50") == "-1 ns"
    marks = "[...document.querySelectorAll('#histogram text')].map((mark) => mark.textContent)"
    assert {"p50", "p99", duration_text(10**12), duration_text(-(10**12))} <= {*browser.run(marks)}
    choose(browser, "API", rows[0].api_name or "")
    assert tile(browser, "p50") == "-2 ns"
    assert tile(browser, "max") == duration_text(2**62)


def test_charts_are_drawn(page: Page) -> None:
    colours = page.run("""
        [...document.querySelectorAll("canvas")].map((canvas) => new Set(
            new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
                .data.buffer)).size)
    """)
    assert len(colours) == 4
    assert min(colours) > 3


def test_each_part_is_visible(page: Page) -> None:
    for part in ("findings", "capture", "filter", "overview", "shapes", "apis"):
        assert page.run(f"document.getElementById('{part}').offsetHeight") > 40, part


@pytest.mark.parametrize("name", often(NAMES, ("basics", "errors")))
def test_figures_are_those_of_the_report(browser: Page, folder: Path, name: str) -> None:
    show(browser, written(folder, name))
    report, _ = report_and_cube_of(name)
    check_figures(browser, plain_report(analysis(name)[0]))
    lines = by_name(browser, "clients")
    for client in report["clients"]:
        line, latency = lines[client["client_id"] or "-"], client["latency_ns"]
        assert [line[name] for name in QUANTILES] == [duration_text(latency[x]) for x in QUANTILES]
    assert browser.console == []


def test_what_is_summed_up_or_left_out_is_said(browser: Page, folder: Path) -> None:
    limits = "document.getElementById('limits').textContent"
    show(browser, written(folder, CAPTURE))
    assert browser.run(limits) == ""
    rows = many_rows(400, clients=300, topics=300)
    open_page(browser, folder, *report_and_cube(rows))
    assert browser.run(limits) == (
        "Only the busiest are listed: 100 clients, 100 topics, 50 groups. The others are summed up."
    )
    assert "The page lists " in browser.run("document.getElementById('slowest').innerText")


def assert_traffic(line: dict[str, str], expected: dict[str, Any]) -> None:
    assert line["requests"] == count_text(expected["requests"])
    assert line["errors"] == count_text(expected["errors"])
    assert line["sent"] == bytes_text(expected["request_bytes"])
    assert line["received"] == bytes_text(expected["response_bytes"])


# -- selections -----------------------------------------------------------------------------------


def near(text: str, latency_ns: int | None) -> bool:
    """Return true if a text is a latency within 5 %, to three digits."""
    if latency_ns is None:
        return text == "-"
    number, unit = text.split()
    size = {"ns": 1, "\u00b5s": 1e3, "ms": 1e6, "s": 1e9}[unit]
    return abs(float(number) * size - latency_ns) <= 0.055 * latency_ns


@pytest.mark.parametrize(
    ("title", "text", "column"),
    [
        ("Client", "confluent-consume", "client_id"),
        ("API", "Fetch", "api_name"),
        ("API", "Produce", "api_name"),
        ("Group", "group-confluent", "group_id"),
    ],
)
def test_figures_of_a_selection_are_those_of_a_filtered_report(
    page: Page, title: str, text: str, column: str
) -> None:
    choose(page, title, text)
    rows = [row for row in analysis(CAPTURE)[0] if getattr(row, column) == text]
    assert rows
    check_figures(page, plain_report(rows))


def check_figures(page: Page, expected: dict[str, Any]) -> None:
    """Compare the page with the report on the rows that are selected."""
    totals = expected["totals"]
    assert tile(page, "requests") == count_text(totals["requests"])
    assert tile(page, "errors").split()[0] == count_text(totals["error"])
    assert tile(page, "unanswered") == count_text(totals["unanswered"])
    assert tile(page, "sent") == bytes_text(totals["request_bytes"])
    assert tile(page, "received") == bytes_text(totals["response_bytes"])
    clients = by_name(page, "clients")
    assert len(clients) == len(expected["clients"])
    for client in expected["clients"]:
        line, latency = clients[client["client_id"] or "-"], client["latency_ns"]
        assert_traffic(line, client)
        assert all(near(line[name], latency[name]) for name in ("p50", "p90", "p99"))
    brokers = by_name(page, "brokers")
    assert {name: line["requests"] for name, line in brokers.items()} == {
        line["broker"]: count_text(line["requests"]) for line in expected["brokers"]
    }
    groups = by_name(page, "groups")
    assert {name: line["requests"] for name, line in groups.items()} == {
        line["group_id"]: count_text(line["requests"]) for line in expected["groups"]
    }
    counts = [int(line["count"]) for line in lines_of(page, "errors")]
    assert sum(counts) == sum(line["count"] for line in expected["errors"])
    slow = [line["latency"] for line in lines_of(page, "slowest")]
    assert slow[:3] == [duration_text(line["latency_ns"]) for line in expected["slowest"][:3]]
    check_parts(page, expected["latency_parts"])


def check_parts(page: Page, expected: list[dict[str, Any]]) -> None:
    """Compare the table *Where the time went* with the report."""
    parts = {
        (line["API"], line["broker"], line["captured at"]): line
        for line in lines_of(page, "latency_parts")
    }
    assert len(parts) == len(expected)
    for line in expected:
        broker = str(Endpoint(line["broker_ip"], line["broker_port"]))
        shown = parts[line["api_name"], broker, line["capture_point"] or "not known"]
        assert shown["requests"] == count_text(line["requests"])
        assert {title: shown[title] for title in TITLES_OF_PARTS} == {
            title: duration_text(line[column]["mean"]) for title, column in TITLES_OF_PARTS.items()
        }


def test_a_topic_selects_the_requests_that_name_it(page: Page) -> None:
    rows = analysis(CAPTURE)[0]
    topic = next(item.topic for row in rows for item in row.partitions if item.topic)
    choose(page, "Topic", topic)
    rows_of_topic = [row for row in rows if any(item.topic == topic for item in row.partitions)]
    check_figures(page, plain_report(rows_of_topic))
    line = by_name(page, "topics")[topic]
    expected = next(
        topic_line
        for topic_line in plain_report(rows_of_topic)["topics"]
        if topic_line["topic"] == topic
    )
    assert line["produces"] == count_text(expected["produce_requests"])
    assert line["records in"] == count_text(expected["produced_records"])
    assert line["fetches"] == count_text(expected["fetch_requests"])
    assert line["records out"] == count_text(expected["fetched_records"])
    assert line["bytes out"] == bytes_text(expected["fetched_bytes"])
    latencies = {
        line["api_name"]: line["latency_ns"] for line in expected_latency(rows_of_topic, topic)
    }
    for line in lines_of(page, "topic_apis"):
        if line["topic"] == topic and line["API"] in latencies:
            latency = latencies.pop(line["API"])
            assert all(near(line[name], latency[name]) for name in ("p50", "p90", "p99"))
    assert not latencies


def expected_latency(rows: list[Row], topic: str) -> list[dict[str, Any]]:
    return [line for line in plain_report(rows)["topic_latency"] if line["topic"] == topic]


def test_dragging_on_a_chart_selects_a_span_of_time(page: Page) -> None:
    box = page.run("""(() => {
        const over = document.querySelector("#chart-requests .u-over");
        over.scrollIntoView({block: "center"});
        return over.getBoundingClientRect().toJSON();
    })()""")
    y = box["y"] + box["height"] / 2
    xs = [box["x"] + box["width"] * share for share in (0.3, 0.5, 0.7)]
    mouse = {"y": y, "button": "left", "clickCount": 1}
    page.tell("Input.dispatchMouseEvent", type="mouseMoved", x=xs[0], y=y)
    page.tell("Input.dispatchMouseEvent", type="mousePressed", x=xs[0], **mouse)
    for x in xs[1:]:
        page.tell("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
    page.tell("Input.dispatchMouseEvent", type="mouseReleased", x=xs[2], **mouse)
    first, last = (
        int(value)
        for value in page.run(
            "[...document.querySelectorAll('#controls select')].slice(-2).map((box) => box.value)"
        )
    )
    _, cube = report_and_cube_of(CAPTURE)
    assert 0.25 < first / cube["buckets"] < 0.35
    assert 0.65 < last / cube["buckets"] < 0.75
    start_ns, width_ns = cube["start_ns"], cube["bucket_ns"]
    rows = [
        row
        for row in analysis(CAPTURE)[0]
        if first
        <= ((row.request_start_ns or row.response_start_ns or 0) - start_ns) // width_ns
        <= last
    ]
    check_figures(page, plain_report(rows))


def test_tls_sessions_are_those_of_the_report(browser: Page, folder: Path) -> None:
    file, keys = tls_captures.path("tls12-ticket"), tls_captures.keylog("tls12-ticket")
    rows = list(kanalyze.requests(file, keylog=keys))
    connections = list(kanalyze.connections(file, keylog=keys))
    report, cube = report_and_cube(rows, None, connections)
    open_page(browser, folder, report, cube)
    [line], [expected] = lines_of(browser, "tls"), report["tls"]
    assert line["broker"] == expected["broker"]
    assert line["version"] == "TLS 1.2"
    assert line["cipher suite"] == expected["tls_cipher_suite"]
    assert line["handshake p50"] == duration_text(expected["handshake_p50_ns"])
    assert (line["connections"], line["decrypted"], line["failed"]) == ("3", "3", "0")
    assert line["resumed"] == "2"
    choose(browser, "API", "ApiVersions")
    assert lines_of(browser, "tls") == [line]
    assert browser.console == []


def test_there_is_no_table_of_tls_without_tls(page: Page) -> None:
    assert page.run("document.getElementById('tls')") is None


def test_clearing_the_selection_restores_the_page(page: Page) -> None:
    before = page.run(TEXTS_OF_TABLES), page.run(DRAWINGS)
    choose(page, "API", "Fetch")
    assert page.run(DRAWINGS) != before[1]
    page.run("document.getElementById('clear').click()")
    assert (page.run(TEXTS_OF_TABLES), page.run(DRAWINGS)) == before


def test_findings_that_do_not_concern_the_selection_are_hidden(browser: Page, folder: Path) -> None:
    show(browser, written(folder, "errors"))
    note = "document.getElementById('findings-note').textContent"
    shown = "document.querySelectorAll('#findings .finding:not([hidden])').length"
    assert browser.run(note) == ""
    choose(browser, "Client", "aiokafka-too-large")
    assert browser.run(shown) == 1
    assert browser.run(note) == (
        "3 of 4 findings concern others than what is selected. "
        "The figures of findings are of the whole capture."
    )
    choose(browser, "Client", "aiokafka-fits")
    assert browser.run("document.querySelector('#findings ol > li').hidden")
    choose(browser, "Client", "all")
    choose(browser, "To", browser.run("document.querySelectorAll('#controls select')[6][1].text"))
    assert browser.run(shown) == 0


def test_a_click_on_a_finding_selects_what_it_concerns(browser: Page, folder: Path) -> None:
    show(browser, written(folder, "errors"))
    browser.run("document.querySelector('#findings .concerns').click()")
    assert browser.run("document.getElementById('selected').textContent").startswith(
        "Client aiokafka-too-large, API Produce, Topic errors-small: 1 of "
    )
    assert browser.run("document.activeElement.selectedOptions[0].text") == "aiokafka-too-large"


def test_the_command_for_the_selection_is_shown(page: Page) -> None:
    choose(page, "Client", "confluent-consume")
    choose(page, "API", "Fetch")
    command = page.run("document.getElementById('command').textContent")
    assert command == "kanalyze requests CAPTURE --client-id confluent-consume --api Fetch"


# -- tables ---------------------------------------------------------------------------------------


def test_a_click_on_a_column_title_sorts_the_table(page: Page) -> None:
    lines_of(page, "clients")
    script = """(() => {
        const head = [...document.querySelectorAll("#clients-table thead th")]
            .find((cell) => cell.textContent === "client");
        head.querySelector("button").click();
        return [head.getAttribute("aria-sort"),
            [...document.querySelectorAll("#clients tbody th")].map((cell) => cell.innerText)];
    })()"""
    order, names = page.run(script)
    assert order == "ascending"
    assert names == page.run(
        f"[...{json.dumps(names)}].sort((a, b) => a.localeCompare(b, 'en', {{numeric: true}}))"
    )
    order, reverse = page.run(script)
    assert order == "descending"
    assert reverse == names[::-1]


def test_a_text_filters_the_lines_of_a_table(page: Page) -> None:
    lines = page.run("""(() => {
        const input = document.querySelector("#clients .find input");
        input.value = "AIOKAFKA";
        input.dispatchEvent(new Event("input"));
        return [...document.querySelectorAll("#clients tbody tr")].map((row) => row.innerText);
    })()""")
    assert lines
    assert all("aiokafka" in line for line in lines)


def test_a_click_on_a_name_in_a_table_selects_it(page: Page) -> None:
    name = page.run("document.querySelector('#clients .pick').textContent")
    page.run("document.querySelector('#clients .pick').click()")
    assert list(by_name(page, "clients")) == [name]
    assert page.run("document.activeElement.selectedOptions[0].text") == name


# -- safety and accessibility ---------------------------------------------------------------------


def test_names_run_no_script(browser: Page, folder: Path) -> None:
    path = folder / "hostile.html"
    path.write_text(hostile_page(), encoding="utf-8")
    show(browser, path)
    assert HOSTILE[0] in browser.run("document.getElementById('clients').textContent")
    browser.run("document.querySelectorAll('#clients .pick')[0].click()")
    assert browser.run("document.querySelectorAll('#clients tbody tr').length") == 1
    assert browser.console == []
    assert browser.asked_for == [path.as_uri()]
    assert browser.run("document.querySelectorAll('img').length") == 0


def test_a_page_without_rows_works(browser: Page, folder: Path) -> None:
    open_page(browser, folder, *report_and_cube([]))
    assert tile(browser, "requests") == "0"
    assert browser.run("document.querySelector('#apis .rest').textContent") == "none"
    for drawing in ("histogram", "heat", "parts", "waterfall"):
        assert browser.run(f"document.getElementById('{drawing}').textContent") == "nothing to draw"
    assert browser.console == []


def test_a_time_is_selected_with_the_keyboard_alone(page: Page) -> None:
    page.run("document.querySelectorAll('#controls select')[5].focus()")
    for key, code in (("ArrowDown", 40), ("ArrowDown", 40)):
        for kind in ("keyDown", "keyUp"):
            page.tell("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)
    page.run("document.activeElement.blur()")
    assert " of 309 requests; quantiles within 5 %" in page.run(
        "document.getElementById('selected').textContent"
    )


def test_the_file_of_axe_is_unchanged() -> None:
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == AXE_SHA256


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("errors", 1300, "dark"),
        pytest.param("basics", 1300, "light", marks=pytest.mark.long),
        pytest.param("groups", 400, "light", marks=pytest.mark.long),
    ],
)
def test_axe_finds_no_serious_violation(
    browser: Page, folder: Path, name: str, width: int, scheme: str
) -> None:
    show(browser, written(folder, name), width=width, scheme=scheme)
    browser.run(AXE.read_text() + ";0")
    violations = browser.run(
        "axe.run(document, {resultTypes: ['violations']}).then((all) => "
        "all.violations.map((rule) => [rule.impact, rule.id, "
        "rule.nodes.slice(0, 3).map((node) => node.html)]))"
    )
    assert [violation for violation in violations if violation[0] in ("serious", "critical")] == []


@pytest.mark.parametrize("width", [400, 1300])
def test_the_page_is_no_wider_than_the_window(browser: Page, folder: Path, width: int) -> None:
    show(browser, written(folder, CAPTURE), width=width)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
def test_the_page_is_printed_with_charts_and_without_controls(page: Page) -> None:
    printed = page.tell("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
    assert printed["data"].startswith("JVBER")  # %PDF
    page.tell("Emulation.setEmulatedMedia", media="print", features=[])
    assert page.run("getComputedStyle(document.getElementById('controls')).display") == "none"
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.tell("Emulation.setEmulatedMedia", media="", features=[])


# -- what is seen at first, and shared ------------------------------------------------------------


def test_the_verdict_and_the_tiles_come_first(page: Page) -> None:
    assert page.run("document.getElementById('verdict').className") in ("good", "bad", "warning")
    order = page.run(
        "[...document.querySelectorAll('#verdict, #tiles, nav, #findings')]"
        ".map((e) => e.id || 'nav')"
    )
    assert order == ["verdict", "tiles", "nav", "findings"]
    assert tile(page, "requests")


def test_what_is_selected_is_in_the_address(page: Page) -> None:
    choose(page, "Client", "confluent-consume")
    choose(page, "API", "Fetch")
    hash_of = "location.hash"
    address = page.run(hash_of)
    assert address == "#select?client=confluent-consume&api=Fetch"
    requests = tile(page, "requests")
    page.run("document.getElementById('clear').click()")
    assert page.run(hash_of) == ""
    assert tile(page, "requests") != requests
    page.run(f"location.hash = {json.dumps(address)}")
    page.wait_for(
        f"document.getElementById('tile-requests').textContent === {json.dumps(requests)}"
    )


def test_a_span_of_time_in_the_address_is_selected(page: Page) -> None:
    choose(
        page, "From", page.run("document.querySelectorAll('#controls select')[5].options[3].text")
    )
    address = page.run("location.hash")
    assert re.fullmatch(r"#select\?since=[-0-9T%A.Z]+&until=[-0-9T%A.Z]+", address)
    selected = page.run("document.getElementById('selected').textContent")
    page.run("document.getElementById('clear').click()")
    page.run(f"location.hash = {json.dumps(address)}")
    page.wait_for(f"document.getElementById('selected').textContent === {json.dumps(selected)}")


def test_an_address_that_makes_no_sense_selects_nothing(page: Page) -> None:
    everything = tile(page, "requests")
    page.run("location.hash = '#select?client=%1b%5b2J&since=never&until=2000-01-01T00:00:00Z'")
    assert tile(page, "requests") == everything


def test_bars_of_where_the_time_went_have_one_scale(page: Page) -> None:
    bars = page.run("""(() => {
        const widths = new Map();
        for (const bar of document.querySelectorAll("#parts rect")) {
            const y = bar.getAttribute("y");
            widths.set(y, (widths.get(y) ?? 0) + Number(bar.getAttribute("width")));
        }
        const texts = [...document.querySelectorAll("#parts text.strong")];
        return [[...widths.values()], texts.map((each) => each.textContent)];
    })()""")
    units = {"ns": 1, "\u00b5s": 1e3, "ms": 1e6, "s": 1e9}
    times = [float(number) * units[unit] for number, unit in map(str.split, bars[1])]
    assert len(times) > 3
    longest = max(times)
    for width, time in zip(bars[0], times, strict=True):
        # A part that took any time is at least a pixel wide.
        assert width == pytest.approx(max(bars[0]) * time / longest, rel=0.03, abs=7)


def test_flows_are_drawn_by_their_bytes_and_found(browser: Page, folder: Path) -> None:
    show(browser, written(folder, "fault-lag"))
    flows = report_and_cube_of("fault-lag")[0]["flows"]
    widths = [float(width) for width in browser.run(FLOWS)]
    assert len(widths) == len(flows) > 1
    most = max(flow["bytes"] for flow in flows)
    assert widths == pytest.approx([16 * flow["bytes"] / most for flow in flows], abs=0.1)
    browser.run("""(() => {
        const find = document.querySelector("#find-flow input");
        find.value = "INDEXER";
        find.dispatchEvent(new Event("input"));
    })()""")
    assert len(browser.run(FLOWS)) == 1


FLOWS = """[...document.querySelectorAll("#flow-map .flow")]
    .map((line) => line.getAttribute("stroke-width"))"""


def test_lag_flows_and_changes_are_those_of_the_report(browser: Page, folder: Path) -> None:
    report = page_and_report(browser, folder, "fault-lag")
    (line,), (lag,) = lines_of(browser, "lag"), report["lag"]
    assert (line["group"], line["lag"]) == (lag["group_id"], count_text(lag["lag"]))
    assert len(lines_of(browser, "flows")) == len(report["flows"])
    # The last point of the drawing is the lag at the end.
    text = browser.run('document.getElementById("lag-lines").textContent')
    assert count_text(lag["lag"]) in text
    report = page_and_report(browser, folder, "admin")
    shown = [(line["name"], line["setting"], line["to"]) for line in lines_of(browser, "changes")]
    changes = [(each["resource"], each["setting"], each["value"]) for each in report["changes"]]
    assert set(shown) <= {tuple(text or "-" for text in change) for change in changes}
    assert len(set(shown)) > 5
    assert browser.run('document.getElementById("lag-lines").parentElement.hidden')


def page_and_report(browser: Page, folder: Path, name: str) -> dict[str, Any]:
    """Open the page of a capture, with all its tables; return its report."""
    page, report = (folder / f"whole-{name}.{suffix}" for suffix in ("html", "json"))
    words = ["report", str(capture_path(name)), "--html", str(page), "--json", str(report)]
    assert main(words) == 0
    show(browser, page)
    read: dict[str, Any] = json.loads(report.read_text())
    return read
