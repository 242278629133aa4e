"""The sink that yields the rows of a bucket to Spark, for DataFrames.

In: rows of all tables, as they are made. Out: Arrow batches for Spark. A batch has rows of
requests, or a control row: a report, a state, rows of other tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.batch.archive.row_sink import OPEN_CONNECTIONS, numbered
from kanalyze.batch.archive.shuffle_schema import (
    control_row,
    to_arrow_stream,
    with_control_columns,
)
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.arrow import BatchMaker
from kanalyze.spark.schema import arrow_schema, as_spark
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa

    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.connections import ConnectionRow

__all__ = ["YieldedRows"]

_PENDING_BYTES: Final = 1 << 20
"""Size at which rows of another table are sent, in one control row."""


class SparkYields(NamedTuple):
    """A :class:`~kanalyze.batch.archive.row_sink.YieldsRows` for Spark."""

    def sink(self, columns: Sequence[Column], others: frozenset[str], bucket: int) -> YieldedRows:
        """Return the sink for the rows of a bucket: columns of requests, and other tables."""
        return YieldedRows(columns, others, bucket)

    def rows(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        """Yield rows of one table."""
        return map(with_control_columns, as_spark(batch, columns))


class YieldedRows:
    """A :class:`~kanalyze.batch.archive.row_sink.BucketSink` that yields all rows."""

    def __init__(
        self,
        columns: Sequence[Column],
        others: Collection[str],
        bucket: int,
    ) -> None:
        """Buffer nothing yet.

        Args:
            columns: the columns of requests.
            others: the other tables to yield; if there are any, requests have their numbers.
            bucket: the bucket's number.
        """
        self._columns = columns
        self._maker = BatchMaker(columns)
        self._schema = arrow_schema(columns)
        self._bucket = bucket
        self._makers = {name: BatchMaker(TABLES[name].columns) for name in sorted(others)}
        self._pending: dict[str, list[pa.RecordBatch]] = {name: [] for name in self._makers}

    def control(self, kind: str, data: bytes) -> pa.RecordBatch:
        """Return a control row."""
        return control_row(self._schema, kind, self._bucket, data)

    def add(self, rows: TableRows) -> Iterator[pa.RecordBatch]:
        """Yield requests, and rows of each other table when enough of them are pending."""
        for block in rows.requests:
            selected = numbered(block, rows.first_id) if self._makers else block
            for batch in as_spark(self._maker.of_block(selected), self._columns):
                yield with_control_columns(batch)
        for name, block in rows.blocks():
            if name in self._makers:
                self._pending[name] += self._batches(name, block)
                if sum(batch.nbytes for batch in self._pending[name]) >= _PENDING_BYTES:
                    yield self._flush(name)

    def open_connections(self, rows: list[ConnectionRow]) -> Iterator[pa.RecordBatch]:
        """Yield the pending rows of other tables, then these."""
        for name, batches in self._pending.items():
            if batches:
                yield self._flush(name)
        if rows and "connections" in self._makers:
            block = RowBlock.of_rows(rows, TABLES["connections"].columns)
            batches = list(self._batches("connections", block))
            yield self.control(OPEN_CONNECTIONS, to_arrow_stream(batches))

    def _batches(self, name: str, block: RowBlock) -> Iterator[pa.RecordBatch]:
        return as_spark(self._makers[name].of_block(block), TABLES[name].columns)

    def _flush(self, name: str) -> pa.RecordBatch:
        batches, self._pending[name] = self._pending[name], []
        return self.control(name, to_arrow_stream(batches))
