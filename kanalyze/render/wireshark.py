"""Display filters for Wireshark.

In: numbers of packets in their capture. Out: a text.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kanalyze.common.texts import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["display_filter", "filter_lines"]


def filter_lines(packets: Iterable[tuple[str, int | None]]) -> Iterator[str]:
    """Yield a display filter for each capture, with the name of the capture if there are several.

    ``packets`` are pairs of a capture and the number of a packet in it; a number may be None.
    """
    numbers_by_capture: defaultdict[str, list[int]] = defaultdict(list)
    for capture, number in packets:
        if number is not None:
            numbers_by_capture[capture].append(number)
    for capture, numbers in numbers_by_capture.items():
        name = f"{escape(capture)}: " if len(numbers_by_capture) > 1 else ""
        yield name + display_filter(numbers)


def display_filter(numbers: Iterable[int]) -> str:
    """Return the filter that shows the packets with these numbers, of which there is at least one.

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
