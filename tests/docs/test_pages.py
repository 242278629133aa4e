"""README and docs/ show what really happens: each block is run, and each output is compared.

The site: every page is in the menu once, links are valid, generated pages are up to date.

The pages of findings: one for each kind, with an example from our captures.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.api.tables import opened_tables
from kanalyze.kafka.schema.loader import _FIELD_KEYS, _MESSAGE_KEYS
from kanalyze.queries.findings import finding_kinds, findings_of
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import ROOT, path
from tests.support.findings import findings_in, kinds_of
from tools.docs_blocks import (
    BlockError,
    blocks_of,
    command_lines,
    kanalyze_arguments,
    run_page,
    with_outputs,
)
from tools.docs_findings import EXAMPLES, MADE_BY_HAND, captures, kind_pages
from tools.docs_pages import DOCS, pages
from tools.docs_reference import reference_pages
from tools.pictures import MAX_BYTES, PICTURES, terminal_svg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.queries.finding import Finding

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}
SHOWN_GUIDES = {"slow-client.md", "archive.md", "packets.md"}
LANGUAGES = {"sh", "bash", "python", "text", "json", "sql", "yaml"}


def written(folder: Path, *lines: str) -> Path:
    page = folder / "page.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def with_blocks() -> Iterator[Any]:
    """Yield the names of pages with blocks. Most guides are long: they are slow, and alike."""
    for name, page in PAGES.items():
        if "```" in page.read_text():
            is_long = page.parent.name == "guides" and page.name not in SHOWN_GUIDES
            yield pytest.param(name, marks=pytest.mark.long if is_long else ())


@pytest.mark.parametrize("name", list(with_blocks()))
def test_blocks_do_what_the_page_shows(name: str, tmp_path: Path) -> None:
    expected = PAGES[name].read_text(encoding="utf-8")
    actual = run_page(PAGES[name], tmp_path)
    assert actual == expected, f"python -m tools.docs --page {name}, then read the diff"


def test_every_block_has_a_language_and_all_code_is_in_blocks() -> None:
    for name, page in PAGES.items():
        text = page.read_text(encoding="utf-8")
        assert {block.language for block in blocks_of(text)} <= LANGUAGES, name
        outside = text
        for block in blocks_of(text):
            outside = outside.replace(block.text, "")
        # Indented code and blocks inside of lists would not be run.
        hidden = [
            line for line in outside.splitlines() if line.startswith(("    kanalyze ", " ```"))
        ]
        assert not hidden, name


GENERATED = ("docs/reference/commands.md", "docs/reference/python.md")
"""Pages whose blocks are generated from code."""


def test_printed_text_is_marked_as_an_output_or_a_file() -> None:
    for name in set(PAGES) - set(GENERATED):
        for block in blocks_of(PAGES[name].read_text(encoding="utf-8")):
            marks = ("output", "same", "file", "written")
            assert block.language != "text" or any(map(block.mark, marks)), (name, block)


def test_outdated_output_is_replaced(tmp_path: Path) -> None:
    page = written(
        tmp_path,
        "`b.pcap` is `captures/loopback.pcap`.",
        "```sh",
        "kanalyze requests b.pcap \\",
        "  --api Produce --columns api_version,status --format csv  # two columns",
        "```",
        "<!-- output 2 lines -->",
        "```text",
        "old",
        "```",
    )
    made = run_page(page, tmp_path)
    assert made.endswith("```text\napi_version,status\n10,ok\n...\n```\n")
    assert "old" not in made


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["```sh", "kanalyze report --nonsense", "```"], "status 2"),
        (["```sh", "kanalyze report no.pcap", "```"], "status 2"),
        (["```sh", "false | cat", "```"], "status 1"),
        (["<!-- status 1 -->", "```sh", "kanalyze protocol Fetch", "```"], "status 0"),
        (
            ["<!-- not run: as root -->", "```sh", "sudo kanalyze live --nonsense", "```"],
            "nonsense",
        ),
        (["```sh", "echo 1", "```", '<!-- output to "2" -->', "```text", "```"], "no line"),
        (["```sh", "echo 1", "```", "<!-- output of it -->", "```text", "```"], "unclear"),
        (["`a` is `captures/none.pcap`"], "there is no captures/none.pcap"),
    ],
)
def test_a_wrong_page_is_refused(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(BlockError, match=message):
        run_page(written(tmp_path, *lines), tmp_path)


def test_python_blocks_of_a_page_share_names_and_raise_errors(tmp_path: Path) -> None:
    lines = ["```python", "x = 1", "```", "```python", "print(x + 1)", "```", "<!-- output -->"]
    assert "\n2\n" in run_page(written(tmp_path, *lines, "```text", "```"), tmp_path)
    with pytest.raises(ZeroDivisionError):
        run_page(written(tmp_path, "```python", "1 / 0", "```"), tmp_path)
    with pytest.raises(SyntaxError):
        run_page(
            written(tmp_path, "<!-- not run: Spark -->", "```python", "x = = 1", "```"), tmp_path
        )


def test_commands_are_found_in_shell_lines() -> None:
    text = "# first\nkanalyze a \\\n  b  # then\n\nssh x tcpdump -w - | sudo kanalyze live -\n"
    assert command_lines(text) == ["kanalyze a b", "ssh x tcpdump -w - | sudo kanalyze live -"]
    found = [list(kanalyze_arguments(line)) for line in command_lines(text)]
    assert found == [[], [["live", "-"]]]
    [arguments] = kanalyze_arguments('eval "$(kanalyze completion bash)"')
    assert arguments == ["completion", "bash"]
    assert not list(kanalyze_arguments("docker build -t kanalyze ."))


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
