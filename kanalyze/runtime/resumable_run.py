"""The run that continues from the state of a run over earlier captures, and saves its own.

In: the context of an analysis, and a saved state. Out: rows of every table, and the state of the
connections that are open at the end. This module must not know where states are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.runtime.connection_run import matching_connections
from kanalyze.runtime.one_pass import close_connections
from kanalyze.runtime.state import load_state, save_state
from kanalyze.runtime.table_run import SelectedRows, StepRows
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.stages import Captures, Stages
    from kanalyze.runtime.table_run import TableRows, Tables
    from kanalyze.tables.connections import ConnectionRow

__all__ = ["ResumableRun"]


class ResumableRun:
    """Rows of captures that continue earlier captures, or that later captures continue."""

    def __init__(
        self,
        context: RunContext,
        tables: Tables,
        saved_state: bytes | None,
        *,
        keeps_open: bool = False,
        first_id: int | None = None,
    ) -> None:
        """Set up a run; for the arguments see :meth:`.Analysis.resumable`."""
        context.settings = context.settings.with_tables(tables.more)
        self._context = context
        self._tables = tables
        self._loaded = saved_state
        self._keeps_open = keeps_open
        self._first_id = first_id
        self._open: tuple[Stages, Captures] | None = None
        self.saved_state = b""
        """State of the connections that are open at the end; set when all rows were yielded."""

    def rows(self) -> Iterator[TableRows]:
        """Yield the rows that match the filter, once; without anomalies of the capture files.

        Raises:
            StateError: the state is not of an analysis with the same settings.
        """
        context, tables = self._context, self._tables
        settings, captures = context.settings, context.open()
        assembler = context.row_assembler(captures)
        stages = settings.stages(connections=tables.others, every_anomaly=tables.others)
        step_rows = StepRows(settings, tables, stages, captures, assembler)
        selected = SelectedRows(context, tables, self._first_id)
        if self._loaded is not None:
            load_state(self._loaded, stages, assembler, selected.cluster_lines)
            stages.reset_counts()
        for step in context.steps(stages, captures, ends=not self._keeps_open):
            for rows in step_rows.of(step):
                yield selected.of(rows)
        if self._keeps_open:
            self.saved_state = save_state(stages, assembler, selected.cluster_lines)
            self._open = stages, captures

    def close_open(self) -> tuple[CaptureQuality, list[ConnectionRow]]:
        """Close the open connections, once; return the counts and the rows that this adds.

        The rows have the values known so far.
        """
        quality = CaptureQuality()
        if self._open is None:
            return quality, []
        (stages, captures), self._open = self._open, None
        summaries = close_connections(stages, quality).summaries
        return quality, matching_connections(summaries, captures, self._context.row_filter)
