"""Makes the sample reports in reports/, and tables, findings and schemas in docs/.

    .venv/bin/python -m tools.sample_reports [--check]

Run it after a change to what reports look like, then `python -m tools.docs`, and read the
diff. With --check it writes nothing and exits with 1 when something would change.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

import kanalyze
from kanalyze.api.reports import page_of as api_page
from kanalyze.api.reports import report_on, tables_of
from kanalyze.api.tables import opened_tables
from kanalyze.common.zones import UTC
from kanalyze.queries.findings import finding_kinds, findings_of
from kanalyze.render.json import summary_json
from kanalyze.render.report_tables import TableOrder
from kanalyze.render.terminal import render_report
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.columns import with_times
from kanalyze.spec.report import SECTIONS
from kanalyze.spec.rows.records import RECORD_COLUMNS
from kanalyze.spec.rows.tables import SQL_TABLES
from tools import docs_findings
from tools.docs_blocks import with_outputs
from tools.docs_pages import ROOT, write_changed
from tools.json_schema import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.queries.finding import Finding
    from kanalyze.queries.findings import FindingKind
    from kanalyze.spec.columns import Column

SAMPLES = ("basics.pcap", "errors.pcapng", "waits.pcap", "snaplen.pcap", "tls.pcap")
PAGE_SAMPLE = "fault-network.pcap"
WIDTH = 100
TABLES_HEAD = """\
# Tables

What `kanalyze sql` can ask, as `kanalyze sql --tables` lists it. Written by
`tools/sample_reports.py` from `kanalyze/spec/rows/tables.py`. A null is what is not known.

`requests`, `connections`, `anomalies` and the views `partitions` and `errors` are always there;
`groups`, `metadata` and `records` are read where the query names them.
"""
MORE_OF_RECORDS = """\
`kanalyze records` and `kanalyze.records` have more columns: `key`, `key_encoding`, `value`,
`value_encoding` and `headers` only with `--values`, as Spark's table has.
"""


def report_of(capture: str) -> tuple[str, str]:
    """Return the report of a capture as text, with all sections, and as JSON."""
    summary = kanalyze.report(capture)
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, markup=False)
    render_report(summary, console, TableOrder(sections=SECTIONS))
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return text, summary_json(summary)


def page_of(capture: str) -> str:
    """Return the report of a capture as a page."""
    kinds = finding_kinds()
    with opened_tables(Analysis([capture]), tables_of(kinds)) as tables:
        return api_page(tables.database, report_on(tables, kinds), UTC).decode("utf-8")


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
    """Return the list of findings, and what is found in our captures."""
    return docs_findings.findings_page(finding_kinds(), all_findings_in)


def kind_pages() -> Iterator[tuple[Path, str]]:
    """Give the page of each kind of finding, with the outputs of its commands as they stand."""
    for path, text in docs_findings.kind_pages(finding_kinds(), all_findings_in):
        written = path.read_text(encoding="utf-8") if path.exists() else ""
        yield path, with_outputs(text, written)


@cache
def all_findings_in(capture: str) -> list[Finding]:
    """Return what is wrong in a capture: findings of every kind, the worst first."""
    return findings_in(capture, finding_kinds())


def findings_in(capture: str, kinds: Sequence[FindingKind]) -> list[Finding]:
    """Return what is wrong in a capture, the worst first."""
    asked = {table for kind in kinds for table in kind.tables}
    with opened_tables(Analysis([capture]), asked) as tables:
        return findings_of(tables.database, kinds)


def outputs() -> Iterator[tuple[Path, str]]:
    """Give every generated file and what is to be in it."""
    os.chdir(ROOT)
    for name in SAMPLES:
        text, json_text = report_of(f"captures/{name}")
        stem = Path(name).stem
        yield ROOT / "reports" / f"{stem}.txt", text
        yield ROOT / "reports" / f"{stem}.json", json_text
    page = ROOT / "reports" / f"{Path(PAGE_SAMPLE).stem}.html"
    yield page, page_of(f"captures/{PAGE_SAMPLE}")
    yield ROOT / "docs" / "tables.md", tables_page()
    yield ROOT / "docs" / "findings.md", findings_page()
    yield from kind_pages()
    for name, schema in SCHEMAS.items():
        file = ROOT / "docs" / "schema" / f"{name}.schema.json"
        yield file, json.dumps(schema, indent=2, ensure_ascii=True) + "\n"


def main() -> int:
    """Write what has changed, or say so."""
    only_checks = "--check" in sys.argv[1:]
    return write_changed(outputs(), only_checks=only_checks, canonical=unpacked)


if __name__ == "__main__":
    sys.exit(main())
