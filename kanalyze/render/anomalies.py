"""The columns that ``kanalyze anomalies`` shows in a table.

In: rows of anomalies. Out: cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.render.layout import TableColumn
from kanalyze.render.phrases import connection_text, number_text
from kanalyze.render.table import ReadableColumn
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text
from kanalyze.render.units import bytes_text

if TYPE_CHECKING:
    from kanalyze.spec.rows.anomalies import AnomalyRow

__all__ = ["ANOMALY_TABLE", "anomaly_status"]


def anomaly_status(row: AnomalyRow) -> str:
    """Return the status word that colours a line; it says where the fault lies."""
    return {"capture": "error", "net": "unanswered", "connection": "malformed"}[row.stage]


def _message(row: AnomalyRow) -> str:
    if row.api_key is None:
        return MISSING
    version = "" if row.api_version is None else f" v{row.api_version}"
    return shown(row.api_name or str(row.api_key)) + version


ANOMALY_TABLE: tuple[ReadableColumn, ...] = (
    ReadableColumn(TableColumn("time", rank=4), lambda row: clock_text(row.time_ns, decimals=6)),
    ReadableColumn(TableColumn("packet", right=True), lambda row: number_text(row.packet)),
    ReadableColumn(TableColumn("anomaly"), lambda row: row.kind),
    ReadableColumn(
        TableColumn("connection", least=30),
        lambda row: connection_text(row.connection, row.connection_number),
    ),
    ReadableColumn(TableColumn("sender", least=12, rank=1), lambda row: shown(row.sender)),
    ReadableColumn(
        TableColumn("offset", right=True, rank=2), lambda row: number_text(row.stream_offset)
    ),
    ReadableColumn(
        TableColumn("size", right=True),
        lambda row: bytes_text(row.bytes),
    ),
    ReadableColumn(TableColumn("message", rank=3), _message),
    ReadableColumn(TableColumn("detail", least=8), lambda row: shown(row.detail or None)),
)
"""The columns of the table, in order."""
