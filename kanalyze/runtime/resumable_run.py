"""The run that begins where one over earlier captures stopped, and saves its own state.

In: the context of an analysis, and the saved state of a run before. Out: rows, anomalies, and the
state of the connections that are open at the end. This module must not know where states are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.runtime.anomaly_run import anomaly_rows
from kanalyze.runtime.one_pass import quality_of_end
from kanalyze.runtime.request_runs import step_blocks
from kanalyze.runtime.state import load_state, save_state
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.stages import Stages
    from kanalyze.tables.anomalies import AnomalyRow
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["ResumableRun"]


class ResumableRun:
    """Rows of requests with the anomalies, of captures that others came before or come after."""

    def __init__(
        self, context: RunContext, saved_state: bytes | None, *, keeps_open: bool = False
    ) -> None:
        """Arguments as those of :meth:`.Analysis.resumable`."""
        self._context = context
        self._loaded = saved_state
        self._keeps_open = keeps_open
        self._open: Stages | None = None
        self.saved_state = b""
        """The state of the connections that are open at the end; known once all rows were given."""

    def batches(self) -> Iterator[tuple[list[RowBlock], list[AnomalyRow]]]:
        """Give rows and anomalies as they are found, once; those of captures are left out.

        Raises:
            StateError: the state is not one of an analysis with the same settings.
        """
        context = self._context
        captures = context.open()
        assembler = context.row_assembler(captures)
        stages = context.settings.stages(every_anomaly=True)
        if self._loaded is not None:
            load_state(self._loaded, stages, assembler)
            stages.count_anew()
        for step in context.steps(stages, captures, ends=not self._keeps_open):
            for block in context.matching(step_blocks(step, assembler)):
                yield [block], []
            anomalies = anomaly_rows(step.anomalies, context.settings, captures, stages.client_side)
            yield [], [row for row in anomalies if context.row_filter.matches_anomaly(row)]
        if self._keeps_open:
            self.saved_state = save_state(stages, assembler)
            self._open = stages

    def close_open(self) -> CaptureQuality:
        """Close the connections that are open; return what that adds to the quality. Once."""
        stages, self._open = self._open, None
        return CaptureQuality() if stages is None else quality_of_end(stages)
