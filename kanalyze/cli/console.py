"""The terminal of a command: messages on standard error, lines on standard output.

In: the process's streams and environment; lines. Out: lines on the streams; width and colour
support.

:func:`is_plain` and :func:`plain_width` return what rich's ``Console`` would, without importing
rich, which takes as long as the rest of a short command.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # see kanalyze/cli/interruption.py
    from collections.abc import Callable, Iterable

    from kanalyze.render.lines import Line

_DEFAULT_WIDTH = 80


def print_message(text: str) -> None:
    """Write a message to standard error in one line, with control characters escaped."""
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    with suppress(OSError):
        sys.stderr.write(f"kanalyze: {line}\n")


def is_plain() -> bool:
    """Return true if standard output takes text without colours."""
    has_colours = "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ
    return not (sys.stdout.isatty() or has_colours)


def plain_width() -> int:
    """Return the width of lines for people, where :func:`is_plain` is true.

    It is the width of a terminal that any standard stream has, because a pager shows lines there.
    Without a terminal it is 80.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    return terminal_width(0, 1, 2)


def terminal_width(*descriptors: int) -> int:
    """Return the width of the first of these files that is a terminal; 80 if none is."""
    for descriptor in descriptors:
        with suppress(OSError):
            return os.get_terminal_size(descriptor).columns or _DEFAULT_WIDTH
    return _DEFAULT_WIDTH


def show_lines(lines_of: Callable[[int], Iterable[Line]]) -> None:
    """Write lines to standard output; ``lines_of`` makes them for a width."""
    if is_plain():
        sys.stdout.write("".join(f"{line.plain}\n" for line in lines_of(plain_width())))
        return
    from rich.console import Console

    from kanalyze.render.terminal import print_lines

    console = Console(markup=False, emoji=False, highlight=False)
    print_lines(lines_of(console.width), console)
