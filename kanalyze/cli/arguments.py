"""The parser of all commands, made from their declarations.

In: :mod:`kanalyze.spec.commands`. Out: an ``argparse`` parser, which suggests similar names for
unknown options and commands. This module must not import anything slow, because ``--help`` must be
fast.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from contextlib import suppress
from functools import cached_property, partial

import kanalyze
from kanalyze.cli.console import plain_width
from kanalyze.common.compiled import is_compiled
from kanalyze.common.texts import parse_size
from kanalyze.errors import UsageError
from kanalyze.spec.commands import COMMANDS, EXAMPLES, FAIL_ON
from kanalyze.spec.options import MAX_JOBS, MAX_PORT, MAX_RECORDS, Option

TYPE_CHECKING = False
if TYPE_CHECKING:  # see kanalyze/cli/interruption.py
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Final, NoReturn

    from kanalyze.spec.commands import Command
    from kanalyze.tables.records.values import RecordSearch

_DESCRIPTION = "Analyze the traffic between Kafka clients and brokers in packet captures."
_PROGRAM = "kanalyze"
_MAX_COUNT = 65536
_MAX_SECONDS = 1e9
_LONGEST_NUMBER = 4300
"""int() refuses numbers with more digits."""


def parser() -> argparse.ArgumentParser:
    """Return the parser; the name of the command is in ``command``."""
    program = HintingParser(
        prog=_PROGRAM,
        description=_DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    program.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="show the version, whether it is compiled, Python and the platform, and exit",
    )
    commands = program.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=_PROGRAM, parser_class=LazyCommand
    )
    for name, command in COMMANDS.items():
        commands.add_parser(
            name,
            help=command.text,
            description=f"{command.text[0].upper()}{command.text[1:]}.",
            epilog=command.examples,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        ).fill = partial(_add_options, command=command)
    return program


class _Version(argparse.Action):
    """Shows the version of the program and what it runs on."""

    def __call__(self, *_: object) -> NoReturn:
        """Write one line to standard output and exit."""
        import platform  # imported late: it is slow

        kind = "compiled" if is_compiled() else "not compiled"
        python = f"{platform.python_implementation()} {platform.python_version()}"
        text = f"kanalyze {kanalyze.__version__} ({kind}), {python}, {platform.platform()}\n"
        sys.stdout.write(text)
        sys.exit(0)


def _add_options(made: argparse.ArgumentParser, command: Command) -> None:
    """Add the options of a command to its parser."""
    if command.usage is not None:
        made.usage = f"{made.prog} [OPTIONS] {command.usage}"
    exclusive = None
    for title, options in command.groups.items():
        group = made.add_argument_group(title) if title else made
        for option in options:
            if option.name not in command.exclusive:
                _add(group, option, command)
                continue
            if exclusive is None:
                # One of those that the usage names must be given.
                exclusive = group.add_mutually_exclusive_group(required=command.usage is not None)
            _add(exclusive, option, command)


def _add(group: argparse._ActionsContainer, option: Option, command: Command) -> None:
    """Add an option, or an argument."""
    settings: dict[str, Any] = {"help": option.help}
    if option.value is None:
        group.add_argument(*option.flags, action="store_true", **settings)
        return
    settings |= {"metavar": option.metavar, "choices": option.choices}
    settings["type"] = _PARSERS.get(option.name) or _PARSERS.get(option.value)
    if not option.flags:
        group.add_argument(option.name, nargs=_nargs(option), **settings)
        return
    if option.is_repeated:
        settings |= {"action": "append", "default": []}
    elif option.is_optional:
        settings |= {"nargs": "?", "const": command.defaults[option.name]}
    else:
        settings["default"] = command.defaults.get(option.name)
    group.add_argument(*option.flags, required=option.name == command.required, **settings)


def _nargs(argument: Option) -> str | None:
    """Return how many values an argument has, in argparse's spelling; None for one."""
    if argument.is_repeated:
        return "*" if argument.is_optional else "+"
    return "?" if argument.is_optional else None


def _size(text: str) -> int:
    """Parse a size as :func:`~kanalyze.common.texts.parse_size` does."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _jobs(text: str) -> int:
    """Parse a number of processes."""
    return _whole_number(text, MAX_JOBS, f"a number of jobs from 1 to {MAX_JOBS}")


def _count(text: str) -> int:
    """Parse a count."""
    return _whole_number(text, _MAX_COUNT, f"a number from 1 to {_MAX_COUNT}")


def _record_limit(text: str) -> int:
    """Parse a number of records; the header of a batch has 32 bits for it."""
    return _whole_number(text, MAX_RECORDS, f"a number from 1 to {MAX_RECORDS}", longest=10)


def _port(text: str) -> int:
    return _whole_number(text, MAX_PORT, "a TCP port", longest=5)


def _whole_number(text: str, most: int, what: str, longest: int = _LONGEST_NUMBER) -> int:
    """Parse a number from 1 to ``most``; messages say that it is not ``what``."""
    is_number = text.isascii() and text.isdigit() and len(text) <= longest
    if is_number and 0 < int(text) <= most:
        return int(text)
    raise argparse.ArgumentTypeError(f"not {what}: {text!r}")


def _search(text: str) -> RecordSearch:
    """Parse the bytes to search in records."""
    from kanalyze.tables.records.values import parse_search  # imported late: for one command

    try:
        return parse_search(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if 0 <= seconds <= _MAX_SECONDS:
        return seconds
    raise argparse.ArgumentTypeError(f"not a number of seconds: {text!r}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None


def _sections(text: str) -> list[str]:
    """Parse names of sections of a report; ``all`` for all of them."""
    from kanalyze.common.texts import known_or_similar  # imported late: for one command
    from kanalyze.spec.report import SECTIONS

    words = text.split(",")
    for word in words:
        if word not in SECTIONS and word != "all":
            hint = known_or_similar(word, (*SECTIONS, "all"))
            raise argparse.ArgumentTypeError(f"no section of a report: {word!r}{hint}")
    if "clients" in words:
        words.append("inventory")  # each client, behind those by client id
    return list(SECTIONS) if "all" in words else words


def _lines(text: str) -> int:
    """Parse a number of lines; 0 is for all of them."""
    return sys.maxsize if text == "0" else _count(text)


def _fail_on(text: str) -> list[str]:
    words = text.split(",")
    for word in words:
        if word not in FAIL_ON:
            raise argparse.ArgumentTypeError(f"not one of {', '.join(FAIL_ON)}: {word!r}")
    return words


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if key and equals:
        return key, value
    raise argparse.ArgumentTypeError(f"not KEY=VALUE: {text!r}")


def _threshold(text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    with suppress(ValueError):
        if key and math.isfinite(float(value)):
            return key, float(value)
    raise argparse.ArgumentTypeError(f"not NAME=NUMBER: {text!r}")


def _pipe(text: str) -> str:
    if text != "-":
        raise argparse.ArgumentTypeError(
            f"not -: {text!r} (live reads only standard input; kanalyze report reads files)"
        )
    return text


_PARSERS: dict[str, Callable[[str], Any]] = {
    "SIZE": _size,
    "SECONDS": _seconds,
    "N": _count,
    "jobs": _jobs,
    "max_records": _record_limit,
    "port": _port,
    "partition": str,
    "packet": str,
    "correlation_id": str,
    "TIMES": _number,
    "MS": _number,
    "PERCENT": _number,
    "BYTES": _search,
    "WORDS": _fail_on,
    "sections": _sections,
    "LINES": _lines,
    "KEY=VALUE": _setting,
    "NAME=VALUE": _setting,
    "NAME=NUMBER": _threshold,
    "-": _pipe,
}
"""How a text is parsed, by the name of the option, or else by that of its value."""


_CAPTURE: Final = r"(?i)\.(pcap|pcapng|cap)\w*(\.\w+)*$"
_STANDARD_INPUT: Final = "-"
_MAX_WIDTH: Final = 100
"""Longer lines are hard to read."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Writes texts in lines as wide as the terminal, up to 100 characters; examples unchanged.

    Paragraphs with an indented line are examples.

    argparse makes a formatter for each argument. Its own formatter imports :mod:`shutil` to find
    the width, and with it all decompressors of Python.
    """

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", min(plain_width() - 2, _MAX_WIDTH))
        super().__init__(prog, **options)

    def add_argument(self, action: argparse.Action) -> None:
        """Add an argument, like argparse, with room for the longest command."""
        super().add_argument(action)
        if action.nargs == argparse.PARSER:
            # argparse forgets that commands are indented.
            self._action_max_length += self._indent_increment

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # imported late: only for help

        paragraphs = [
            paragraph
            if "\n " in paragraph
            else textwrap.fill(
                " ".join(paragraph.split()),
                width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_on_hyphens=False,
            )
            for paragraph in text.strip("\n").split("\n\n")
        ]
        return "\n\n".join(paragraphs) + "\n"


class HintingParser(argparse.ArgumentParser):
    """A parser that reports unknown options below the usage of the command, with hints.

    argparse itself reports them below the usage of the program, without hints. The usage is one
    line, not all options, which fill a screen and would hide the error.
    """

    _commands: Mapping[str, LazyCommand] | None = None
    """The commands, in the parser of the program."""
    siblings: Mapping[str, LazyCommand] | None = None
    """All commands, in the parser of a command."""
    has_short_usage = False
    """Whether the usage is :meth:`short_usage`, which is made when it is shown."""

    def format_usage(self) -> str:
        """Return the usage, like argparse."""
        self._make_usage()
        return super().format_usage()

    def format_help(self) -> str:
        """Return the help, like argparse."""
        self._make_usage()
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        """Write the help, like argparse; raises OSError, which argparse would not tell of."""
        (file or sys.stdout).write(self.format_help())

    def _make_usage(self) -> None:
        if self.has_short_usage:
            self.usage = self.short_usage().replace("%", "%%")

    def add_subparsers(self, **options: Any) -> argparse._SubParsersAction[Any]:
        """Add commands, like argparse."""
        subparsers = super().add_subparsers(**options)
        self._commands = subparsers.choices
        return subparsers

    def parse_known_args(  # type: ignore[override]  # argparse has overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; an unknown one is an error, which ends the program."""
        words = _with_negative_times(sys.argv[1:] if args is None else args)
        self._check_options(words)
        if self._commands is not None:
            self._check_command(words)
            for command in self._commands.values():
                command.siblings = self._commands
        arguments, unparsed = super().parse_known_args(words, namespace)
        if unparsed and not self._add_captures(unparsed, arguments):
            self.error(f"unrecognized arguments: {' '.join(unparsed)}")
        return arguments, []

    def _add_captures(self, unparsed: Sequence[str], arguments: Any) -> bool:
        """Append captures that are typed after an option; argparse would refuse them.

        Return False, and append nothing, if the command does not take any number of captures, or
        if a word is an option.
        """
        lists = [action for action in self._get_positional_actions() if action.nargs in ("*", "+")]
        if not lists or any(word.startswith("-") and word != _STANDARD_INPUT for word in unparsed):
            return False
        captures = getattr(arguments, lists[-1].dest) or ()
        setattr(arguments, lists[-1].dest, [*captures, *unparsed])
        return True

    def _check_options(self, words: Iterable[str]) -> None:
        for text in words:
            # The parser of the command checks the options after its name.
            is_end = text == "--" or (self._commands is not None and not text.startswith("-"))
            if is_end:
                return
            name = text.partition("=")[0]
            # As in argparse, a word with a space is not an option.
            if text.startswith("--") and " " not in text and not self.has(name):
                self._fail_for_option(name)

    def short_usage(self) -> str:
        """Return the usage with the required arguments only."""
        actions = [
            action
            for action in self._actions
            if not action.option_strings or (action.required and action.nargs != 0)
        ]
        # Colours, which Python 3.14 has, would keep the name of the program from being removed.
        plain = {"color": False} if sys.version_info >= (3, 14) else {}
        formatter = HelpFormatter(self.prog, **plain)
        formatter.add_usage(None, actions, [], prefix="")
        required = " ".join(formatter.format_help().split()).removeprefix(self.prog).strip()
        return f"{self.prog} [OPTIONS] {required}".strip()

    def has(self, option: str) -> bool:
        """Return true if the parser has an option of this name."""
        return option in self._option_string_actions

    def _fail_for_option(self, name: str) -> NoReturn:
        commands = [
            command
            for command, sibling in (self.siblings or {}).items()
            if sibling.parser.has(name)
        ]
        options = [option for option in self._option_string_actions if option.startswith("--")]
        hint = f"; {self.prog} --help lists the options"
        if commands:
            hint = f"; kanalyze {_listed(commands)} {'has' if len(commands) == 1 else 'have'} it"
        elif nearest := _nearest(name, options):
            hint = f"; did you mean {nearest}?"
        self.error(f"unknown option {name}{hint}")

    def _check_command(self, words: Iterable[str]) -> None:
        assert self._commands is not None
        options = []
        for text in words:
            if text == _STANDARD_INPUT or not text.startswith("-"):
                break
            options.append(text)
        else:
            self._check_no_command(options)
            return
        if text in self._commands:
            return
        self.error(f"unknown command {text!r}; {self._command_hint(text)}")

    def _check_no_command(self, options: Iterable[str]) -> None:
        """Report that there is no command, unless an option needs none."""
        for option in options:
            if not self.has(option):
                self.error(
                    f"unknown option {option}; {self.prog} --help lists options and commands"
                )
            return
        self.error(f"no command given; {self.prog} --help lists the commands")

    def _command_hint(self, text: str) -> str:
        if _may_be_a_file(text):
            import shlex  # imported late: only for errors

            return f"to read a capture: {self.prog} report {shlex.quote(text)}"
        nearest = _nearest(text.lower(), self._commands or ())
        if nearest is not None:
            return f"did you mean {nearest}?"
        if (asked := _asked_by(text.lower())) is not None:
            return f"did you mean {self.prog} {asked}?"
        hint = f"{self.prog} --help lists the commands"
        return f"{hint}, {self.prog} COMMAND --help describes one" if text == "help" else hint


def _with_negative_times(words: Sequence[str]) -> list[str]:
    """Return words; ``--since -1h`` becomes one word, because argparse takes -1h for an option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in _TIMES and re.match(r"(?a)-\d", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


_TIMES: Final = ("--since", "--until")


class LazyCommand:
    """A command whose parser is made only if it is used."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None
    """Adds the command's arguments."""
    siblings: Mapping[str, LazyCommand] | None = None
    """All commands of the program."""

    def __init__(self, **options: Any) -> None:
        """Store the arguments of the parser."""
        self._options = options

    @cached_property
    def parser(self) -> HintingParser:
        """The command's parser."""
        parser = HintingParser(**self._options)
        parser.siblings = self.siblings
        if self.fill is not None:
            self.fill(parser)
        parser.has_short_usage = parser.usage is None
        return parser

    def parse_known_args(self, args: Sequence[str], namespace: Any) -> tuple[Any, list[str]]:
        """Parse the command's arguments; argparse calls this."""
        return self.parser.parse_known_args(args, namespace)

    def _check_help(self, action: argparse.Action) -> None:
        """Do nothing; argparse of Python 3.14 calls this, but the help has no % to check."""


def _may_be_a_file(text: str) -> bool:
    from pathlib import Path

    return text == _STANDARD_INPUT or re.search(_CAPTURE, text) is not None or Path(text).exists()


def _asked_by(word: str) -> str | None:
    """Return what answers a word that is no command: a question, or a section of the report."""
    # Imported late: only for an unknown command.
    from kanalyze.queries.files import questions
    from kanalyze.spec.report import SECTIONS

    if word in ("finding", "findings", "verdict"):
        return "report --brief CAPTURE"
    if word in questions():
        return f"sql CAPTURE --query {word}"
    return f"report CAPTURE --sections {word}" if word in SECTIONS else None


def _nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return a candidate that begins with ``name``, or else the most similar one; None if none."""
    import difflib  # imported late: only for unknown names

    names = list(candidates)
    completions = [candidate for candidate in names if candidate.startswith(name)]
    # Dashes, which all options have, would make any two short ones similar.
    by_word = {candidate.lstrip("-"): candidate for candidate in names}
    similar = difflib.get_close_matches(name.lstrip("-"), by_word, n=1)
    matches = completions or [by_word[word] for word in similar]
    return matches[0] if matches else None


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
