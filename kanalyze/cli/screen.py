"""Whether standard output is a terminal, and how wide.

In: the process's streams and environment. Out: what a table or a report has to heed. This module
must not know what is shown. It says what rich's ``Console`` would, but without rich, which takes as
long to import as all the rest of a short command, where standard output goes to a file or a pipe.
"""

from __future__ import annotations

import os
import sys

__all__ = ["is_plain", "plain_width"]

_DEFAULT_WIDTH = 80


def is_plain() -> bool:
    """Return whether standard output takes text alone: no colours, whoever reads it."""
    asked_for = "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ
    return not (sys.stdout.isatty() or asked_for)


def plain_width() -> int:
    """Return the width of lines for people where :func:`is_plain`.

    That of the terminal that another stream is, for there a pager shows them; 80 without one.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    for descriptor in (0, 1, 2):
        try:
            found = os.get_terminal_size(descriptor).columns
        except OSError:
            continue
        return found or _DEFAULT_WIDTH
    return _DEFAULT_WIDTH
