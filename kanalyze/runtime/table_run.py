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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.model.streams import TokenBytes
    from kanalyze.net.shard import Shard
    from kanalyze.runtime.monitor import RunMonitor
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.tables.anomalies import AnomalyRow
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.connections import ConnectionRow

__all__ = ["OtherRows", "TableRows", "TableRun", "matching_rows"]


class TableRows(NamedTuple):
    """Some rows of each table."""

    requests: list[RowBlock]
    connections: list[ConnectionRow]
    anomalies: list[AnomalyRow]


class TableRun:
    """Rows of all tables, read by this process."""

    def __init__(
        self,
        context: RunContext,
        captures: Captures,
        monitor: RunMonitor,
        on_tokens: Callable[[Sequence[TokenBytes]], None] | None,
    ) -> None:
        """Begin; ``monitor`` sees the stages while they run, ``on_tokens`` as in ``Analysis``."""
        self._context = context
        self._captures = captures
        self._monitor = monitor
        self._on_tokens = on_tokens

    def rows(self) -> Iterator[TableRows]:
        """Give all rows, once; those of files that are left out are not among them."""
        context, captures = self._context, self._captures
        settings = context.settings
        assembler = context.row_assembler(captures)
        stages = settings.stages(connections=True, every_anomaly=True)
        others = OtherRows(settings, stages, captures, settings.shard)
        self._monitor.begin(stages)
        for step in context.steps(stages, captures):
            if self._on_tokens is not None and step.token_bytes:
                self._on_tokens(step.token_bytes)
            for block in step_blocks(step, assembler):
                yield TableRows([block], [], [])
            yield TableRows([], *others.of(step))
        self._monitor.end()


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


def matching_rows(context: RunContext, rows: TableRows) -> TableRows:
    """Return the rows that pass the filter of an analysis."""
    row_filter = context.row_filter
    return TableRows(
        list(context.matching(rows.requests)),
        [row for row in rows.connections if row_filter.matches_connection(row)],
        [row for row in rows.anomalies if row_filter.matches_anomaly(row)],
    )
