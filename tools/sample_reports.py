"""Makes the sample reports in reports/, docs/tables.md and the generated parts of README.md.

    .venv/bin/python tools/sample_reports.py [--check]

Run it after a change to what reports look like, and read the diff. With --check it writes nothing
and exits with 1 when something would change.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

import kanalyze
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.json import summary_json
from kanalyze.render.terminal import render_report
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, stage_of
from kanalyze.tables.connections import CONNECTION_COLUMNS
from kanalyze.tables.registry import SQL_TABLES
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.tables.row import Column

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ("basics.pcap", "errors.pcapng", "waits.pcap", "snaplen.pcap", "tls.pcap")
WIDTH = 100
EXAMPLE_LINES = 26
TABLES_HEAD = """\
# Tables

What `kanalyze sql` can ask, as `kanalyze sql --tables` lists it. Written by
`tools/sample_reports.py` from `kanalyze/tables/registry.py`. A null is what is not known.

`requests`, `connections`, `anomalies` and the views `partitions` and `errors` are always there;
`groups`, `metadata` and `records` are read where the query names them.
"""


def report_of(capture: str) -> tuple[str, str]:
    """Return the report of a capture as text and as JSON."""
    summary = kanalyze.report(capture)
    out = io.StringIO()
    render_report(summary, Console(file=out, width=WIDTH, color_system=None, markup=False))
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return text, summary_json(summary)


def column_table(columns: Sequence[Column] = COLUMNS) -> str:
    """Return the columns of a table as a Markdown table; by default the row contract."""
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
    return "".join(parts)


def folded(title: str, table: str) -> str:
    """Return a long table as a part of a page that opens on a click."""
    return f"<details><summary>{title}</summary>\n\n{table}\n</details>\n"


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
    yield ROOT / "docs" / "tables.md", tables_page()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    readme = between(readme, "example", f"```\n{example}```\n")
    readme = between(readme, "columns", column_table())
    connections = folded("Columns of <code>connections</code>", column_table(CONNECTION_COLUMNS))
    readme = between(readme, "connection columns", connections)
    anomalies = folded("Columns of <code>anomalies</code>", column_table(ANOMALY_COLUMNS))
    readme = between(readme, "anomaly columns", anomalies)
    yield ROOT / "README.md", between(readme, "anomaly kinds", kind_table())


def main() -> int:
    """Write what has changed, or say so."""
    check = "--check" in sys.argv[1:]
    changed = []
    for path, text in outputs():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        changed.append(path)
        if not check:
            path.write_text(text, encoding="utf-8")
    for path in changed:
        print(("would change " if check else "wrote ") + str(path.relative_to(ROOT)))
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
