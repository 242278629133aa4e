"""Suggestions for a name that is not known.

In: an unknown name, the known names. Out: the end of an error message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["known_or_similar", "similar"]

_MOST = 3


def similar(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean A, B?`` with at most three similar names; empty if none is."""
    import difflib  # imported late: only needed for an unknown name

    by_lower = {known.lower(): known for known in names}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=_MOST)
    return f"; did you mean {', '.join(by_lower[match] for match in matches)}?" if matches else ""


def known_or_similar(name: str, valid_names: Iterable[str]) -> str:
    """Return what :func:`similar` returns; if no name is similar, ``; there are A, B, C``."""
    names = list(valid_names)
    return similar(name, names) or f"; there are {', '.join(names)}"
