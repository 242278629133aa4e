"""Rows as Arrow record batches and tables, and as DataFrames of pandas and Polars; and back.

In: rows, or columns of rows. Out: ``pyarrow``, ``pandas`` and ``polars`` values; of batches, blocks
of rows, with a Python object for each word, not for each row. pyarrow is imported when the first
batch is made.

Arrow takes over the memory of columns of 64-bit numbers, so that no Python object is made for a
value. Nothing here calls ``pyarrow.array``: if pandas is installed, that would load it, which takes
half a second and 50 MB.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

from kanalyze.common.int_columns import shifted
from kanalyze.export.schema import arrow_schema, arrow_type, integer_columns
from kanalyze.export.text import texts_of_codes
from kanalyze.spec.columns import Column, with_times
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import (
    Ints,
    Lists,
    RowBlock,
    Words,
    columns_of_rows,
    words_in_use,
)
from kanalyze.tables.columns.buffers import (
    bits,
    bits_of_codes,
    bits_of_longs,
    first_places,
    narrowed_ints,
    narrowed_shorts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from kanalyze.spec.columns import AnyRow
    from kanalyze.tables.columns.block import ColumnValues


class BatchMaker:
    r"""Makes a ``pyarrow.RecordBatch`` from rows, with the schema of given columns.

    Arrow stores only UTF-8. In a text that is not valid Unicode, lone surrogates are replaced by
    their escapes (``\\udc80``).
    """

    def __init__(self, columns: Sequence[Column] = COLUMNS, *, coded: bool = False) -> None:
        """Make a batch maker.

        Args:
            columns: the columns of the batches, in this order.
            coded: whether texts are ``dictionary<int32, string>`` instead of ``string``. A batch's
                dictionaries have their words in order of appearance.
        """
        self._columns = integer_columns(columns)
        self.names = [column.source or column.name for column in columns]
        """The names of the columns of rows that batches are made of."""
        self.schema = arrow_schema(columns, coded=coded)
        """The ``pyarrow.Schema`` of all batches."""

    def of_rows(self, rows: Sequence[AnyRow]) -> Any:
        """Return rows as a batch; raises OverflowError for a number too large for its column."""
        return self._of_columns(columns_of_rows(rows, self._columns))

    def of_block(self, block: RowBlock) -> Any:
        """Return a block's rows as a batch, which may share the memory of the block's columns.

        Raises OverflowError for a number that does not fit its column.
        """
        return self._of_columns(block.columns)

    def _of_columns(self, columns: Mapping[str, ColumnValues]) -> Any:
        import pyarrow as pa

        arrays = [
            _array(field.type, columns[name])
            for field, name in zip(self.schema, self.names, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def batches_of(
    blocks: Iterable[RowBlock], columns: Sequence[Column] = COLUMNS
) -> Iterator[pa.RecordBatch]:
    """Yield each block of rows as a ``pyarrow.RecordBatch``.

    Each column of Unix times in ns gets a column of timestamps beside it, here and in the
    functions below.
    """
    return map(BatchMaker(with_times(columns)).of_block, blocks)


def reader_of(
    blocks: Iterable[RowBlock], columns: Sequence[Column] = COLUMNS
) -> pa.RecordBatchReader:
    """Return a reader of the same batches, for any library that reads Arrow streams."""
    import pyarrow as pa

    schema = arrow_schema(with_times(columns))
    return pa.RecordBatchReader.from_batches(schema, batches_of(blocks, columns))


def table_of(blocks: Iterable[RowBlock], columns: Sequence[Column] = COLUMNS) -> pa.Table:
    """Return the rows of blocks as one ``pyarrow.Table``."""
    import pyarrow as pa

    schema = arrow_schema(with_times(columns))
    return pa.Table.from_batches(batches_of(blocks, columns), schema=schema)


def frame_of(blocks: Iterable[RowBlock], columns: Sequence[Column] = COLUMNS) -> pd.DataFrame:
    """Return the rows of blocks as a pandas DataFrame.

    Integers are ``int64``, or ``Int64`` if they may be null. They are never floats, which cannot
    represent a Unix time in ns. A bool that may be null is ``boolean``. Raises ImportError before
    it reads the first block if pandas is not installed.
    """
    pandas = _library("pandas")
    import pyarrow as pa

    dtypes = {pa.bool_(): pandas.BooleanDtype()}
    dtypes.update(dict.fromkeys((pa.int16(), pa.int32(), pa.int64()), pandas.Int64Dtype()))
    frame: pd.DataFrame = table_of(blocks, columns).to_pandas(types_mapper=dtypes.get)
    never_null = [
        column.name for column in columns if column.type.startswith("int") and not column.nullable
    ]
    return frame.astype(dict.fromkeys(never_null, "int64"))


def polars_of(blocks: Iterable[RowBlock], columns: Sequence[Column] = COLUMNS) -> pl.DataFrame:
    """Return the rows of blocks as a Polars DataFrame, with the types of the Arrow schema.

    Raises ImportError before it reads the first block if Polars is not installed.
    """
    polars = _library("polars")
    # From a table, not from a reader, so that errors of reading captures keep their type.
    frame: pl.DataFrame = polars.DataFrame(table_of(blocks, columns))
    return frame


def _library(name: str) -> Any:
    """Return an optional library; raises ImportError with the command that installs it."""
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise  # it is installed, but one of its own imports failed
        text = f"{name} is not installed: pip install 'kanalyze[{name}]'"
        raise ModuleNotFoundError(text, name=name) from None


# -- arrays ---------------------------------------------------------------------------------------


def _array(kind: Any, values: ColumnValues) -> Any:
    """Return a column as an Array of a ``pyarrow.DataType``."""
    if isinstance(values, Lists):
        return _lists(kind, values)
    return _texts(kind, values) if isinstance(values, Words) else _numbers(kind, values)


def _numbers(kind: Any, ints: Ints) -> Any:
    import pyarrow as pa

    values: Any = ints.values
    if pa.types.is_boolean(kind):
        values = bits_of_longs(values)
    elif kind.bit_width < 64:
        values = (narrowed_ints if kind.bit_width == 32 else narrowed_shorts)(values)
    nulls = None if ints.valid is None else bits(ints.valid)
    return _from_buffers(kind, len(ints.values), nulls, values)


def _texts(kind: Any, texts: Words) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _coded_texts(texts)
    codes, words = words_in_use(texts)
    # Not dictionary_decode(), which imports pyarrow.compute: as slow as all else of pyarrow.
    buffers = texts_of_codes(codes, list(map(utf8, words)))
    return _from_buffers(kind, len(codes), bits_of_codes(codes), *buffers)


def _coded_texts(texts: Words) -> Any:
    """Return texts as a DictionaryArray that depends only on the texts."""
    import pyarrow as pa

    codes, order = first_places(texts.codes, len(texts.words))
    words = [utf8(texts.words[code]) for code in order]
    each = texts_of_codes(array("i", range(len(words))), words)
    # Arrow ignores the value under a null.
    indices = _from_buffers(pa.int32(), len(codes), bits_of_codes(codes), codes)
    dictionary = _from_buffers(pa.string(), len(words), None, *each)
    return pa.DictionaryArray.from_arrays(indices, dictionary)


def utf8(text: str) -> bytes:
    """Return a text as UTF-8; lone surrogates are replaced by their escapes."""
    return text.encode("utf-8", "backslashreplace")


def _lists(kind: Any, lists: Lists) -> Any:
    import pyarrow as pa

    items = kind.value_type
    if pa.types.is_struct(items):
        arrays = [_array(field.type, lists.fields[field.name]) for field in items]
        values = pa.StructArray.from_arrays(arrays, fields=list(items))
    else:
        values = _array(items, lists.fields[""])
    ends = narrowed_ints(lists.offsets)
    offsets = _from_buffers(pa.int32(), len(ends), None, ends)
    return pa.ListArray.from_arrays(offsets, values, type=kind)


def _from_buffers(kind: Any, count: int, nulls: bytearray | None, *buffers: Any) -> Any:
    """Return an array made of buffers; in ``nulls``, a bit of 0 marks a null."""
    import pyarrow as pa

    validity = None if nulls is None else pa.py_buffer(nulls)
    return pa.Array.from_buffers(kind, count, [validity, *map(pa.py_buffer, buffers)])


# -- blocks from arrays ----------------------------------------------------------------------------


def block_of(batch: pa.RecordBatch, columns: Sequence[Column]) -> RowBlock:
    """Return the rows of a batch; columns that it lacks are null.

    Raises ArrowInvalid for a null in a column that must not have nulls.
    """
    values = _values_by_name(batch.schema.names, batch.columns, columns, batch.num_rows)
    return RowBlock(batch.num_rows, values)


def _values_by_name(
    names: Iterable[str], arrays: Iterable[Any], columns: Sequence[Column], rows: int
) -> dict[str, ColumnValues]:
    """Return the values of columns, of arrays with these names."""
    import pyarrow as pa

    found = dict(zip(names, arrays, strict=True))
    for column in columns:
        if column.name not in found:
            found[column.name] = pa.nulls(rows, arrow_type(column))
    return {column.name: _values_of(found[column.name], column) for column in columns}


def _values_of(values: Any, column: Column) -> ColumnValues:
    if values.null_count and not column.nullable:
        import pyarrow as pa

        raise pa.ArrowInvalid(f"{column.name} is null")
    if column.type.startswith("list<"):
        return _lists_of(values, column)
    if column.type == "float64":
        values = values.view("int64")
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
    names = [field.name for field in items.type]
    fields = _values_by_name(names, items.flatten(), column.fields, len(items))
    return Lists(begins, cast("dict[str, Ints | Words]", fields))


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


_MAX_BYTES = (1 << 31) - 1


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of an integer type, ``bool``, ``string`` or ``binary``.

    Numbers may be an array of NumPy.

    Raises:
        ValueError: texts or bytes have 2 GiB or more together.
        UnicodeEncodeError: a text is not valid Unicode.
    """
    import numpy as np
    import pyarrow as pa

    if pa.types.is_string(kind):
        return _of_bytes([text.encode() for text in values], kind)
    if pa.types.is_binary(kind):
        return _of_bytes(values, kind)
    numbers = np.ascontiguousarray(values, kind.to_pandas_dtype())
    data = np.packbits(numbers, bitorder="little") if pa.types.is_boolean(kind) else numbers
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(data)])


def arrays_of(columns: Iterable[Sequence[Any]], fields: Iterable[pa.Field]) -> list[pa.Array]:
    """Return columns as arrays of the types of fields; see :func:`array_of`."""
    return [array_of(values, field.type) for values, field in zip(columns, fields, strict=True)]


def _of_bytes(values: Sequence[bytes | memoryview], kind: pa.DataType) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    ends = [0, *accumulate(map(len, values))]
    if ends[-1] > _MAX_BYTES:
        raise ValueError("texts or bytes of 2 GiB in one column")
    data = values[0] if len(values) == 1 else b"".join(values)
    buffers = [None, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers)
