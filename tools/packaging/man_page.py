"""Writes the manual page, ``kanalyze.1``, from the parser of the program.

    python tools/packaging/man_page.py > kanalyze.1

In: the parser. Out: the page in the macros of man(7), the same with every Python.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["man_page"]

_STATUS = (
    ("0", "Success."),
    ("1", "compare --fail-on found something."),
    (
        "2",
        "A wrong argument, input or output, or a missing package; standard error ends with why.",
    ),
    ("130", "Interrupted."),
)
_VARIABLES = (
    ("SSLKEYLOGFILE", "A file with secrets of TLS, read if there is no --keylog."),
    ("NO_COLOR, FORCE_COLOR", "Never, or always, write colours."),
    ("KANALYZE_PURE", "1: run the uncompiled modules, with the same results."),
)


def man_page() -> str:
    """Return the manual page of the program that can be imported."""
    from kanalyze.cli.arguments import parser
    from kanalyze.version import __version__

    return _page(parser(), __version__)


def _page(program: argparse.ArgumentParser, version: str) -> str:
    [found] = [each for each in program._actions if isinstance(each, argparse._SubParsersAction)]
    texts = {each.dest: each.help or "" for each in found._choices_actions}
    lines = [
        f'.TH {_escaped(program.prog.upper())} 1 "" "{program.prog} {version}" "User Commands"',
        ".SH NAME",
        _escaped(f"{program.prog} - {_lowered(program.description or '')}"),
        ".SH SYNOPSIS",
        f".B {_escaped(program.prog)}",
        r"\fICOMMAND\fR [\fIOPTION\fR ...] [\fICAPTURE\fR ...]",
        *_section("DESCRIPTION", program.description or ""),
        *_examples(program.epilog or ""),
        ".SH OPTIONS",
        *(line for each in program._actions if each is not found for line in _argument(each)),
        ".SH COMMANDS",
        *(line for name in found.choices for line in _entry(_bold(name), texts[name])),
        *_commands(found.choices),
        ".SH EXIT STATUS",
        *(line for status, text in _STATUS for line in _entry(_bold(status), text)),
        ".SH ENVIRONMENT",
        *(line for name, text in _VARIABLES for line in _entry(_bold(name), text)),
    ]
    return "\n".join(lines) + "\n"


def _commands(commands: Mapping[str, object]) -> Iterator[str]:
    """Write a section for each command, with its groups of arguments."""
    for name, command in commands.items():
        made: argparse.ArgumentParser = command.parser  # type: ignore[attr-defined]  # LazyCommand
        yield f'.SH "{_escaped(made.prog).upper()}"'
        yield from _text(made.description or "")
        for group in made._action_groups:
            if group._group_actions:
                yield f'.SS "{_escaped(f"{name}: {group.title}")}"'
                for each in group._group_actions:
                    yield from _argument(each)
        yield from _examples(made.epilog or "")


def _argument(action: argparse.Action) -> list[str]:
    value = "" if action.nargs == 0 else _value(action)
    if not action.option_strings:
        return _entry(value, _help(action))
    names = ", ".join(map(_bold, action.option_strings))
    return _entry(f"{names} {value}" if value else names, _help(action))


def _value(action: argparse.Action) -> str:
    """Return how a value is shown: its name, or what it may be."""
    if action.metavar is None and action.choices is not None:
        return r"\fR|\fR".join(_bold(str(choice)) for choice in action.choices)
    name = action.metavar or action.dest.upper()
    return rf"\fI{_escaped(name if isinstance(name, str) else ' '.join(name))}\fR"


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": ""}


def _entry(head: str, text: str) -> list[str]:
    return [".TP", head, *_text(text)]


def _section(title: str, text: str) -> list[str]:
    return [f".SH {title}", *_text(text)]


def _examples(epilog: str) -> Iterator[str]:
    """Write a text below the arguments: its lines are kept as they are."""
    if epilog.strip():
        yield from (".PP", ".nf", *map(_line, epilog.rstrip().splitlines()), ".fi")


def _text(text: str) -> list[str]:
    return [_line(line) for line in text.splitlines() if line.strip()]


def _line(text: str) -> str:
    """Return a line in which nothing is a macro."""
    escaped = _escaped(text)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def _bold(text: str) -> str:
    return rf"\fB{_escaped(text)}\fR"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("'", r"\(aq")


def _lowered(text: str) -> str:
    """Return a sentence as the half of a line."""
    return (text[:1].lower() + text[1:]).rstrip(".")


if __name__ == "__main__":
    sys.stdout.write(man_page())
