"""Counts of many rows at once, by label: what metrics are made of.

In: columns. Out: sums by combination of label values. This module must not know what is counted
nor how it is shown.

Values that the wire makes up are without end, and a server of metrics keeps a series for each. So
the first values get a label of their own, and all others are one, ``other``.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.escaping import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.tables.columns.numpy_arrays import WordArray

__all__ = ["OTHER", "CounterTable", "HistogramTable", "LabelValues", "label_text"]

OTHER: Final = "other"
"""The label of all values that have none of their own, and of nothing else."""
_MOST_LABEL_CHARS: Final = 128
_DIGEST_CHARS: Final = 8

_HALF_BITS: Final = 32
_LOW_HALF: Final = (1 << _HALF_BITS) - 1

_OTHER_SLOT: Final = 0
_NULL_SLOT: Final = 1
_RESERVED: Final = 2


def label_text(value: str) -> str:
    """Return a value from the wire as a label: printable, and of a bounded length.

    Of a long one its beginning, and a digest that tells it from others which begin alike.
    """
    if len(value) <= _MOST_LABEL_CHARS:
        return escape(value)
    digest = blake2s(value.encode("utf-8", "backslashreplace"), digest_size=_DIGEST_CHARS // 2)
    return escape(value[: _MOST_LABEL_CHARS - _DIGEST_CHARS - 1]) + "~" + digest.hexdigest()


class LabelValues:
    """The values of one label, each with a number (its *slot*), at most so many.

    A value from the wire that would read as one of ours, such as :data:`OTHER`, has its first
    character escaped: no other value comes out as that.
    """

    def __init__(self, name: str, most: int, *, null: str = "") -> None:
        """Make one without values.

        Args:
            name: of the label.
            most: how many values get a label of their own.
            null: the label of what is not known; an empty one is as good as none, and an empty
                value has it too.
        """
        self.name = name
        self.most = most
        self.texts = [OTHER, null]
        """By slot."""
        self.folded = 0
        """How many things were counted under :data:`OTHER`."""
        self._ours = frozenset(filter(None, self.texts))
        self._slots: dict[str, int] = {} if null else {null: _NULL_SLOT}

    @property
    def used(self) -> int:
        """How many values have a label of their own."""
        return len(self.texts) - _RESERVED

    def slot(self, value: str) -> int:
        """Return the slot of a value."""
        text = label_text(value)
        if text in self._ours:
            text = f"\\u{ord(text[0]):04x}{text[1:]}"
        found = self._slots.get(text)
        if found is not None:
            return found
        if self.used == self.most:
            return _OTHER_SLOT
        self._slots[text] = slot = len(self.texts)
        self.texts.append(text)
        return slot

    def slots(self, values: WordArray) -> NDArray[np.int64]:
        """Return the slot of each value."""
        codes, words = values
        # WordArray that do not occur are not to take a label. Code -1, null, finds the last one.
        slots = np.full(len(words) + 1, _NULL_SLOT)
        counts = np.bincount(codes + 1, minlength=len(words) + 1)[1:]
        for code in np.flatnonzero(counts).tolist():
            slots[code] = slot = self.slot(words[code])
            if slot == _OTHER_SLOT:
                self.folded += int(counts[code])
        return slots[codes]


class CounterTable:
    """Sums by combination of label values. They never go down."""

    def __init__(self, *labels: LabelValues) -> None:
        self.labels = labels
        self._sums: dict[tuple[int, ...], int] = {}

    def add(
        self, slots: Sequence[NDArray[np.int64]], amounts: NDArray[np.int64] | None = None
    ) -> None:
        """Count things by the slots of each, an array for each label.

        ``amounts``, 0 or above, is what to add for each; None adds 1.
        """
        shape = [len(label.texts) for label in self.labels]
        keys = np.ravel_multi_index(tuple(slots), shape)
        counts = np.bincount(keys)
        combinations = np.flatnonzero(counts)
        if amounts is None:
            totals = counts[combinations].tolist()
        else:
            totals = _sums_of(amounts, keys, combinations)
        by_label = (column.tolist() for column in np.unravel_index(combinations, shape))
        for key, total in zip(zip(*by_label, strict=True), totals, strict=True):
            self._sums[key] = self._sums.get(key, 0) + total

    def sums(self) -> Iterator[tuple[list[str], int]]:
        """Give each combination, as texts in the order of the labels, with its sum."""
        for key, total in self._sums.items():
            yield [label.texts[slot] for label, slot in zip(self.labels, key, strict=True)], total


class HistogramTable:
    """How often numbers of each size were met, by the values of one label."""

    def __init__(self, label: LabelValues, edges: Sequence[int]) -> None:
        """Make an empty one.

        Args:
            label: what the numbers are told apart by.
            edges: upper ends of the buckets, included in them, rising; above the last one is one
                more bucket.
        """
        self.label = label
        self.edges = np.array(edges, dtype=np.int64)
        self._counts = np.zeros((0, len(edges) + 1), dtype=np.int64)
        # Nanoseconds of all requests of a day are more than an int64 holds.
        self._sums: list[int] = []

    def add(self, slots: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        """Count numbers, each under its slot. Those below 0 count as 0: a sum never goes down."""
        values = np.maximum(values, 0)
        self._grow()
        shape = self._counts.shape
        cells = np.ravel_multi_index((slots, np.searchsorted(self.edges, values)), shape)
        self._counts += np.bincount(cells, minlength=self._counts.size).reshape(shape)
        some = np.unique(slots)
        for slot, total in zip(some.tolist(), _sums_of(values, slots, some), strict=True):
            self._sums[slot] += total

    def histograms(self) -> Iterator[tuple[list[str], list[int], int]]:
        """Give each value that has numbers, how many there are up to each edge, and their sum.

        The last count is of all numbers.
        """
        for slot in np.flatnonzero(self._counts.any(axis=1)).tolist():
            counts = np.cumsum(self._counts[slot]).tolist()
            yield [self.label.texts[slot]], counts, self._sums[slot]

    def _grow(self) -> None:
        missing = len(self.label.texts) - len(self._sums)
        if missing:
            self._counts = np.pad(self._counts, ((0, missing), (0, 0)))
            self._sums += [0] * missing


def _sums_of(
    amounts: NDArray[np.int64], keys: NDArray[np.int64], wanted: NDArray[np.int64]
) -> list[int]:
    """Return the sum of the amounts, 0 or above, of each wanted key.

    Not by bincount with weights, which are floats; and in halves, for times from a capture may be
    anything, and the sum of two is more than an int64 holds then.
    """
    size = int(wanted[-1]) + 1 if len(wanted) else 0
    high, low = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    np.add.at(high, keys, amounts >> _HALF_BITS)
    np.add.at(low, keys, amounts & _LOW_HALF)
    halves = zip(high[wanted].tolist(), low[wanted].tolist(), strict=True)
    return [(above << _HALF_BITS) + below for above, below in halves]
