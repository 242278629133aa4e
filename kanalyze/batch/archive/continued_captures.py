"""Captures that continue those of earlier jobs: packets are numbered after theirs.

In: captures, and where the packets of earlier captures are, as text. Out: the capture and number of
each packet, and the text for a later job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.batch.archive.packet_locations import dump_locations, load_locations
from kanalyze.capture.merge import MergedCaptures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.listing import FoundCapture
    from kanalyze.capture.packet_index import PacketRun

__all__ = ["ContinuedCaptures"]


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
