"""The text of the page: only scripts of kanalyze and uPlot can run in it, and it is small."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import random
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.common.zones import zone_of
from kanalyze.render.html import html_page
from kanalyze.render.html.findings import findings_html
from kanalyze.render.html.model import model_of
from kanalyze.render.html.tables import TABLES
from kanalyze.render.json import summary_json
from tests.docs.test_json_schema import violations
from tests.queries.test_page import crowd, many_rows
from tests.support import rows as sample_rows
from tests.support.captures import NAMES, analysis, often, path
from tests.support.pages import report_and_cube, report_and_cube_of

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

MAX_BYTES = 1_000_000
ASSETS = Path(kanalyze.__file__).parent / "render" / "html"
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u2028\u2029",
    "\u202eevil",
    "]]>",
    "'\"><img src=x onerror=alert(1)>",
    "&lt;b&gt;",
    "$data ${script}",
    "\x00\x1b[31m",
    "\ud800",
    "`${alert(1)}`",
    "__proto__",
    "constructor",
)
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""SHA-256 of the files of uPlot 1.6.32 in npm."""


class Elements(HTMLParser):
    """The elements of a page, with their attributes and the text directly after their tag."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.all: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._newest: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._newest = []
        self.all.append((tag, dict(attrs), self._newest))

    def handle_endtag(self, tag: str) -> None:
        self._newest = []

    def handle_data(self, data: str) -> None:
        self._newest.append(data)

    def texts(self, tag: str) -> list[str]:
        return ["".join(texts) for name, _, texts in self.all if name == tag]


def data_of(page: str) -> Any:
    (block,) = [
        "".join(texts)
        for tag, attributes, texts in Elements(page).all
        if tag == "script" and attributes.get("id") == "data"
    ]
    return json.loads(zlib.decompress(base64.b64decode(json.loads(block)["data"])))


@functools.cache
def hostile_page() -> str:
    rows = [
        sample_rows.failed(
            name,
            3,
            name,
            client_id=name,
            group_id=name,
            principal=name,
            api_name=name if number % 2 else "Produce",
            capture=name,
            connection=name,
            client_software_name=name,
            client_software_version=name,
            partitions=[sample_rows.partition(name, codec=name)],
        )
        for number, name in enumerate(HOSTILE)
    ]
    report, cube = report_and_cube(rows)
    report["capture"]["captures"] = [HOSTILE[0]]
    report["quality"]["comments"] = dict.fromkeys(HOSTILE, 1)
    report["findings"] = [
        {
            **dict.fromkeys(("name", "title", "what", "sure", "why", "repair"), name),
            "severity": 90,
            "weight": 1.0,
            "concerns": {"client_id": name, "topic": name},
            "first_time_ns": sample_rows.START_NS,
            "last_time_ns": sample_rows.START_NS + 1,
            "first_packet": 1,
            "command": "requests",
            "options": ["--client-id", name],
            "cause": None,
        }
        for name in HOSTILE
    ]
    return html_page(report, cube)


def test_effects_are_a_list_under_their_cause() -> None:
    def found(name: str, cause: int | None) -> dict[str, Any]:
        texts = dict.fromkeys(("name", "title", "what", "sure", "why", "repair"), name)
        times = dict.fromkeys(("first_time_ns", "last_time_ns", "first_packet"))
        own = {"severity": 9, "concerns": {}, "command": "requests", "options": [], **times}
        return {**texts, **own, "cause": None if cause is None else {"name": "", "number": cause}}

    findings = [found("away", None), found("few", 1), found("storm", 2), found("slow", None)]
    made = findings_html(findings, [], {})
    names = re.findall(r"<h3>.*?</h3>|<ol>|</ol>", made)
    assert names == [
        *("<ol>", "<h3>away</h3>", "<ol>", "<h3>It led to: few</h3>"),
        *("<ol>", "<h3>It led to: storm</h3>", "</ol>", "</ol>", "<h3>slow</h3>", "</ol>"),
    ]


def test_names_add_no_html_elements() -> None:
    page = hostile_page()
    plain = html_page(*report_and_cube([sample_rows.row()]))
    tags = {tag for tag, _, _ in Elements(page).all}
    assert tags <= {tag for tag, _, _ in Elements(plain).all} | {
        *("b", "dd", "dt", "h3", "ol"),
    }
    assert page.count("<script") == plain.count("<script")
    assert page.count("</script") == plain.count("</script")
    assert page.count("<!--") == plain.count("<!--") == 1
    assert not {"\u2028", "\u2029", "\u202e", "\x00", "\x1b"} & set(page)
    assert page.encode("utf-8")
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert HOSTILE[0] in [client["label"] for client in data_of(page)["names"]["client"]]


def test_no_element_has_a_handler_a_style_or_an_external_address() -> None:
    for tag, attributes, _ in Elements(hostile_page()).all:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("style", "src", "srcset", "action", "formaction", "xlink:href")
            if name == "href":
                assert value is not None
                assert value.startswith("#") or value == "data:,"


def test_the_policy_names_the_hashes_of_scripts_and_styles() -> None:
    page = hostile_page()
    elements = Elements(page)
    (policy,) = [
        attributes["content"] or ""
        for tag, attributes, _ in elements.all
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    scripts = [
        "".join(texts)
        for tag, attributes, texts in elements.all
        if tag == "script" and "type" not in attributes
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == [hash_of(script) for script in scripts]
    assert rules["style-src"].split() == [hash_of(style) for style in elements.texts("style")]
    assert "unsafe" not in policy


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_scripts_use_no_function_that_runs_text_or_loads_data() -> None:
    script = (ASSETS / "page.js").read_text()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in script
    for word in ("fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon", "http:"):
        assert word not in script.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("name", VENDORED)
def test_vendored_files_are_unchanged(name: str) -> None:
    assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == VENDORED[name]


def test_the_licence_of_uplot_is_in_the_page() -> None:
    page = html_page(*report_and_cube([sample_rows.row()]))
    assert (ASSETS / "uPlot.LICENSE").read_text() in page


# -- size -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_page_with_thousands_of_clients_and_topics_is_small_enough() -> None:
    report, cube = crowd()
    page = html_page(report, cube)
    assert len(page.encode()) < MAX_BYTES


@pytest.mark.long
@pytest.mark.parametrize(
    "letters",
    [
        pytest.param("<>&\"'\x00\u2028", id="marks"),
        pytest.param("".join(map(chr, range(0x4E00, 0x9E00))), id="Han", marks=pytest.mark.long),
    ],
)
def test_a_page_with_hundreds_of_long_escaped_names_is_small_enough(letters: str) -> None:
    random_ = random.Random(3)
    rows = []
    for row in many_rows(800, clients=600, topics=600):
        name = "".join(random_.choices(letters, k=249))
        rows.append(
            row._replace(
                client_id=name,
                group_id=name,
                principal=name,
                client_software_name=name,
                partitions=[sample_rows.partition(name, codec="none")],
                connection=name,
            )
        )
    report, cube = report_and_cube(rows)
    report["findings"] *= 100
    assert len(html_page(report, cube).encode()) < MAX_BYTES


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(NAMES, ("basics", "errors", "old-0-8-2-2")))
def test_every_capture_has_a_page(name: str) -> None:
    page = html_page(*report_and_cube_of(name))
    assert len(page.encode()) < MAX_BYTES
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(NAMES, ("basics", "errors", "cluster")))
def test_a_capture_whose_responses_come_before_their_requests_has_a_page(name: str) -> None:
    rows, _ = analysis(name)
    reversed_rows = [negative(row) for row in rows]
    report, cube = report_and_cube(reversed_rows)
    page = html_page(report, cube)
    assert violations("report", json.loads(summary_json(report))) == []
    if all(row.latency_ns is None for row in rows):
        return
    assert "WARNING: negative latencies, down to -" in page
    latencies = sorted(row.latency_ns for row in reversed_rows if row.latency_ns and not row.waited)
    if latencies:
        ((p50, _, _, max_ns),) = [line[-4:] for line in cube["exact"]["totals"] if not line[0]]
        assert max_ns == latencies[-1] < 0
        assert p50 == pytest.approx(latencies[math.ceil(len(latencies) / 2) - 1], 0.004)


def negative(row: Row) -> Row:
    """Return a row whose response was captured before its request."""
    if row.latency_ns is None or row.request_end_ns is None:
        return row
    start_ns = row.request_end_ns - max(row.latency_ns, 1)
    unknown = dict.fromkeys(("request_send_ns", "broker_network_ns", "retransmission_wait_ns"))
    return row._replace(
        response_start_ns=start_ns,
        response_end_ns=start_ns,
        latency_ns=start_ns - row.request_end_ns,
        total_time_ns=start_ns - (row.request_start_ns or row.request_end_ns),
        pipeline_wait_ns=None,
        broker_time_ns=None,
        response_send_ns=None,
        **unknown,
    )


# -- contents -------------------------------------------------------------------------------------


def test_findings_need_not_be_searched_for() -> None:
    report, cube = report_and_cube([])
    del report["findings"]
    assert "Findings were not searched for." in html_page(report, cube)


def test_findings_are_counted_and_not_their_places() -> None:
    report, cube = report_and_cube_of("errors")
    first, *_ = report["findings"]
    for findings, words in (
        ([first], "Findings (1)<"),
        ([first] * 10, "Findings (1, in 10 places)<"),
        ([first, first, {**first, "name": "other"}], "Findings (2, in 3 places)<"),
        ([], "Findings<"),
    ):
        assert words in html_page({**report, "findings": findings}, cube)


def test_a_finding_has_the_command_that_shows_its_rows() -> None:
    page = html_page(*report_and_cube_of("errors"))
    assert "kanalyze requests" in page
    assert "--finding too_large:1</code>" in page
    assert "first in packet" in page


MAX_TITLE_LENGTH = 30


def test_titles_are_short_and_notes_are_sentences() -> None:
    for table in TABLES:
        assert len(table.title) <= MAX_TITLE_LENGTH, table.title
        assert not table.title.endswith(".")
        assert table.note == "" or (table.note[0].isupper() and table.note.endswith("."))


def test_names_of_tables_and_of_their_columns_are_unique() -> None:
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    for table in TABLES:
        titles = [column.title for column in table.columns]
        assert len(set(titles)) == len(titles), table.name


def test_times_are_of_the_zone_and_say_so() -> None:
    report, cube = report_and_cube_of("fault-throttled")
    utc, there = html_page(report, cube), html_page(report, cube, zone_of("Asia/Kolkata"))
    assert "2026-11-22 18:36:41 to 2026-11-22 18:37:18 UTC (" in utc
    assert "2026-11-23 00:06:41 to 2026-11-23 00:07:18 IST, UTC+5:30 (" in there
    assert "Times are UTC." in utc
    assert "Times are IST, UTC+5:30; those of commands and of the page&#x27;s address" in there
    assert model_of(report, cube)["offsets"] == [[cube["start_ns"] // 1000, 0]]
    [(_, offset_us)] = model_of(report, cube, zone_of("Asia/Kolkata"))["offsets"]
    assert offset_us == 5.5 * 3600 * 10**6


@pytest.mark.usefixtures("all_findings")
def test_commands_have_the_captures_as_given_and_packets_their_file() -> None:
    report, cube = report_and_cube_of("fault-throttled")
    finding = kanalyze.report(path("fault-throttled"))["findings"][0]
    report["findings"] = [{**finding, "first_capture": "it's b.pcap"}]
    report["capture"]["captures"] = ["a.pcap", "it's b.pcap"]
    page = html_page(report, cube, inputs=["some folder"])
    assert "<code>kanalyze requests &#x27;some folder&#x27; --finding throttled:1</code>" in page
    assert f"first in packet {finding['first_packet']} of it&#x27;s b.pcap" in page
    assert "kanalyze requests a.pcap " in html_page(report, cube)
