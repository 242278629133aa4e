r"""Text from the wire, made harmless.

In: any text. Out: text that can be shown.
"""

from __future__ import annotations

__all__ = ["escape"]


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
