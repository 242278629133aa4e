"""A parser of arguments that suggests similar names for unknown options and commands.

In: commands and options, as for argparse. Out: a parser with better errors.
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kanalyze.cli.console import plain_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["HelpFormatter", "HintingParser", "LazyCommand"]

_CAPTURE: Final = re.compile(r"\.(pcap|pcapng|cap)\w*(\.\w+)*$", re.IGNORECASE)
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

    def add_subparsers(self, **options: Any) -> argparse._SubParsersAction[Any]:
        """Add commands, like argparse."""
        subparsers = super().add_subparsers(**options)
        self._commands = subparsers.choices
        return subparsers

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
        formatter = self._get_formatter()
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
        hint = ""
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
        parser = HintingParser(**self._options)
        parser.siblings = self.siblings
        if self.fill is not None:
            self.fill(parser)
        if parser.usage is None:
            parser.usage = parser.short_usage().replace("%", "%%")
        return parser

    def parse_known_args(self, args: Sequence[str], namespace: Any) -> tuple[Any, list[str]]:
        """Parse the command's arguments; argparse calls this."""
        return self.parser.parse_known_args(args, namespace)

    def _check_help(self, action: argparse.Action) -> None:
        """Do nothing; argparse of Python 3.14 calls this, but the help has no % to check."""


def _may_be_a_file(text: str) -> bool:
    from pathlib import Path

    return text == _STANDARD_INPUT or _CAPTURE.search(text) is not None or Path(text).exists()


def _nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return a candidate that begins with ``name``, or else the most similar one; None if none."""
    import difflib  # imported late: only for unknown names

    names = list(candidates)
    completions = [candidate for candidate in names if candidate.startswith(name)]
    matches = completions or difflib.get_close_matches(name, names, n=1)
    return matches[0] if matches else None


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
