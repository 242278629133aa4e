"""The anomalies of an archive: of captures, of packets, of connections.

In: the segments of an archive, and its rebuilt connections. Out: rows of
:data:`~kanalyze.tables.anomalies.ANOMALY_COLUMNS`, as a DataFrame; or files with those of packets,
since tasks that rebuild connections write theirs. Must not know: where these go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from kanalyze.export.arrow import BatchMaker
from kanalyze.spark.archive.shuffle_schema import (
    CONTROL_FIELDS,
    control_row,
    dump_report,
    from_arrow_stream,
    load_report,
)
from kanalyze.spark.archive.table_files import TableFiles
from kanalyze.spark.schema import as_spark, spark_schema
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.tables.columns.block import RowBlock, columns_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.spark.archive.archive import ArchiveSegments, RebuiltConnections
    from kanalyze.spark.archive.table_files import WrittenFile
    from kanalyze.tables.filters import RowFilter

__all__ = ["anomaly_table", "write_anomalies_of_packets"]


def anomaly_table(
    spark: SparkSession,
    captured: ArchiveSegments,
    found: RebuiltConnections,
    row_filter: RowFilter,
    more: Sequence[AnomalyRow] = (),
) -> DataFrame:
    """Return all anomalies, in no order.

    Args:
        spark: the session.
        captured: the archive.
        found: its connections, rebuilt with anomalies.
        row_filter: applied to the anomalies of packets.
        more: further rows.
    """
    schema = spark_schema(ANOMALY_COLUMNS)
    of_packets = partial(_of_packets, captured.read_summary.packets_before, row_filter)
    table = captured.anomaly_streams().mapInArrow(of_packets, schema)
    table = table.unionAll(found.table("anomalies"))
    rows = [*captured.read_summary.anomaly_rows, *more]
    if rows:
        batches = as_spark(BatchMaker(ANOMALY_COLUMNS).of_rows(rows), ANOMALY_COLUMNS)
        driver_rows = spark.createDataFrame(pa.Table.from_batches(batches), schema)
        table = table.unionAll(driver_rows)
    return table


def write_anomalies_of_packets(captured: ArchiveSegments, staging: str) -> list[WrittenFile]:
    """Have tasks write the anomalies of packets to files, and return these."""
    if not captured.read_summary.quality.anomalies:
        return []
    row_filter = captured.job.plan.row_filter
    write = partial(_write, captured.read_summary.packets_before, row_filter, staging)
    schema = from_arrow_schema(pa.schema(CONTROL_FIELDS))
    collected = captured.anomaly_streams().mapInArrow(write, schema).select("_data").collect()
    return [file for row in collected for file in load_report(row[0])]


def _write(
    before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    staging: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Write anomalies, and yield a report of the files."""
    files = TableFiles(staging)
    try:
        for rows in _of_packets(before, row_filter, batches):
            block = RowBlock(len(rows), columns_of_rows(_as_rows(rows), ANOMALY_COLUMNS))
            files.add("anomalies", block)
        written = files.finish()
    except BaseException:
        files.abort()
        raise
    yield control_row(pa.schema([]), "files", -1, dump_report(written))


def _as_rows(batch: pa.RecordBatch) -> list[AnomalyRow]:
    return [AnomalyRow(**row) for row in batch.to_pylist()]


def _of_packets(
    before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield those of valid parts, with the packets' numbers in their captures."""
    for batch in batches:
        for capture, part, data in zip(*batch.columns, strict=True):
            first = before.get((capture.as_py(), part.as_py()))
            if first is None:
                continue
            for rows in from_arrow_stream(data.as_buffer()):
                yield from as_spark(_filtered(_shifted(rows, first), row_filter), ANOMALY_COLUMNS)


def _shifted(rows: pa.RecordBatch, packets: int) -> pa.RecordBatch:
    at = rows.schema.get_field_index("packet")
    return rows.set_column(at, rows.schema.field(at), pc.add(rows.column(at), packets))


def _filtered(rows: pa.RecordBatch, row_filter: RowFilter) -> pa.RecordBatch:
    if row_filter.passes_all:
        return rows
    selected = [row_filter.matches_anomaly(row) for row in _as_rows(rows)]
    return rows.filter(pa.array(selected, pa.bool_()))
