"""The report as Markdown: the figures of the text, with names escaped."""

from __future__ import annotations

import re
from typing import Any

import pytest

import kanalyze
from kanalyze.render.report_markdown import report_markdown
from kanalyze.render.report_tables import TableOrder, report_tables
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import path
from tests.support.rows import failed, row
from tests.support.summaries import summary_of

HOSTILE = "a|b`c`\n# *x* <script>[l](u)\x1b[31m"


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    return kanalyze.report(path("errors"), status="error")


def cells(line: str) -> list[str]:
    """Return the texts of a line of a table, as GitHub shows them."""
    parts = re.split(r"(?<!\\)\|", line)[1:-1]
    return [re.sub(r"\\(.)", r"\1", part).strip() for part in parts]


def test_tables_are_those_of_the_text(summary: dict[str, Any]) -> None:
    order = TableOrder("errors", 3)
    blocks = report_markdown(summary, order).split("\n## ")[1:]
    by_title = {block.partition("\n")[0]: block.splitlines()[2:] for block in blocks}
    for table in [table for tables in report_tables(summary, order) for table in tables]:
        title = re.sub(r"([*_|`])", r"\\\1", table.title)
        titles, rules, *lines = by_title[title]
        assert cells(titles) == [column.title for column in table.columns]
        assert [rule.endswith(":") for rule in cells(rules)] == [
            column.right for column in table.columns
        ]
        assert [cells(line) for line in lines[: len(table.rows)]] == [
            [text for text, _ in cells] for cells in table.rows
        ]
        more = [line for line in lines if line.startswith("and ")]
        assert more == ([f"and {table.more} more"] if table.more else [])


def test_the_report_has_its_filter_and_its_findings(summary: dict[str, Any]) -> None:
    lines = report_markdown(summary).splitlines()
    assert lines[0].startswith("# ")
    assert "- only requests that match: status error" in lines
    assert lines.index("## Findings") < lines.index("## Requests by API, with latency")
    first = lines[lines.index("## Findings") + 2]
    assert first == "### Records that are too large for the topic"
    command = r"`kanalyze requests \S+errors\.pcapng --finding too_large:1 --status error"
    assert any(re.search(command, line) for line in lines)


def test_charts_are_unchanged_in_a_code_block(summary: dict[str, Any]) -> None:
    _, chart, _ = report_markdown(summary).split("```")
    assert chart.startswith("text\n")
    assert {"requests", "bytes", "errors", "slowest"} <= set(re.findall(r"(\w+) \u2502", chart))


def test_markup_in_names_is_escaped() -> None:
    hostile = [
        failed(HOSTILE, 3, HOSTILE, client_id=HOSTILE, group_id=HOSTILE, api_name=HOSTILE),
        row(client_id=HOSTILE * 3),
    ]
    text = report_markdown(summary_of(hostile, CaptureQuality([HOSTILE])))
    assert "\x1b" not in text
    assert "<script>" not in text.replace("\\<script\\>", "")
    widths: set[int] = set()
    for line in text.splitlines():
        if not line.startswith("|"):
            widths = set()
            continue
        widths.add(len(cells(line)))
        assert len(widths) == 1, line


def test_backquotes_do_not_end_inline_code() -> None:
    finding = {
        "name": "x",
        "title": "t",
        "severity": 1,
        "what": "`seen`",
        "why": "why",
        "repair": "repair",
        "sure": "sure",
        "concerns": {},
        "first_time_ns": None,
        "last_time_ns": None,
        "first_packet": None,
        "command": "requests",
        "options": ["--topic", "a``b`"],
        "cause": None,
    }
    text = report_markdown({**summary_of([row()]), "findings": [finding]})
    assert "- \\`seen\\`<br>```kanalyze requests CAPTURE --topic 'a``b`'```" in text
    effect = {**finding, "name": "y", "title": "u", "cause": {"name": "x", "number": 1}}
    text = report_markdown({**summary_of([row()]), "findings": [finding, effect]})
    assert "\n### t\n" in text
    assert "\n#### It led to: u\n" in text
