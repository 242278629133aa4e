"""One IP datagram while its fragments are reassembled.

In: ranges of bytes, in any order. Out: the bytes from the first on.

The first copy of a byte counts (RFC 815 leaves it open). A fragment that the capture cut covers its
whole range, although some of its bytes are missing.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right, insort
from typing import Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved

__all__ = ["PIECE_BYTES", "Datagram"]

PIECE_BYTES: Final = 256
"""Approximate memory of a range, without its bytes."""
MAX_BYTES: Final = 65_535
_MIN_HEADER_BYTES: Final = 20


@Saved("start:count stop:count data:bytes")
class _FragmentRange(NamedTuple):
    start: int
    stop: int
    data: bytes
    """The captured part of it."""

    def differs(self, start: int, data: bytes) -> bool:
        """Return true if ``data``, from ``start`` on, differs from what was captured there."""
        mine = self.data[start - self.start : start - self.start + len(data)]
        return mine != data[: len(mine)]


class Datagram:
    """The pieces seen of one datagram; none of them overlap."""

    _NOT_SAVED = ("buffered_bytes",)
    _SAVED = Saved(
        "time_ns:int packet:count packets:list[count] header:bytes? protocol:count? total:count? "
        "contradicts:bool is_false:bool covered:count _fragments:set[(count,count,count)] "
        "_pieces:list[_FragmentRange]",
        _FragmentRange,
        arguments=2,
    )

    def __init__(self, time_ns: int, packet: int) -> None:
        self.time_ns = time_ns
        """Of the packet with its first fragment."""
        self.packet = packet
        """Number of that packet."""
        self.packets: list[int] = []
        """Numbers of the packets with its fragments."""
        self.header: bytes | None = None
        """IP header of the fragment at offset 0, without options."""
        self.protocol: int | None = None
        """Protocol, from the fragment at offset 0."""
        self.total: int | None = None
        """Bytes of data; known once the last fragment came."""
        self.covered = 0
        """Bytes of data that the fragments cover."""
        self.buffered_bytes = 0
        self.contradicts = False
        """Two fragments have different bytes at the same offset."""
        self.is_false = False
        """It was dropped because its fragments are invalid; later fragments are dropped, too."""
        self._fragments: set[tuple[int, int, int]] = set()
        """Fragments: begin, end, checksum of the captured bytes."""
        self._pieces: list[_FragmentRange] = []
        """Sorted by their start."""

    def _after_load(self) -> None:
        at = 0
        for piece in self._pieces:
            if not at <= piece.start < piece.stop or len(piece.data) > piece.stop - piece.start:
                raise ValueError("pieces of a datagram that overlap")
            at = piece.stop
        if at > MAX_BYTES or (self.header is not None and len(self.header) < _MIN_HEADER_BYTES):
            raise ValueError("a datagram longer than there are, or with no header")
        self.buffered_bytes = PIECE_BYTES * (len(self._fragments) + len(self._pieces)) + sum(
            [len(piece.data) for piece in self._pieces]
        )

    @property
    def is_complete(self) -> bool:
        """True if every byte was in a fragment."""
        return self.header is not None and self.covered == self.total

    @property
    def stop(self) -> int:
        """Where the furthest piece ends."""
        return self._pieces[-1].stop if self._pieces else 0

    @property
    def fragments(self) -> int:
        """Number of different fragments."""
        return len(self._fragments)

    def has(self, start: int, stop: int, data: bytes) -> bool:
        """Return true if a fragment of the same range and bytes came before."""
        return (start, stop, zlib.crc32(data)) in self._fragments

    def add(self, start: int, stop: int, data: bytes) -> bool:
        """Add a fragment; return whether it overlaps others and is no copy of one of them.

        ``data`` may be shorter than ``stop - start``.
        """
        if self.has(start, stop, data):
            return False
        self._fragments.add((start, stop, zlib.crc32(data)))
        self.buffered_bytes += PIECE_BYTES
        index = max(bisect_right(self._pieces, start, key=_start) - 1, 0)
        if self._extends(index, start, stop, data):
            return False
        overlaps = False
        at = start
        fresh: list[_FragmentRange] = []
        while at < stop:
            piece = self._pieces[index] if index < len(self._pieces) else None
            if piece is None or piece.start > at:
                upto = stop if piece is None else min(stop, piece.start)
                fresh.append(_FragmentRange(at, upto, data[at - start : upto - start]))
                at = upto
                continue
            if piece.stop > at:
                upto = min(stop, piece.stop)
                overlaps = True
                self.contradicts |= piece.differs(at, data[at - start : upto - start])
                at = upto
            index += 1
        for part in fresh:
            insort(self._pieces, part, key=_start)
            self.covered += part.stop - part.start
            self.buffered_bytes += len(part.data) + PIECE_BYTES
        return overlaps

    def _extends(self, index: int, start: int, stop: int, data: bytes) -> bool:
        """Keep the longer of two captures of the same fragment; false if there is no such piece."""
        if index >= len(self._pieces):
            return False
        piece = self._pieces[index]
        if (piece.start, piece.stop) != (start, stop) or piece.differs(start, data):
            return False
        if len(data) > len(piece.data):
            self._pieces[index] = _FragmentRange(start, stop, data)
            self.buffered_bytes += len(data) - len(piece.data)
        return True

    def data(self) -> bytes:
        """Return the bytes from the first up to the first that is missing."""
        parts = []
        at = 0
        for piece in self._pieces:
            if piece.start != at:
                break
            parts.append(piece.data)
            at = piece.stop
            if len(piece.data) < piece.stop - piece.start:
                break
        return b"".join(parts)

    def let_go(self) -> None:
        """Drop the bytes, but remember which fragments came."""
        self._pieces.clear()
        self.header = None
        self.buffered_bytes = len(self._fragments) * PIECE_BYTES


def _start(piece: _FragmentRange) -> int:
    return piece.start
