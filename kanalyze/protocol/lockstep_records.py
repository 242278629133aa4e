"""What many records fields hold, told from the heads of their batches.

In: where the fields lie. Out: :class:`~kanalyze.protocol.lockstep_columns.RecordSets`, the same
that :mod:`~kanalyze.protocol.codec.machine` says. Must not know which message they stand
in.

Known here are batches of magic 2, whole or, as the last, cut off. What has another magic, or a
header that contradicts the format, more than :data:`MOST_BATCHES` batches, or far more of them than
the others, is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.protocol.lockstep_columns import NO_CODEC, RecordSets
from kanalyze.protocol.lockstep_entries import BYTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.protocol.lockstep_entries import Entries

__all__ = ["MOST_BATCHES", "read_record_sets"]

MOST_BATCHES: Final = 64
_FREE_BATCHES: Final = 4
_LEAST_FIELDS: Final = 8
"""A look at the batches of fewer fields costs more than to decode their messages one by one; that
is borne for the first batches only."""

_HEADER: Final = np.dtype(
    {
        "names": ["base_offset", "size", "magic", "attributes", "record_count"],
        "formats": [">i8", ">i4", "i1", "u1", ">i4"],
        # Of the attributes the lower byte: all bits that have a meaning are in it.
        "offsets": [0, 8, 16, 22, 57],
        "itemsize": 61,
    }
)
"""KIP-98: the fields of a batch's header that matter here."""
_OPAQUE_HEADER: Final = np.dtype(f"V{_HEADER.itemsize}")
_ENTRY_HEAD_BYTES: Final = 12
_MIN_SIZE: Final = _HEADER.itemsize - _ENTRY_HEAD_BYTES
_MIN_RECORD_BYTES: Final = 7
_MAGIC_AT: Final = 16
_MESSAGE_HEAD_BYTES: Final = 18
"""Bytes that there must be for a magic to be looked at."""
_CODEC_BITS: Final = 0x07
_CONTROL: Final = 0x20

_MIXED: Final = 8
_CODEC_OF: Final = np.array([0, 1, 2, 3, 4, 5, 5, 5, 6, NO_CODEC])
"""Index into the names of codecs, by a batch's codec bits; then mixed; and, as -1, no batch."""


def read_record_sets(entries: Entries, length: NDArray[np.int64]) -> RecordSets:
    """Summarise the fields of ``length`` bytes (-1 for null) at the places, which stay.

    Messages whose records are not known here are dropped.
    """
    if length.min() >= _HEADER.itemsize:
        found = _single_batches(entries, length)
        if found is not None:
            return found
    walk = _Walk(entries, length)
    walk.run()
    return walk.found()


def _single_batches(entries: Entries, length: NDArray[np.int64]) -> RecordSets | None:
    """Read fields of one whole batch of user records each; None when one is anything else.

    A short cut: the walk would find the same.
    """
    heads = entries.gather(_OPAQUE_HEADER).view(_HEADER)
    size = heads["size"].astype(np.int64)
    count = heads["record_count"].astype(np.int64)
    attributes = heads["attributes"]
    usual = (heads["magic"] == 2) & (size == length - _ENTRY_HEAD_BYTES)
    usual &= _has_sane_count(size, attributes, count)
    usual &= attributes & _CONTROL == 0
    if not usual.all():
        return None
    return RecordSets(
        np.zeros(len(length), np.bool_),
        count,
        length,
        heads["base_offset"].astype(np.int64),
        _CODEC_OF[attributes & _CODEC_BITS],
    )


def _has_sane_count(
    size: NDArray[np.int64], attributes: NDArray[np.uint8], count: NDArray[np.int64]
) -> NDArray[np.bool_]:
    compressed = attributes & _CODEC_BITS != 0
    fits: NDArray[np.bool_] = compressed | (count * _MIN_RECORD_BYTES <= size - _MIN_SIZE)
    return fits & (count >= 0)


class _Walk:
    """Goes from batch header to batch header, in all fields at the same time."""

    __slots__ = ("_at", "_base_offset", "_codec", "_entries", "_length", "_record_count")

    def __init__(self, entries: Entries, length: NDArray[np.int64]) -> None:
        count = len(length)
        self._entries = entries
        self._length = length
        self._at = np.zeros(count, np.int64)
        self._record_count = np.zeros(count, np.int64)
        self._base_offset = np.zeros(count, np.int64)
        self._codec = np.full(count, NO_CODEC)

    def run(self) -> None:
        """Walk the fields; each step goes on by at least 61 bytes or ends a field's walk."""
        live = np.flatnonzero(self._length > 0)
        for rank in range(MOST_BATCHES):
            if not live.size:
                return
            if rank >= _FREE_BATCHES and live.size < _LEAST_FIELDS:
                break
            live = self._step(live)
        if live.size:
            self._entries.drop(live)

    def found(self) -> RecordSets:
        is_null = self._length < 0
        return RecordSets(
            is_null,
            self._record_count,
            np.where(is_null, 0, self._length),
            self._base_offset,
            _CODEC_OF[self._codec],
        )

    def _part(self, live: NDArray[np.intp]) -> Entries:
        part = self._entries.part(live)
        part.pos = part.pos + self._at[live]
        return part

    def _step(self, live: NDArray[np.intp]) -> NDArray[np.intp]:
        """Look at the next batch of each field in ``live``; return the fields that have more."""
        left = self._length[live] - self._at[live]
        short = left < _HEADER.itemsize
        if short.any():
            self._check_cut(live[short], left[short])
            live, left = live[~short], left[~short]
            if not live.size:
                return live
        part = self._part(live)
        heads = part.gather(_OPAQUE_HEADER).view(_HEADER)
        size = heads["size"].astype(np.int64)
        count = heads["record_count"].astype(np.int64)
        attributes = heads["attributes"]
        is_control = attributes & _CONTROL != 0
        is_known = (heads["magic"] == 2) & (size >= _MIN_SIZE)
        is_cut = size + _ENTRY_HEAD_BYTES > left
        is_known &= is_cut | is_control | _has_sane_count(size, attributes, count)
        if not is_known.all():
            part.drop(~is_known)
        whole = np.flatnonzero(is_known & ~is_cut & (part.end >= 0))
        live = live[whole]
        self._note(live, heads[whole], np.where(is_control, 0, count)[whole])
        self._at[live] += size[whole] + _ENTRY_HEAD_BYTES
        return live[self._at[live] < self._length[live]]

    def _check_cut(self, live: NDArray[np.intp], left: NDArray[np.int64]) -> None:
        """Drop what is no batch of magic 2 cut off within its header."""
        part = self._part(live)
        part = part.part(np.flatnonzero(left >= _MESSAGE_HEAD_BYTES))
        if len(part.pos):
            magic = part.gather(BYTE, _MAGIC_AT)
            part.drop(magic != 2)

    def _note(self, live: NDArray[np.intp], heads: NDArray[Any], count: NDArray[np.int64]) -> None:
        """Count whole batches."""
        known = self._codec[live]
        is_first = known == NO_CODEC
        codec = (heads["attributes"] & _CODEC_BITS).astype(np.int64)
        self._codec[live] = np.where(is_first | (known == codec), codec, _MIXED)
        first = live[is_first]
        self._base_offset[first] = heads["base_offset"][is_first]
        self._record_count[live] += count
