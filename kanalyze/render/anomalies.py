"""The columns that ``kanalyze anomalies`` shows in a table.

In: rows of anomalies. Out: cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.render.phrases import connection_text
from kanalyze.render.table import number_column, text_column
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text
from kanalyze.render.units import bytes_text

if TYPE_CHECKING:
    from kanalyze.render.table import ReadableColumn
    from kanalyze.tables.anomalies import AnomalyRow

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
    text_column("time", lambda row: clock_text(row.time_ns, decimals=6), rank=4),
    number_column("packet", "packet"),
    text_column("anomaly", lambda row: row.kind),
    text_column(
        "connection", lambda row: connection_text(row.connection, row.connection_number), least=30
    ),
    text_column("sender", "sender", least=12, rank=1),
    number_column("offset", "stream_offset", rank=2),
    number_column("size", "bytes", bytes_text),
    text_column("message", _message, rank=3),
    text_column("detail", lambda row: shown(row.detail or None), least=8),
)
"""The columns of the table, in order."""
