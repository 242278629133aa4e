"""Where a packet is: numbers rise over all captures, Wireshark's begin anew in each.

In: runs of packets as they are given out. Out: the capture of a packet and its number there. Must
not know: how captures are read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from kanalyze.common.int_columns import shifted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UNKNOWN_CAPTURE", "Places"]

MAX_RUNS: Final = 1_000_000
UNKNOWN_CAPTURE: Final = "(unknown)"
"""Stands for the capture of a packet whose place was forgotten."""


class Places:
    """A table of runs: consecutive packets that are consecutive in one capture.

    A rotated capture needs one a file. Where captures overlap there may be one a packet, and the
    oldest are forgotten.
    """

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._first = array("q")
        """Number over all captures of each run's first packet, rising."""
        self._capture = array("q")
        self._within = array("q")
        """Number in its capture of each run's first packet."""
        self._end = 1
        """The number after the last one."""

    def latest(self, most: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Return the number of the next packet, and the latest runs, for :meth:`load_state`."""
        columns = (self._first[-most:], self._capture[-most:], self._within[-most:])
        return self._end, list(zip(*columns, strict=True))

    def load_state(self, end: int, runs: Sequence[tuple[int, int, int]]) -> None:
        """Go on, a new table, where another one ended."""
        self._end = end
        for first, capture, within in runs:
            self._first.append(first)
            self._capture.append(capture)
            self._within.append(within)

    @property
    def runs(self) -> int:
        """Runs that are kept."""
        return len(self._first)

    def add(self, capture: int, within: int, count: int) -> None:
        """Note that the next ``count`` packets are those of a capture from ``within`` on."""
        if not self._goes_on(capture, within):
            self._first.append(self._end)
            self._capture.append(capture)
            self._within.append(within)
            self._forget()
        self._end += count

    def add_runs(
        self,
        starts: array[int],
        captures: array[int],
        within: array[int],
        count: int,
    ) -> None:
        """Note the next ``count`` packets, whose runs begin at the indices ``starts``.

        ``captures`` and ``within`` have an entry a run.
        """
        skip = int(len(starts) > 0 and self._goes_on(captures[0], within[0]))
        self._first += shifted(starts[skip:], self._end)
        self._capture += captures[skip:]
        self._within += within[skip:]
        self._end += count
        self._forget()

    def find(self, number: int) -> tuple[int, int] | None:
        """Return the index of a packet's capture and its number there; None when forgotten."""
        index = bisect_right(self._first, number) - 1
        if index < 0 or number >= self._end:
            return None
        return self._capture[index], self._within[index] + number - self._first[index]

    def name(self, number: int, names: Sequence[str], *, is_alone: bool) -> tuple[str, int | None]:
        """Return the name of a packet's capture, and the packet's number in it.

        Of a packet that was forgotten the number is None, and so the capture,
        :data:`UNKNOWN_CAPTURE`, unless there ``is_alone`` one.
        """
        found = self.find(number)
        if found is not None:
            return names[found[0]], found[1]
        return (names[0] if is_alone and names else UNKNOWN_CAPTURE), None

    def _goes_on(self, capture: int, within: int) -> bool:
        """Tell whether packets from here on belong to the last run."""
        if not self._first or self._capture[-1] != capture:
            return False
        return within - self._within[-1] == self._end - self._first[-1]

    def _forget(self) -> None:
        """Drop the oldest runs, many at once: each time costs as much as all that are kept."""
        surplus = len(self._first) - self._max_runs
        if surplus > self._max_runs // 4:
            for column in (self._first, self._capture, self._within):
                del column[:surplus]
