"""Texts of bounded length, for what comes off a wire.

In: a text. Out: it, or its beginning.
"""

from __future__ import annotations

__all__ = ["bounded_text"]

_TEXT_LIMIT = 256


def bounded_text(text: str) -> str:
    """Return a text, or its beginning and its length when it has over 256 characters."""
    if len(text) <= _TEXT_LIMIT:
        return text
    return f"{text[:_TEXT_LIMIT]}... ({len(text)} characters)"
