"""The columns that ``kanalyze connections`` shows in a table.

In: rows of connections. Out: cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.render.layout import TableColumn
from kanalyze.render.phrases import connection_text
from kanalyze.render.table import ReadableColumn
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text
from kanalyze.render.units import bytes_text, count_text, duration_text

if TYPE_CHECKING:
    from kanalyze.spec.rows.connections import ConnectionRow

__all__ = ["CONNECTION_TABLE", "connection_status"]


def connection_status(row: ConnectionRow) -> str:
    """Return the status word that colours a line; ``ok`` if nothing is wrong.

    ``error`` for a reset, or if TLS failed; ``unanswered`` if the network or a receiver delayed
    data, or if bytes are missing.
    """
    if row.end == "reset" or row.tls_failure is not None:
        return "error"
    return "unanswered" if _trouble(row) != MISSING or row.end in ("limit", "idle") else "ok"


def _both(client: int | None, broker: int | None) -> int | None:
    return None if client is None or broker is None else client + broker


def _trouble(row: ConnectionRow) -> str:
    """Return a short text about problems of the network, a receiver or TLS, at both ends."""
    retransmitted = _both(row.client_retransmitted_packets, row.broker_retransmitted_packets)
    counts = (
        (retransmitted, "retransmitted"),
        (_both(row.client_syn_retransmissions, row.broker_syn_retransmissions), "SYN again"),
        (row.client_out_of_order_packets + row.broker_out_of_order_packets, "out of order"),
        (_both(row.client_zero_windows, row.broker_zero_windows), "zero window"),
    )
    texts = [f"{count_text(count)} {name}" for count, name in counts if count]
    lost = row.client_lost_bytes + row.broker_lost_bytes
    if lost:
        texts.append(f"{bytes_text(lost)} lost")
    if row.tls_failure is not None:
        texts.append(f"TLS failed: {shown(row.tls_failure)}")
    return ", ".join(texts) or MISSING


def _closed(row: ConnectionRow) -> str:
    return row.end if row.closed_by is None else f"{row.end} by {row.closed_by}"


def _protocol(row: ConnectionRow) -> str:
    if row.tls_version is None:
        return shown(row.protocol)
    version = shown(row.tls_version)
    return version if row.protocol == "tls" else f"{shown(row.protocol)}, {version}"


CONNECTION_TABLE: tuple[ReadableColumn, ...] = (
    ReadableColumn(TableColumn("start", rank=7), lambda row: clock_text(row.start_ns)),
    ReadableColumn(
        TableColumn("connection", least=30),
        lambda row: connection_text(row.connection, row.connection_number),
    ),
    ReadableColumn(TableColumn("protocol"), _protocol),
    ReadableColumn(TableColumn("client", least=8, rank=6), lambda row: shown(row.client_id)),
    ReadableColumn(TableColumn("lifetime", right=True), lambda row: duration_text(row.duration_ns)),
    ReadableColumn(
        TableColumn("requests", right=True, rank=5), lambda row: count_text(row.requests)
    ),
    ReadableColumn(
        TableColumn("sent", right=True, rank=4), lambda row: bytes_text(row.client_payload_bytes)
    ),
    ReadableColumn(
        TableColumn("received", right=True, rank=4),
        lambda row: bytes_text(row.broker_payload_bytes),
    ),
    ReadableColumn(
        TableColumn("handshake", right=True, rank=1),
        lambda row: duration_text(row.handshake_rtt_ns),
    ),
    ReadableColumn(
        TableColumn("RTT to broker", right=True, rank=2),
        lambda row: duration_text(row.broker_rtt_ns),
    ),
    ReadableColumn(
        TableColumn("to client", right=True, rank=3),
        lambda row: duration_text(row.client_rtt_ns),
    ),
    ReadableColumn(TableColumn("end"), _closed),
    ReadableColumn(TableColumn("trouble", least=8), _trouble),
)
"""Columns of connections. Round trips are the shortest ones, measured from the capture point."""
