"""Sizes in bytes as text.

In: text from a user. Out: integers.
"""

from __future__ import annotations

from kanalyze.errors import UsageError

__all__ = ["parse_size"]

_UNITS = "KMGT"


def parse_size(text: str) -> int:
    """Return a size in bytes: a number with an optional unit K, M, G or T (powers of 1024).

    ``256M``, ``256MB`` and ``256MiB`` are the same, in upper or lower case. Raises UsageError for
    anything else.
    """
    number, unit = text.strip().upper().removesuffix("B").removesuffix("I"), 1
    for power, letter in enumerate(_UNITS, 1):
        if number.endswith(letter):
            number, unit = number[:-1], 1024**power
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"not a size: {text!r} (such as 256M or 2G)")
    return int(number) * unit
