r"""Text from the wire, made harmless.

In: any text. Out: text that can be shown. This module must not know where.
"""

from __future__ import annotations

__all__ = ["escape"]


def escape(text: str) -> str:
    r"""Return a text with JSON escapes for backslashes and for all that is not printable.

    Not printable are control, format (those that reverse the writing among them), surrogate,
    private and unassigned characters, and all separators but the space: whatever could drive a
    terminal, hide, or make one text look like another. ``a\b`` gives ``a\\b``; the escape
    character gives ``\u001b``. The original can be had back by undoing the escapes.
    """
    if text.isprintable() and "\\" not in text:
        return text
    import json  # for few texts

    return "".join(
        char if char.isprintable() and char != "\\" else json.dumps(char)[1:-1] for char in text
    )
