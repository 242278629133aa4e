"""What may be meant by a name that there is not.

In: a name, and those that there are. Out: the end of a message. This module must not know what the
names are of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["known_or_similar", "similar"]

_MOST = 3


def similar(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean A, B?`` with the names that are similar; empty if none is."""
    import difflib  # imported late: only needed for an unknown name

    by_lower = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=_MOST)
    return f"; did you mean {', '.join(by_lower[match] for match in near)}?" if near else ""


def known_or_similar(name: str, valid_names: Iterable[str]) -> str:
    """Return what :func:`similar` does, or else ``; there are A, B, C`` with all names."""
    names = list(valid_names)
    return similar(name, names) or f"; there are {', '.join(names)}"
