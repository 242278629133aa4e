"""What the README promises, and the samples beside it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.captures import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def command(name: str) -> str:
    """The one command in the block after a marker."""
    found = re.search(rf"<!-- {name} command -->\n```sh\n(.+?)```\n", README, re.DOTALL)
    assert found is not None
    (line,) = found.group(1).splitlines()
    return line


def test_the_two_commands_are_each_one_line_and_name_files_that_are_there() -> None:
    assert (ROOT / command("main").split()[-1]).exists()
    assert (ROOT / command("test").split()[-1]).exists()
    assert command("test") in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_landing_check_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "<!-- test command -->" in script
    assert "README.md" in script


def test_sample_reports_and_generated_parts_are_those_of_the_code_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "tools/sample_reports.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    told = f"{done.stdout}{done.stderr}\nrun tools/sample_reports.py and read the diff"
    assert done.returncode == 0, told


@pytest.mark.parametrize("folder", ["kanalyze", "tests", "tools", "captures", "reports"])
def test_no_file_names_a_path_of_one_machine(folder: str) -> None:
    for file in (ROOT / folder).rglob("*"):
        if file.suffix in {".py", ".md", ".json", ".txt", ".toml", ".xml"}:
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"/(root|home/\w+|Users)/", text.replace("/(root|home", "")), file
