"""A feed of the packets that a filter selects from another feed.

In: a feed, a filter. Out: a feed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.live.run import Feed
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch

__all__ = ["FilteredFeed", "PacketFilter"]


class PacketFilter(Protocol):
    """Selects packets."""

    def selected(self, packets: PacketBatch) -> array[int]:
        """Return the indices of the packets that match."""
        ...


class FilteredFeed:
    """A feed of the selected packets of another feed; packets keep their numbers."""

    def __init__(self, feed: Feed, packet_filter: PacketFilter) -> None:
        """Read from ``feed``, which stays open."""
        self._feed = feed
        self._filter = packet_filter

    @property
    def about(self) -> FileMetadata | None:
        """The metadata of the capture so far; None for an interface."""
        return self._feed.about

    @property
    def dropped_packets(self) -> int | None:
        """Packets lost before they were read, selected or not; None if not known."""
        return self._feed.dropped_packets

    @property
    def is_at_end(self) -> bool:
        """True if no more packets come."""
        return self._feed.is_at_end

    @property
    def anomalies(self) -> Iterable[Anomaly]:
        """Anomalies of the capture itself; complete at its end."""
        return self._feed.anomalies

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return the selected packets of the next batch; None if it has none or nothing came.

        Does not wait for another batch if none is selected. Raises what the feed raises.
        """
        packets = self._feed.read(timeout_s)
        if packets is None:
            return None
        rows = self._filter.selected(packets)
        if len(rows) == len(packets):
            return packets
        return packets.select(rows) if rows else None
