"""Tells whether a connection is TLS, by its first bytes.

In: the first items of both directions of a connection. Out: yes, no, or not yet.

If the first byte of a stream was captured, TLS has to begin with a record there. If it was not (the
capture began later, or the first packets are lost), most streams of TLS begin with a record too;
the others begin within one, and three records in a row prove them. Two zero bytes at the beginning
are taken for the size of a Kafka message below 64 KiB, and such a stream is not searched. Of
connections with TLS that begin within a record, this misses one in 32,768.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.streams import Chunk, Gap
from kanalyze.model.tls import HEADER_BYTES, find_records, looks_like_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.model.streams import StreamItem

__all__ = ["TlsDetector"]

_SEARCHED_BYTES: Final = 1 << 16
"""More than the size of three records of the largest size."""
_SMALL_SIZE: Final = bytes(2)
"""How the size of a Kafka message below 64 KiB begins."""


class TlsDetector:
    """Decides on one connection."""

    __slots__ = ("_first_direction", "_searched_bytes", "_starts_seen")
    _NOT_SAVED = ("_starts_seen",)
    _SAVED = Saved("_first_direction:end _searched_bytes:count")

    def __init__(self, first_direction: int, starts_seen: tuple[bool, bool]) -> None:
        """Begin.

        Args:
            first_direction: the direction of the first packet.
            starts_seen: by direction, whether the first item begins with the first byte sent.
        """
        self._first_direction = first_direction
        self._starts_seen = starts_seen
        self._searched_bytes = 0

    def decide(
        self, items: tuple[Sequence[StreamItem], Sequence[StreamItem]], *, is_last: bool
    ) -> bool | None:
        """Return true if this is TLS; None if more bytes are needed, never with ``is_last``.

        ``items`` are all items of both directions so far.
        """
        first = items[self._first_direction]
        head = _head(first)
        if self._starts_seen[self._first_direction] and not isinstance(first[0], Gap):
            is_tls = looks_like_record(head) if len(head) == HEADER_BYTES else None
        else:
            is_tls = self._find((first, items[1 - self._first_direction]), is_last=is_last)
        return False if is_last and is_tls is None else is_tls

    def _find(
        self, both: tuple[Sequence[StreamItem], Sequence[StreamItem]], *, is_last: bool
    ) -> bool | None:
        """Decide where the first bytes are not those that were sent first."""
        heads = [_head(items) for items in both]
        if any(map(looks_like_record, heads)):
            return True
        if any(len(head) == HEADER_BYTES and head[:2] == _SMALL_SIZE for head in heads):
            return False
        streams = [_joined(items) for items in both]
        size = sum(map(len, streams))
        # Search again only when the size has doubled, so that the total time is linear.
        if size >= 2 * self._searched_bytes or is_last:
            self._searched_bytes = size
            if any(find_records(memoryview(stream)) is not None for stream in streams):
                return True
        return False if max(map(len, streams)) >= _SEARCHED_BYTES else None


def _head(items: Sequence[StreamItem]) -> bytes:
    """Return the first captured bytes, at most five."""
    return _joined(items, HEADER_BYTES)


def _joined(items: Sequence[StreamItem], most: int = _SEARCHED_BYTES) -> bytes:
    """Return the first captured bytes, at most ``most``."""
    joined = bytearray()
    for item in items:
        if isinstance(item, Chunk):
            segments = item.segments
            for index in range(item.first, item.last):
                start = segments.start[index]
                joined += segments.view(start, start + segments.captured[index])
                if len(joined) >= most:
                    return bytes(joined[:most])
    return bytes(joined)
