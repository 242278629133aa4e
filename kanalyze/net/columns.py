"""Where headers are, in many packets at once.

In: a batch, places in it. Out: some of the places, the numbers that stand at them. Must not know:
any header.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kanalyze.gathers import PacketArrays, overlapping
from kanalyze.model import AnomalyKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch
    from kanalyze.net.notes import Notes

__all__ = ["Headers", "Packets", "Places"]


class Places:
    """Where a header begins, in some packets of a batch, in their order."""

    __slots__ = ("at", "limit", "row")

    def __init__(
        self, row: NDArray[np.int64], at: NDArray[np.int64], limit: NDArray[np.int64]
    ) -> None:
        self.row = row
        """Index of the packet in its batch; each is there once."""
        self.at = at
        """Index in the buffer of the header's first byte."""
        self.limit = limit
        """Index in the buffer of the end of the packet, as far as it was captured."""

    def __len__(self) -> int:
        return len(self.row)

    def pick(self, wanted: NDArray[np.bool_]) -> Places:
        """Keep some; all of them cost nothing."""
        if wanted.all():
            return self
        return Places(self.row[wanted], self.at[wanted], self.limit[wanted])

    def after(self, size: NDArray[np.int64] | int) -> Places:
        """Return the places ``size`` bytes later."""
        return Places(self.row, self.at + size, self.limit)


class Headers:
    """Places of headers, and the kind of each (see :mod:`kanalyze.net.kinds`)."""

    __slots__ = ("kind", "places")

    def __init__(self, places: Places, kind: NDArray[np.int64]) -> None:
        self.places = places
        self.kind = kind

    def __len__(self) -> int:
        return len(self.places)

    def pick(self, wanted: NDArray[np.bool_]) -> Headers:
        """Keep some; all of them cost nothing."""
        if wanted.all():
            return self
        return Headers(self.places.pick(wanted), self.kind[wanted])

    @staticmethod
    def of(places: Places, kind: int) -> Headers:
        """Return headers that are all of one kind."""
        return Headers(places, np.full(len(places), kind, np.int64))

    @staticmethod
    def joined(parts: list[Headers]) -> Headers:
        """Put headers of different packets together, in the order of the packets."""
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, np.int64)
        row = np.concatenate([none, *(part.places.row for part in parts)])
        at = np.concatenate([none, *(part.places.at for part in parts)])
        limit = np.concatenate([none, *(part.places.limit for part in parts)])
        kind = np.concatenate([none, *(part.kind for part in parts)])
        order = np.argsort(row)
        return Headers(Places(row[order], at[order], limit[order]), kind[order])


class Packets:
    """The packets of a batch while their headers are read, one after another.

    A packet is read at one place at a time: what outer headers said of it is kept by its row.
    """

    def __init__(self, batch: PacketBatch, notes: Notes) -> None:
        self.batch = PacketArrays.of(batch)  # until headers are read without NumPy
        self.notes = notes
        self.buffer = batch.buffer
        """The batch's, or a copy with more behind it: a place in the one is one in the other."""
        self.has_tunnels = False

    @cached_property
    def end(self) -> NDArray[np.int64]:
        """By row, the index of the packet's end on the wire, as far as outer headers tell."""
        return self.batch.offset + self.batch.wire_bytes

    @property
    def used_bytes(self) -> int:
        """Bytes of the buffer up to the end of the last packet; it may be longer than that."""
        if self.buffer is not self.batch.buffer:
            return len(self.buffer)
        return int((self.batch.offset + self.batch.captured_bytes).max(initial=0))

    @cached_property
    def tunnels(self) -> NDArray[np.int64]:
        """By row, the tunnels that the packet came through, as a set of bits."""
        return np.zeros(len(self.batch), np.int64)

    def enter(self, rows: NDArray[np.int64], tunnel: int) -> None:
        """Note that these packets came through a tunnel, given as its bit."""
        self.has_tunnels = True
        self.tunnels[rows] |= tunnel

    def shorten(self, places: Places, end: NDArray[np.int64]) -> Places:
        """Note where an outer header says that these packets end; nothing is read past it."""
        self.end[places.row] = end
        return Places(places.row, places.at, np.minimum(places.limit, end))

    def u8(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Read a byte at each index; all of them lie within the buffer."""
        return overlapping(self.buffer, "u1")[at].astype(np.int64)

    def u16(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Read two bytes in network order at each index; all of them lie within the buffer."""
        return overlapping(self.buffer, ">u2")[at].astype(np.int64)

    def peek(self, places: Places, skip: int, kind: str) -> NDArray[np.int64]:
        """Read a number ``skip`` bytes after each place; -1 where the packet ends before."""
        item = np.dtype(kind)
        at = places.at + skip
        fits = at + item.itemsize <= places.limit
        found = np.full(len(at), -1, np.int64)
        found[fits] = overlapping(self.buffer, item)[at[fits]]
        return found

    def long_enough(self, places: Places, size: int, where: str) -> Places:
        """Drop and count the packets that end, as captured, within the next ``size`` bytes."""
        fits = places.at + size <= places.limit
        if fits.all():
            return places
        self.note_cut(places.row[~fits], where)
        return places.pick(fits)

    def note_cut(self, rows: NDArray[np.int64], where: str) -> None:
        """Count packets that the capture cut too early to know what is in them."""
        if len(rows):
            self.notes.counters.cut_headers += len(rows)
            self.notes.add_packets(AnomalyKind.BAD_IP_HEADER, self.batch, rows, f"cut {where}")
