"""The anomalies of an archive as a DataFrame: of captures, of packets, of connections.

In: the segments of an archive, and its rebuilt connections. Out: rows of
:data:`~kanalyze.tables.anomalies.ANOMALY_COLUMNS`. Must not know: where they go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from kanalyze.export.arrow import BatchMaker
from kanalyze.spark.archive.shuffle_schema import ANOMALY_BUCKET, from_arrow_stream
from kanalyze.spark.schema import as_spark, spark_schema
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, AnomalyRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.spark.archive.archive import ArchiveSegments, RebuiltConnections
    from kanalyze.tables.filters import RowFilter

__all__ = ["anomaly_table"]


def anomaly_table(
    spark: SparkSession,
    captured: ArchiveSegments,
    found: RebuiltConnections,
    more: Sequence[AnomalyRow],
    row_filter: RowFilter | None = None,
) -> DataFrame:
    """Return all anomalies, in no order.

    Args:
        spark: the session.
        captured: the archive.
        found: its connections, rebuilt with anomalies.
        more: further rows.
        row_filter: applied to the anomalies of packets; None for the filter of the archive's job.
    """
    schema = spark_schema(ANOMALY_COLUMNS)
    selected = captured.job.plan.row_filter if row_filter is None else row_filter
    of_packets = partial(_of_packets, captured.read_summary.packets_before, selected)
    sent = captured.blocks().where(F.col("bucket") == ANOMALY_BUCKET)
    table = sent.select("capture", "part", "data").mapInArrow(of_packets, schema)
    table = table.unionAll(found.table("anomalies"))
    rows = [*captured.read_summary.anomaly_rows, *more]
    if rows:
        batches = as_spark(BatchMaker(ANOMALY_COLUMNS).of_rows(rows), ANOMALY_COLUMNS)
        driver_rows = spark.createDataFrame(pa.Table.from_batches(batches), schema)
        table = table.unionAll(driver_rows)
    return table


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
    selected = [row_filter.matches_anomaly(AnomalyRow(**row)) for row in rows.to_pylist()]
    return rows.filter(pa.array(selected, pa.bool_()))
