"""The run that continues from the state of a run over earlier captures, and saves its own.

In: the context of an analysis, and a saved state. Out: rows of every table, and the state of the
connections that are open at the end.

Beside the state are the rows that closing its connections would make. If the state cannot be read,
its connections are closed: these rows come first, and the run goes on without a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.runtime.closing_rows import ClosingRowsError, before_state, rows_of, split
from kanalyze.runtime.one_pass import OnePass
from kanalyze.runtime.state import StateError, load_state, save_state
from kanalyze.runtime.table_rows import SelectedRows, new_cluster_lines
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.table_rows import TableRows, Tables
    from kanalyze.spec.rows.connections import ConnectionRow

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
        self._context = context
        self._tables = tables
        self._loaded = saved_state
        self._keeps_open = keeps_open
        self._first_id = first_id
        self.saved_state = b""
        """State of the connections that are open at the end; set when all rows were yielded."""
        self.closing_quality = CaptureQuality()
        """The counts that closing them would add; set when all rows were yielded."""
        self.open_connections: list[ConnectionRow] = []
        """Their rows, with the values known so far; set when all rows were yielded."""
        self.closed: str | None = None
        """Why the connections of the loaded state were closed; None if they were continued."""

    def rows(self) -> Iterator[TableRows]:
        """Yield the rows that match the filter, once; without anomalies of the capture files.

        Raises:
            StateError: the state is not of an analysis with the same settings, or cannot be read,
                and it has no rows for closing its connections.
        """
        context, tables = self._context, self._tables
        run = OnePass(
            *(context.open(), context.settings, tables, context.names, context.quality),
            checks_crc=False,
        )
        lines = new_cluster_lines(context)
        selected = SelectedRows(context, tables, self._first_id, lines)
        if self._loaded is not None:
            try:
                load_state(self._loaded, run.stages, run.assembler, lines)
                run.stages.reset_counts()
            except StateError as error:
                yield from self._closed(self._loaded, error)
        for _, step_rows in run.steps(close_connections=not self._keeps_open):
            for rows in step_rows:
                yield selected.of(rows)
        if self._keeps_open:
            state = save_state(run.stages, run.assembler, lines)
            last = [selected.of(rows) for rows in run.close(self.closing_quality)]
            self.open_connections = [row for rows in last for row in rows.connections]
            self.saved_state = before_state(last, state)

    def _closed(self, data: bytes, error: StateError) -> list[TableRows]:
        """Return the rows of the connections of a state that cannot be read."""
        closing, _ = split(data)
        if closing is None:
            raise error
        try:
            rows = rows_of(closing)
        except ClosingRowsError:
            raise error from None
        self.closed = str(error).partition(": run without it")[0]
        return rows
