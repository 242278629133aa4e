"""Errors about unknown arguments: the usage of the command, and a similar name."""

from __future__ import annotations

import re

import pytest

from kanalyze.cli.arguments import LazyCommand, parser
from kanalyze.cli.main import main

COMMANDS = next(action for action in parser()._actions if action.dest == "command").choices


def usage_and_error(capsys, *argv: str) -> tuple[str, str]:
    """Return the command whose usage is shown, and the line below it."""
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    usage = captured.err.split(" [", 1)[0].removeprefix("usage: ")
    line = captured.err.splitlines()[-1]
    assert line.startswith(f"{usage}: error: ")
    return usage, line.removeprefix(f"{usage}: error: ")


HINTS = {
    "requests a.pcap --slowr-than 5ms": "unknown option --slowr-than; did you mean --slower-than?",
    "report --slowr-than=5ms a.pcap": "unknown option --slowr-than; did you mean --slower-than?",
    "requests --slowr-than": "unknown option --slowr-than; did you mean --slower-than?",
    "report a.pcap --err": "unknown option --err; did you mean --error?",
    "requests a.pcap --json x": (
        "unknown option --json; kanalyze report, compare, protocol, live and batch have it"
    ),
    "report a.pcap --xyzzy": "unknown option --xyzzy; kanalyze report --help lists the options",
    "report --last 10s a.pcap": "unknown option --last; kanalyze report --help lists the options",
    "requests a.pcap --csv": "unknown option --csv; kanalyze requests --help lists the options",
    "live -i eth0 --metric 9000": "unknown option --metric; did you mean --metrics?",
    "report a.pcap -x": "unrecognized arguments: -x",
    "compare a.pcap --jobs 1 b.pcap c.pcap": "unrecognized arguments: c.pcap",
    "-v": "unknown option -v; kanalyze --help lists options and commands",
    "": "no command given; kanalyze --help lists the commands",
    "--verison": "unknown option --verison; did you mean --version?",
    "reprot a.pcap": "unknown command 'reprot'; did you mean report?",
    "Report a.pcap": "unknown command 'Report'; did you mean report?",
    "lag a.pcap": "unknown command 'lag'; did you mean kanalyze sql CAPTURE --query lag?",
    "topics a.pcap": (
        "unknown command 'topics'; did you mean kanalyze report CAPTURE --sections topics?"
    ),
    "findings a.pcap": (
        "unknown command 'findings'; did you mean kanalyze report --brief CAPTURE?"
    ),
    "xyzzy": "unknown command 'xyzzy'; kanalyze --help lists the commands",
    "help": (
        "unknown command 'help'; kanalyze --help lists the commands, "
        "kanalyze COMMAND --help describes one"
    ),
    "broker.pcap": "unknown command 'broker.pcap'; to read a capture: kanalyze report broker.pcap",
    "2026-11-20.pcap0.gz --errors": (
        "unknown command '2026-11-20.pcap0.gz'; "
        "to read a capture: kanalyze report 2026-11-20.pcap0.gz"
    ),
    "-": "unknown command '-'; to read a capture: kanalyze report -",
}


@pytest.mark.parametrize("words", HINTS)
def test_unknown_names_are_reported_with_similar_names(words, capsys):
    usage, error = usage_and_error(capsys, *words.split())
    command = words.partition(" ")[0]
    assert usage == (f"kanalyze {command}" if command in COMMANDS else "kanalyze")
    assert error == HINTS[words]


def test_a_folder_in_place_of_a_command_gets_a_hint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my traffic").mkdir()
    _, line = usage_and_error(capsys, "my traffic")
    assert line.endswith("to read a capture: kanalyze report 'my traffic'")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--status", "error", "a.pcap", "b.pcap", "SELECT 1"),
        ("a.pcap", "--status", "error", "b.pcap", "SELECT 1"),
        ("a.pcap", "b.pcap", "--status", "error", "SELECT 1"),
        ("a.pcap", "--status", "error", "b.pcap", "--jobs", "1", "SELECT 1"),
        ("a.pcap", "b.pcap", "SELECT 1", "--status", "error"),
    ],
)
def test_options_may_stand_anywhere_among_captures(arguments):
    parsed = parser().parse_args(["sql", *arguments])
    assert parsed.captures == ["a.pcap", "b.pcap", "SELECT 1"]
    assert parsed.status == ["error"]


@pytest.mark.parametrize(
    ("argv", "usage"),
    [
        (["requests"], "kanalyze requests [OPTIONS] CAPTURE [CAPTURE ...]"),
        (["extract", "a.pcap"], "kanalyze extract [OPTIONS] -o FILE CAPTURE [CAPTURE ...]"),
        (["compare", "a.pcap"], "kanalyze compare [OPTIONS] A B"),
        (["sql", "--xyzzy"], "kanalyze sql [OPTIONS] [CAPTURE ...]"),
        (["live"], "kanalyze live [OPTIONS] (-i IFACE | - | --list)"),
        (["batch", "a.pcap"], "kanalyze batch [OPTIONS] --out PATH CAPTURE [CAPTURE ...]"),
    ],
)
def test_the_usage_before_an_error_is_one_line(argv, usage, capsys):
    with pytest.raises(SystemExit):
        main(argv)
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"usage: {usage}"
    assert "error: " in second


def test_with_colours_the_usage_says_the_same(monkeypatch):
    """Python 3.14 and later have colours."""
    plain = {name: command.parser.format_usage() for name, command in COMMANDS.items()}
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name, command in COMMANDS.items():
        assert re.sub(r"\x1b\[[0-9;]*m", "", command.parser.format_usage()) == plain[name]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_help_fits_the_terminal_except_for_examples(width, monkeypatch):
    """Lines have at most 102 characters, however wide the terminal is."""
    monkeypatch.setenv("COLUMNS", str(width))
    for name, command in COMMANDS.items():
        text = command.parser.format_help()
        prose, _, examples = text.partition("examples:\n")
        examples, *rest = examples.split("\n\n")
        lines = [*prose.splitlines()[1:], *"\n".join(rest).splitlines()]
        assert max(map(len, lines)) <= min(width, 102), name
        assert all(line.startswith("  ") for line in examples.splitlines()), name
    assert "write one row per TCP connection" in parser().format_help()


def test_each_command_begins_a_line_of_the_help(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = parser().format_help().splitlines()
    for name in COMMANDS:
        assert any(line.startswith(f"    {name} ") for line in lines), name


def test_the_help_of_a_command_is_checked_without_making_its_parser() -> None:
    """argparse of Python 3.14 checks the help of a command when the command is added."""
    command = LazyCommand(prog="kanalyze some")
    assert command._check_help(parser()._actions[0]) is None
    assert "parser" not in vars(command)
