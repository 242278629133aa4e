"""Operations on columns of packets, which are arrays of 64-bit integers.

In: arrays, numbers, buffers whose ranges such arrays give. Out: arrays, numbers, bytes.

Compiled by Cython, with the types in ``int_columns.pxd``: compiled, each takes a few nanoseconds a
packet and makes no Python object for a number. Uncompiled it does the same, slowly.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    _Longs: TypeAlias = Sequence[int] | NDArray[np.int64]
    """An array of 64-bit integers."""

Turns: TypeAlias = tuple["array[int]", "array[int]", "array[int]"]
"""What :func:`take_turns` returns."""


def rising(first: int, count: int) -> array[int]:
    """Return ``count`` numbers that rise by one."""
    column = array("q", [0]) * count
    numbers = column
    for index in range(count):
        numbers[index] = first + index
    return column


def repeated(value: int, count: int) -> array[int]:
    """Return a 32-bit number ``count`` times."""
    return array("i", [value]) * count


def picked(column: array[int], rows: Sequence[int]) -> array[int]:
    """Return the numbers at the indices ``rows``, an array of 64-bit integers."""
    numbers, indices = column, rows
    count = len(indices)
    result = array("q", [0]) * count
    target = result
    for index in range(count):
        target[index] = numbers[indices[index]]
    return result


def picked_types(column: array[int], rows: Sequence[int]) -> array[int]:
    """Return the 32-bit numbers at the indices ``rows``, an array of 64-bit integers."""
    numbers, indices = column, rows
    count = len(indices)
    result = array("i", [0]) * count
    target = result
    for index in range(count):
        target[index] = numbers[indices[index]]
    return result


def shifted(column: array[int], by: int) -> array[int]:
    """Return the numbers, each larger by ``by``."""
    numbers = column
    count = len(numbers)
    result = array("q", [0]) * count
    target = result
    for index in range(count):
        target[index] = numbers[index] + by
    return result


def total(column: array[int]) -> int:
    """Return the sum, which must fit in 64 bits."""
    numbers = column
    result = 0
    for index in range(len(numbers)):
        result += numbers[index]
    return result


def bounds(column: array[int]) -> tuple[int, int]:
    """Return the least and the largest number of a column that is not empty."""
    numbers = column
    least = most = numbers[0]
    for index in range(1, len(numbers)):
        value = numbers[index]
        if value < least:
            least = value
        elif value > most:
            most = value
    return least, most


def earliest_from(times: array[int]) -> array[int]:
    """Return for each time the least of it and all later entries: a column that never falls."""
    numbers = times
    count = len(numbers)
    result = array("q", [0]) * count
    target = result
    earliest = 0
    for back in range(count):
        index = count - 1 - back
        value = numbers[index]
        if back and earliest < value:
            value = earliest
        target[index] = earliest = value
    return result


def take_turns(keys: array[int], begins: Sequence[int]) -> Turns:
    """Merge sorted sequences of keys; of equal keys, that of the earlier sequence comes first.

    ``keys`` holds the sequences one after another. ``begins`` holds the index at which each begins,
    and as its last item the index after the last key. Three columns are returned: the indices of
    the keys in merged order; the positions in that order where a run of keys of one sequence
    begins; the number of the sequence of each run.
    """
    values = keys
    ends = array("q", begins[1:])
    at = array("q", begins[: len(begins) - 1])
    order = array("q", [0]) * len(values)
    starts, owners = order[:], order[:]
    positions, heads, limits, run_starts, run_owners = order, at, ends, starts, owners
    parts = len(heads)
    done = runs = 0
    while done < len(positions):
        # The sequence that comes next, and the one after it, up to which the run goes.
        first = second = -1
        for part in range(parts):
            if heads[part] == limits[part]:
                continue
            if first < 0 or values[heads[part]] < values[heads[first]]:
                first, second = part, first
            elif second < 0 or values[heads[part]] < values[heads[second]]:
                second = part
        run_starts[runs], run_owners[runs] = done, first
        runs += 1
        position, end = heads[first], limits[first]
        if second < 0:
            limit = values[end - 1]
        else:
            limit = values[heads[second]]
            if second < first:
                limit -= 1
        while position < end and values[position] <= limit:
            positions[done] = position
            done += 1
            position += 1
        heads[first] = position
    return order, starts[:runs], owners[:runs]


def copy_ranges(
    target: bytearray | memoryview,
    places: _Longs,
    data: memoryview | bytes,
    begins: _Longs | memoryview,
    sizes: _Longs | memoryview,
) -> None:
    """Copy ranges of a buffer to places in another.

    Args:
        target: the buffer to write.
        places: index in it of the first byte of each range; an array of 64-bit integers.
        data: the buffer to read.
        begins: index in it of the first byte of each range.
        sizes: number of bytes of each; 0 or more. Nothing is asked of the indices of no bytes.

    Raises:
        IndexError: a buffer lacks some of it.
    """
    written, source, tos, firsts, counts = memoryview(target), data, places, begins, sizes
    room, size = len(written), len(source)
    for index in range(len(counts)):
        to, first, count = tos[index], firsts[index], counts[index]
        if count == 0:
            continue
        if count < 0 or min(to, first) < 0 or to > room - count or first > size - count:
            raise IndexError("bytes that are not in the buffer")
        written[to : to + count] = source[first : first + count]


def places_of(sizes: array[int] | memoryview, first: int = 0) -> array[int]:
    """Return where ranges of some sizes begin that follow each other, the first at ``first``.

    One entry more than there are sizes: where the last range ends.
    """
    numbers = sizes
    count = len(numbers)
    result = array("q", [0]) * (count + 1)
    target = result
    place = first
    for index in range(count):
        target[index] = place
        place += numbers[index]
    target[count] = place
    return result


def joined(data: memoryview, begins: Sequence[int], ends: Sequence[int]) -> bytearray:
    """Return a copy of some ranges of a buffer, one after another.

    Args:
        data: the buffer.
        begins: index of the first byte of each range; an array of 64-bit integers.
        ends: index after the last byte of each; a range that ends before it begins is empty.

    Raises:
        IndexError: the buffer lacks some of it.
    """
    source, firsts, lasts = data, begins, ends
    size = len(source)
    total = 0
    for index in range(len(firsts)):
        if firsts[index] < lasts[index]:
            if firsts[index] < 0 or lasts[index] > size:
                raise IndexError("bytes that are not in the buffer")
            total += lasts[index] - firsts[index]
    copies = bytearray(total)
    target = memoryview(copies)
    at = 0
    for index in range(len(firsts)):
        if firsts[index] < lasts[index]:
            until = at + lasts[index] - firsts[index]
            target[at:until] = source[firsts[index] : lasts[index]]
            at = until
    return copies
