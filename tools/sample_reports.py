"""Makes the sample reports in reports/, pages and schemas in docs/, and the example in README.md.

    .venv/bin/python tools/sample_reports.py [--check]

Run it after a change to what reports look like, and read the diff. With --check it writes nothing
and exits with 1 when something would change.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

import kanalyze
from kanalyze.api.reports import page_of as api_page
from kanalyze.api.reports import report_on, tables_of
from kanalyze.api.tables import opened_tables
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.queries.findings import finding_kinds, findings_of
from kanalyze.queries.json_schema.published import SCHEMAS
from kanalyze.render.json import summary_json
from kanalyze.render.terminal import render_report
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.anomalies import stage_of
from kanalyze.tables.records.row import RECORD_COLUMNS
from kanalyze.tables.registry import SQL_TABLES
from kanalyze.tables.row import with_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.queries.findings import Finding, FindingKind
    from kanalyze.tables.row import Column

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ("basics.pcap", "errors.pcapng", "waits.pcap", "snaplen.pcap", "tls.pcap")
PAGE_SAMPLE = "fault-network.pcap"
WIDTH = 100
EXAMPLE_LINES = 26
TABLES_HEAD = """\
# Tables

What `kanalyze sql` can ask, as `kanalyze sql --tables` lists it. Written by
`tools/sample_reports.py` from `kanalyze/tables/registry.py`. A null is what is not known.

`requests`, `connections`, `anomalies` and the views `partitions` and `errors` are always there;
`groups`, `metadata` and `records` are read where the query names them.
"""
MORE_OF_RECORDS = """\
`kanalyze records` and `kanalyze.records` have more columns: `key`, `key_encoding`, `value`,
`value_encoding` and `headers` only with `--values`, as Spark's table has.
"""
FINDINGS_HEAD = """\
# Findings

What `kanalyze report` looks for, the worst first. Written by `tools/sample_reports.py` from the
comments at the head of `kanalyze/queries/sql/findings/*.sql`, one file for each, and from what they
answer for the captures of this repository. A threshold is given by the name of the finding and its
own, as in `tiny_batches.least_per_s`.
"""
FAULTS_HEAD = """\

## Captures with a known fault

Each was recorded from a real broker (`captures/PROVENANCE.md` says how) for one fault, which is the
first finding.

| capture | what happens in it | first finding | what it says | others |
|---|---|---|---|---|
"""
OTHERS_HEAD = """\

## The other captures

They were recorded for other reasons. What some of them hold on purpose (old versions, wrong
passwords, records that are too large, TLS spoken to a port without it) is found; nothing else is.

| capture | findings |
|---|---|
"""


def report_of(capture: str) -> tuple[str, str]:
    """Return the report of a capture as text and as JSON."""
    summary = kanalyze.report(capture)
    out = io.StringIO()
    render_report(summary, Console(file=out, width=WIDTH, color_system=None, markup=False))
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return text, summary_json(summary)


def page_of(capture: str) -> str:
    """Return the report of a capture as a page."""
    kinds = finding_kinds()
    with opened_tables(Analysis([capture]), tables_of(kinds)) as tables:
        return api_page(tables.database, report_on(tables, kinds)).decode("utf-8")


def unpacked(text: str) -> str:
    """Return a page with its data as they are, for not every zlib packs them alike."""
    return re.sub(
        r'(?<="data": ")[^"]+', lambda found: str(zlib.decompress(base64.b64decode(found[0]))), text
    )


def column_table(columns: Sequence[Column]) -> str:
    """Return the columns of a table as a Markdown table."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for column in columns:
        unit = f" in {column.unit}" if column.unit else ""
        null = ", null" if column.nullable else ""
        names = ", ".join(field.name for field in column.fields)
        kind = f"list of ({names})" if names else column.type
        lines.append(f"| `{column.name}` | {kind}{null}{unit} | {column.meaning} |")
    return "\n".join(lines) + "\n"


def kind_table() -> str:
    """Return the kinds of anomalies as a Markdown table."""
    lines = ["| kind | found by | what it is |", "|---|---|---|"]
    lines += [f"| `{kind.value}` | {stage_of(kind)} | {kind.meaning} |" for kind in AnomalyKind]
    return "\n".join(lines) + "\n"


def tables_page() -> str:
    """Return the page on all tables."""
    parts = [TABLES_HEAD]
    for table in SQL_TABLES.values():
        line = f"{table.line[0].upper()}{table.line[1:]}."
        parts.append(f"\n## {table.name}\n\n{line}\n\n{column_table(table.columns)}")
        if table.name == "records":
            known = {column.name for column in table.columns}
            more = [c for c in with_times(RECORD_COLUMNS) if c.name not in known]
            parts.append(f"\n{MORE_OF_RECORDS}\n{column_table(more)}")
    return "".join(parts)


def findings_page() -> str:
    """Return the page on findings: what each is, and what is found in our captures."""
    kinds = finding_kinds()
    parts = [FINDINGS_HEAD]
    parts += map(kind_section, sorted(kinds, key=lambda kind: (-kind.severity, kind.query.name)))
    faults, others = [FAULTS_HEAD], [OTHERS_HEAD]
    for file in sorted((ROOT / "captures").glob("*.truth.json")):
        truth = json.loads(file.read_text(encoding="utf-8"))
        found = findings_in(f"captures/{truth['capture']}", kinds)
        names = [f"`{name}`" for name in dict.fromkeys(each.name for each in found)]
        if file.name.startswith("fault-"):
            cells = [truth["summary"], names[0], found[0].what, ", ".join(names[1:])]
            faults.append(table_line(f"`{truth['capture']}`", *cells))
        else:
            others.append(table_line(f"`{truth['capture']}`", ", ".join(names) or "none"))
    return "".join([*parts, *faults, *others])


def kind_section(kind: FindingKind) -> str:
    """Return what the head of a finding's file says."""
    about = kind.query.description.partition("severity:")[0].strip()
    thresholds = [
        table_line(f"`{name}`", f"{value:g}", kind.meanings[name])
        for name, value in kind.thresholds.items()
    ]
    return (
        f"\n## {kind.query.title.rstrip('.')}\n\n`{kind.query.name}`, severity {kind.severity}; "
        f"`kanalyze {kind.command}` shows the rows.\n\n"
        + (f"{about}\n\n" if about else "")
        + f"- Why it matters: {kind.why}\n- How sure: {kind.sure}\n"
        + f"- What repairs it: {kind.repair}\n\n"
        + "| threshold | default | meaning |\n|---|---|---|\n"
        + "".join(thresholds)
    )


def findings_in(capture: str, kinds: Sequence[FindingKind]) -> list[Finding]:
    """Return what is wrong in a capture, the worst first."""
    asked = {table for kind in kinds for table in kind.tables}
    with opened_tables(Analysis([capture]), asked) as tables:
        return findings_of(tables.database, kinds)


def table_line(*cells: str) -> str:
    """Return a line of a Markdown table."""
    texts = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(texts)} |\n"


def between(text: str, marker: str, replacement: str) -> str:
    """Return the text with what stands between two marker lines replaced."""
    begin, end = f"<!-- {marker} begins -->\n", f"<!-- {marker} ends -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + replacement + end + after


def outputs() -> Iterator[tuple[Path, str]]:
    """Give every generated file and what is to be in it."""
    os.chdir(ROOT)
    for name in SAMPLES:
        text, json_text = report_of(f"captures/{name}")
        stem = Path(name).stem
        yield ROOT / "reports" / f"{stem}.txt", text
        yield ROOT / "reports" / f"{stem}.json", json_text
        if name == SAMPLES[0]:
            example = "\n".join(text.splitlines()[:EXAMPLE_LINES]) + "\n"
    page = ROOT / "reports" / f"{Path(PAGE_SAMPLE).stem}.html"
    yield page, page_of(f"captures/{PAGE_SAMPLE}")
    yield ROOT / "docs" / "tables.md", tables_page()
    yield ROOT / "docs" / "findings.md", findings_page()
    for name, schema in SCHEMAS.items():
        file = ROOT / "docs" / "schema" / f"{name}.schema.json"
        yield file, json.dumps(schema, indent=2, ensure_ascii=True) + "\n"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    yield ROOT / "README.md", between(readme, "example", f"```\n{example}```\n")
    page = (ROOT / "docs" / "captures.md").read_text(encoding="utf-8")
    yield ROOT / "docs" / "captures.md", between(page, "anomaly kinds", kind_table())


def main() -> int:
    """Write what has changed, or say so."""
    check = "--check" in sys.argv[1:]
    changed = []
    for path, text in outputs():
        if path.exists() and unpacked(path.read_text(encoding="utf-8")) == unpacked(text):
            continue
        changed.append(path)
        if not check:
            path.write_text(text, encoding="utf-8")
    for path in changed:
        print(("would change " if check else "wrote ") + str(path.relative_to(ROOT)))
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
