"""Sums columns by the values of labels.

In: columns. Out: sums by combination of label values.

Values from the wire are unlimited, and a metrics server keeps a series for each. So only the first
values of a label get a series; all others are counted as ``other``.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.texts import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.tables.columns.numpy_arrays import WordArray

__all__ = ["OTHER", "CounterTable", "HistogramTable", "LabelValues", "label_text"]

OTHER: Final = "other"
"""The label of all values beyond the limit; no other value has it."""
_MAX_LABEL_CHARS: Final = 128
_DIGEST_CHARS: Final = 8

_HALF_BITS: Final = 32
_LOW_HALF: Final = (1 << _HALF_BITS) - 1

_OTHER_SLOT: Final = 0
_NULL_SLOT: Final = 1
_RESERVED: Final = 2


def label_text(value: str) -> str:
    """Return a value from the wire as a label: printable, of limited length.

    A long value is cut, and a digest makes it unique.
    """
    if len(value) <= _MAX_LABEL_CHARS:
        return escape(value)
    digest = blake2s(value.encode("utf-8", "backslashreplace"), digest_size=_DIGEST_CHARS // 2)
    return escape(value[: _MAX_LABEL_CHARS - _DIGEST_CHARS - 1]) + "~" + digest.hexdigest()


class LabelValues:
    """The values of a label, each with a number (its *slot*), up to a limit.

    If a value from the wire equals a reserved label, such as :data:`OTHER`, its first character is
    escaped.
    """

    def __init__(self, name: str, limit: int, *, null: str = "") -> None:
        """Start without values.

        Args:
            name: of the label.
            limit: the number of values with a slot of their own.
            null: the label of unknown values; if it is empty, empty values share it.
        """
        self.name = name
        self.limit = limit
        self.texts = [OTHER, null]
        """Texts of the values, by slot."""
        self.folded = 0
        """The number of items counted under :data:`OTHER`."""
        self._reserved = frozenset(filter(None, self.texts))
        self._slots: dict[str, int] = {} if null else {null: _NULL_SLOT}

    @property
    def used(self) -> int:
        """The number of values with a slot of their own."""
        return len(self.texts) - _RESERVED

    def slot(self, value: str) -> int:
        """Return the slot of a value."""
        text = label_text(value)
        if text in self._reserved:
            text = f"\\u{ord(text[0]):04x}{text[1:]}"
        used_slot = self._slots.get(text)
        if used_slot is not None:
            return used_slot
        if self.used == self.limit:
            return _OTHER_SLOT
        self._slots[text] = slot = len(self.texts)
        self.texts.append(text)
        return slot

    def slots(self, values: WordArray) -> NDArray[np.int64]:
        """Return the slot of each value."""
        codes, words = values
        # Words that do not occur get no slot. Code -1, null, is the last index.
        slots = np.full(len(words) + 1, _NULL_SLOT)
        counts = np.bincount(codes + 1, minlength=len(words) + 1)[1:]
        for code in np.flatnonzero(counts).tolist():
            slots[code] = slot = self.slot(words[code])
            if slot == _OTHER_SLOT:
                self.folded += int(counts[code])
        return slots[codes]


class CounterTable:
    """Sums by combination of label values; a sum never decreases."""

    def __init__(self, *labels: LabelValues) -> None:
        self.labels = labels
        self._sums: dict[tuple[int, ...], int] = {}

    def add(
        self, slots: Sequence[NDArray[np.int64]], amounts: NDArray[np.int64] | None = None
    ) -> None:
        """Count items by their slots, an array for each label.

        ``amounts``, 0 or above, are added for the items; None adds 1 for each.
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
        """Yield each combination, as texts in the order of the labels, and its sum."""
        for key, total in self._sums.items():
            yield [label.texts[slot] for label, slot in zip(self.labels, key, strict=True)], total


class HistogramTable:
    """Histograms of numbers by the values of a label."""

    def __init__(self, label: LabelValues, edges: Sequence[int]) -> None:
        """Start empty.

        Args:
            label: the label of the histograms.
            edges: the upper bounds of the buckets, inclusive, rising; one more bucket is above the
                last bound.
        """
        self.label = label
        self.edges = np.array(edges, dtype=np.int64)
        self._counts = np.zeros((0, len(edges) + 1), dtype=np.int64)
        # The nanoseconds of all requests of a day overflow an int64.
        self._sums: list[int] = []

    def add(self, slots: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        """Count numbers by slot. Negative ones count as 0: a sum never decreases."""
        values = np.maximum(values, 0)
        self._grow()
        shape = self._counts.shape
        cells = np.ravel_multi_index((slots, np.searchsorted(self.edges, values)), shape)
        self._counts += np.bincount(cells, minlength=self._counts.size).reshape(shape)
        unique_slots = np.unique(slots)
        totals = _sums_of(values, slots, unique_slots)
        for slot, total in zip(unique_slots.tolist(), totals, strict=True):
            self._sums[slot] += total

    def histograms(self) -> Iterator[tuple[list[str], list[int], int]]:
        """Yield, for each label value with numbers, its text, cumulative counts, and the sum.

        The counts are those up to each bound, then that of all numbers.
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
    amounts: NDArray[np.int64], keys: NDArray[np.int64], selected: NDArray[np.int64]
) -> list[int]:
    """Return the sum of the amounts of each selected key. Amounts are 0 or more, keys ascending.

    ``np.bincount`` adds weights as floats, which are not exact. The upper and lower halves of the
    amounts are summed separately, because two wrong times in a capture may overflow an int64.
    """
    size = int(selected[-1]) + 1 if len(selected) else 0
    high, low = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    np.add.at(high, keys, amounts >> _HALF_BITS)
    np.add.at(low, keys, amounts & _LOW_HALF)
    halves = zip(high[selected].tolist(), low[selected].tolist(), strict=True)
    return [(upper << _HALF_BITS) + lower for upper, lower in halves]
