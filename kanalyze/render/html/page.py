"""The HTML page: head, findings, and the sums of which ``page.js`` makes all figures.

In: a report and its cube. Out: one HTML text that loads nothing from a network.

Text from the wire is escaped in HTML. The data for scripts are a base64 string in a JSON block, in
which no character has a meaning in HTML. A Content-Security-Policy allows only the scripts and
styles whose hashes it lists.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from kanalyze.common.zones import UTC, Zone
from kanalyze.render.findings import left_out_text, no_findings_text
from kanalyze.render.header import header_lines
from kanalyze.render.html.findings import findings_html
from kanalyze.render.html.model import model_of
from kanalyze.render.missing import without_nulls
from kanalyze.render.report_tables import TableOrder, cells_of
from kanalyze.render.terminal import report_lines
from kanalyze.render.units import captures_text, count_text, duration_text, moment_text
from kanalyze.render.verdict import verdict_of
from kanalyze.spec.report import TABLES
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_HEAD_LINE = 2_000
_MAX_CLIENTS = 500
_MAX_HEAD_LINES = 60
_TEXT_WIDTH = 140
_FOLDER = Path(__file__).parent


def html_page(
    report: Mapping[str, Any],
    cube: Mapping[str, Any],
    zone: Zone = UTC,
    inputs: Sequence[str] | None = None,
) -> str:
    """Return a report as one HTML page below 1 MB.

    Args:
        report: the result of :func:`kanalyze.queries.report.report_of`. If findings were searched
            for, ``findings`` is a list of what ``Finding.to_dict`` returns.
        cube: the result of :func:`kanalyze.queries.page.cube_of` for the same report.
        zone: the time zone of the times that are shown.
        inputs: the captures as the user named them, for commands; None for those of the report.
    """
    report = without_nulls(report)
    captures = report["capture"]["captures"]
    verdict = verdict_of(report, zone)
    library, script = _asset("uPlot.iife.min.js"), _asset("page.js")
    style = _asset("uPlot.min.css") + _asset("page.css")
    return Template(_asset("page.html")).substitute(
        policy=_policy([library, script], [style]),
        title=escape(f"{captures_text(captures)} \u2013 Kafka on the wire"),
        capture=escape(captures_text(captures)),
        style=style,
        span=escape(_span_text(report["capture"], zone)),
        verdict=escape(f"{verdict.text[0].upper()}{verdict.text[1:]}."),
        level=verdict.level,
        findings=findings_html(
            report.get("findings"),
            captures,
            cube["names"],
            no_findings_text(report),
            zone,
            inputs,
        )
        + _left_out_html(report),
        finding_count=_finding_count(report.get("findings")),
        heads=_heads_html(report, zone),
        zone=escape(_zone_note(_zone_text(report["capture"], zone))),
        version=escape(__version__),
        clients=_clients_html(report["inventory"]),
        data=_json_block(model_of(report, cube, zone)),
        licence=_asset("uPlot.LICENSE").replace("--", "- -"),
        library=library,
        script=script,
    )


def plain_page(report: Mapping[str, Any], zone: Zone = UTC) -> str:
    """Return the text of a report as an HTML page, if sums for its figures could not be made."""
    title = escape(captures_text(report["capture"]["captures"]))
    text = report_lines(dict(report), _TEXT_WIDTH, TableOrder(zone=zone))
    lines = "\n".join(escape(line.plain) for line in text)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">\n'
        f"<title>{title} \u2013 Kafka on the wire</title>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n<p>The sums that a page selects from could not be made, so this is "
        f"the report as text.</p>\n<pre>{lines}</pre>\n</main>\n</body>\n</html>\n"
    )


def _clients_html(lines: Sequence[dict[str, Any]]) -> str:
    """Return every client with what it speaks, folded; as many as leave the page below 1 MB."""
    if not lines:
        return ""
    table = TABLES["inventory"]
    shown_lines = lines[:_MAX_CLIENTS]
    cells = cells_of(table, shown_lines, is_wide=True)
    head = "".join(f'<th scope="col">{escape(cell.column.title)}</th>' for cell in cells)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell.text(line))}</td>' for cell in cells)}</tr>"
        for line in shown_lines
    )
    more = len(lines) - len(shown_lines)
    note = f"<p>and {count_text(more)} more: kanalyze report --sections clients</p>"
    return (
        f'<details id="every-client"><summary>{table.title} ({count_text(len(lines))})</summary>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{table.title}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{note if more else ''}</details>\n"
    )


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


def _span_text(capture: Mapping[str, Any], zone: Zone) -> str:
    first, last = capture["first_time_ns"], capture["last_time_ns"]
    if first is None or last is None:
        return "no packet has a time" if capture["packets"] else "no packets"
    texts = [moment_text(time_ns, zone)[:19] for time_ns in (first, last)]
    took = duration_text(capture["duration_ns"])
    return f"{texts[0]} to {texts[1]} {_zone_text(capture, zone)} ({took})"


def _zone_text(capture: Mapping[str, Any], zone: Zone) -> str:
    return zone.label(capture["first_time_ns"] or 0)


def _zone_note(zone: str) -> str:
    return zone if zone == "UTC" else f"{zone}; those of commands and of the page's address are UTC"


def _heads_html(report: Mapping[str, Any], zone: Zone) -> str:
    lines = [line.plain[:_LONGEST_HEAD_LINE] for line in header_lines(dict(report), zone)][1:]
    return "".join(
        f'<li class="warning">{escape(line)}</li>'
        if line.startswith("WARNING")
        else f"<li>{escape(line)}</li>"
        for line in lines[:_MAX_HEAD_LINES]
    )


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
