"""The HTML page: findings, head, charts, drawings, tables, and the sums to filter them.

In: a report and its cube. Out: one HTML text that loads nothing from a network.

Text from the wire is escaped in HTML. The data for scripts are a base64 string in a JSON block, in
which no character has a meaning in HTML. A Content-Security-Policy allows only the scripts and
styles whose hashes it lists.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from kanalyze.render.failed import failed_names, without_nulls
from kanalyze.render.findings import left_out_text, no_findings_text
from kanalyze.render.header import header_lines
from kanalyze.render.html.findings import findings_html
from kanalyze.render.html.model import UNKNOWN_PART, model_of
from kanalyze.render.html.sums import sums_of
from kanalyze.render.html.svg import (
    group_timeline,
    heat_map,
    latency_histogram,
    parts_bars,
    waterfall,
)
from kanalyze.render.html.tables import table_html, table_specs, tables_of
from kanalyze.render.phrases import captures_text
from kanalyze.render.times import clock_text
from kanalyze.render.units import (
    bytes_text,
    count_text,
    duration_text,
    percent_text,
    rate_text,
)
from kanalyze.spec.report import PARTS
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.render.html.tables import Table

__all__ = ["MAX_BYTES", "html_page"]

MAX_BYTES = 1_000_000
_MAX_LINES = (50, 25, 10, 3, 0)
"""Numbers of lines of each table in the HTML: the first number with which the page is small enough
is used. Scripts can show all lines."""
_LINES = {"first_lines": 12, "most_lines": 500}
"""Numbers of lines of a table that scripts show at first, and at most after the reader asks for
more."""
_MADE_BY = {
    "failures": ("errors",),
    "batches": ("partitions", "codecs"),
    "latency_parts": ("latency_parts",),
    "slowest": ("slowest",),
}
"""The tables that a query of the page makes alone."""
_OTHERS = -1
_LONGEST_HEAD_LINE = 2_000
_MAX_HEAD_LINES = 60
_FOLDER = Path(__file__).parent

_CHARTS = (
    ("chart-requests", "Requests per second", ("requests",)),
    ("chart-errors", "Errors and unanswered per second", ("errors", "unanswered")),
    ("chart-bytes", "Bytes per second", ("sent", "received")),
    ("chart-latency", "Latency, p50 and p99 (logarithmic)", ("p50", "p99")),
)
_PART_KEYS = [(class_, title) for _, class_, title in PARTS] + [
    (UNKNOWN_PART, "network and broker together")
]
_TIME_COLUMNS = ("requests", "errors", "unanswered", "sent", "received", "p50", "p99")


def html_page(report: Mapping[str, Any], cube: Mapping[str, Any]) -> str:
    """Return a report as one HTML page below 1 MB.

    Args:
        report: the result of :func:`kanalyze.queries.report.report_of`. If findings were searched
            for, ``findings`` is a list of what ``Finding.to_dict`` returns.
        cube: the result of :func:`kanalyze.queries.page.cube_of` for the same report.
    """
    report = without_nulls(report)
    model = model_of(report, cube)
    sums = sums_of(model)
    page = ""
    for most in _MAX_LINES:
        page = _page(report, cube, model, sums, most)
        if len(page.encode()) < MAX_BYTES:
            break
    return page


def _page(
    report: Mapping[str, Any],
    cube: Mapping[str, Any],
    model: dict[str, Any],
    sums: Mapping[str, Any],
    most: int,
) -> str:
    captures = report["capture"]["captures"]
    library, script = _asset("uPlot.iife.min.js"), _asset("page.js")
    style = _asset("uPlot.min.css") + _asset("page.css")
    tables = tables_of(model, sums)
    lines_of = {table.name: lines for table, lines in tables}
    data = {
        **model,
        "tables": table_specs(table for table, _ in tables),
        "missing": _missing_tables(report),
        **_LINES,
    }
    return Template(_asset("page.html")).substitute(
        policy=_policy([library, script], [style]),
        title=escape(f"{captures_text(captures)} \u2013 Kafka on the wire"),
        capture=escape(captures_text(captures)),
        style=style,
        span=escape(_span_text(report["capture"])),
        findings=findings_html(
            report.get("findings"), captures, cube["names"], no_findings_text(report)
        )
        + _left_out_html(report),
        finding_count=_finding_count(report.get("findings")),
        heads=_heads_html(report),
        tiles=_tiles_html(sums["totals"]),
        charts="".join(
            _chart_html(name, title)
            for name, title, columns in _CHARTS
            if any(line[column] for line in sums["times"] for column in columns)
        ),
        times=_times_html(model, sums["times"]),
        histogram=latency_histogram(sums["bins"], sums["totals"], model["bin_ratio"]),
        heat=heat_map(sums["times_bins"], model),
        parts_key="".join(_key_html(class_, title) for class_, title in _PART_KEYS),
        parts=parts_bars(lines_of["latency_parts"], sums["all_parts"], model),
        waterfall=waterfall(model["slowest"], model["parts"]),
        timeline_hidden="" if model["group_events"] else " hidden",
        timeline=group_timeline(model["group_events"], model),
        tables="".join(
            _table_html(
                table, lines, model, sums, most, nothing=data["missing"].get(table.name, "none")
            )
            for table, lines in tables
        ),
        links="".join(
            f'<li><a href="#{table.name}">{escape(table.title)}</a></li>' for table, _ in tables
        ),
        version=escape(__version__),
        limits=escape(_limits_text(model)),
        data=_json_block(data),
        licence=_asset("uPlot.LICENSE").replace("--", "- -"),
        library=library,
        script=script,
    )


def _missing_tables(report: Mapping[str, Any]) -> dict[str, str]:
    """Return what to say in place of the lines of tables whose query failed, by table."""
    failed = [
        *(table for name in failed_names(report, "page") for table in _MADE_BY.get(name, ())),
        *(name for name in failed_names(report, "table") if name == "tls"),
    ]
    return dict.fromkeys(failed, "not known: a query failed")


@cache
def _asset(name: str) -> str:
    """Return the text of a file in this folder."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(scripts: list[str], styles: list[str]) -> str:
    """Return the Content-Security-Policy: these scripts and styles, nothing else."""
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: list[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _json_block(data: Mapping[str, Any]) -> str:
    """Return values as JSON in which no character has a meaning in HTML."""
    text = json.dumps(data, separators=(",", ":"), default=list)
    block = base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")
    return json.dumps({"encoding": "base64 of zlib of JSON", "data": block})


# -- head -----------------------------------------------------------------------------------------


def _span_text(capture: Mapping[str, Any]) -> str:
    first, last = capture["first_time"], capture["last_time"]
    if first is None or last is None:
        return "no packet has a time" if capture["packets"] else "no packets"
    texts = [time[:19].replace("T", " ") for time in (first, last)]
    return f"{texts[0]} to {texts[1]} UTC ({duration_text(capture['duration_ns'])})"


def _heads_html(report: Mapping[str, Any]) -> str:
    lines = [line.plain[:_LONGEST_HEAD_LINE] for line in header_lines(dict(report))][1:]
    return "".join(
        f'<li class="warning">{escape(line)}</li>'
        if line.startswith("WARNING")
        else f"<li>{escape(line)}</li>"
        for line in lines[:_MAX_HEAD_LINES]
    )


_DISTINCT = {"client": "clients", "topic": "topics", "broker": "brokers", "group": "groups"}


def _limits_text(model: Mapping[str, Any]) -> str:
    """Return a note on names that are summed up; empty if the page lists each name."""
    parts = [
        f"{count_text(len(model['names'][name]))} {word}"
        for name, word in _DISTINCT.items()
        if _OTHERS in model["cells"].get(name, ())
    ]
    if not parts:
        return ""
    return f"Only the busiest are listed: {', '.join(parts)}. The others are summed up."


def _left_out_html(report: Mapping[str, Any]) -> str:
    text = left_out_text(report)
    return "" if text is None else f"<p>{escape(text[0].upper() + text[1:])}.</p>"


def _finding_count(findings: list[Any] | None) -> str:
    """Return how many kinds of findings there are, and in how many places if these are more."""
    if not findings:
        return ""
    kinds = len({finding["name"] for finding in findings})
    places = f", in {count_text(len(findings))} places" if len(findings) > kinds else ""
    return f" ({count_text(kinds)}{places})"


def _tiles_html(totals: Mapping[str, Any]) -> str:
    """Return the figures of the selection; scripts overwrite them when the selection changes."""
    known = totals["requests"] - totals["unread"]
    share = percent_text(min(totals["errors"] / known, 1) if known > 0 else 0)
    unread = f", {count_text(totals['unread'])} not read" if totals["unread"] else ""
    tiles = (
        ("requests", "requests", count_text(totals["requests"])),
        (
            "errors",
            "with errors",
            f"{count_text(totals['errors'])} ({share}{unread})",
        ),
        ("unanswered", "unanswered", count_text(totals["unanswered"])),
        ("sent", "sent to brokers", bytes_text(totals["sent"])),
        ("received", "received", bytes_text(totals["received"])),
        *(
            (name, f"latency {name}", duration_text(_whole(totals[name])))
            for name in ("p50", "p99", "max")
        ),
    )
    return "".join(
        f'<div><dt>{title}</dt><dd id="tile-{name}">{escape(text)}</dd></div>'
        for name, title, text in tiles
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else math.floor(value)


# -- charts and tables ----------------------------------------------------------------------------


def _chart_html(name: str, title: str) -> str:
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<div id="{name}" class="canvas" aria-hidden="true"></div></figure>'
    )


def _times_html(model: Mapping[str, Any], times: list[Mapping[str, Any]]) -> str:
    """Return the figures behind the charts, as the body of a table."""
    return "".join(
        f'<tr><th scope="row">{_time_text(model, bucket)}</th>'
        + "".join(
            f'<td class="n">{escape(_time_cell(name, line, model))}</td>' for name in _TIME_COLUMNS
        )
        + "</tr>"
        for bucket, line in enumerate(times)
    )


def _time_text(model: Mapping[str, Any], bucket: int) -> str:
    time_us = model["start_us"] + bucket * model["bucket_us"]
    return escape(clock_text(time_us * 1000, dated=model["dated"]))


def _time_cell(name: str, line: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    value = line[name]
    if name in ("p50", "p99"):
        return duration_text(_whole(value))
    unit = "B" if name in ("sent", "received") else ""
    return rate_text(value, model["bucket_us"] * 1000, unit)


def _coverage_text(model: Mapping[str, Any], sums: Mapping[str, Any]) -> str:
    """Return a note on the requests that the page does not list; empty if it lists all."""
    listed, requests = len(model["slowest"]), sums["bins"].total()
    if listed >= requests:
        return ""
    return (
        f"The page lists {count_text(listed)} of {count_text(requests)} requests: the slowest of "
        "all, and of each client with each API. A selection may have others as slow."
    )


def _key_html(class_: str, title: str) -> str:
    return f' <span class="key {class_}">{escape(title)}</span>'


def _table_html(
    table: Table,
    lines: list[Mapping[str, Any]],
    model: Mapping[str, Any],
    sums: Mapping[str, Any],
    most: int,
    *,
    nothing: str,
) -> str:
    text = f"{table.note} {_coverage_text(model, sums)}" if table.name == "slowest" else table.note
    note = f'<p class="note">{escape(text.strip())}</p>' if text else ""
    find = '<span class="find"></span>' if len(lines) > _LINES["first_lines"] else ""
    more = len(lines) - most
    footer = f"and {count_text(more)} more" if more > 0 else "" if lines else nothing
    return (
        f'<section id="{table.name}" aria-labelledby="{table.name}-title">'
        f'<div class="title"><h2 id="{table.name}-title">{escape(table.title)}</h2>'
        f"{find}</div>{note}"
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{table.name}-title"'
        f"{'' if lines else ' hidden'}>"
        f'<table id="{table.name}-table"><caption>{escape(table.title)}</caption>'
        f"{table_html(table, lines, model, most)}</table></div>"
        f'<p class="rest">{footer}</p></section>'
    )
