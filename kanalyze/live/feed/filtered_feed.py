"""Packets of a feed that are wanted, the others left out.

In: a feed, a filter. Out: a feed. Must not know: what makes packets wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.model.packet_arrays import to_column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.live.feed.filter_packets import PacketFilter
    from kanalyze.live.run import Feed
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch

__all__ = ["FilteredFeed"]


class FilteredFeed:
    """A feed of some of another's packets, with the numbers that they have there."""

    def __init__(self, feed: Feed, wanted: PacketFilter) -> None:
        """Read from ``feed``, which stays open."""
        self._feed = feed
        self._wanted = wanted

    @property
    def about(self) -> FileMetadata | None:
        """What the capture says of itself, so far; None for an interface."""
        return self._feed.about

    @property
    def dropped_packets(self) -> int | None:
        """Packets lost before they were read, wanted or not; None when nobody can say."""
        return self._feed.dropped_packets

    @property
    def is_at_end(self) -> bool:
        """Whether nothing more comes."""
        return self._feed.is_at_end

    @property
    def anomalies(self) -> Iterable[Anomaly]:
        """What is wrong with the capture itself; complete at its end."""
        return self._feed.anomalies

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return what is wanted of what has come, over the same buffer; None when nothing is.

        Does not wait for more where none of what came is wanted. Raises what the feed does.
        """
        packets = self._feed.read(timeout_s)
        if packets is None:
            return None
        taken = self._wanted.taken(packets)
        if taken.all():
            return packets
        rows = to_column(np.flatnonzero(taken))
        return packets.taken(rows) if len(rows) else None
