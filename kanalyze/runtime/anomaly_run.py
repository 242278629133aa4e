"""The run that yields a row for each anomaly.

In: the context of an analysis. Out: rows of anomalies. This module must not know how anomalies are
found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.anomalies import AnomalyRow, anomaly_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import Captures, Stages

__all__ = ["AnomalyRun", "anomaly_rows"]


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
        is_first = context.settings.shard.is_first
        stages = context.settings.stages(every_anomaly=True)
        if is_first:
            yield from self._selected(context.inputs.left_out, stages, captures)
        reported = 0
        for step in context.steps(stages, captures):
            capture_anomalies = captures.anomalies[reported:] if is_first else []
            reported = len(captures.anomalies)
            yield from self._selected([*capture_anomalies, *step.anomalies], stages, captures)

    def _selected(
        self, anomalies: Iterable[Anomaly], stages: Stages, captures: Captures
    ) -> Iterator[list[AnomalyRow]]:
        rows = anomaly_rows(anomalies, self._context.settings, captures, stages.client_index)
        if selected := [row for row in rows if self._context.row_filter.matches_anomaly(row)]:
            yield selected


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
