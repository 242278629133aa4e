"""Packets for NumPy: their columns, and structs of one type at many positions of a buffer.

In: a batch, or a buffer and positions in it. Out: NumPy arrays.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.model.packets import PacketBatch

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class PacketArrays:
    """A :class:`~kanalyze.model.PacketBatch` whose columns are NumPy arrays."""

    __slots__ = PacketBatch.__slots__

    def __init__(
        self,
        buffer: memoryview,
        number: NDArray[np.int64],
        time_ns: NDArray[np.int64],
        offset: NDArray[np.int64],
        captured_bytes: NDArray[np.int64],
        wire_bytes: NDArray[np.int64],
        link_type: NDArray[np.int32],
    ) -> None:
        self.buffer = buffer
        self.number = number
        self.time_ns = time_ns
        self.offset = offset
        self.captured_bytes = captured_bytes
        self.wire_bytes = wire_bytes
        self.link_type = link_type

    @classmethod
    def of(cls, batch: PacketBatch) -> PacketArrays:
        """Return a view of a batch; nothing is copied."""
        return cls(
            batch.buffer,
            np.frombuffer(batch.number, np.int64),
            np.frombuffer(batch.time_ns, np.int64),
            np.frombuffer(batch.offset, np.int64),
            np.frombuffer(batch.captured_bytes, np.int64),
            np.frombuffer(batch.wire_bytes, np.int64),
            np.frombuffer(batch.link_type, np.int32),
        )

    def batch(self) -> PacketBatch:
        """Return a batch over the same buffer, with copies of the columns."""
        return PacketBatch(
            self.buffer,
            to_column(self.number),
            to_column(self.time_ns),
            to_column(self.offset),
            to_column(self.captured_bytes),
            to_column(self.wire_bytes),
            to_column(self.link_type),
        )

    def __len__(self) -> int:
        return len(self.number)

    def select(self, rows: NDArray[np.int64]) -> PacketArrays:
        """Return the packets at some indices, over the same buffer."""
        return PacketArrays(
            self.buffer,
            self.number[rows],
            self.time_ns[rows],
            self.offset[rows],
            self.captured_bytes[rows],
            self.wire_bytes[rows],
            self.link_type[rows],
        )


def to_column(numbers: NDArray[np.int64] | NDArray[np.int32]) -> array[int]:
    """Copy a NumPy array into a Python ``array``."""
    return array("q" if numbers.itemsize == 8 else "i", numbers.tobytes())


def overlapping(buffer: memoryview | NDArray[np.uint8], dtype: DTypeLike) -> NDArray[Any]:
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
    buffer: memoryview, layout: np.dtype[np.void], positions: NDArray[np.int64]
) -> NDArray[np.void]:
    """Copy out the structs of ``layout`` at ``positions``, which must lie within ``buffer``.

    It copies through an opaque type, which NumPy copies as bytes; a struct it copies by field.
    """
    if not len(positions):
        return np.empty(0, layout)
    return overlapping(buffer, f"V{layout.itemsize}")[positions].view(layout)
