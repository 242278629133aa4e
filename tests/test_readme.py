"""The promises of the README, and the samples beside it. tests/docs runs its blocks."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.cli.main import main
from kanalyze.spec.commands import COMMANDS
from tests.support import captures
from tests.support.captures import ROOT
from tools import sample_reports

if TYPE_CHECKING:
    from pathlib import Path

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
PYTHON = (DOCS / "python.md").read_text(encoding="utf-8")
START = (DOCS / "getting-started.md").read_text(encoding="utf-8")


def command(name: str) -> str:
    """The one command in the block after a marker."""
    found = re.search(rf"<!-- {name} command -->\n```sh\n(.+?)```\n", README, re.DOTALL)
    assert found is not None
    (line,) = found.group(1).splitlines()
    return line


def test_the_two_commands_are_each_one_line_and_name_existing_files() -> None:
    assert (ROOT / command("main").split()[-1]).exists()
    assert (ROOT / command("test").split()[-1]).exists()
    assert command("test") in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_landing_check_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "<!-- test command -->" in script
    assert "README.md" in script


@pytest.mark.usefixtures("all_findings")
def test_sample_reports_and_generated_parts_are_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Except the pages of findings, which `tests/docs/test_pages.py` checks."""
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    monkeypatch.setattr(sample_reports, "findings_page", lambda: page)
    monkeypatch.setattr(sample_reports, "kind_pages", list)
    monkeypatch.setattr(sys, "argv", ["sample_reports.py", "--check"])
    monkeypatch.chdir(ROOT)
    status = sample_reports.main()
    output = f"{capsys.readouterr().out}\npython -m tools.sample_reports, and read the diff"
    assert status == 0, output


@pytest.mark.parametrize("folder", ["kanalyze", "tests", "tools", "captures", "reports", "docs"])
def test_no_file_names_a_path_of_one_machine(folder: str) -> None:
    for file in (ROOT / folder).rglob("*"):
        if file.suffix in {".py", ".md", ".json", ".txt", ".toml", ".xml"}:
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"/(root|home/\w+|Users)/", text.replace("/(root|home", "")), file


FILTERS = {
    *("api", "client_id", "client_ip", "broker", "topic", "group"),
    *("errors", "slower_than", "since", "until"),
}


def options_of(name: str) -> set[str]:
    return {option.name for option in COMMANDS[name].options}


def test_the_commands_have_the_filters_that_the_docs_name() -> None:
    passage = re.search(
        r"so does \[the reference\].+?\.\s+(`report`.+?) have all\s+filters\.(.+?) have the"
        r" filters on .+?\.\s+(.+?) has\s+filters of its own",
        START.replace("\n", " "),
    )
    assert passage is not None
    everything, some, none = (re.findall(r"`(\w+)`", part) for part in passage.groups())
    for name in everything:
        assert options_of(name) >= FILTERS, name
    for name in some:
        assert options_of(name) & FILTERS >= {"client_ip", "broker", "since", "until"}, name
        assert not options_of(name) >= FILTERS, name
    for name in none:
        assert FILTERS - options_of(name) == {"since", "until"}, name
    assert {*everything, *some, *none} == COMMANDS.keys() - {
        *("protocol", "anonymize", "completion", "mcp")
    }


def test_the_last_line_on_standard_error_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error is the last line; the usage may stand above it."""
    assert "the last line on standard error says" in START.replace("\n", " ")
    assert main(["report", "--since", "soon", "x.pcap"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit) as caught:
        main(["report", "--port", "0", "x.pcap"])
    assert caught.value.code == 2
    assert "not a TCP port" in capsys.readouterr().err.splitlines()[-1]


def test_the_python_example_of_the_docs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"<!-- library begins -->\n```python\n(.+?)```\n", PYTHON, re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "captures").mkdir()
    for name in ("broker.pcap", "captures/basics.pcap"):
        (tmp_path / name).write_bytes(captures.path("basics").read_bytes())
    namespace: dict[str, Any] = {}
    exec(found.group(1), namespace)
    output = capsys.readouterr().out
    assert {"row", "record", "message"} <= namespace.keys()
    assert namespace["table"].num_rows == namespace["frame"].height > 0
    assert f"{namespace['table'].num_rows}\n" in output
    assert namespace["totals"]["requests"] > namespace["table"].num_rows


def test_the_licence_is_the_one_that_the_readme_names() -> None:
    text = (ROOT / "LICENSE").read_bytes()
    # As apache.org has it, to the byte.
    assert hashlib.sha256(text).hexdigest() == (
        "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    # uPlot is MIT: tests/test_packaging.py.
    assert project["project"]["license"] == "Apache-2.0 AND MIT"
    assert "LICENSE" in project["project"]["license-files"]
    assert "LICENSE" in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    assert "Apache License 2.0" in README


LINES = 120
"""The README is read in one go; all else is in docs/."""


def test_the_readme_is_short_and_links_to_docs_and_reports() -> None:
    assert len(README.splitlines()) <= LINES
    for target in ("docs/index.md", "docs/getting-started.md", "docs/comparison.md", "reports/"):
        assert f"({target}" in README, target


def test_the_readme_says_what_every_extra_costs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(project["project"]["optional-dependencies"]) - {"dev", "docs", "release", "test"}
    costs = re.findall(
        r"^\| `kanalyze(?:\[(\w+)\])?` \| .+ \| \+?\d+ \| \d+ \|$", README, re.MULTILINE
    )
    assert set(costs) == extras | {""}


def test_the_readme_compares_with_other_tools_and_says_what_is_not_known() -> None:
    for tool in ("tshark", "Pixie", "DeepFlow", "Datadog", "kafka-sniffer"):
        assert tool in README
    assert "not known" in README


def test_the_docs_name_every_command() -> None:
    assert set(re.findall(r"^\| \[`(\w+)`\]", START, re.MULTILINE)) == set(COMMANDS)
