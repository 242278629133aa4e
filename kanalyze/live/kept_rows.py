"""The latest rows of every table, kept for queries: those for findings, and for the report.

In: rows as they come. Out: databases of them, and the report. Must not know: windows, clocks.

Rows are kept as compressed batches of Arrow: some 60 bytes for a request. A run may go on for
months, so there is a limit; what is older is dropped, and the report says from when on it is.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import format_time
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import Database
from kanalyze.queries.findings import finding_kinds
from kanalyze.queries.report import report_with_findings
from kanalyze.runtime.table_run import TableRows
from kanalyze.tables.anomalies import ANOMALY_COLUMNS
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.columns.numpy_arrays import ints_of
from kanalyze.tables.connections import CONNECTION_COLUMNS
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from kanalyze.tables.quality import CaptureQuality

__all__ = ["KeptRows", "RowParts", "database_of"]

MOST_BYTES = 64 << 20
MOST_REQUESTS = 1_000_000
"""The report of so many takes some 6 s, and 6 us for each of fewer."""

_ROWS_AT_ONCE = 4096
_PART_NS = 60 * 1_000_000_000
"""Rows are kept together until there are so many, or for so long."""
_TABLES = {
    "requests": COLUMNS,
    "connections": CONNECTION_COLUMNS,
    "anomalies": ANOMALY_COLUMNS,
}
_MOST_MEMORY_BYTES = 256 << 20


class _Part(NamedTuple):
    """Some rows of one table."""

    table: str
    rows: int
    first_ns: int
    """The time of the earliest request; of other tables, that of the requests that came before."""
    last_ns: int
    data: pa.Buffer
    """An Arrow stream of one batch."""


class RowParts(NamedTuple):
    """Rows of all tables, the latest ones."""

    parts: tuple[_Part, ...]
    requests: int
    first_ns: int
    last_ns: int
    """The times of the earliest and the latest request; 0 without any."""


class KeptRows:
    """Rows of every table; the oldest are dropped."""

    def __init__(self, *, most_bytes: int = MOST_BYTES, most_requests: int = MOST_REQUESTS) -> None:
        """Start empty."""
        self._most_bytes = most_bytes
        self._most_requests = most_requests
        self._makers = {table: BatchMaker(columns) for table, columns in _TABLES.items()}
        self._parts: deque[_Part] = deque()
        self._bytes = self._requests = 0
        self._last_ns = 0
        self._pending = TableRows([], [], [])
        self._pending_rows = self._pending_since_ns = 0
        self.since_ns: int | None = None
        """Requests that began before are dropped; None while there are all."""

    def add(self, rows: TableRows) -> None:
        """Add rows."""
        for block in rows.requests:
            last_ns = int(_began_ns(block).max(initial=0))
            if self._pending_rows == 0:
                self._pending_since_ns = last_ns
            self._pending.requests.append(block)
            self._pending_rows += len(block)
            is_old = last_ns - self._pending_since_ns >= _PART_NS
            if is_old or self._pending_rows >= _ROWS_AT_ONCE:
                self._keep_pending()
        self._pending.connections.extend(rows.connections)
        self._pending.anomalies.extend(rows.anomalies)
        if len(self._pending.connections) + len(self._pending.anomalies) >= _ROWS_AT_ONCE:
            self._keep_pending()

    def latest(self, span_ns: int, most_requests: int) -> RowParts:
        """Return the rows of the last ``span_ns``; fewer, if those are too many requests."""
        found: list[_Part] = []
        requests, since_ns = 0, None
        for part in reversed([*self._parts, *self._pending_parts()]):
            since_ns = part.last_ns - span_ns if since_ns is None else since_ns
            more = part.rows if part.table == "requests" else 0
            if found and (part.last_ns < since_ns or requests + more > most_requests):
                break
            requests += more
            found.append(part)
        found.reverse()
        times = [part for part in found if part.table == "requests"]
        return RowParts(
            tuple(found),
            requests,
            min((part.first_ns for part in times), default=0),
            max((part.last_ns for part in times), default=0),
        )

    def report(self, quality: CaptureQuality, conditions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the report on all rows, with its findings.

        Where requests were dropped, the time from which on it is stands among its conditions.
        """
        self._keep_pending()
        since_ns = self.since_ns
        since = {} if since_ns is None else {"since": format_time(since_ns)}
        with database_of(self._parts, _MOST_MEMORY_BYTES, since_ns) as database:
            return report_with_findings(database, quality, {**conditions, **since}, finding_kinds())

    def _keep_pending(self) -> None:
        for part in self._pending_parts():
            self._parts.append(part)
            self._bytes += part.data.size
            if part.table == "requests":
                self._last_ns = part.last_ns
                self._requests += part.rows
        self._pending = TableRows([], [], [])
        self._pending_rows = 0
        while len(self._parts) > 1 and self._is_too_much():
            self._drop()

    def _pending_parts(self) -> Iterator[_Part]:
        """Yield what is pending: requests first, so that those of a connection stand before it."""
        last_ns = self._last_ns
        if self._pending.requests:
            block = RowBlock.joined(self._pending.requests)
            began_ns = _began_ns(block)
            last_ns = max(last_ns, int(began_ns.max()))
            batch = self._makers["requests"].of_block(block)
            yield _part("requests", batch, int(began_ns.min()), last_ns)
        for table in ("connections", "anomalies"):
            if rows := getattr(self._pending, table):
                yield _part(table, self._makers[table].of_rows(rows), last_ns, last_ns)

    def _is_too_much(self) -> bool:
        return self._bytes > self._most_bytes or self._requests > self._most_requests

    def _drop(self) -> None:
        old = self._parts.popleft()
        self._bytes -= old.data.size
        if old.table == "requests":
            self._requests -= old.rows
            self.since_ns = old.last_ns + 1


def database_of(
    parts: Iterable[_Part], max_memory_bytes: int, since_ns: int | None = None
) -> Database:
    """Return a database of rows, for one thread; of requests those that began since a time."""
    database = Database(max_memory_bytes=max_memory_bytes, threads=1)
    for table, columns in _TABLES.items():
        database.create(table, BatchMaker(columns).schema)
    for part in parts:
        batch = _batch_of(part.data)
        if since_ns is not None and part.table == "requests" and part.first_ns < since_ns:
            batch = _begun_since(batch, since_ns)
        database.insert(part.table, batch)
    return database


def _part(table: str, batch: pa.RecordBatch, first_ns: int, last_ns: int) -> _Part:
    return _Part(table, batch.num_rows, first_ns, last_ns, _compressed(batch))


def _compressed(batch: pa.RecordBatch) -> pa.Buffer:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def _batch_of(data: pa.Buffer) -> pa.RecordBatch:
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _begun_since(batch: pa.RecordBatch, since_ns: int) -> pa.RecordBatch:
    import pyarrow.compute as pc

    began_ns = pc.coalesce(batch.column("request_start_ns"), batch.column("response_start_ns"))
    return batch.filter(pc.greater_equal(began_ns, since_ns))


def _began_ns(block: RowBlock) -> NDArray[np.int64]:
    """Return when each request began, or a response without one; 0 where that is not known."""
    request, response = (
        ints_of(block.columns[name]) for name in ("request_start_ns", "response_start_ns")
    )
    if request.valid is None:
        return request.values
    return np.where(request.valid, request.values, response.values)
