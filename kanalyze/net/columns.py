"""Gathers of header fields from a buffer, for many packets at once.

In: a buffer and places in it. Out: NumPy columns. Must not know: any header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["Places", "gather", "overlapping"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a header begins, in some packets of a batch, in their order."""

    row: NDArray[np.int64]
    """Index of the packet in its batch."""
    at: NDArray[np.int64]
    """Index in the buffer of the header's first byte."""
    limit: NDArray[np.int64]
    """Index in the buffer of the end of the packet, as far as it was captured."""

    def __len__(self) -> int:
        return len(self.row)

    def pick(self, wanted: NDArray[np.bool_]) -> Places:
        """Keep some; all of them cost nothing."""
        if wanted.all():
            return self
        return Places(self.row[wanted], self.at[wanted], self.limit[wanted])


def overlapping(buffer: memoryview, dtype: DTypeLike) -> NDArray[Any]:
    """View ``buffer`` as items that begin at every byte: item ``i`` is at ``buffer[i]``.

    A fancy index into it is a gather from unaligned places in one operation. Empty when the
    buffer is smaller than an item.
    """
    kind = np.dtype(dtype)
    count = max(len(buffer) - kind.itemsize + 1, 0)
    if not count:
        return np.empty(0, kind)
    return np.ndarray((count,), kind, buffer, 0, (1,))


def gather(
    buffer: memoryview, layout: np.dtype[np.void], places: NDArray[np.int64]
) -> NDArray[np.void]:
    """Copy out the structs of ``layout`` at ``places``, which must lie within ``buffer``.

    Through an opaque type: NumPy copies that as bytes, but a struct field by field.
    """
    if not len(places):
        return np.empty(0, layout)
    return overlapping(buffer, f"V{layout.itemsize}")[places].view(layout)
