"""The site: every page is in the menu once, links are valid, generated pages are up to date."""

from __future__ import annotations

import re

import pytest

from kanalyze.kafka.schema.loader import _FIELD_KEYS, _MESSAGE_KEYS
from tools.docs_pages import DOCS, ROOT, pages
from tools.docs_reference import reference_pages, speed_table
from tools.pictures import MAX_BYTES, PICTURES, terminal_svg

MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)]+))?\)")


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as made by GitHub and the builder of the site."""
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", bare, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_menu_once() -> None:
    named = re.findall(r":? ([\w./-]+\.md)$", MENU, re.MULTILINE)
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_nothing_is_installed_from_an_index_where_it_is_not() -> None:
    # Once it is installed from a clone, pip adds an extra to it by name: only the first command of
    # a block would look for the project on the index.
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert not re.search(r"^pip install '?kanalyze", text, re.MULTILINE), page


@pytest.mark.parametrize(
    "page", [*map(str, (p.relative_to(ROOT) for p in pages())), "CONTRIBUTING.md"]
)
def test_links_between_pages_are_valid(page: str) -> None:
    page_file = ROOT / page
    for target, anchor in LINK.findall(page_file.read_text(encoding="utf-8")):
        if target.startswith(("http:", "https:")):
            continue
        file = (page_file.parent / target).resolve() if target else page_file
        assert file.exists(), target
        # A link out of docs/ would be broken on the site.
        assert DOCS not in page_file.parents or DOCS in file.parents, target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), (target, anchor)


def test_pages_of_the_reference_are_up_to_date() -> None:
    for page, text in reference_pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: python -m tools.docs"


def test_the_speed_table_is_made_from_measurements() -> None:
    made = speed_table(
        "| small 10-fold | 448.4 | kanalyze requests --jobs 2 | 1.923 (1-2) || | | | | |\n"
        "| small 10-fold | 448.4 | kanalyze report --jobs 2 | 1.8 (1-2) || | | | | |\n"
        "| small 10-fold | 448.4 | tshark | 19.311 (19-20) || | | | | |\n"
        "| small 10-fold | CPU | 9.0 | 10.2 | 8.2 | 11.0 | 9.9 | 10.2 |\n"
    )
    assert made.splitlines()[-1] == "| small | 448.4 | 1.9 | 1.8 | 19.3 |"
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    results = (ROOT / "benchmarks" / "results.md").read_text(encoding="utf-8")
    measured = re.findall(r"^\| (\w+) 10-fold \| [\d,.]+ \| tshark", results, re.MULTILINE)
    assert measured
    assert re.findall(r"^\| (\w+) \| [\d,.]+ \| [\d.]+ \|", page, re.MULTILINE) == measured


def test_metrics_named_in_the_docs_exist() -> None:
    served = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    named = 0
    for page in ("guides/prometheus-grafana.md", "guides/rebalances.md", "concepts/waiting.md"):
        for name in re.findall(r"\bkanalyze_[a-z_]+", (DOCS / page).read_text(encoding="utf-8")):
            assert f"`{name.removesuffix('_bucket')}`" in served, (page, name)
            named += 1
    assert named > 5


def test_the_page_on_definitions_describes_every_key() -> None:
    page = (DOCS / "reference" / "definitions.md").read_text(encoding="utf-8")
    message, field = page.split("A field:")
    assert {key for key in _MESSAGE_KEYS if f"`{key}`" not in message} == set()
    assert {key for key in _FIELD_KEYS if f"`{key}`" not in field} == set()


def test_the_picture_of_the_terminal_is_up_to_date() -> None:
    svg = (PICTURES / "report.svg").read_text(encoding="utf-8")
    # Only the texts are compared: versions of rich draw terminals differently.
    expected, actual = (
        re.findall(r"<text[^>]*>([^<]*)</text>", picture) for picture in (svg, terminal_svg())
    )
    assert expected == actual, "python -m tools.pictures"
    assert any("Findings" in text for text in expected)


def test_pictures_are_small_and_load_no_other_files() -> None:
    assert sum(file.stat().st_size for file in PICTURES.iterdir()) < MAX_BYTES
    svg = (PICTURES / "report.svg").read_text(encoding="utf-8")
    assert re.findall(r"(?:url|href)\(?[=(]['\"]?(?!#)", svg) == []
    assert (PICTURES / "page.png").read_bytes()[:4] == b"\x89PNG"
