"""Rows as a table of text, written while rows come in.

In: rows. Out: lines on a text stream.

The first rows decide the widths, so that a table of any length takes little memory. In later rows,
a text that is too long is cut and ends in an ellipsis. A number that is too long is not cut: it
moves the rest of its line to the right.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.render.layout import (
    GAP,
    NARROWEST,
    TableColumn,
    fitted,
    natural_widths,
    padded,
    with_whole_ids,
)
from kanalyze.render.units import (
    MISSING,
    bytes_text,
    clock_text,
    connection_text,
    count_text,
    day_text,
    duration_text,
    moment_text,
    number_text,
    packets_text,
    shown,
    status_text,
)
from kanalyze.tables.columns.block import BUFFERED_BYTES, bytes_of_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.spec.columns import AnyRow, Column
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.records import RecordRow
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock

_SAMPLE_ROWS = 1000
"""Number of first rows that decide the widths; fewer if the memory limit is reached before."""
_CELL_LIMIT = 60
_LEAST = 8

_Cell: TypeAlias = Callable[[Any], str]
_Settled: TypeAlias = tuple[_Cell, TableColumn, int]


class ReadableColumn(NamedTuple):
    """A column of a table: its layout, and the function that makes a cell of a row."""

    column: TableColumn
    cell: _Cell
    time: Callable[[Any], int | None] | None = None
    """For a column of times: the Unix time in ns, which ``time_text`` writes."""
    time_text: Callable[[int | None, Zone], str] = clock_text
    is_file: bool = False
    """Whether it is needed only if there are several captures."""

    def cell_in(self, zone: Zone) -> _Cell:
        """Return the function that makes a cell of a row, with times of a zone."""
        time, time_text = self.time, self.time_text
        return self.cell if time is None else lambda row: time_text(time(row), zone)


def text_column(
    title: str,
    cell: str | _Cell,
    *,
    least: int | None = None,
    narrowest: int = NARROWEST,
    rank: int = 0,
    may_have_ids: bool = False,
) -> ReadableColumn:
    """Return a column of texts: of the field ``cell``, escaped, or of what it returns for a row."""
    layout = TableColumn(
        title, least=least, narrowest=narrowest, rank=rank, may_have_ids=may_have_ids
    )
    if callable(cell):
        return ReadableColumn(layout, cell)
    pick = attrgetter(cell)
    return ReadableColumn(layout, lambda row: shown(pick(row)))


def number_column(
    title: str, cell: str | _Cell, text: Callable[[Any], str] = number_text, *, rank: int = 0
) -> ReadableColumn:
    """Return a column of numbers: of the field ``cell`` as ``text``, or of what it returns."""
    layout = TableColumn(title, right=True, rank=rank)
    if callable(cell):
        return ReadableColumn(layout, cell)
    pick = attrgetter(cell)
    return ReadableColumn(layout, lambda row: text(pick(row)))


def time_column(
    title: str,
    time: Callable[[Any], int | None],
    time_text: Callable[[int | None, Zone], str] = clock_text,
    *,
    least: int | None = None,
    rank: int = 0,
) -> ReadableColumn:
    """Return a column of times, each of which is the Unix time in ns that ``time`` returns."""
    layout = TableColumn(title, least=least, rank=rank)
    return ReadableColumn(layout, lambda row: time_text(time(row), UTC), time, time_text)


def _exact(time_ns: int | None, zone: Zone) -> str:
    return clock_text(time_ns, zone, decimals=6)


def _file_column(*, rank: int = 0) -> ReadableColumn:
    """Return the column of the capture that packets are numbered in."""
    return text_column("in file", "capture", least=12, rank=rank)._replace(is_file=True)


class RowTable:
    """Writes rows as lines of a table.

    Args:
        stream: where lines are written; it is not closed.
        width: the longest line; None for no limit, then nothing is cut.
        colour: whether to colour lines by status.
        columns: columns of the row contract to show unchanged; None shows ``readable``.
        readable: the columns for people; None for those of requests.
        status_of: returns the status word of a row, which selects the colour.
        zone: the time zone of times in readable columns. The date of the first row, and the zone,
            are the title of the first such column; a line with the date stands before each row of
            another day.
        has_files: returns whether there are several captures, so that a packet needs its file;
            called once rows are known.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        width: int | None,
        colour: bool,
        columns: Sequence[Column] | None = None,
        readable: tuple[ReadableColumn, ...] | None = None,
        status_of: Callable[[Any], str] = attrgetter("status"),
        zone: Zone = UTC,
        has_files: Callable[[], bool] = bool,
    ) -> None:
        shown_columns = readable or READABLE
        if columns is not None:
            shown_columns = tuple(map(_plain, columns))
        self._zone = zone
        self._has_files = has_files
        self._day = ""
        # Columns of the row contract have titles of their own.
        times = [item for item in shown_columns if item.time is not None and columns is None]
        self._dated = times[0] if times else None
        self._status_of = status_of
        self._stream = stream
        self._width = width
        self._colour = colour
        self._columns = shown_columns
        self._buffered: list[AnyRow] = []
        self._buffered_bytes = 0
        self._cells: tuple[_Settled, ...] | None = None

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Write rows, or buffer them until the widths are known. Raises OSError."""
        if self._cells is None:
            self._buffered.extend(rows)
            if len(self._buffered) >= _SAMPLE_ROWS:
                self._release()
            return
        lines = [line for row in rows for line in self._lines(row, self._cells)]
        if lines:
            self._stream.write("\n".join(lines) + "\n")

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``."""
        for rows in (piece.rows() for piece in block.pieces()):
            self._buffered_bytes += sum(map(bytes_of_row, rows))
            self.write(rows)
            if self._buffered and self._buffered_bytes >= BUFFERED_BYTES:
                self._release()

    def close(self) -> None:
        """Write the buffered rows, or at least the titles, and flush. Raises OSError."""
        if self._cells is None:
            self._release()
        self._stream.flush()

    def _release(self) -> None:
        buffered, self._buffered = self._buffered, []
        self._cells = self._settle(buffered)
        self.write(buffered)

    def _settle(self, rows: Sequence[AnyRow]) -> tuple[_Settled, ...]:
        if not self._has_files():
            self._columns = tuple(item for item in self._columns if not item.is_file)
        cells = [item.cell_in(self._zone) for item in self._columns]
        sample = [[cell(row) for cell in cells] for row in list(rows)[:_SAMPLE_ROWS]]
        self._day = next(filter(None, map(self._day_of, rows)), "")
        columns = with_whole_ids([self._titled(item) for item in self._columns], sample)
        widths = fitted(columns, natural_widths(columns, sample), self._width)
        settled = [
            (cell, column, width)
            for cell, column, width in zip(cells, columns, widths, strict=True)
            if width
        ]
        titles = [padded(column.title, width, right=column.right) for _, column, width in settled]
        self._stream.write(self._styled(_joined(titles), _TITLE) + "\n")
        return tuple(settled)

    def _titled(self, item: ReadableColumn) -> TableColumn:
        return (
            item.column._replace(title=self._day)
            if item is self._dated and self._day
            else item.column
        )

    def _lines(self, row: AnyRow, cells: Iterable[_Settled]) -> Iterator[str]:
        """Yield the line of a row; before it a line with the date, if it is of another day."""
        day = self._day_of(row)
        if day and day != self._day:
            self._day = day
            yield self._styled(day, _DIM)
        yield self._line(row, cells)

    def _day_of(self, row: AnyRow) -> str:
        """Return the date of a row, and the zone; nothing if it has no time."""
        time_ns = None if self._dated is None or self._dated.time is None else self._dated.time(row)
        if time_ns is None:
            return ""
        return f"{day_text(time_ns, self._zone)} {self._zone.short_label(time_ns)}"

    def _line(self, row: AnyRow, cells: Iterable[_Settled]) -> str:
        line = _joined([self._fit(cell(row), column, width) for cell, column, width in cells])
        return self._styled(line, _STYLES.get(self._status_of(row)))

    def _fit(self, text: str, column: TableColumn, width: int) -> str:
        # A number that is wider than its column is not cut; it shifts the rest of the line.
        may_be_cut = self._width is not None and column.least is not None
        if not may_be_cut and len(text) > width:
            return text
        return padded(text, width, right=column.right)

    def _styled(self, line: str, style: int | None) -> str:
        if not self._colour or style is None:
            return line
        return f"\x1b[{style}m{line}\x1b[0m"


_TITLE, _DIM = 1, 2
"""Control sequences of a terminal (ECMA-48, SGR)."""
_RED, _YELLOW, _MAGENTA = 31, 33, 35
_STYLES = {
    "error": _RED,
    "malformed": _MAGENTA,
    "unanswered": _YELLOW,
    "orphan_response": _YELLOW,
}


def _joined(cells: Iterable[str]) -> str:
    return (" " * GAP).join(cells).rstrip()


# -- the columns made for reading -----------------------------------------------------------------


def _time(row: Row) -> int | None:
    return row.began_ns


def _api(row: Row) -> str:
    if row.api_key is None:
        return MISSING
    name = shown(row.api_name) if row.api_name else f"key {row.api_key}"
    return f"{name} v{row.api_version}"


def _latency(row: Row) -> str:
    return duration_text(row.latency_ns) + (" w" if row.waited else "")


def _topics(row: Row) -> str:
    names = dict.fromkeys(item.topic or item.topic_id for item in row.partitions[:100])
    return ", ".join(shown(name) for name in names) or MISSING


READABLE: tuple[ReadableColumn, ...] = (
    time_column("time", _time, _exact),
    text_column("client", "client_id", least=8),
    text_column("from", lambda row: row.client_ip, least=9, rank=4),
    # Wide enough for OffsetCommit v9 and OffsetFetch v9.
    text_column("API", _api, least=15, narrowest=13),
    number_column("latency", _latency),
    number_column("sent", "request_bytes", bytes_text, rank=2),
    number_column("received", "response_bytes", bytes_text, rank=2),
    # Wide enough to tell error names apart, because many begin with the same words.
    text_column("status", lambda row: status_text(row.status, row.error_name), least=20),
    text_column("topics", _topics, least=8, may_have_ids=True),
    text_column("group", "group_id", least=8, rank=3),
    number_column(
        "packets", lambda row: packets_text(row.request_packet, row.response_packet), rank=1
    ),
    _file_column(rank=1),
)
"""Columns of requests for people."""


def with_name_columns(style: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of :class:`RowTable` with columns of the names of addresses."""
    names = [
        text_column(name.replace("_", " "), name, least=8, rank=5)
        for name in ("client_name", "broker_name")
    ]
    return {**style, "readable": (*style.get("readable", READABLE), *names)}


# -- columns of the row contract ------------------------------------------------------------------


def _plain(column: Column) -> ReadableColumn:
    if column.source:
        return time_column(column.name, attrgetter(column.source), moment_text)
    pick = attrgetter(column.name)
    text = _TEXTS.get(column.type, number_text)
    is_number = column.type.startswith("int")
    return ReadableColumn(
        TableColumn(column.name, right=is_number, least=None if is_number else _LEAST),
        lambda row: text(pick(row)),
    )


def _bool(value: bool | None) -> str:
    return MISSING if value is None else str(value).lower()


def _text(value: str | None) -> str:
    return shown(value, _CELL_LIMIT)


def _items(items: list[Any]) -> str:
    """Return the items separated by spaces, with colons between the parts of each."""
    texts = []
    for item in items[:_CELL_LIMIT]:
        parts = (item,) if isinstance(item, str) else item
        texts.append(":".join(shown(None if part is None else str(part)) for part in parts))
    return ", ".join(texts) or MISSING


_TEXTS: dict[str, Callable[[Any], str]] = {
    "string": _text,
    "bool": _bool,
    "list<string>": _items,
    "list<struct>": _items,
}


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
    time_column("start", lambda row: row.start_ns, rank=7),
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
    time_column("time", lambda row: row.time_ns, _exact, rank=4),
    number_column("packet", "packet"),
    _file_column(),
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


def _written(time_ms: int | None, zone: Zone) -> str:
    if time_ms is None or not 0 <= time_ms <= _LAST_MS:
        return number_text(time_ms)
    return moment_text(time_ms * _NS_PER_MS, zone)


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


def _own_text(text: str | None, encoding: str | None) -> str:
    # An escaped text is already printable; its backslashes must not be doubled.
    if text is None or encoding != "escaped":
        return shown(text, _CELL_LIMIT)
    return text if len(text) <= _CELL_LIMIT else text[: _CELL_LIMIT - 1] + "\u2026"


def _headers(row: RecordRow) -> str:
    items = row.headers[:_CELL_LIMIT]
    texts = [f"{shown(item.key)}={_own_text(item.value, item.encoding)}" for item in items]
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
    time_column("time", lambda row: row.time_ns, _exact, rank=5),
    text_column("client", "client_id", least=8),
    text_column("API", lambda row: row.api_name),
    text_column("topic", lambda row: shown(row.topic or row.topic_id), least=8, may_have_ids=True),
    number_column("partition", "partition"),
    number_column("offset", "offset"),
    time_column("timestamp", lambda row: row.timestamp_ms, _written, least=12, rank=3),
    number_column("key B", "key_bytes"),
    number_column("value B", "value_bytes"),
    number_column("headers", "header_count", rank=2),
)
_VALUES = (
    text_column("key", lambda row: _own_text(row.key, row.key_encoding), least=8),
    text_column("value", lambda row: _own_text(row.value, row.value_encoding), least=8),
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
    _file_column(rank=7),
)
