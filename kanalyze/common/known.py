"""Numbers that may be unknown.

In: numbers, or None for an unknown one. Out: one number, or None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def of_known(combine: Callable[[int, int], int], a: int | None, b: int | None) -> int | None:
    """Return ``combine(a, b)``, such as the larger one; if one of them is None, the other."""
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)
