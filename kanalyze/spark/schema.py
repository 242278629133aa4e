"""Converts columns and rows of kanalyze to Spark's types.

In: columns (:class:`~kanalyze.spec.columns.Column`), and the Arrow batches that
:mod:`kanalyze.export.arrow` makes of their rows. Out: a ``StructType``, the ``pyarrow.Schema`` that
Spark derives from it, and batches of exactly that schema.

Spark compares types strictly: the batches of a Python data source must have exactly the schema of
the ``StructType``, down to nullable items of lists, and those of ``mapInArrow`` the memory layout
that the JVM expects. So texts are never dictionary-encoded, and every batch is cast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from kanalyze.spec.columns import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.spec.columns import Column

_ROWS_AT_ONCE: Final = 10_000
"""Rows in a batch for the JVM, which copies each batch as a whole; Spark's default."""


def spark_schema(columns: Sequence[Column]) -> StructType:
    """Return columns as a Spark schema, with meanings and units as comments, which DESCRIBE shows.

    A column is nullable if its :class:`Column` is; lists contain no nulls.
    """
    return StructType([_field(column) for column in columns])


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return columns as the Arrow schema that Spark derives from :func:`spark_schema`."""
    return to_arrow_schema(spark_schema(columns))


def as_spark(
    batch: pa.RecordBatch | pa.Table, columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a batch, or of each batch of a table, in Spark's types.

    Args:
        batch: has at least these columns, in any order; texts may be dictionary-encoded.
        columns: the columns of the result, in this order.

    Raises:
        KeyError: a column is missing from the batch.
        ValueError: a column that is not nullable has a null.
    """
    table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
    selected = table.select([column.name for column in columns])
    yield from selected.cast(arrow_schema(columns)).to_batches()


def as_requested(
    batch: pa.RecordBatch, columns: Sequence[Column], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield a batch in the schema that Spark requested of a reader, in bounded parts.

    Args:
        batch: see :func:`as_spark`.
        columns: see :func:`as_spark`.
        schema: these columns as Spark requested them; it may allow nulls in columns that have none.

    Raises as :func:`as_spark` does.
    """
    requested_schema = to_arrow_schema(schema)
    for converted in as_spark(batch, columns):
        cast = converted.cast(requested_schema)
        for first in range(0, len(cast), _ROWS_AT_ONCE):
            yield cast.slice(first, _ROWS_AT_ONCE)


def _field(column: Column) -> StructField:
    unit = f" ({column.unit})" if column.unit else ""
    comment = {"comment": column.meaning + unit}
    return StructField(column.name, _type(column), column.nullable, comment)


def _type(column: Column) -> DataType:
    if column.type == "list<struct>":
        return ArrayType(spark_schema(column.fields), containsNull=False)
    if column.type == "list<string>":
        return ArrayType(_scalar("string"), containsNull=False)
    return _scalar(column.type)


def _scalar(name: str) -> DataType:
    spark_type: DataType = getattr(spark_types, TYPES[name].spark)()
    return spark_type
