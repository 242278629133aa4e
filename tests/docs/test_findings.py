"""The pages of findings: one for each kind, with an example from our captures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kanalyze.api.tables import opened_tables
from kanalyze.queries.findings import finding_kinds, findings_of
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import ROOT, path
from tests.support.findings import findings_in, kinds_of
from tools.docs_blocks import with_outputs
from tools.docs_findings import EXAMPLES, MADE_BY_HAND, captures, kind_pages
from tools.docs_pages import DOCS

if TYPE_CHECKING:
    from kanalyze.queries.findings import Finding

NAMES = {
    path(file.name.removesuffix(".truth.json")).name: file.name.removesuffix(".truth.json")
    for file in (ROOT / "captures").glob("*.truth.json")
}


def found(capture: str) -> list[Finding]:
    """Return the findings in a capture, only of the kinds that its page needs."""
    file = Path(capture)
    if file.parent.name != "tls":
        return findings_in(NAMES[file.name])
    kinds = kinds_of(*(name for name, stem in EXAMPLES.items() if stem == f"tls/{file.stem}"))
    tables_needed = {table for kind in kinds for table in kind.tables}
    with opened_tables(Analysis([str(ROOT / capture)]), tables_needed) as tables:
        return findings_of(tables.database, kinds)


def test_each_kind_has_an_up_to_date_page() -> None:
    pages = dict(kind_pages(finding_kinds(), found))
    assert {page.name for page in pages} == {file.name for file in (DOCS / "findings").iterdir()}
    for page, text in pages.items():
        written = page.read_text(encoding="utf-8")
        assert written == with_outputs(text, written), "python -m tools.sample_reports"


def test_a_recorded_fault_is_the_example_of_its_kind() -> None:
    with_example = {
        page.stem for page, text in kind_pages(finding_kinds(), found) if MADE_BY_HAND not in text
    }
    assert with_example >= {capture.fault for capture in captures() if capture.fault}
