"""The parser of all commands, made from their declarations.

In: :mod:`kanalyze.spec.commands`. Out: an ``argparse`` parser. This module must not import anything
slow, because ``--help`` must be fast.
"""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import kanalyze
from kanalyze.cli.hints import HelpFormatter, HintingParser, LazyCommand
from kanalyze.common.compiled import is_compiled
from kanalyze.common.texts import parse_size
from kanalyze.errors import UsageError
from kanalyze.spec.commands import COMMANDS, EXAMPLES, FAIL_ON
from kanalyze.spec.options import MAX_JOBS, MAX_PORT, MAX_RECORDS, Option

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.spec.commands import Command
    from kanalyze.tables.records.values import RecordSearch

__all__ = ["parser"]

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
    "TIMES": _number,
    "MS": _number,
    "PERCENT": _number,
    "BYTES": _search,
    "WORDS": _fail_on,
    "KEY=VALUE": _setting,
    "NAME=VALUE": _setting,
    "NAME=NUMBER": _threshold,
    "-": _pipe,
}
"""How a text is parsed, by the name of the option, or else by that of its value."""
