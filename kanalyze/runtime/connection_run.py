"""The run that yields a row for each TCP connection.

In: the context of an analysis. Out: rows of connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.connections import connection_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.kafka.session.connection_summary import ConnectionSummary
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.stages import Captures
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.filters import RowFilter

__all__ = ["ConnectionRun", "matching_connections", "row_of_connection"]


class ConnectionRun:
    """Rows of TCP connections."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def batches(self) -> Iterator[list[ConnectionRow]]:
        """Yield the rows in the order in which connections closed, once; no batch is empty."""
        context = self._context
        captures = context.open()
        for step in context.steps(context.settings.stages(connections=True), captures):
            if rows := matching_connections(step.summaries, captures, context.row_filter):
                yield rows


def matching_connections(
    summaries: Iterable[ConnectionSummary], captures: Captures, row_filter: RowFilter
) -> list[ConnectionRow]:
    """Return the rows of connections that match a filter."""
    rows = (row_of_connection(summary, captures) for summary in summaries)
    return list(filter(row_filter.matches_connection, rows))


def row_of_connection(summary: ConnectionSummary, captures: Captures) -> ConnectionRow:
    """Return the row of a connection, which is complete if it has closed."""
    tcp = summary.tcp
    capture, packet = captures.locate(tcp.first_packet or 0)
    is_kafka = summary.protocol.startswith("kafka")
    return connection_row(
        tcp,
        capture=capture,
        first_packet=packet,
        client_index=tcp.opened_by if summary.client_index is None else summary.client_index,
        likely_client=summary.likely_client,
        protocol=summary.protocol,
        client_id=summary.client_id,
        client_software_name=summary.software_name,
        client_software_version=summary.software_version,
        principal=summary.principal,
        requests=summary.requests if is_kafka else None,
        decoded_bytes=summary.decoded_bytes if is_kafka else None,
        skipped_bytes=summary.skipped_bytes if is_kafka else None,
    )
