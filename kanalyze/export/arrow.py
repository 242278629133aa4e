"""Rows as Arrow record batches and tables, and as pandas frames.

In: rows. Out: ``pyarrow`` and ``pandas`` values. This module must not know where rows come from or
where batches go; pyarrow is imported when the first batch is made.

Rows are turned into columns first: one call a column, instead of one a value.
"""

from __future__ import annotations

from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from kanalyze.analysis.row import COLUMNS, Column
from kanalyze.export.schema import arrow_schema, arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    import pyarrow as pa

    from kanalyze.analysis.row import AnyRow

__all__ = ["RowBatches", "frame_of", "record_batch", "table_of"]


class RowBatches(Protocol):
    """Where rows come from."""

    def batches(self) -> Iterator[Sequence[AnyRow]]:
        """Give the rows in lists."""


def record_batch(rows: Sequence[AnyRow], columns: Sequence[Column] = COLUMNS) -> Any:
    r"""Return rows as a ``pyarrow.RecordBatch``, with the schema of ``columns``.

    Text that is not valid Unicode (a lone surrogate) has the offending parts replaced by their
    escapes (``\\udc80``): Arrow holds UTF-8 alone.
    """
    import pyarrow as pa

    arrays = [_array(column, _values(rows, column)) for column in columns]
    return pa.record_batch(arrays, schema=arrow_schema(columns))


def table_of(source: RowBatches, columns: Sequence[Column] = COLUMNS) -> pa.Table:
    """Return all rows of a source as one ``pyarrow.Table``."""
    import pyarrow as pa

    made = [record_batch(rows, columns) for rows in source.batches()]
    return pa.Table.from_batches(made, schema=arrow_schema(columns))


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


def _values(rows: Iterable[AnyRow], column: Column) -> list[Any]:
    return list(map(attrgetter(column.name), rows))


def _array(column: Column, values: Sequence[Any]) -> Any:
    import pyarrow as pa

    if column.type.startswith("list<"):
        items = list(chain.from_iterable(values))
        offsets = pa.array(accumulate(map(len, values), initial=0), pa.int32())
        return pa.ListArray.from_arrays(offsets, _items(column, items), type=arrow_type(column))
    try:
        return pa.array(values, arrow_type(column))
    except UnicodeEncodeError:
        return pa.array(map(_encodable, values), arrow_type(column))


def _items(column: Column, items: list[Any]) -> Any:
    import pyarrow as pa

    if not column.fields:
        return _array(Column(column.name, "string", "", False, ""), items)
    by_field = zip(*items, strict=True) if items else [()] * len(column.fields)
    arrays = [_array(field, values) for field, values in zip(column.fields, by_field, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(column).value_type))


def _encodable(text: str | None) -> str | None:
    if text is None:
        return None
    return text.encode("utf-8", "backslashreplace").decode()
