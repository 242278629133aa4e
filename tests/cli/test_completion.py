from __future__ import annotations

import argparse
import re
import subprocess

import pytest

from kanalyze.cli.arguments import parser
from kanalyze.cli.completion import script_for
from kanalyze.cli.main import main

SHELLS = ("bash", "zsh", "fish")
COMPLETE = """
source ./script
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_kanalyze
printf '%s\\n' "${COMPREPLY[@]}"
"""


def commands():
    [subparsers] = [
        action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]
    return subparsers.choices


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], {"report", "requests", "records"}),
        (["--v"], {"--version"}),
        (["report", "--form"], {"--format"}),
        (["report", "--format", ""], {"text", "json", "md", "html"}),
        (["report", "--format", "=", "js"], {"json"}),
        (["report", "--format", "="], {"text", "json", "md", "html"}),
        (["report", "--limit", ""], {""}),
        (["report", "a"], {"a file.pcap", "another"}),
        (["records", "-o", "anoth"], {"another"}),
        (["completion", ""], set(SHELLS)),
        (["completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes(words, expected, tmp_path):
    (tmp_path / "script").write_text(script_for("bash"))
    (tmp_path / "a file.pcap").write_text("")
    (tmp_path / "another").mkdir()
    run = ["bash", "--norc", "-c", COMPLETE, "bash", "kanalyze", *words]
    done = subprocess.run(run, capture_output=True, check=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert set(done.stdout[:-1].split("\n")) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_completed(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    words = set(re.findall(r"[\w-]+", script))
    for name, command in commands().items():
        names = {name for action in command.parser._actions for name in action.option_strings}
        expected = names if shell != "fish" else {option.lstrip("-") for option in names}
        assert {name} | expected <= words
