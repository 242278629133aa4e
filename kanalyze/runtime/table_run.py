"""The run that gives the rows of every table at once: requests, connections, anomalies.

In: the context of an analysis. Out: rows, as they come. This module must not know what is asked of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.runtime.anomaly_run import anomaly_rows
from kanalyze.runtime.connection_run import row_of_connection
from kanalyze.runtime.request_runs import step_blocks
from kanalyze.tables.anomalies import ANOMALY_COLUMNS
from kanalyze.tables.columns.block import RowBlock, columns_of_rows
from kanalyze.tables.connections import CONNECTION_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.net.shard import Shard
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.tables.anomalies import AnomalyRow
    from kanalyze.tables.connections import ConnectionRow
    from kanalyze.tables.row import AnyRow, Column

__all__ = ["OtherRows", "TableRows", "TableRun", "matching_rows"]


class TableRows(NamedTuple):
    """Some rows of each table."""

    requests: list[RowBlock]
    connections: list[ConnectionRow]
    anomalies: list[AnomalyRow]

    def blocks(self) -> Iterator[tuple[str, RowBlock]]:
        """Give the rows by column, each block with the name of its table; none is empty."""
        for block in self.requests:
            yield "requests", block
        if self.connections:
            yield "connections", _block_of(self.connections, CONNECTION_COLUMNS)
        if self.anomalies:
            yield "anomalies", _block_of(self.anomalies, ANOMALY_COLUMNS)


class TableRun:
    """Rows of all tables, read by this process."""

    def __init__(self, context: RunContext, captures: Captures) -> None:
        self._context = context
        self._captures = captures

    def rows(self) -> Iterator[TableRows]:
        """Give all rows, once; those of files that are left out are not among them."""
        context, captures = self._context, self._captures
        settings = context.settings
        assembler = context.row_assembler(captures)
        stages = settings.stages(connections=True, every_anomaly=True)
        others = OtherRows(settings, stages, captures, settings.shard)
        for step in context.steps(stages, captures):
            for block in step_blocks(step, assembler):
                yield TableRows([block], [], [])
            yield TableRows([], *others.of(step))


class OtherRows:
    """Rows of connections and anomalies; those of captures come with the first shard."""

    def __init__(
        self, settings: AnalysisSettings, stages: Stages, captures: Captures, shard: Shard
    ) -> None:
        self._settings = settings
        self._stages = stages
        self._captures = captures
        self._is_first = shard.is_first
        self._seen = 0

    def of(self, step: BatchEvents) -> tuple[list[ConnectionRow], list[AnomalyRow]]:
        """Return the rows of a step."""
        captures = self._captures
        of_captures = captures.anomalies[self._seen :] if self._is_first else []
        self._seen = len(captures.anomalies)
        anomalies = [*of_captures, *step.anomalies]
        return (
            [row_of_connection(summary, captures) for summary in step.summaries],
            anomaly_rows(anomalies, self._settings, captures, self._stages.client_side),
        )


def _block_of(rows: Sequence[AnyRow], columns: Sequence[Column]) -> RowBlock:
    return RowBlock(len(rows), columns_of_rows(rows, columns))


def matching_rows(context: RunContext, rows: TableRows) -> TableRows:
    """Return the rows that pass the filter of an analysis."""
    row_filter = context.row_filter
    return TableRows(
        list(context.matching(rows.requests)),
        [row for row in rows.connections if row_filter.matches_connection(row)],
        [row for row in rows.anomalies if row_filter.matches_anomaly(row)],
    )
