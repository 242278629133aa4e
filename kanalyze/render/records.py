"""The columns that ``kanalyze records`` shows in a table.

In: rows of records. Out: cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.render.phrases import number_text
from kanalyze.render.table import number_column, text_column
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text, moment_text

if TYPE_CHECKING:
    from kanalyze.render.table import ReadableColumn
    from kanalyze.tables.records.rows import RecordRow

__all__ = ["LONGEST_SHOWN", "record_columns", "record_status"]

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
