"""A parser of arguments that suggests similar names for unknown options and commands.

In: the commands and options that argparse knows. Out: a parser with better errors. This module must
not know which commands there are, and must not import anything slow.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["HelpFormatter", "HintingParser", "LazyCommand"]

_CAPTURE: Final = re.compile(r"\.(pcap|pcapng|cap)\w*(\.\w+)*$", re.IGNORECASE)
_STANDARD_INPUT: Final = "-"
_DEFAULT_WIDTH: Final = 80
_MOST_WIDTH: Final = 100
"""Longer lines are hard to read."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Writes texts in lines as wide as the terminal, up to 100 characters; examples unchanged.

    Paragraphs with an indented line are examples.

    argparse makes a formatter for each argument. Its own formatter imports :mod:`shutil` to find
    the width, and with it all decompressors of Python.
    """

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", min(_terminal_width() - 2, _MOST_WIDTH))
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

    def add_subparsers(self, **options: Any) -> argparse._SubParsersAction[Any]:
        """Add commands, like argparse."""
        made = super().add_subparsers(**options)
        self._commands = made.choices
        return made

    def parse_known_args(  # type: ignore[override]  # argparse has overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; an unknown one is an error, which ends the program."""
        words = sys.argv[1:] if args is None else list(args)
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
        """Add captures that stand behind options to those in front, which argparse would refuse.

        Return whether they are nothing else, and the command takes any number of them.
        """
        many = [each for each in self._get_positional_actions() if each.nargs in ("*", "+")]
        if not many or any(word.startswith("-") and word != _STANDARD_INPUT for word in unparsed):
            return False
        before = getattr(arguments, many[-1].dest) or ()
        setattr(arguments, many[-1].dest, [*before, *unparsed])
        return True

    def _check_options(self, words: Iterable[str]) -> None:
        for text in words:
            # The command parses what follows its name.
            is_over = text == "--" or (self._commands is not None and not text.startswith("-"))
            if is_over:
                return
            name = text.partition("=")[0]
            # As in argparse, a word with a space is not an option.
            if text.startswith("--") and " " not in text and not self.has(name):
                self._fail_for_option(name)

    def short_usage(self) -> str:
        """Return the usage with the arguments that must be given."""
        actions = [
            action
            for action in self._actions
            if not action.option_strings or (action.required and action.nargs != 0)
        ]
        formatter = self._get_formatter()
        formatter.add_usage(None, actions, [], prefix="")
        needed = " ".join(formatter.format_help().split()).removeprefix(self.prog).strip()
        return f"{self.prog} [OPTIONS] {needed}".strip()

    def has(self, option: str) -> bool:
        """Return whether there is such an option."""
        return option in self._option_string_actions

    def _fail_for_option(self, name: str) -> NoReturn:
        commands = [
            command
            for command, sibling in (self.siblings or {}).items()
            if sibling.parser.has(name)
        ]
        options = [option for option in self._option_string_actions if option.startswith("--")]
        hint = ""
        if commands:
            hint = f"; kanalyze {_listed(commands)} {'has' if len(commands) == 1 else 'have'} it"
        elif near := _nearest(name, options):
            hint = f"; did you mean {near}?"
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
        near = _nearest(text.lower(), self._commands or ())
        if near is not None:
            return f"did you mean {near}?"
        hint = f"{self.prog} --help lists the commands"
        return f"{hint}, {self.prog} COMMAND --help describes one" if text == "help" else hint


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
        made = HintingParser(**self._options)
        made.siblings = self.siblings
        if self.fill is not None:
            self.fill(made)
        if made.usage is None:
            made.usage = made.short_usage().replace("%", "%%")
        return made

    def parse_known_args(self, args: Sequence[str], namespace: Any) -> tuple[Any, list[str]]:
        """Parse the command's arguments; argparse calls this."""
        return self.parser.parse_known_args(args, namespace)

    def _check_help(self, action: argparse.Action) -> None:
        """Do nothing: the text is plain. argparse of Python 3.14 has commands check their help."""


def _terminal_width() -> int:
    """Return the width of :func:`shutil.get_terminal_size`."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    if sys.__stdout__ is None:
        return _DEFAULT_WIDTH
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _DEFAULT_WIDTH
    except (ValueError, OSError):  # closed, or not a terminal
        return _DEFAULT_WIDTH


def _may_be_a_file(text: str) -> bool:
    from pathlib import Path

    return text == _STANDARD_INPUT or _CAPTURE.search(text) is not None or Path(text).exists()


def _nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the known name that begins with ``name``, or else the most similar, or None."""
    import difflib  # imported late: only for unknown names

    names = list(candidates)
    longer = [each for each in names if each.startswith(name)]
    near = longer or difflib.get_close_matches(name, names, n=1)
    return near[0] if near else None


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
