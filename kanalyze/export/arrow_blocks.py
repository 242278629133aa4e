"""Converts Arrow record batches to blocks of rows, the reverse of :mod:`kanalyze.export.arrow`.

In: ``pyarrow.RecordBatch``. Out: :class:`~kanalyze.tables.columns.block.RowBlock`. It makes a
Python object for each word of a batch, not for each row.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.common.int_columns import shifted
from kanalyze.tables.columns.block import Ints, Lists, RowBlock, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import ColumnValues

__all__ = ["block_of"]


def block_of(batch: pa.RecordBatch, columns: Sequence[Column]) -> RowBlock:
    """Return the rows of a batch that has at least these columns.

    Raises ValueError for a null in a column that must not have nulls.
    """
    values = {column.name: _values_of(batch.column(column.name), column) for column in columns}
    return RowBlock(batch.num_rows, values)


def _values_of(values: Any, column: Column) -> ColumnValues:
    if values.null_count and not column.nullable:
        raise ValueError(f"{column.name} is null")
    if column.type.startswith("list<"):
        return _lists_of(values, column)
    return _words_of(values) if column.type == "string" else _ints_of(values)


def _ints_of(values: Any) -> Ints:
    import pyarrow as pa

    valid = None
    if values.null_count:
        valid = bytearray(_buffer(values.is_valid().cast(pa.uint8()), 1))
    numbers = array("q")
    numbers.frombytes(_buffer(_filled(values.cast(pa.int64()), array("q", [0])), 8))
    return Ints(numbers, valid)


def _words_of(values: Any) -> Words:
    import pyarrow as pa

    coded = values.dictionary_encode()
    codes = array("i")
    codes.frombytes(_buffer(_filled(coded.indices.cast(pa.int32()), array("i", [-1])), 4))
    return Words(codes, coded.dictionary.to_pylist())


def _lists_of(values: Any, column: Column) -> Lists:
    import pyarrow as pa

    offsets = array("q")
    offsets.frombytes(_buffer(values.offsets.cast(pa.int64()), 8))
    items = values.values.slice(offsets[0], offsets[-1] - offsets[0])
    begins = shifted(offsets, -offsets[0])
    if items.null_count:
        raise ValueError(f"an item of {column.name} is null")
    if not column.fields:
        return Lists(begins, {"": _words_of(items)})
    parts = zip(column.fields, items.flatten(), strict=True)
    fields = {field.name: _items_of(part, field) for field, part in parts}
    return Lists(begins, fields)


def _items_of(values: Any, field: Column) -> Ints | Words:
    items = _values_of(values, field)
    assert not isinstance(items, Lists)
    return items


def _filled(values: Any, replacement: array[int]) -> Any:
    """Return numbers with nulls replaced by the one number in ``replacement``.

    ``fill_null`` is not used, because it imports pandas if that is installed.
    """
    if not values.null_count:
        return values
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.py_buffer(replacement * len(values))
    return pc.coalesce(values, pa.Array.from_buffers(values.type, len(values), [None, numbers]))


def _buffer(values: Any, width: int) -> memoryview:
    """Return the bytes of an array's numbers; of a slice, only those of the slice."""
    first = values.offset * width
    return memoryview(values.buffers()[1])[first : first + len(values) * width]
