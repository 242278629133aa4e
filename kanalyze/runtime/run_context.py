"""What every kind of run over captures needs: settings, inputs, the filter, counters, topic names.

In: settings and inputs of an analysis. Out: opened captures, steps, row assemblers, rows that pass
the filter. This module must not know which tables there are.

A topic's name holds for the whole capture, also for packets before the name was seen. Where all
inputs are files, the first id without a name starts a search through them that reads names and
nothing else; a capture that begins with its connections never needs one. A pipe or an open file is
read once, and a name holds from where it was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.runtime.one_pass import read_steps
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.name_search import NameReader
from kanalyze.tables.requests.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.runtime.analysis_inputs import AnalysisInputs
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tables.requests.row_assembler import RowAssembler

__all__ = ["RunContext"]


class RunContext:
    """The inputs and the counts of the run of one analysis."""

    def __init__(
        self, settings: AnalysisSettings, inputs: AnalysisInputs, row_filter: RowFilter
    ) -> None:
        self.settings = settings
        self.inputs = inputs
        self.quality = CaptureQuality()
        """Complete when the run has ended."""
        self.names = TopicNames(self._search_names)
        """Names of topics by id: those that the user gave, and those that the run learns."""
        for topic_id, name in settings.topic_ids.items():
            self.names.learn(topic_id, name)
        self._filter = row_filter

    def open(self) -> Captures:
        """Open the captures; raises CaptureError and UsageError as the inputs do.

        What belongs to no connection, such as files that are left out, is counted with the first
        shard of the connections.
        """
        captures = self.inputs.open()
        if self.settings.shard.is_first:
            for anomaly in self.inputs.left_out:
                self.quality.count_anomaly(anomaly.kind)
        return captures

    def steps(
        self, stages: Stages, captures: Captures, *, ends: bool = True
    ) -> Iterator[BatchEvents]:
        """Read captures to their end; ``ends`` as in :func:`~.one_pass.read_steps`."""
        return read_steps(stages, captures, self.quality, self.settings.shard, ends=ends)

    def row_assembler(self, captures: Captures) -> RowAssembler:
        """Return a new row assembler."""
        return self.settings.row_assembler(captures.place, self.names)

    @property
    def row_filter(self) -> RowFilter:
        """Which rows are selected; times of day are those of the day of the first packet."""
        if self._filter.needs_day:
            first_ns = self.first_time_ns
            if first_ns is not None:
                self._filter = self._filter.on_day_of(first_ns)
        return self._filter

    @property
    def first_time_ns(self) -> int | None:
        """Unix time in ns of the first packet, as far as it is known; None where there is none."""
        are_files = self.inputs.are_files
        return self.inputs.first_time_ns() if are_files else self.quality.first_time_ns

    def matching(self, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]:
        """Give the rows that pass the filter; no block is empty."""
        for block in blocks:
            selected = block if self.row_filter.passes_all else self.row_filter.matching(block)
            if len(selected):
                yield selected

    def _search_names(self) -> Iterator[tuple[bytes, str]]:
        """Give all ids and names of topics in the captures, where they can be read again."""
        captures = self.inputs.open_again()
        if captures is None:
            return
        names = NameReader(self.settings.catalog)
        with captures:
            for _, step in self.settings.name_stages(names).run(captures):
                for exchange in step.exchanges:
                    yield from names.names(exchange)
