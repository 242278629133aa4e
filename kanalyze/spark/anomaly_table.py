"""The anomalies of an archive: of captures, of packets, of connections.

In: the segments of an archive, and its rebuilt connections. Out: rows of
:data:`~kanalyze.spec.rows.anomalies.ANOMALY_COLUMNS`, as a DataFrame; or files with those of
packets, since tasks that rebuild connections write those of connections.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kanalyze.batch.archive.packet_anomalies import anomalies_of_packets, write_anomalies
from kanalyze.batch.archive.shuffle_schema import CONTROL_FIELDS, files_row, load_report
from kanalyze.export.arrow import BatchMaker
from kanalyze.spark.schema import as_spark, spark_schema
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.batch.archive.table_files import WrittenFile
    from kanalyze.spark.archive import ArchiveSegments, RebuiltConnections
    from kanalyze.tables.filters import RowFilter

__all__ = ["anomaly_table", "frame_of_anomalies", "write_anomalies_of_packets"]


def anomaly_table(
    spark: SparkSession,
    captured: ArchiveSegments,
    rebuilt: RebuiltConnections,
    row_filter: RowFilter,
    more_rows: Sequence[AnomalyRow] = (),
) -> DataFrame:
    """Return all anomalies, in no order.

    Args:
        spark: the session.
        captured: the archive.
        rebuilt: its connections, rebuilt with anomalies.
        row_filter: applied to the anomalies of packets.
        more_rows: further rows.
    """
    schema = spark_schema(ANOMALY_COLUMNS)
    of_packets = partial(_as_spark_rows, captured.read_summary.packets_before, row_filter)
    table = captured.anomaly_streams().mapInArrow(of_packets, schema)
    table = table.unionAll(rebuilt.table("anomalies"))
    rows = [*captured.read_summary.anomaly_rows, *more_rows]
    return table.unionAll(frame_of_anomalies(spark, rows)) if rows else table


def frame_of_anomalies(spark: SparkSession, rows: Sequence[AnomalyRow]) -> DataFrame:
    """Return rows, at least one, as a table."""
    batches = as_spark(BatchMaker(ANOMALY_COLUMNS).of_rows(rows), ANOMALY_COLUMNS)
    return spark.createDataFrame(pa.Table.from_batches(batches), spark_schema(ANOMALY_COLUMNS))


def write_anomalies_of_packets(captured: ArchiveSegments, staging: str) -> list[WrittenFile]:
    """Have tasks write the anomalies of packets to files, and return the files."""
    if not captured.read_summary.quality.anomalies:
        return []
    row_filter = captured.job.plan.row_filter
    packets_before = captured.read_summary.packets_before

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield files_row(write_anomalies(packets_before, row_filter, staging, batches))

    schema = from_arrow_schema(pa.schema(CONTROL_FIELDS))
    collected = captured.anomaly_streams().mapInArrow(write, schema).select("_data").collect()
    return [file for row in collected for file in load_report(row[0])]


def _as_spark_rows(
    packets_before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for rows in anomalies_of_packets(packets_before, row_filter, batches):
        yield from as_spark(rows, ANOMALY_COLUMNS)
