"""Columns that need no more of the buffer they point into than they say.

In: columns, and their buffer. Out: the same columns, and a small buffer with their texts and ids.
Must not know what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.protocol.lockstep_columns import Elements, Ids, Texts, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.protocol.lockstep_columns import Fields, Values

__all__ = ["Packing"]

_ID_BYTES = 16


class Packing:
    """Moves texts from a buffer to a smaller one."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = data
        self._pieces: list[NDArray[np.uint8]] = []
        self._size = 0

    def bytes(self) -> NDArray[np.uint8]:
        """Return the smaller buffer, with all that was moved."""
        return np.concatenate([np.zeros(0, np.uint8), *self._pieces])

    def places(self, start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move ``data[start:start + length]`` for each; return where they begin now.

        Of no or a negative length nothing is moved.
        """
        real = np.maximum(length, 0)
        piece = self._data[spread(start, real, 1)]
        begin = self._size + np.cumsum(real) - real
        self._pieces.append(piece)
        self._size += len(piece)
        return begin

    def fields(self, fields: Fields) -> Fields:
        """Move all that columns point at; return the columns that point there now."""
        return {name: self._values(values) for name, values in fields.items()}

    def _values(self, values: Values) -> Values:
        if isinstance(values, Texts):
            return Texts(self.places(values.start, values.length), values.length)
        if isinstance(values, Ids):
            is_there = values.start >= 0
            begin = self.places(values.start, is_there * _ID_BYTES)
            return Ids(np.where(is_there, begin, -1))
        if isinstance(values, Elements):
            return Elements(values.owner, values.count, self.fields(values.fields))
        return values
