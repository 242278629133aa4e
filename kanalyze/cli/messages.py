"""What a command says to whoever runs it, beside its output.

In: a text. Out: a line on standard error. This module must not know which command runs.
"""

from __future__ import annotations

import sys
from contextlib import suppress

__all__ = ["print_message"]


def print_message(text: str) -> None:
    """Write a line to standard error: one line, whatever a file name or a system message holds."""
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    with suppress(OSError):
        sys.stderr.write(f"kanalyze: {line}\n")
