"""Captures as a data source of Spark: ``spark.read.format("kanalyze").load("captures/*.pcap")``.

In: what Spark asks of a Python data source. Out: schemas, partitions, Arrow batches.

This is for some gigabytes. A Python data source cannot shuffle: every task reads all packets (see
:mod:`kanalyze.batch.table_options`), so a hundred tasks would read everything a hundred times. For
archives use ``kanalyze.spark.requests``.

Spark does not prune the columns of a Python data source: use option ``columns``, or a schema of
fewer columns. Nor does this one take filters of Spark: PySpark 4.3 keeps the reader of a query, and
the filters it took, for all later queries of the same DataFrame. Options filter at the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kanalyze.batch.read_plan import TablePartition
from kanalyze.batch.table_options import (
    captures_of,
    make_plan,
    parse_options,
    partitions_of,
    plan_of,
    read_partition,
)
from kanalyze.capture.io.stores import Stores
from kanalyze.errors import UsageError
from kanalyze.spark.failures import without_stack_trace
from kanalyze.spark.schema import as_requested, spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.batch.table_options import Options


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("kanalyze")`` known to a session, also if it is known already."""
    try:
        spark.dataSource.register(KanalyzeDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark uses the session that was active last: creating a DataFrame activates this one.
        spark.createDataFrame([], "nothing int")
        spark.dataSource.register(KanalyzeDataSource)


class KanalyzeDataSource(DataSource):
    """The rows of captures, as ``kanalyze requests`` and the other commands write them.

    ``load`` takes files, folders, globs and URLs of any of these, in a list or separated by
    commas. The options, in any case:

    - ``table``: ``requests`` (the default), ``records``, ``connections``, ``anomalies`` or
      ``packets``.
    - ``columns``: names separated by commas; no others are made.
    - ``api``, ``clientId``, ``clientIp``, ``broker``, ``topic``, ``group``, ``errors``,
      ``slowerThan``, ``since``, ``until``, ``port``: as the arguments of :func:`kanalyze.requests`,
      several values separated by commas. A table has those that its command has.
    - ``topicIds``, ``definitions``: a file and a folder that the driver reads.
    - ``keylog``: key logs, as paths of captures; the driver looks at them, and tasks read them.
    - ``values``: true for keys, values and headers of records.
    - ``maxMemory``: the memory for open connections, of all tasks together.
    - ``mode``: ``failfast`` (the default), or ``quarantine`` to leave out what is no capture; the
      table ``anomalies`` lists it.
    - ``numPartitions``: how many tasks read; by default one for each 256 MB, up to four. Each reads
      all packets; for the table ``packets`` each reads captures of its own.

    A wrong option raises a KanalyzeError, whose text Spark shows.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "kanalyze"

    @without_stack_trace()
    def schema(self) -> StructType:
        """Return the selected columns, without opening a capture. Raises KanalyzeError."""
        return spark_schema(make_plan(self.options).columns)

    @without_stack_trace()
    def reader(self, schema: StructType) -> CaptureSourceReader:
        """Return a reader of these columns, which are the table's or some of them.

        Raises KanalyzeError.
        """
        return CaptureSourceReader(parse_options(self.options), schema)


def _plan(options: Options, schema: StructType) -> ReadPlan:
    """Return the plan for a schema. Raises UsageError if a user gave a column another type."""
    plan = plan_of(options, schema.fieldNames())
    for expected, actual in zip(spark_schema(plan.columns), schema, strict=True):
        kind = expected.dataType.simpleString()
        if actual.dataType.simpleString() != kind:
            raise UsageError(
                f"column {expected.name!r} is {kind}, not {actual.dataType.simpleString()}"
            )
    return plan


class CaptureSourceReader(DataSourceReader):
    """Reads captures once."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Read the columns of the schema; raises KanalyzeError."""
        self._options = options
        self._plan = _plan(options, schema)
        self._schema = schema

    @without_stack_trace()
    def partitions(self) -> Sequence[InputPartition]:
        """Look for the captures and divide them among tasks.

        Raises:
            CaptureError: a capture is missing, or a file is no capture; the text names it.
        """
        captures, unreadable = captures_of(self._options, Stores())
        parts = partitions_of(self._options, captures, unreadable)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition.

        Raises:
            CaptureError: a capture cannot be opened or read.
        """
        part = partition.value
        assert isinstance(part, TablePartition)
        with without_stack_trace():
            for batch in read_partition(self._plan, part):
                yield from as_requested(batch, self._plan.columns, self._schema)
