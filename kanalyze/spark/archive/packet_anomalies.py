"""The anomalies of packets, which tasks that read captures found.

In: control rows of these tasks. Out: rows of :data:`~kanalyze.tables.anomalies.ANOMALY_COLUMNS`, or
files. Must not know: Spark, nor what else an archive has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kanalyze.spark.archive.shuffle_schema import control_row, dump_report, from_arrow_stream
from kanalyze.spark.archive.table_files import OPEN_ANOMALIES, TableFiles
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.tables.columns.block import RowBlock, columns_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.spark.archive.planning import ReadSummary
    from kanalyze.tables.filters import RowFilter

__all__ = ["add_anomalies", "anomalies_of_packets", "write_anomalies"]


def add_anomalies(
    files: TableFiles, read: ReadSummary, more: Sequence[AnomalyRow], *, keeps_open: bool
) -> None:
    """Write the anomalies that no task wrote: those of captures that are left out, and ``more``.

    With ``keeps_open``, captures that the next run tries to read again are in a file that it
    replaces.
    """
    lasting = [*read.anomaly_rows, *more]
    retried = OPEN_ANOMALIES if keeps_open else "anomalies"
    for table, rows in (("anomalies", lasting), (retried, read.retryable_rows)):
        files.add(table, RowBlock(len(rows), columns_of_rows(rows, ANOMALY_COLUMNS)))


def write_anomalies(
    before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    staging: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Write the anomalies of packets, and yield a report of the files; see below."""
    files = TableFiles(staging)
    try:
        for rows in anomalies_of_packets(before, row_filter, batches):
            block = RowBlock(len(rows), columns_of_rows(_as_rows(rows), ANOMALY_COLUMNS))
            files.add("anomalies", block)
        written = files.finish()
    except BaseException:
        files.abort()
        raise
    yield control_row(pa.schema([]), "files", -1, dump_report(written))


def _as_rows(batch: pa.RecordBatch) -> list[AnomalyRow]:
    return [AnomalyRow(**row) for row in batch.to_pylist()]


def anomalies_of_packets(
    before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the anomalies of valid parts, with the packets' numbers in their captures.

    Args:
        before: the number of packets in a capture before a part of it, by name and part.
        row_filter: applied to the anomalies.
        batches: columns ``capture``, ``part``, and Arrow streams of anomalies.
    """
    for batch in batches:
        for capture, part, data in zip(*batch.columns, strict=True):
            first = before.get((capture.as_py(), part.as_py()))
            if first is None:
                continue
            for rows in from_arrow_stream(data.as_buffer()):
                yield _filtered(_shifted(rows, first), row_filter)


def _shifted(rows: pa.RecordBatch, packets: int) -> pa.RecordBatch:
    at = rows.schema.get_field_index("packet")
    return rows.set_column(at, rows.schema.field(at), pc.add(rows.column(at), packets))


def _filtered(rows: pa.RecordBatch, row_filter: RowFilter) -> pa.RecordBatch:
    if row_filter.passes_all:
        return rows
    selected = [row_filter.matches_anomaly(row) for row in _as_rows(rows)]
    return rows.filter(pa.array(selected, pa.bool_()))
