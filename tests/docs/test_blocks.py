"""README and docs/ show what really happens: each block is run, and each output is compared."""

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
