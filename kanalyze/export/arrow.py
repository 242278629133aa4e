"""Rows as Arrow record batches and tables, and as pandas frames.

In: rows, or columns of rows. Out: ``pyarrow`` and ``pandas`` values. This module must not know
where rows come from or where batches go; pyarrow is imported when the first batch is made.

Rows are turned into columns of NumPy first, and their memory becomes Arrow's, without a Python
object for each value. Nothing here calls ``pyarrow.array``: it loads pandas wherever that is
installed, which takes half a second and 50 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kanalyze.analysis.block import Ints, Lists, RowBatch, Words, columns_of_rows, words_in_use
from kanalyze.analysis.row import COLUMNS, Column
from kanalyze.export.row_groups import utf8
from kanalyze.export.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from kanalyze.analysis.block import ColumnValues, RowBlock
    from kanalyze.analysis.row import AnyRow

__all__ = ["BatchMaker", "RowBatches", "frame_of", "record_batch", "table_of"]


class RowBatches(Protocol):
    """Where rows come from."""

    def batches(self) -> Iterator[Sequence[AnyRow] | RowBatch]:
        """Give the rows in lists, or by column."""


class BatchMaker:
    r"""Makes a ``pyarrow.RecordBatch`` of rows, with the schema of some columns.

    Text that is not valid Unicode (a lone surrogate) has the offending parts replaced by their
    escapes (``\\udc80``): Arrow holds UTF-8 alone.
    """

    def __init__(self, columns: Sequence[Column] = COLUMNS, *, coded: bool = False) -> None:
        """Make one.

        Args:
            columns: those of the batches, in this order.
            coded: have texts as ``dictionary<int32, string>``, with the words of each batch in
                the order in which they appear; else as ``string``.
        """
        self._columns = columns
        self.schema = arrow_schema(columns, coded=coded)
        """The ``pyarrow.Schema`` of all batches."""

    def of_rows(self, rows: Sequence[AnyRow]) -> Any:
        """Return the batch of rows of the table; raises OverflowError for what does not fit."""
        return self._of_columns(columns_of_rows(rows, self._columns))

    def of_block(self, block: RowBlock) -> Any:
        """Return the batch of a block's rows; it may share the memory of the block's columns.

        Raises OverflowError for a number that does not fit its column.
        """
        return self._of_columns(block.columns)

    def _of_columns(self, columns: Mapping[str, ColumnValues]) -> Any:
        import pyarrow as pa

        arrays = [_array(field.type, columns[field.name]) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def record_batch(rows: Sequence[AnyRow], columns: Sequence[Column] = COLUMNS) -> Any:
    """Return rows as a ``pyarrow.RecordBatch``; see :class:`BatchMaker`."""
    return BatchMaker(columns).of_rows(rows)


def table_of(source: RowBatches, columns: Sequence[Column] = COLUMNS) -> pa.Table:
    """Return all rows of a source as one ``pyarrow.Table``."""
    import pyarrow as pa

    maker = BatchMaker(columns)
    made = [
        maker.of_block(rows.block()) if isinstance(rows, RowBatch) else maker.of_rows(rows)
        for rows in source.batches()
    ]
    return pa.Table.from_batches(made, schema=maker.schema)


def frame_of(source: RowBatches, columns: Sequence[Column] = COLUMNS) -> pd.DataFrame:
    """Return all rows of a source as a pandas DataFrame.

    Integers are ``int64``, or ``Int64`` where they may be null: never floats, which cannot hold a
    time in ns. A bool that may be null is ``boolean``. Raises ImportError without pandas.
    """
    import pandas as pd
    import pyarrow as pa

    dtypes = {pa.bool_(): pd.BooleanDtype()}
    dtypes.update(dict.fromkeys((pa.int16(), pa.int32(), pa.int64()), pd.Int64Dtype()))
    frame: pd.DataFrame = table_of(source, columns).to_pandas(types_mapper=dtypes.get)
    never_null = [
        column.name for column in columns if column.type.startswith("int") and not column.nullable
    ]
    return frame.astype(dict.fromkeys(never_null, "int64"))


# -- arrays ---------------------------------------------------------------------------------------


def _array(kind: Any, values: ColumnValues) -> Any:
    """Return a column as an Array of a ``pyarrow.DataType``."""
    if isinstance(values, Lists):
        return _lists(kind, values)
    return _texts(kind, values) if isinstance(values, Words) else _numbers(kind, values)


def _numbers(kind: Any, ints: Ints) -> Any:
    import pyarrow as pa

    values = ints.values
    if pa.types.is_boolean(kind):
        return _from_buffers(kind, len(values), ints.valid, _bits(values != 0))
    return _from_buffers(kind, len(values), ints.valid, _narrow(values, kind.bit_width))


def _texts(kind: Any, texts: Words) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _coded_texts(texts)
    codes, words = words_in_use(texts)
    if not len(codes) or codes.min() == codes.max():
        return _one_text(kind, Words(codes, words))
    return _dictionary(codes, words).dictionary_decode()


def _coded_texts(texts: Words) -> Any:
    """Return texts as a DictionaryArray that depends on nothing but the texts."""
    codes, words = texts
    last = len(codes)
    # Where each word stands first; a null, code -1, comes to the end, where it counts for nothing.
    first = np.full(len(words) + 1, last, dtype=np.int64)
    first[codes[::-1]] = np.arange(last - 1, -1, -1)
    first[-1] = last
    order = np.argsort(first)[: int((first < last).sum())]
    places = np.full(len(words) + 1, -1, dtype=np.int32)
    places[order] = np.arange(len(order))
    return _dictionary(places[codes], [words[code] for code in order.tolist()])


def _dictionary(codes: NDArray[np.int32], words: Sequence[str]) -> Any:
    import pyarrow as pa

    known = _from_buffers(pa.string(), len(words), None, *_text_buffers(map(utf8, words)))
    nulls = codes < 0
    places = np.where(nulls, 0, codes).astype(np.int32, copy=False)
    indices = _from_buffers(pa.int32(), len(codes), ~nulls, places)
    return pa.DictionaryArray.from_arrays(indices, known)


def _one_text(kind: Any, texts: Words) -> Any:
    """Return texts that are all the same, or all null: half of the columns of most blocks."""
    codes, words = texts
    is_known = len(codes) > 0 and codes[0] >= 0
    word = utf8(words[codes[0]]) if is_known else b""
    ends = np.arange(len(codes) + 1, dtype=np.int64) * len(word)
    valid = None if is_known else np.zeros(len(codes), dtype=np.bool_)
    return _from_buffers(kind, len(codes), valid, _narrow(ends, 32), word * len(codes))


def _text_buffers(encoded: Iterable[bytes]) -> tuple[NDArray[Any], bytes]:
    parts = list(encoded)
    return _narrow(np.cumsum([0, *map(len, parts)]), 32), b"".join(parts)


def _lists(kind: Any, lists: Lists) -> Any:
    import pyarrow as pa

    items = kind.value_type
    if pa.types.is_struct(items):
        arrays = [_array(field.type, lists.fields[field.name]) for field in items]
        array = pa.StructArray.from_arrays(arrays, fields=list(items))
    else:
        array = _array(items, lists.fields[""])
    offsets = _numbers(pa.int32(), Ints(lists.offsets, None))
    return pa.ListArray.from_arrays(offsets, array, type=kind)


def _from_buffers(kind: Any, count: int, valid: NDArray[np.bool_] | None, *buffers: Any) -> Any:
    """Return an array whose values are in buffers; ``valid`` is false where one is null."""
    import pyarrow as pa

    nulls = None if valid is None or valid.all() else pa.py_buffer(_bits(valid))
    return pa.Array.from_buffers(kind, count, [nulls, *map(pa.py_buffer, buffers)])


def _narrow(values: NDArray[np.int64], bits: int) -> NDArray[Any]:
    """Return numbers in so many bits, one behind the other in memory."""
    narrow = np.ascontiguousarray(values, dtype=f"i{bits // 8}")
    if bits < 64 and not np.array_equal(narrow, values):
        raise OverflowError(f"a number does not fit {bits} bits")
    return narrow


def _bits(values: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")
