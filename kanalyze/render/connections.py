"""The columns that ``kanalyze connections`` shows in a table.

In: rows of connections. Out: cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.render.phrases import connection_text
from kanalyze.render.table import number_column, text_column
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text
from kanalyze.render.units import bytes_text, count_text, duration_text

if TYPE_CHECKING:
    from kanalyze.render.table import ReadableColumn
    from kanalyze.tables.connections import ConnectionRow

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
    text_column("start", lambda row: clock_text(row.start_ns), rank=7),
    text_column(
        "connection", lambda row: connection_text(row.connection, row.connection_number), least=30
    ),
    text_column("protocol", _protocol),
    text_column("client", "client_id", least=8, rank=6),
    number_column("lifetime", "duration_ns", duration_text),
    number_column("requests", "requests", count_text, rank=5),
    number_column("sent", "client_payload_bytes", bytes_text, rank=4),
    number_column("received", "broker_payload_bytes", bytes_text, rank=4),
    number_column("handshake", "handshake_rtt_ns", duration_text, rank=1),
    number_column("RTT to broker", "broker_rtt_ns", duration_text, rank=2),
    number_column("to client", "client_rtt_ns", duration_text, rank=3),
    text_column("end", _closed),
    text_column("trouble", _trouble, least=8),
)
"""Columns of connections. Round trips are the shortest ones, measured from the capture point."""
