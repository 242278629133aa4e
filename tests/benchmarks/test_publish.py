from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import figures, publish, revision
from benchmarks.errors import BenchmarkError
from benchmarks.revision import Stamp
from tests.benchmarks.test_figures import NOW, made, table, took
from tools import docs_pages

if TYPE_CHECKING:
    from pathlib import Path

RUNS = {f"{name} --jobs {jobs}": took(1.0) for name in ("requests", "report") for jobs in (1, 2)}
MEASURED = made(table("java", 1, {**RUNS, "tshark": took(5.0), "tcpdump": took(0.1)}))
PRINTED = {"live": Stamp("def", "2026-11-27", NOW)}


def test_every_figure_that_is_published_is_of_this_code_or_says_that_it_is_not() -> None:
    measured, printed = figures.load()
    for page, text in publish.pages(measured, printed, revision.rooms()).items():
        made_by = f"{page.name}: python -m benchmarks.publish"
        assert page.read_text(encoding="utf-8") == text, made_by


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page with figures of every kind, and a part that another tool makes, in place of ours."""
    names = ["measured live", *publish.PARTS, "commands"]
    blocks = [f"<!-- {name} begins -->\nnot yet\n<!-- {name} ends -->\n" for name in names]
    page = tmp_path / "page.md"
    page.write_text("\n".join(blocks))
    monkeypatch.setattr(docs_pages, "pages", lambda: [page])
    monkeypatch.setattr(publish, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(publish, "RESULTS", tmp_path / "results.json")
    return page


def test_a_page_says_of_every_figure_when_the_code_has_changed(page: Path) -> None:
    made_pages = publish.pages(MEASURED, PRINTED, NOW)
    assert made_pages.keys() == {page, publish.PAGE}
    text = made_pages[page]
    assert text.count("not yet") == 1
    assert "Measured on revision def (2026-11-27)." in text
    assert text.count("Measured on revision") > len(publish.PARTS)
    assert "changed" not in text
    text = publish.pages(MEASURED, PRINTED, NOW | {"kafka": "changed"})[page]
    assert text.count("Measured on revision") == text.count("The code has changed since")


def test_figures_without_a_revision_are_refused(page: Path) -> None:
    assert "measured live" in page.read_text()
    with pytest.raises(BenchmarkError, match="of which revision is live"):
        publish.pages(MEASURED, {}, NOW)
