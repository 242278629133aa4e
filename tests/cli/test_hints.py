"""Errors about unknown arguments: the usage of the command, and a similar name."""

from __future__ import annotations

import pytest

from kanalyze.cli.arguments import parser
from kanalyze.cli.hints import LazyCommand
from kanalyze.cli.main import main


def said(capsys, *argv: str) -> tuple[str, str]:
    """Return the command whose usage is shown, and the line below it."""
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    usage = told.err.split(" [", 1)[0].removeprefix("usage: ")
    line = told.err.splitlines()[-1]
    assert line.startswith(f"{usage}: error: ")
    return usage, line.removeprefix(f"{usage}: error: ")


@pytest.mark.parametrize(
    ("argv", "usage", "words"),
    [
        (
            ["requests", "a.pcap", "--slowr-than", "5ms"],
            "kanalyze requests",
            "unknown option --slowr-than; did you mean --slower-than?",
        ),
        (
            ["report", "--slowr-than=5ms", "a.pcap"],
            "kanalyze report",
            "unknown option --slowr-than; did you mean --slower-than?",
        ),
        (
            ["requests", "--slowr-than"],
            "kanalyze requests",
            "unknown option --slowr-than; did you mean --slower-than?",
        ),
        (
            ["report", "a.pcap", "--err"],
            "kanalyze report",
            "unknown option --err; did you mean --error?",
        ),
        (
            ["requests", "a.pcap", "--json", "x"],
            "kanalyze requests",
            "unknown option --json; kanalyze report, compare, protocol, live and batch have it",
        ),
        (
            ["report", "a.pcap", "--xyzzy"],
            "kanalyze report",
            "unknown option --xyzzy",
        ),
        (
            ["live", "-i", "eth0", "--metric", "9000"],
            "kanalyze live",
            "unknown option --metric; did you mean --metrics?",
        ),
        (["report", "a.pcap", "-x"], "kanalyze report", "unrecognized arguments: -x"),
        (["-v"], "kanalyze", "unknown option -v; kanalyze --help lists options and commands"),
        ([], "kanalyze", "no command given; kanalyze --help lists the commands"),
        (["--verison"], "kanalyze", "unknown option --verison; did you mean --version?"),
        (["reprot", "a.pcap"], "kanalyze", "unknown command 'reprot'; did you mean report?"),
        (["Report", "a.pcap"], "kanalyze", "unknown command 'Report'; did you mean report?"),
        (
            ["xyzzy"],
            "kanalyze",
            "unknown command 'xyzzy'; kanalyze --help lists the commands",
        ),
        (
            ["help"],
            "kanalyze",
            (
                "unknown command 'help'; kanalyze --help lists the commands, "
                "kanalyze COMMAND --help describes one"
            ),
        ),
        (
            ["broker.pcap"],
            "kanalyze",
            "unknown command 'broker.pcap'; to read a capture: kanalyze report broker.pcap",
        ),
        (
            ["2026-11-20.pcap0.gz", "--errors"],
            "kanalyze",
            (
                "unknown command '2026-11-20.pcap0.gz'; "
                "to read a capture: kanalyze report 2026-11-20.pcap0.gz"
            ),
        ),
        (["-"], "kanalyze", "unknown command '-'; to read a capture: kanalyze report -"),
    ],
)
def test_unknown_names_are_reported_with_similar_names(argv, usage, words, capsys):
    assert said(capsys, *argv) == (usage, words)


def test_a_file_or_a_folder_of_any_name_is_no_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my traffic").mkdir()
    _, line = said(capsys, "my traffic")
    assert line.endswith("to read a capture: kanalyze report 'my traffic'")


def test_words_after_two_dashes_are_no_options(capsys):
    assert main(["report", "--", "--slowr-than"]) == 2
    assert capsys.readouterr().err == "kanalyze: --slowr-than: no such file\n"


def test_a_value_that_looks_like_an_option_is_none(capsys):
    assert main(["report", "--client-id=--odd", "--topic", "-- odd --", "/no/file"]) == 2
    assert capsys.readouterr().err == "kanalyze: /no/file: no such file\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--status", "error", "a.pcap", "b.pcap", "SELECT 1"),
        ("a.pcap", "--status", "error", "b.pcap", "SELECT 1"),
        ("a.pcap", "b.pcap", "--status", "error", "SELECT 1"),
        ("a.pcap", "--status", "error", "b.pcap", "--jobs", "1", "SELECT 1"),
        ("a.pcap", "b.pcap", "SELECT 1", "--status", "error"),
    ],
)
def test_options_may_stand_anywhere_among_captures(words):
    found = parser().parse_args(["sql", *words])
    assert found.captures == ["a.pcap", "b.pcap", "SELECT 1"]
    assert found.status == ["error"]


def test_a_command_that_takes_so_many_words_takes_no_more(capsys):
    usage, words = said(capsys, "compare", "a.pcap", "--jobs", "1", "b.pcap", "c.pcap")
    assert (usage, words) == ("kanalyze compare", "unrecognized arguments: c.pcap")


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
def test_an_error_is_not_hidden_below_a_screen_of_options(argv, usage, capsys):
    with pytest.raises(SystemExit):
        main(argv)
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"usage: {usage}"
    assert "error: " in second


COMMANDS = next(each for each in parser()._actions if each.dest == "command").choices


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_help_is_as_wide_as_the_terminal_but_for_examples(width, monkeypatch):
    """Lines are never longer than 100 characters, which are easy to read."""
    monkeypatch.setenv("COLUMNS", str(width))
    for name, command in COMMANDS.items():
        text = command.parser.format_help()
        prose, _, examples = text.partition("examples:\n")
        examples, *rest = examples.split("\n\n")
        lines = [*prose.splitlines()[1:], *"\n".join(rest).splitlines()]
        assert max(map(len, lines)) <= min(width, 102), name
        assert all(line.startswith("  ") for line in examples.splitlines()), name
    assert "write one row per TCP connection" in parser().format_help()


def test_each_command_is_on_the_line_of_its_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = parser().format_help().splitlines()
    for name in COMMANDS:
        assert any(line.startswith(f"    {name} ") for line in lines), name


def test_the_help_of_a_command_is_checked_without_making_its_parser() -> None:
    """argparse of Python 3.14 checks it when a command is added."""
    command = LazyCommand(prog="kanalyze some")
    assert command._check_help(parser()._actions[0]) is None
    assert "parser" not in vars(command)
