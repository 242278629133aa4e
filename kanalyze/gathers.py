"""Reads the same kind of thing at many places of a buffer, in one operation.

In: a buffer and places in it. Out: NumPy arrays. This module must not know what is read; it lies
below the stages because two of them, which may not know each other, read headers this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

__all__ = ["each_value", "gather", "overlapping"]


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
    buffer: memoryview, layout: np.dtype[np.void], places: NDArray[np.int64]
) -> NDArray[np.void]:
    """Copy out the structs of ``layout`` at ``places``, which must lie within ``buffer``.

    Through an opaque type: NumPy copies that as bytes, but a struct field by field.
    """
    if not len(places):
        return np.empty(0, layout)
    return overlapping(buffer, f"V{layout.itemsize}")[places].view(layout)


def each_value(numbers: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each number that there is, rising, and the indices at which it stands, rising.

    An index is looked at once, however many numbers there are: a mask for each number would look
    at all of them every time.
    """
    if not len(numbers):
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), np.arange(len(numbers))
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))).tolist()
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(ordered[start]), order[start:end]
