"""What README and docs/ show is what happens: each block is run, each output is the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tools.docs_blocks import BlockError, blocks_of, command_lines, kanalyze_arguments, run_page
from tools.docs_pages import ROOT, pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}
SHOWN_GUIDES = {"slow-client.md", "archive.md", "packets.md"}
LANGUAGES = {"sh", "bash", "python", "text", "json", "sql", "yaml"}


def written(folder: Path, *lines: str) -> Path:
    page = folder / "page.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def with_blocks() -> Iterator[Any]:
    """Give the names of pages with blocks. Most guides take a second and have blocks alike."""
    for name, page in PAGES.items():
        if "```" in page.read_text():
            is_long = page.parent.name == "guides" and page.name not in SHOWN_GUIDES
            yield pytest.param(name, marks=pytest.mark.long if is_long else ())


@pytest.mark.parametrize("name", list(with_blocks()))
def test_blocks_do_what_the_page_shows(name: str, tmp_path: Path) -> None:
    shown = PAGES[name].read_text(encoding="utf-8")
    now = run_page(PAGES[name], tmp_path)
    assert now == shown, f"python -m tools.docs --page {name}, then read the diff"


def test_every_block_has_a_language_and_no_code_hides_from_the_test() -> None:
    for name, page in PAGES.items():
        text = page.read_text(encoding="utf-8")
        assert {block.language for block in blocks_of(text)} <= LANGUAGES, name
        outside = text
        for block in blocks_of(text):
            outside = outside.replace(block.text, "")
        # Code that is indented would not be run, nor a block within a list.
        hidden = [
            line for line in outside.splitlines() if line.startswith(("    kanalyze ", " ```"))
        ]
        assert not hidden, name


MADE = ("docs/reference/commands.md", "docs/reference/python.md")
"""Pages whose blocks are made from code, not printed."""


def test_text_that_was_printed_is_an_output_or_a_golden_file() -> None:
    for name in set(PAGES) - set(MADE):
        for block in blocks_of(PAGES[name].read_text(encoding="utf-8")):
            marks = ("output", "same", "file", "written")
            assert block.language != "text" or any(map(block.mark, marks)), (name, block)


def test_a_page_without_its_output_gets_it(tmp_path: Path) -> None:
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
    ("lines", "told"),
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
def test_a_page_that_is_wrong_is_refused(lines: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(BlockError, match=told):
        run_page(written(tmp_path, *lines), tmp_path)


def test_python_of_a_page_shares_its_names_and_raises(tmp_path: Path) -> None:
    lines = ["```python", "x = 1", "```", "```python", "print(x + 1)", "```", "<!-- output -->"]
    assert "\n2\n" in run_page(written(tmp_path, *lines, "```text", "```"), tmp_path)
    with pytest.raises(ZeroDivisionError):
        run_page(written(tmp_path, "```python", "1 / 0", "```"), tmp_path)
    with pytest.raises(SyntaxError):
        run_page(
            written(tmp_path, "<!-- not run: Spark -->", "```python", "x = = 1", "```"), tmp_path
        )


def test_commands_are_found_in_lines_of_shell() -> None:
    text = "# first\nkanalyze a \\\n  b  # then\n\nssh x tcpdump -w - | sudo kanalyze live -\n"
    assert command_lines(text) == ["kanalyze a b", "ssh x tcpdump -w - | sudo kanalyze live -"]
    found = [list(kanalyze_arguments(line)) for line in command_lines(text)]
    assert found == [[], [["live", "-"]]]
    [within] = kanalyze_arguments('eval "$(kanalyze completion bash)"')
    assert within == ["completion", "bash"]
    assert not list(kanalyze_arguments("docker build -t kanalyze ."))
