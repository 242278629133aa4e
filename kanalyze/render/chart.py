"""Amounts over time as a chart of block characters.

In: amounts per bucket of time. Out: lines of text.
"""

from __future__ import annotations

__all__ = ["bar_lines", "columns_for", "largest", "resampled"]

_EIGHTHS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def columns_for(buckets: int, width: int) -> tuple[int, int]:
    """Return how to fit ``buckets`` into ``width`` columns of text.

    The result is (buckets per column, columns per bucket). Both are at least 1, and one of them is
    1.
    """
    if buckets <= width:
        return 1, max(1, width // max(buckets, 1))
    return -(-buckets // width), 1


def resampled(amounts: list[int], together: int) -> list[int]:
    """Return the sum of every ``together`` amounts; the last group may be shorter."""
    return [sum(amounts[first : first + together]) for first in range(0, len(amounts), together)]


def largest(amounts: list[int | None], together: int) -> list[int]:
    """Return the maximum of every ``together`` amounts; 0 for a group of only nulls."""
    return [
        max(
            (amount for amount in amounts[first : first + together] if amount is not None),
            default=0,
        )
        for first in range(0, len(amounts), together)
    ]


def bar_lines(amounts: list[int], height: int, repeat: int = 1) -> list[str]:
    """Return a bar chart as ``height`` lines, from the top. The largest amount fills the height.

    Each bar is ``repeat`` columns wide. An amount above 0 always shows at least the lowest block.
    """
    top = max(amounts, default=0)
    levels = [_level(amount, top, 8 * height) for amount in amounts]
    return [
        "".join(_EIGHTHS[min(max(level - 8 * row, 0), 8)] * repeat for level in levels)
        for row in reversed(range(height))
    ]


def _level(amount: int, top: int, levels: int) -> int:
    if amount <= 0 or top <= 0:
        return 0
    return max(1, round(amount * levels / top))
