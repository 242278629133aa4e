"""The run that yields a row for each anomaly.

In: the context of an analysis. Out: rows of anomalies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.anomalies import anomaly_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.shard import Shard
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.spec.rows.anomalies import AnomalyRow

__all__ = ["AnomalyRun", "StepAnomalyRows", "anomaly_rows"]


class AnomalyRun:
    """Rows of anomalies of captures, of packets and TCP, and of Kafka connections."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def batches(self) -> Iterator[list[AnomalyRow]]:
        """Yield the rows as they are found, once; no batch is empty.

        Anomalies of the captures themselves belong to the first shard of the connections.
        """
        context = self._context
        captures = context.open()
        settings = context.settings
        stages = settings.stages(every_anomaly=True, checks_crc=True)
        if settings.shard.is_first:
            left_out = context.inputs.left_out
            yield from self._selected(
                anomaly_rows(left_out, settings, captures, stages.client_index)
            )
        step_rows = StepAnomalyRows(settings, stages, captures, settings.shard)
        for step in context.steps(stages, captures):
            yield from self._selected(step_rows.of(step))

    def _selected(self, rows: Iterable[AnomalyRow]) -> Iterator[list[AnomalyRow]]:
        if selected := [row for row in rows if self._context.row_filter.matches_anomaly(row)]:
            yield selected


class StepAnomalyRows:
    """Rows of the anomalies of each batch of events, and of the captures as they are read."""

    def __init__(
        self, settings: AnalysisSettings, stages: Stages, captures: Captures, shard: Shard
    ) -> None:
        """Make rows for a shard; anomalies of captures belong to the first one."""
        self._settings = settings
        self._stages = stages
        self._captures = captures
        self._is_first = shard.is_first
        self._reported_anomalies = 0

    def of(self, step: BatchEvents) -> list[AnomalyRow]:
        """Return the rows of a batch of events, before filtering."""
        captures = self._captures
        capture_anomalies = captures.anomalies[self._reported_anomalies :] if self._is_first else []
        self._reported_anomalies = len(captures.anomalies)
        anomalies = [*capture_anomalies, *step.anomalies]
        return anomaly_rows(anomalies, self._settings, captures, self._stages.client_index)


def anomaly_rows(
    anomalies: Iterable[Anomaly],
    settings: AnalysisSettings,
    captures: Captures,
    client_index: Callable[[TcpConnection], int | None],
) -> list[AnomalyRow]:
    """Return the rows of anomalies, without filtering.

    ``client_index`` returns which end of a connection is the client; None if unknown.
    """
    return [_row(anomaly, settings, captures, client_index) for anomaly in anomalies]


def _row(
    anomaly: Anomaly,
    settings: AnalysisSettings,
    captures: Captures,
    client_index: Callable[[TcpConnection], int | None],
) -> AnomalyRow:
    tcp = anomaly.connection
    index = None
    if tcp is not None:
        index = client_index(tcp)
        index = tcp.opened_by if index is None else index
    api = None if anomaly.api_key is None else settings.catalog.api(anomaly.api_key)
    return anomaly_row(
        anomaly,
        locate=captures.locate,
        client_index=index,
        api_name=None if api is None else api.name,
    )
