"""Text from the wire, made safe for a terminal.

In: any text, or None. Out: short printable text.
"""

from __future__ import annotations

from kanalyze.common.texts import escape

__all__ = ["MISSING", "shown"]

MISSING = "-"
"""The text for null."""

_LIMIT = 120


def shown(text: str | None, limit: int = _LIMIT) -> str:
    """Return a text with unprintable characters escaped, cut to at most ``limit`` characters.

    Null is ``-``. The empty text is ``""``, and the text ``-`` is written in quotes.
    """
    if text is None:
        return MISSING
    if text in ("", MISSING):
        return f'"{text}"'
    # Cut first: escaping never makes a text shorter.
    escaped = escape(text[: limit + 1])
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "\u2026"
