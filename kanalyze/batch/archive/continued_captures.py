"""Captures that continue those of earlier jobs: packets are numbered after theirs.

In: captures, and where the packets of earlier captures are, as text. Out: the capture and number of
each packet, and the text for a later job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.capture.merge import MergedCaptures, PacketIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.merge import PacketRun

__all__ = ["ContinuedCaptures", "dump_locations", "load_locations"]

_MAX_RUNS: Final = 10_000
"""How many runs of the packet index are saved; each capture has one if captures do not overlap."""


class ContinuedCaptures:
    """Base of what reads such captures as :class:`~kanalyze.runtime.stages.Captures`."""

    can_be_read_again = False
    description = None

    def __init__(self, captures: Sequence[FoundCapture], stores: Stores, state: str | None) -> None:
        """Set up; nothing is opened yet.

        Args:
            captures: in the order of their first packets.
            stores: file systems connected to before.
            state: what :meth:`save_state` returned for the captures before these.

        Raises:
            BlockError: the state is damaged.
        """
        self._index, names = load_locations(state)
        self._merged = MergedCaptures(
            captures, stores=stores, packet_index=self._index, names=names
        )

    @property
    def names(self) -> list[str]:
        """The names in rows of the captures opened so far."""
        return self._merged.names

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet and its number there; see ``MergedCaptures.locate``."""
        return self._merged.locate(number)

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        """Return runs of packets; see ``MergedCaptures.runs_between``."""
        return self._merged.runs_between(low, high, most)

    def save_state(self) -> str:
        """Return where packets are, for the rows of a later job."""
        return dump_locations(self._index, self.names)


def dump_locations(index: PacketIndex, names: list[str]) -> str:
    """Return where the latest packets are, for the rows of a later job."""
    end, runs = index.latest(_MAX_RUNS)
    used = sorted({capture for _, capture, _ in runs})
    indices = {capture: number for number, capture in enumerate(used)}
    return json.dumps(
        {
            "names": [names[capture] for capture in used],
            "end": end,
            "runs": [[first, indices[capture], within] for first, capture, within in runs],
        }
    )


def load_locations(text: str | None) -> tuple[PacketIndex, list[str]]:
    """Return a packet index and the names of its captures; None: both are empty.

    Raises:
        BlockError: the text was not written by :func:`dump_locations`.
    """
    index = PacketIndex()
    if text is None:
        return index, []
    try:
        state = json.loads(text)
        names = [str(name) for name in state["names"]]
        runs = [(int(first), int(capture), int(within)) for first, capture, within in state["runs"]]
        end = int(state["end"])
    except (ValueError, KeyError, TypeError) as error:
        raise BlockError(f"the state of a bucket is damaged: {error}") from error
    if not all(0 <= capture < len(names) for _, capture, _ in runs):
        raise BlockError("the state of a bucket is damaged: packets of no capture")
    index.load_state(end, runs)
    return index, names
