"""Short texts: made harmless, shortened, compared; and sizes in bytes that users write.

In: a text off the wire or from a user. Out: text that can be shown, the end of a message, a number.
"""

from __future__ import annotations

from kanalyze.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:  # see kanalyze/cli/interruption.py
    from collections.abc import Iterable

_TEXT_LIMIT = 256
_MAX_SIMILAR = 3
_SIZE_UNITS = "KMGT"


def bounded_text(text: str) -> str:
    """Return a text, or its beginning and its length when it has over 256 characters."""
    if len(text) <= _TEXT_LIMIT:
        return text
    return f"{text[:_TEXT_LIMIT]}... ({len(text)} characters)"


def escape(text: str) -> str:
    r"""Return a text with JSON escapes for backslashes and for all that is not printable.

    Not printable are control, format (such as those that reverse the direction of writing),
    surrogate, private and unassigned characters, and all separators but the space: whatever could
    control a terminal, hide, or make one text look like another. ``a\b`` gives ``a\\b``; the escape
    character gives ``\u001b``. Undoing the escapes gives the original text.
    """
    if text.isprintable() and "\\" not in text:
        return text
    import json  # imported late: few texts need it

    return "".join(
        char if char.isprintable() and char != "\\" else json.dumps(char)[1:-1] for char in text
    )


def similar(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean A, B?`` with at most three similar names; empty if none is."""
    import difflib  # imported late: only needed for an unknown name

    by_lower = {known.lower(): known for known in names}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=_MAX_SIMILAR)
    return f"; did you mean {', '.join(by_lower[match] for match in matches)}?" if matches else ""


def known_or_similar(name: str, valid_names: Iterable[str]) -> str:
    """Return what :func:`similar` returns; if no name is similar, ``; there are A, B, C``."""
    names = list(valid_names)
    return similar(name, names) or f"; there are {', '.join(names)}"


def parse_size(text: str) -> int:
    """Return a size in bytes: a number with an optional unit K, M, G or T (powers of 1024).

    ``256M``, ``256MB`` and ``256MiB`` are the same, in upper or lower case. Raises UsageError for
    anything else.
    """
    number, unit = text.strip().upper().removesuffix("B").removesuffix("I"), 1
    for power, letter in enumerate(_SIZE_UNITS, 1):
        if number.endswith(letter):
            number, unit = number[:-1], 1024**power
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"not a size: {text!r} (such as 256M or 2G)")
    return int(number) * unit
