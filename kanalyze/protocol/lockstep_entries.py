"""Reads of many messages at once: each at its own place, all the same thing.

In: a buffer and the places of messages in it. Out: columns of raw numbers, and places that go on.
Must not know what is read.

Nothing raises for what the bytes say. Whoever goes wrong is *dropped*: its message is not sound any
more, and its place is one where reading does no harm. That a read goes past the end of its message
is seen at the very end, since places only ever rise; past the end of the buffer, by NumPy's own
look at each index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.gathers import overlapping
from kanalyze.protocol.primitives import MAX_UNSIGNED_VARINT

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BYTE", "Call", "Entries"]

BYTE: Final = np.dtype(np.uint8)
_MORE: Final = 0x80
"""Bit of a varint's byte: another follows."""
_LAST_SHIFT: Final = 28


class Call:
    """What all reads of one call share."""

    __slots__ = ("_buffer", "_views", "sound")

    def __init__(self, data: NDArray[np.uint8], count: int) -> None:
        """Begin with ``count`` messages in ``data``, all of them sound."""
        self._buffer = data.data
        self._views: dict[Any, NDArray[Any]] = {}
        self.sound: NDArray[np.bool_] = np.ones(count, np.bool_)
        """By message."""

    def view(self, kind: np.dtype[Any]) -> NDArray[Any]:
        """Return the buffer as items that begin at every byte."""
        found = self._views.get(kind)
        if found is None:
            found = self._views[kind] = overlapping(self._buffer, kind)
        return found


class Entries:
    """Where the reading stands: an entry for each message, or for each element of an array.

    The arrays are replaced, never changed: columns may be the very same arrays.
    """

    __slots__ = ("call", "end", "message", "pos")

    def __init__(
        self,
        call: Call,
        pos: NDArray[np.int64],
        end: NDArray[np.int64],
        message: NDArray[np.int64],
    ) -> None:
        self.call = call
        self.pos = pos
        """Place of the next byte."""
        self.end = end
        """Place after the message; -1 for one that was dropped."""
        self.message = message

    def drop(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> None:
        """Give up the messages of the entries that a mask or an index names."""
        pos, end = self.pos.copy(), self.end.copy()
        pos[which], end[which] = 0, -1
        self.pos, self.end = pos, end
        self.call.sound[self.message[which]] = False

    def drop_where(self, which: NDArray[np.bool_]) -> None:
        """Give up the messages of the entries that a mask names, if any."""
        if which.any():
            self.drop(which)

    def part(self, index: NDArray[np.intp]) -> Entries:
        """Return the entries that ``index`` names."""
        return Entries(self.call, self.pos[index], self.end[index], self.message[index])

    def put(self, index: NDArray[np.intp], part: Entries) -> None:
        """Go on where :meth:`part` of the same index has come to."""
        pos, end = self.pos.copy(), self.end.copy()
        pos[index], end[index] = part.pos, part.end
        self.pos, self.end = pos, end

    def gather(self, kind: np.dtype[Any], lead: int = 0) -> NDArray[Any]:
        """Read an item at ``lead`` bytes from each place, which stays where it is.

        Entries for which the buffer ends first are dropped; what is read for them says nothing.
        """
        view = self.call.view(kind)
        at = self.pos + lead if lead else self.pos
        try:
            return view[at]
        except IndexError:
            beyond = at >= len(view)
            self.drop(beyond)
            if not len(view):
                return np.zeros(len(at), kind)
            return view[np.where(beyond, 0, at)]

    def read_varint(self) -> NDArray[np.int64]:
        """Read an unsigned varint at each place."""
        first = self.gather(BYTE).astype(np.int64)
        self.pos = self.pos + 1
        return self.finish_varint(first)

    def finish_varint(self, first: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the varints whose first bytes are known and stand just before the places."""
        if first.max() < _MORE:
            return first
        value = first & (_MORE - 1)
        more = np.flatnonzero(first >= _MORE)
        for shift in range(7, _LAST_SHIFT + 1, 7):
            part = self.part(more)
            byte = part.gather(BYTE).astype(np.int64)
            part.pos = part.pos + 1
            self.put(more, part)
            value[more] |= (byte & (_MORE - 1)) << shift
            more = more[byte >= _MORE]
            if not more.size:
                break
        wrong = value > MAX_UNSIGNED_VARINT
        wrong[more] = True
        if wrong.any():
            self.drop(wrong)
            value[wrong] = 0
        return value
