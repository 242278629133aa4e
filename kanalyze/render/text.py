"""Text from the wire, fit for a terminal.

In: any text, or None. Out: short printable text. This module must not know colours or widths.
"""

from __future__ import annotations

from kanalyze.common.escaping import escape

__all__ = ["MISSING", "shown"]

MISSING = "-"
"""The text of a null."""

_LIMIT = 120


def shown(text: str | None, limit: int = _LIMIT) -> str:
    """Return a text with escapes for all that is not printable, and not longer than ``limit``.

    Null is ``-``; the empty text is ``""`` in quotes, and so is a text that is just ``-``.
    """
    if text is None:
        return MISSING
    if text in ("", MISSING):
        return f'"{text}"'
    # Cut first: escaping makes a text longer, never shorter.
    escaped = escape(text[: limit + 1])
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "\u2026"
