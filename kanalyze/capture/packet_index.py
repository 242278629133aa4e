"""Where a packet is: its number counts over all captures, Wireshark's in each capture.

In: runs of packets as they are delivered. Out: the capture of a packet and its number there. Must
not know: how captures are read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from kanalyze.common.int_columns import shifted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UNKNOWN_CAPTURE", "PacketIndex"]

MAX_RUNS: Final = 1_000_000
UNKNOWN_CAPTURE: Final = "(unknown)"
"""Stands for the capture of a packet whose run was dropped."""


class PacketIndex:
    """A table of runs: consecutive packets that are consecutive in one capture.

    A rotated capture needs one a file. Where captures overlap there may be one a packet, and the
    oldest are dropped.
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
        """Continue, as a new table, where another one ended."""
        self._end = end
        for first, capture, within in runs:
            self._first.append(first)
            self._capture.append(capture)
            self._within.append(within)

    @property
    def packets(self) -> int:
        """Number of packets so far, those whose runs were dropped included."""
        return self._end - 1

    @property
    def runs(self) -> int:
        """Number of runs in the table."""
        return len(self._first)

    def add(self, capture: int, within: int, count: int) -> None:
        """Add the next ``count`` packets: those of a capture from ``within`` on."""
        if not self._continues(capture, within):
            self._first.append(self._end)
            self._capture.append(capture)
            self._within.append(within)
            self._drop_oldest()
        self._end += count

    def add_runs(
        self,
        starts: array[int],
        captures: array[int],
        within: array[int],
        count: int,
    ) -> None:
        """Add the next ``count`` packets, whose runs begin at the indices ``starts``.

        ``captures`` and ``within`` have an entry a run.
        """
        skip = int(len(starts) > 0 and self._continues(captures[0], within[0]))
        self._first += shifted(starts[skip:], self._end)
        self._capture += captures[skip:]
        self._within += within[skip:]
        self._end += count
        self._drop_oldest()

    def find(self, number: int) -> tuple[int, int] | None:
        """Return the index of a packet's capture and its number there; None when dropped."""
        index = bisect_right(self._first, number) - 1
        if index < 0 or number >= self._end:
            return None
        return self._capture[index], self._within[index] + number - self._first[index]

    def locate(
        self, number: int, names: Sequence[str], *, is_alone: bool
    ) -> tuple[str, int | None]:
        """Return the name of a packet's capture, and the packet's number in it.

        Of a packet whose run was dropped the number is None, and the capture is
        :data:`UNKNOWN_CAPTURE`, unless it ``is_alone``.
        """
        location = self.find(number)
        if location is not None:
            return names[location[0]], location[1]
        return (names[0] if is_alone and names else UNKNOWN_CAPTURE), None

    def _continues(self, capture: int, within: int) -> bool:
        """Tell whether the next packets belong to the last run."""
        if not self._first or self._capture[-1] != capture:
            return False
        return within - self._within[-1] == self._end - self._first[-1]

    def _drop_oldest(self) -> None:
        """Drop the oldest runs, many at once: each time costs as much as the whole table."""
        surplus = len(self._first) - self._max_runs
        if surplus > self._max_runs // 4:
            for column in (self._first, self._capture, self._within):
                del column[:surplus]
