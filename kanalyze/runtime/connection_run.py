"""The run that gives a row for each TCP connection.

In: the context of an analysis. Out: rows of connections. This module must not know what becomes of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.connections import ConnectionRow, connection_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.session.connection_summary import EndedConnection
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.stages import Captures

__all__ = ["ConnectionRun", "row_of_connection"]


class ConnectionRun:
    """Rows of TCP connections."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def batches(self) -> Iterator[list[ConnectionRow]]:
        """Give the rows in the order in which the connections ended, once; no batch is empty."""
        context = self._context
        captures = context.open()
        for step in context.steps(context.settings.stages(connections=True), captures):
            rows = [row_of_connection(ended, captures) for ended in step.ended]
            selected = [row for row in rows if context.row_filter.matches_connection(row)]
            if selected:
                yield selected


def row_of_connection(ended: EndedConnection, captures: Captures) -> ConnectionRow:
    """Return the row of a connection that is over."""
    tcp = ended.tcp
    capture, packet = captures.place(tcp.first_packet or 0)
    is_kafka = ended.protocol.startswith("kafka")
    return connection_row(
        tcp,
        capture=capture,
        first_packet=packet,
        client_side=tcp.opened_by if ended.client_side is None else ended.client_side,
        protocol=ended.protocol,
        client_id=ended.client_id,
        client_software_name=ended.software_name,
        client_software_version=ended.software_version,
        principal=ended.principal,
        requests=ended.requests if is_kafka else None,
        decoded_bytes=ended.decoded_bytes if is_kafka else None,
        skipped_bytes=ended.skipped_bytes if is_kafka else None,
    )
