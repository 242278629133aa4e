"""The columns of the tables of connections, anomalies and records for people.

In: rows. Out: cells, and the status word that colours a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.render.phrases import connection_text, number_text
from kanalyze.render.table import number_column, text_column
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text, moment_text
from kanalyze.render.units import bytes_text, count_text, duration_text

if TYPE_CHECKING:
    from kanalyze.render.table import ReadableColumn
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.records import RecordRow

__all__ = [
    "ANOMALY_TABLE",
    "CONNECTION_TABLE",
    "LONGEST_SHOWN",
    "anomaly_status",
    "connection_status",
    "record_columns",
    "record_status",
]

_CONNECTION = text_column(
    "connection", lambda row: connection_text(row.connection, row.connection_number), least=30
)

# -- connections ----------------------------------------------------------------------------------


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


CONNECTION_TABLE = (
    text_column("start", lambda row: clock_text(row.start_ns), rank=7),
    _CONNECTION,
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

# -- anomalies ------------------------------------------------------------------------------------


def anomaly_status(row: AnomalyRow) -> str:
    """Return the status word that colours a line; it says where the fault lies."""
    return {"capture": "error", "net": "unanswered", "connection": "malformed"}[row.stage]


def _message(row: AnomalyRow) -> str:
    if row.api_key is None:
        return MISSING
    version = "" if row.api_version is None else f" v{row.api_version}"
    return shown(row.api_name or str(row.api_key)) + version


ANOMALY_TABLE = (
    text_column("time", lambda row: clock_text(row.time_ns, decimals=6), rank=4),
    number_column("packet", "packet"),
    text_column("anomaly", lambda row: row.kind),
    _CONNECTION,
    text_column("sender", "sender", least=12, rank=1),
    number_column("offset", "stream_offset", rank=2),
    number_column("size", "bytes", bytes_text),
    text_column("message", _message, rank=3),
    text_column("detail", lambda row: shown(row.detail or None), least=8),
)
"""The columns of the table, in order."""

# -- records --------------------------------------------------------------------------------------

LONGEST_SHOWN = 200
"""Number of bytes of a key or a value that the table shows."""
_CELL_LIMIT = 60
_NS_PER_MS = 1_000_000
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999. Later timestamps are shown as numbers."""


def record_columns(*, values: bool, search: bool = False) -> tuple[ReadableColumn, ...]:
    """Return the columns of the table.

    With ``values``, also keys, values and headers; with ``search``, where the bytes were found.
    """
    return (*_COLUMNS, *(_VALUES if values else ()), *(_MATCHES if search else ()), *_LAST)


def record_status(row: RecordRow) -> str:
    """Return ``malformed`` or ``ok``, which colours the line."""
    return "malformed" if row.problem is not None or row.crc_ok is False else "ok"


def _written(row: RecordRow) -> str:
    time_ms = row.timestamp_ms
    if time_ms is None or not 0 <= time_ms <= _LAST_MS:
        return number_text(time_ms)
    return moment_text(time_ms * _NS_PER_MS)


def _state(row: RecordRow) -> str:
    if row.problem is not None:
        return row.problem
    if row.crc_ok is False:
        return "bad crc"
    if row.is_control:
        return row.control_type or "control"
    if row.is_aborted:
        return "aborted"
    return "transactional" if row.is_transactional else "ok"


def _text(text: str | None, encoding: str | None) -> str:
    # An escaped text is already printable; its backslashes must not be doubled.
    if text is None or encoding != "escaped":
        return shown(text, _CELL_LIMIT)
    return text if len(text) <= _CELL_LIMIT else text[: _CELL_LIMIT - 1] + "\u2026"


def _headers(row: RecordRow) -> str:
    items = row.headers[:_CELL_LIMIT]
    texts = [f"{shown(item.key)}={_text(item.value, item.encoding)}" for item in items]
    return ", ".join(texts)[: 4 * _CELL_LIMIT] or MISSING


def _producer(row: RecordRow) -> str:
    return MISSING if row.producer_id is None else f"{row.producer_id}/{row.producer_epoch}"


def _delay(row: RecordRow) -> str:
    return MISSING if row.delay_ns is None else f"{row.delay_ns / _NS_PER_MS:.3f}"


def _schema(row: RecordRow) -> str:
    """Return the schemas of key and value: ``KEY/VALUE``, or only that of the value."""
    key = row.key_schema_guid or row.key_schema_id
    value = row.value_schema_guid or row.value_schema_id
    text = MISSING if value is None else str(value)
    return text if key is None else f"{key}/{text}"


_COLUMNS = (
    text_column("time", lambda row: clock_text(row.time_ns, decimals=6), rank=5),
    text_column("client", "client_id", least=8),
    text_column("API", lambda row: row.api_name),
    text_column("topic", lambda row: shown(row.topic or row.topic_id), least=8, may_have_ids=True),
    number_column("partition", "partition"),
    number_column("offset", "offset"),
    text_column("timestamp", _written, least=12, rank=3),
    number_column("key B", "key_bytes"),
    number_column("value B", "value_bytes"),
    number_column("headers", "header_count", rank=2),
)
_VALUES = (
    text_column("key", lambda row: _text(row.key, row.key_encoding), least=8),
    text_column("value", lambda row: _text(row.value, row.value_encoding), least=8),
    text_column("header values", _headers, least=8, rank=1),
)
_MATCHES = (text_column("found in", lambda row: shown(row.found_in, _CELL_LIMIT), least=8),)
_LAST = (
    number_column("delay ms", _delay, rank=8),
    number_column("schema", _schema, rank=9),
    text_column("trace", "trace_id", least=8, rank=10),
    text_column("codec", "codec", rank=4),
    number_column("producer", _producer, rank=6),
    text_column("state", _state, least=8),
    number_column("packet", "packet", rank=7),
)
