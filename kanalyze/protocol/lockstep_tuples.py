"""Columns back to the values that the decoder of single messages gives.

In: columns of :mod:`kanalyze.protocol.lockstep_columns`, and the buffer that they point into. Out:
tuples. Must not know which message they are of.

Not for messages with structs in them that are no arrays: columns do not tell these from arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kanalyze.protocol.language import ZERO_UUID
from kanalyze.protocol.lockstep_columns import (
    CODECS,
    NO_CODEC,
    Elements,
    Fields,
    Ids,
    Numbers,
    RecordSets,
    Texts,
    Values,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["RecordFacts", "texts_of", "tuples_of"]

_ID_BYTES = 16


class RecordFacts(NamedTuple):
    """What columns keep of a :class:`~kanalyze.protocol.records.RecordsSummary`."""

    record_bytes: int
    record_count: int
    base_offset: int | None
    codec: str | None

    @property
    def last_offset(self) -> None:
        """None: columns keep no messages of magic 0 and 1."""


def tuples_of(fields: Fields, data: NDArray[np.uint8]) -> list[tuple[Any, ...]]:
    """Return each entry as a tuple of its fields, in the order of the columns."""
    return list(zip(*(_values(values, data) for values in fields.values()), strict=True))


def texts_of(
    data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]
) -> list[str | None]:
    """Return texts as decoders give them; None for a negative length."""
    return [
        None if size < 0 else str(data[at : at + size].tobytes(), "utf-8", "backslashreplace")
        for at, size in zip(start.tolist(), length.tolist(), strict=True)
    ]


def _values(values: Values, data: NDArray[np.uint8]) -> list[Any]:
    if isinstance(values, Numbers):
        found: list[Any] = values.values.tolist()
        return found
    if isinstance(values, Texts):
        return list(texts_of(data, values.start, values.length))
    if isinstance(values, Ids):
        return [
            ZERO_UUID if at < 0 else data[at : at + _ID_BYTES].tobytes()
            for at in values.start.tolist()
        ]
    if isinstance(values, RecordSets):
        return _records(values)
    return _lists(values, data)


def _records(values: RecordSets) -> list[Any]:
    columns = (values.record_bytes, values.record_count, values.base_offset, values.codec)
    return [
        None
        if is_null
        else RecordFacts(
            size,
            count,
            None if codec == NO_CODEC else offset,
            None if codec == NO_CODEC else CODECS[codec],
        )
        for is_null, size, count, offset, codec in zip(
            values.is_null.tolist(), *(column.tolist() for column in columns), strict=True
        )
    ]


def _lists(values: Elements, data: NDArray[np.uint8]) -> list[Any]:
    plain = values.fields.get("")
    items = tuples_of(values.fields, data) if plain is None else _values(plain, data)
    found: list[Any] = []
    at = 0
    for count in values.count.tolist():
        found.append(None if count < 0 else items[at : at + count])
        at += max(count, 0)
    return found
