"""Finds the capture of a packet and its number there, which Wireshark shows.

Packet numbers count over all captures. In: runs of packets as they are delivered. Out: the capture
of a packet and its number there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Protocol

from kanalyze.common.int_columns import shifted
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UNKNOWN_CAPTURE", "PacketIndex", "PacketLocations", "PacketRun"]

MAX_RUNS: Final = 1_000_000
UNKNOWN_CAPTURE: Final = "(unknown)"
"""Name of the capture of a packet whose run was dropped."""


class PacketRun(NamedTuple):
    """Consecutive packets that are consecutive in one capture."""

    first: int
    """Number of the first packet over all captures."""
    shift: int
    """What is added to these numbers for those in the capture."""
    capture: str
    """Name of the capture."""


class PacketLocations(Protocol):
    """Where packets are that have numbers over all captures."""

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet, and the packet's number in it; None if not known."""
        ...

    def runs_between(self, low: int, high: int, most: int) -> Sequence[PacketRun] | None:
        """Return the runs of packets from ``low`` to ``high``, each in one capture.

        None if there are more than ``most``, or if a packet has no number in its capture.
        """
        ...


class PacketIndex:
    """A table of runs: consecutive packets that are consecutive in one capture.

    Rotated captures need one run per file. Overlapping captures may need one per packet; then the
    oldest runs are dropped.
    """

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._first = array("q")
        """Number of each run's first packet over all captures, rising."""
        self._capture = array("q")
        """Index of each run's capture."""
        self._within = array("q")
        """Number of each run's first packet in its capture."""
        self._end = 1
        """The number after that of the last packet."""

    def latest(self, most: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Return the number of the next packet, and the latest runs, for :meth:`load_state`."""
        columns = (self._first[-most:], self._capture[-most:], self._within[-most:])
        return self._end, list(zip(*columns, strict=True))

    def load_state(self, end: int, runs: Sequence[tuple[int, int, int]]) -> None:
        """Continue where another table ended; this table has to be empty."""
        self._end = end
        for first, capture, within in runs:
            self._first.append(first)
            self._capture.append(capture)
            self._within.append(within)

    @property
    def packets(self) -> int:
        """Number of packets so far, including those of dropped runs."""
        return self._end - 1

    @property
    def runs(self) -> int:
        """Number of runs in the table."""
        return len(self._first)

    def add(self, capture: int, within: int, count: int) -> None:
        """Add the next ``count`` packets: of a capture, from its packet number ``within`` on."""
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

        ``captures`` and ``within`` have one entry per run.
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

    def runs_between(
        self, low: int, high: int, most: int, names: Sequence[str]
    ) -> list[PacketRun] | None:
        """Return the runs of packets from ``low`` to ``high``; the first one may begin before.

        None if there are more than ``most``, or if the run of a packet was dropped.
        """
        start = bisect_right(self._first, low) - 1
        end = bisect_right(self._first, high)
        if start < 0 or high >= self._end or end - start > most:
            return None
        return [
            PacketRun(
                self._first[index],
                self._within[index] - self._first[index],
                names[self._capture[index]],
            )
            for index in range(start, end)
        ]

    def locate(
        self, number: int, names: Sequence[str], *, is_alone: bool
    ) -> tuple[str, int | None]:
        """Return the name of a packet's capture, and the packet's number in it.

        If the packet's run was dropped, the number is None, and the capture is
        :data:`UNKNOWN_CAPTURE`, unless there is only one (``is_alone``).
        """
        location = self.find(number)
        if location is not None:
            return names[location[0]], location[1]
        return (names[0] if is_alone and names else UNKNOWN_CAPTURE), None

    def _continues(self, capture: int, within: int) -> bool:
        """Return true if the next packets belong to the last run."""
        if not self._first or self._capture[-1] != capture:
            return False
        return within - self._within[-1] == self._end - self._first[-1]

    def _drop_oldest(self) -> None:
        """Drop the oldest runs, many at once, because each time moves the whole table."""
        surplus = len(self._first) - self._max_runs
        if surplus > self._max_runs // 4:
            for column in (self._first, self._capture, self._within):
                del column[:surplus]
