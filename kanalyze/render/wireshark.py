"""Display filters of Wireshark, to paste.

In: numbers of packets in their capture. Out: a text. This module must not know which packets are
chosen, nor why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["display_filter"]


def display_filter(numbers: Iterable[int]) -> str:
    """Return the filter that shows the packets of some numbers, at least one.

    ``frame.number in {81, 91..93}``; with commas, as Wireshark 3.6 and later read it.
    """
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    items = (str(first) if first == last else f"{first}..{last}" for first, last in runs)
    return f"frame.number in {{{', '.join(items)}}}"
