"""The tables of a run in a database, for queries.

In: an analysis, and an empty database. Out: the database, filled. This module must not know what is
asked of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.export.arrow import BatchMaker
from kanalyze.tables.anomalies import ANOMALY_COLUMNS
from kanalyze.tables.connections import CONNECTION_COLUMNS
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from kanalyze.queries.database import Database
    from kanalyze.runtime.pipeline import Analysis

__all__ = ["fill"]


def fill(database: Database, analysis: Analysis) -> None:
    """Put the rows of an analysis into tables: ``requests``, ``connections``, ``anomalies``.

    Raises KanalyzeError where a capture cannot be read.
    """
    requests, connections, anomalies = map(
        BatchMaker, (COLUMNS, CONNECTION_COLUMNS, ANOMALY_COLUMNS)
    )
    database.create("requests", requests.schema)
    database.create("connections", connections.schema)
    database.create("anomalies", anomalies.schema)
    for rows in analysis.table_rows():
        for block in rows.requests:
            database.insert("requests", requests.of_block(block))
        if rows.connections:
            database.insert("connections", connections.of_rows(rows.connections))
        if rows.anomalies:
            database.insert("anomalies", anomalies.of_rows(rows.anomalies))
