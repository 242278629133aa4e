"""What every kind of run needs: settings, inputs, the filter, counters, topic names.

In: settings and inputs of an analysis. Out: open captures; the filter, once its days are known;
names of topics.

The name of a topic applies to the whole capture, also to packets before the name was seen. So, if
all inputs are files, the first topic id without a name starts a search through the files, which
decodes only names. If a capture begins before its connections, no search is needed. A pipe or an
open file can be read only once; there, a name applies from the place where it was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.runtime.analysis_inputs import AnalysisInputs
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import Captures
    from kanalyze.tables.filters import RowFilter

__all__ = ["RunContext"]


class RunContext:
    """The inputs and the counters of one run."""

    def __init__(
        self, settings: AnalysisSettings, inputs: AnalysisInputs, row_filter: RowFilter
    ) -> None:
        self.settings = settings
        self.inputs = inputs
        self.quality = CaptureQuality()
        """The quality of the captures; complete at the end of the run."""
        self.names = TopicNames(self._search_names)
        """Names of topics by id: those that the user gave, and those that the run learned."""
        for topic_id, name in settings.topic_ids.items():
            self.names.learn(topic_id, name)
        self._filter = row_filter

    def open(self) -> Captures:
        """Open the captures; raises CaptureError and UsageError.

        What belongs to no connection, such as files that cannot be read, is counted with the first
        shard of the connections.
        """
        captures = self.inputs.open()
        if self.settings.shard.is_first:
            for anomaly in self.inputs.left_out:
                self.quality.count_anomaly(anomaly.kind)
        return captures

    @property
    def row_filter(self) -> RowFilter:
        """The filter of rows; times of day are replaced by times on the first packet's day."""
        if self._filter.needs_day:
            first_ns = self.first_time_ns
            if first_ns is None:
                return self._filter.on_day_of(0)  # as long as no packet has a time: any day
            self._filter = self._filter.on_day_of(first_ns)
        return self._filter

    @property
    def first_time_ns(self) -> int | None:
        """Unix time of the first packet in ns; None if unknown or if there is no packet."""
        first_ns = self.inputs.first_time_ns() if self.inputs.are_files else None
        return self.quality.first_time_ns if first_ns is None else first_ns

    def _search_names(self) -> Iterator[tuple[bytes, str]]:
        """Yield all topic ids and names in the captures, if these can be read again."""
        captures = self.inputs.open_again()
        if captures is None:
            return
        from kanalyze.tables.requests.topic_names import NameReader  # imported late: rarely needed

        names = NameReader(self.settings.catalog)
        with captures:
            for _, step in self.settings.name_stages(names).run(captures):
                for exchange in step.exchanges:
                    yield from names.names(exchange)
