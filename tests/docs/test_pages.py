"""The site: every page is in its menu once, links lead somewhere, code's pages are current."""

from __future__ import annotations

import re

import pytest

from kanalyze.kafka.schema.loader import _FIELD_KEYS, _MESSAGE_KEYS
from tools.docs_pages import DOCS, ROOT, pages
from tools.docs_reference import reference_pages
from tools.pictures import MOST_BYTES, PICTURES, terminal_svg

MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)]+))?\)")


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site's builder make them."""
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", bare, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_menu_once() -> None:
    named = re.findall(r":? ([\w./-]+\.md)$", MENU, re.MULTILINE)
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize(
    "page", [*map(str, (p.relative_to(ROOT) for p in pages())), "CONTRIBUTING.md"]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    here = ROOT / page
    for target, anchor in LINK.findall(here.read_text(encoding="utf-8")):
        if target.startswith(("http:", "https:")):
            continue
        file = (here.parent / target).resolve() if target else here
        assert file.exists(), target
        # A link out of docs/ would be broken on the site.
        assert DOCS not in here.parents or DOCS in file.parents, target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), (target, anchor)


def test_pages_of_the_reference_are_those_of_the_code() -> None:
    for page, text in reference_pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: python -m tools.docs"


def test_the_page_on_the_definition_language_has_every_key_that_is_read() -> None:
    page = (DOCS / "reference" / "definitions.md").read_text(encoding="utf-8")
    message, field = page.split("A field:")
    assert {key for key in _MESSAGE_KEYS if f"`{key}`" not in message} == set()
    assert {key for key in _FIELD_KEYS if f"`{key}`" not in field} == set()


def test_the_picture_of_the_terminal_is_the_report_as_it_is() -> None:
    assert (PICTURES / "report.svg").read_text(encoding="utf-8") == terminal_svg()


def test_pictures_are_small_and_load_nothing() -> None:
    assert sum(file.stat().st_size for file in PICTURES.iterdir()) < MOST_BYTES
    svg = (PICTURES / "report.svg").read_text(encoding="utf-8")
    assert re.findall(r"(?:url|href)\(?[=(]['\"]?(?!#)", svg) == []
    assert (PICTURES / "page.png").read_bytes()[:4] == b"\x89PNG"
