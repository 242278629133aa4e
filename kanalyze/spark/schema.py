"""The columns of kanalyze's tables as Spark and its Python workers want them.

In: columns (:class:`~kanalyze.tables.row.Column`), and the Arrow batches that
:mod:`kanalyze.export.arrow` makes of their rows. Out: a ``StructType``, the ``pyarrow.Schema`` that
Spark derives from it, and batches of exactly that schema. Must not know: where rows come from, nor
what Spark does with them.

Spark compares types strictly: a Python data source has to give batches whose schema is that of the
``StructType`` to the last nullable item of a list, ``mapInArrow`` those whose buffers lie as the
JVM expects. So texts are plain UTF-8, never coded by a dictionary, and every batch is cast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.tables.row import Column

__all__ = ["arrow_schema", "as_asked", "as_spark", "spark_schema"]

_ROWS_AT_ONCE: Final = 10_000
"""Of a batch for the JVM, which copies each as a whole; Spark's own default."""

_SCALARS: Final[dict[str, DataType]] = {
    "string": StringType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "bool": BooleanType(),
    "binary": BinaryType(),
}


def spark_schema(columns: Sequence[Column]) -> StructType:
    """Return columns as a Spark schema; what DESCRIBE shows of a column is its meaning and unit.

    A column is nullable where it is in the contract; lists hold no nulls.
    """
    return StructType([_field(column) for column in columns])


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return columns as the Arrow schema that Spark derives from :func:`spark_schema`."""
    return to_arrow_schema(spark_schema(columns))


def as_spark(
    batch: pa.RecordBatch | pa.Table, columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Give the columns of a batch, or of each batch of a table, as Spark takes them.

    Args:
        batch: has at least these columns, in any order, with texts plain or coded.
        columns: those of the batches given, in this order.

    Raises:
        KeyError: a column is not there.
        ValueError: a column that is never null has a null.
    """
    table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
    chosen = table.select([column.name for column in columns])
    yield from chosen.cast(arrow_schema(columns)).to_batches()


def as_asked(
    batch: pa.RecordBatch, columns: Sequence[Column], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Give a batch as a reader hands it to Spark that was asked for a schema, in bounded parts.

    Args:
        batch: as in :func:`as_spark`.
        columns: as there.
        schema: these columns, as Spark asked for them; more of it may be nullable than we say.

    Raises as :func:`as_spark` does.
    """
    asked = to_arrow_schema(schema)
    for made in as_spark(batch, columns):
        cast = made.cast(asked)
        for first in range(0, len(cast), _ROWS_AT_ONCE):
            yield cast.slice(first, _ROWS_AT_ONCE)


def _field(column: Column) -> StructField:
    unit = f" ({column.unit})" if column.unit else ""
    comment = {"comment": column.meaning + unit}
    return StructField(column.name, _type(column), column.nullable, comment)


def _type(column: Column) -> DataType:
    if column.type == "list<struct>":
        return ArrayType(spark_schema(column.fields), containsNull=False)
    if column.type.startswith("list<"):
        item = _SCALARS[column.type.removeprefix("list<").removesuffix(">")]
        return ArrayType(item, containsNull=False)
    return _SCALARS[column.type]
