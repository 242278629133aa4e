"""The run that gives a row for each anomaly.

In: the context of an analysis. Out: rows of anomalies. This module must not know how anomalies are
found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.anomalies import AnomalyRow, anomaly_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.stages import Captures, Stages

__all__ = ["AnomalyRun", "anomaly_rows"]


class AnomalyRun:
    """Rows of anomalies: of the captures, of packets and TCP, of Kafka connections."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def batches(self) -> Iterator[list[AnomalyRow]]:
        """Give the rows as they are found, once; no batch is empty.

        Those of the captures themselves come with the first shard of the connections.
        """
        context = self._context
        captures = context.open()
        is_first = context.settings.shard.is_first
        stages = context.settings.stages(every_anomaly=True)
        if is_first and (rows := anomaly_rows(context.inputs.left_out, context, stages, captures)):
            yield rows
        seen = 0
        for step in context.steps(stages, captures):
            of_captures = captures.anomalies[seen:] if is_first else []
            seen = len(captures.anomalies)
            if rows := anomaly_rows([*of_captures, *step.anomalies], context, stages, captures):
                yield rows


def anomaly_rows(
    anomalies: Iterable[Anomaly], context: RunContext, stages: Stages, captures: Captures
) -> list[AnomalyRow]:
    """Return the rows of anomalies that pass the filter of a run."""
    rows = [_row(anomaly, context, stages, captures) for anomaly in anomalies]
    return [row for row in rows if context.row_filter.matches_anomaly(row)]


def _row(anomaly: Anomaly, context: RunContext, stages: Stages, captures: Captures) -> AnomalyRow:
    tcp = anomaly.connection
    client_side = None
    if tcp is not None:
        client_side = stages.client_side(tcp)
        client_side = tcp.opened_by if client_side is None else client_side
    api = None if anomaly.api_key is None else context.settings.catalog.api(anomaly.api_key)
    return anomaly_row(
        anomaly,
        place=captures.place,
        client_side=client_side,
        api_name=None if api is None else api.name,
    )
