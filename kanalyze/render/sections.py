"""Which sections of a report a terminal shows, and how many lines of each table.

In: findings, and the sections that have lines. Out: names of sections; numbers of lines.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from kanalyze.spec.report import MOST_SECTIONS, USUAL_SECTIONS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

_FEWEST_LINES = 3
"""Number of lines that a table has, however little room there is."""


def sections_that_matter(
    findings: Iterable[Mapping[str, Any]], filled: Container[str]
) -> list[str]:
    """Return the sections to show, of those that have lines: what findings ask for, then others.

    The first section of each finding comes before the second of any.
    """
    asked = zip_longest(*(finding.get("see", ()) for finding in findings))
    names = dict.fromkeys((*(name for names in asked for name in names), *USUAL_SECTIONS))
    return [name for name in names if name in filled][:MOST_SECTIONS]


def lines_within(room: int, lines: Mapping[str, int]) -> dict[str, int]:
    """Return how many lines of each table are shown, so that all take at most ``room``.

    Tables get a line in turn, until they have all of theirs or nothing is left. Each has at least
    three. A line that says how many are left out counts as one.
    """
    shown = {name: min(count, _FEWEST_LINES) for name, count in lines.items()}

    def is_spare() -> bool:
        return sum(count + (count < lines[name]) for name, count in shown.items()) < room

    waiting = [name for name in lines if shown[name] < lines[name]]
    while waiting and is_spare():
        name = waiting.pop(0)
        shown[name] += 1
        if shown[name] < lines[name]:
            waiting.append(name)
    return shown
