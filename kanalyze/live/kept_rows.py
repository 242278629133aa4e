"""The latest rows of every table, kept for queries: for findings, and for the report.

In: rows, as they are made; kinds of findings; the time. Out: databases of these rows, the report,
and :class:`~kanalyze.live.window.snapshot.LatestFindings`.

Rows are kept as compressed Arrow batches: some 60 bytes for a request. A run may last for months,
so there is a limit. Older rows are dropped, and the report says at which time its rows begin.

A query that fails is left out of this search, and runs again in the next one. A query that takes
too long is interrupted, and never runs again. Each reason is reported once, in one line.

A round of queries takes some 0.2 s, and 2 us for each request. It runs in its own thread, and
DuckDB releases the interpreter lock. Rounds take at most 1 / :data:`SHARE` of the time of one
processor. No round begins while packets are dropped, because the capture is more important.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import contextmanager, nullcontext
from functools import partial
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.api.tables import tables_to_save
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import format_time
from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.live.window.snapshot import LagOfTopic, LatestFindings
from kanalyze.queries.database import Database
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import findings_of, told, unfiltered_only
from kanalyze.queries.named_findings import with_commands
from kanalyze.queries.report import bounded_line, report_of
from kanalyze.spec.rows.anomalies import QUALITY, QualityFact
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import ALWAYS, choose_tables
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.columns.numpy_arrays import all_began_ns
from kanalyze.tables.quality import facts_of, quality_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from numpy.typing import NDArray

    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.queries.finding import Finding
    from kanalyze.queries.findings import FindingKind
    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.quality import CaptureQuality

LIVE_TABLES = frozenset({*ALWAYS, *tables_to_save(records=False)})
"""Tables that a live run has: those of saved files."""
_OF_REQUESTS = LIVE_TABLES - {*ALWAYS, QUALITY}
"""Those whose lines belong to requests."""


class FindingSearch:
    """Runs the query of each kind of finding; used by one thread at a time."""

    def __init__(
        self,
        kinds: Iterable[FindingKind],
        warn: Callable[[str], None],
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        """Search for these kinds; ``warn`` receives a line about each kind that is left out.

        ``conditions`` is the filter of the rows.
        """
        self.kinds: list[FindingKind] = []
        """The kinds that are searched for."""
        self._warn = warn
        self._reported: set[str] = set()
        self._never: dict[str, str] = {}
        """By kind: the reason why its query never runs, or no longer runs."""
        for kind in kinds:
            if missing := kind.tables - LIVE_TABLES:
                reason = f"live does not make the table {', '.join(sorted(missing))}"
                self._leave_out(self._never, kind, reason)
            elif names := unfiltered_only(kind, conditions or {}):
                self._never[kind.query.name] = f"requests are filtered by {', '.join(names)}"
            else:
                self.kinds.append(kind)

    def search(
        self, make_database: Callable[[], AbstractContextManager[Database]], longest_s: float
    ) -> tuple[list[Finding], dict[str, str]]:
        """Return the findings, the most severe first, and why some kinds are left out, by kind.

        Args:
            make_database: makes the database of the rows; called once.
            longest_s: a query that takes longer than this, in seconds, is interrupted.
        """
        findings: list[Finding] = []
        failed: dict[str, str] = {}
        kinds = list(self.kinds)
        try:
            with make_database() as database:
                while kinds:
                    findings += self._ask(database, kinds.pop(0), failed, longest_s)
        except (KanalyzeError, OSError) as error:  # no disk space or memory for a database
            for kind in kinds:
                self._leave_out(failed, kind, str(error))
        return told(findings, self.kinds), {**self._never, **failed}

    def _ask(
        self, database: Database, kind: FindingKind, failed: dict[str, str], longest_s: float
    ) -> list[Finding]:
        """Return the findings of one kind; none, and a reason in ``failed``, if its query fails."""
        with _interrupted_after(database, longest_s) as over:
            try:
                return findings_of(database, [kind])
            except UsageError as error:
                if over.is_set():
                    self.kinds.remove(kind)
                    reason = f"its query takes longer than {longest_s:g} s"
                    self._leave_out(self._never, kind, reason)
                else:
                    self._leave_out(failed, kind, str(error))
                return []

    def _leave_out(self, kinds: dict[str, str], kind: FindingKind, reason: str) -> None:
        name = kind.query.name
        kinds[name] = reason
        if name not in self._reported:
            self._reported.add(name)
            self._warn(f"finding {name!r} is left out: {reason}")


@contextmanager
def _interrupted_after(database: Database, seconds: float) -> Iterator[Event]:
    """Interrupt a query that the block still runs after some seconds; the event says so."""
    over = Event()

    def end() -> None:
        over.set()
        database.interrupt()

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        timer.join()


MAX_BYTES = 64 << 20
MAX_REQUESTS = 1_000_000
"""Maximum number of requests. A report takes some 6 us for each, 6 s for this many."""

_ROWS_AT_ONCE = 4096
_BATCH_NS = 60 * 1_000_000_000
"""Rows are collected up to this number, or for this time, before they are compressed."""
_COLUMNS = {table.name: table.columns for table in choose_tables(LIVE_TABLES)}
_MAKERS = {table: BatchMaker(columns) for table, columns in _COLUMNS.items()}
_REPORT_MEMORY_BYTES = 256 << 20
_MAX_OPEN = 10_000
"""Maximum number of rows of open connections. They are made again for each search: this many take
0.2 s."""
_REPORT_QUERY_S = 60


class _StoredBatch(NamedTuple):
    """Some rows of one table."""

    table: str
    rows: int
    first_id: int
    """In the table of requests, the number of the first request, from 1 over the whole run;
    in other tables 0."""
    first_ns: int
    """Time of the earliest request; in other tables, the time of the latest request before."""
    last_ns: int
    data: pa.Buffer
    """An Arrow stream of one batch."""


class RowBatches(NamedTuple):
    """The latest rows of all tables."""

    batches: tuple[_StoredBatch, ...]
    requests: int
    first_ns: int
    last_ns: int
    """Times of the earliest and the latest request; 0 if there is none."""


class KeptRows:
    """Rows of every table; the oldest are dropped when a limit is reached."""

    tables_of_requests = _OF_REQUESTS
    """Tables to keep besides those of every run; their lines belong to requests."""

    def __init__(
        self,
        search: FindingSearch,
        *,
        most_bytes: int = MAX_BYTES,
        most_requests: int = MAX_REQUESTS,
    ) -> None:
        """Start without rows; ``search`` searches for the findings of the report."""
        self.search = search
        self.open_connections: Callable[[int], list[ConnectionRow]] | None = None
        """Returns the rows of open connections, up to a number; see
        :meth:`.Analysis.open_connections`."""
        self._most_bytes = most_bytes
        self._most_requests = most_requests
        self._batches: deque[_StoredBatch] = deque()
        self._bytes = self._requests = 0
        self._next_id = 1
        self._last_ns = 0
        self._clear_pending()
        self.since_ns: int | None = None
        """Time before which requests are dropped; None if none were dropped."""

    def add(self, rows: TableRows) -> None:
        """Add rows, including lines that belong to requests."""
        is_old = False
        for block in rows.requests:
            last_ns = int(all_began_ns(block).max(initial=0))
            if not self._pending_requests:
                self._pending_since_ns = last_ns
            is_old = last_ns - self._pending_since_ns >= _BATCH_NS
            self._pending_requests.append(block)
            self._pending_rows += len(block)
        for table, lines in rows.lines:
            self._pending_lines.setdefault(table, []).append(lines)
            self._pending_rows += len(lines)
        for table, new_rows in (("connections", rows.connections), ("anomalies", rows.anomalies)):
            self._pending_others[table].extend(new_rows)
            self._pending_rows += len(new_rows)
        if is_old or self._pending_rows >= _ROWS_AT_ONCE:
            self._keep_pending()

    def latest(self, span_ns: int, most_rows: int) -> RowBatches:
        """Return the rows of the last ``span_ns``, but at most ``most_rows`` of each table.

        Rows of open connections are included.
        """
        batches: list[_StoredBatch] = []
        rows: Counter[str] = Counter()
        since_ns = None
        for stored in reversed([*self._batches, *self._pending_batches()]):
            since_ns = stored.last_ns - span_ns if since_ns is None else since_ns
            count = rows[stored.table] + stored.rows
            if batches and (stored.last_ns < since_ns or count > most_rows):
                break
            rows[stored.table] = count
            batches.append(stored)
        batches.reverse()
        batches += self._open_batches()
        times = [stored for stored in batches if stored.table == "requests"]
        return RowBatches(
            tuple(batches),
            rows["requests"],
            min((stored.first_ns for stored in times), default=0),
            max((stored.last_ns for stored in times), default=0),
        )

    def report(self, quality: CaptureQuality, conditions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the report on all kept rows, with its findings.

        If requests were dropped, the conditions of the report say since when it has all requests.
        """
        self._keep_pending()
        since_ns = self.since_ns
        since = {} if since_ns is None else {"since": format_time(since_ns)}
        facts = list(quality_facts(quality))
        with database_of(self._batches, facts, _REPORT_MEMORY_BYTES, since_ns) as database:
            summary = report_of(database, quality, {**conditions, **since})
            findings, _ = self.search.search(lambda: nullcontext(database), _REPORT_QUERY_S)
        shown = with_commands(findings, self.search.kinds, conditions)
        return {**summary, "findings": [finding.to_dict() for finding in shown]}

    def _clear_pending(self) -> None:
        self._pending_requests: list[RowBlock] = []
        self._pending_lines: dict[str, list[RowBlock]] = {}
        self._pending_others: dict[str, list[Any]] = {"connections": [], "anomalies": []}
        self._pending_rows = self._pending_since_ns = 0

    def _keep_pending(self) -> None:
        for stored in self._pending_batches():
            self._batches.append(stored)
            self._bytes += stored.data.size
            if stored.table == "requests":
                self._last_ns = stored.last_ns
                self._requests += stored.rows
                self._next_id += stored.rows
        self._clear_pending()
        while len(self._batches) > 1 and self._is_too_much():
            self._drop()

    def _pending_batches(self) -> Iterator[_StoredBatch]:
        """Yield pending rows: requests first, so that they come before their connection's row."""
        last_ns = self._last_ns
        if self._pending_requests:
            block = RowBlock.joined(self._pending_requests)
            began_ns = all_began_ns(block)
            last_ns = max(last_ns, int(began_ns.max()))
            batch = _MAKERS["requests"].of_block(block)
            yield _stored("requests", batch, self._next_id, int(began_ns.min()), last_ns)
        for table, blocks in self._pending_lines.items():
            batch = _MAKERS[table].of_block(RowBlock.joined(blocks))
            yield _stored(table, batch, 0, last_ns, last_ns)
        for table, rows in self._pending_others.items():
            if rows:
                yield _stored(table, _MAKERS[table].of_rows(rows), 0, last_ns, last_ns)

    def _open_batches(self) -> Iterator[_StoredBatch]:
        if self.open_connections is not None and (rows := self.open_connections(_MAX_OPEN)):
            batch = _MAKERS["connections"].of_rows(rows)
            yield _stored("connections", batch, 0, self._last_ns, self._last_ns)

    def _is_too_much(self) -> bool:
        return self._bytes > self._most_bytes or self._requests > self._most_requests

    def _drop(self) -> None:
        old = self._batches.popleft()
        self._bytes -= old.data.size
        if old.table == "requests":
            self._requests -= old.rows
            self.since_ns = old.last_ns + 1


def database_of(
    batches: Iterable[_StoredBatch],
    facts: Sequence[QualityFact],
    max_memory_bytes: int,
    since_ns: int | None = None,
) -> Database:
    """Return a database with these rows, to be used by one thread.

    Args:
        batches: the rows.
        facts: the rows of ``capture_quality``.
        max_memory_bytes: memory limit of the database.
        since_ns: only requests that began since this time, and their lines; None for all.
    """
    database = Database(max_memory_bytes=max_memory_bytes, threads=1)
    for table, maker in _MAKERS.items():
        database.create(table, maker.schema)
    database.insert(QUALITY, _MAKERS[QUALITY].of_rows(facts))
    # The numbers of the requests in the latest batch of requests, and how many requests the
    # database has from earlier batches.
    ids, earlier_requests = np.zeros(0, dtype=np.int64), 0
    for stored in batches:
        batch = _batch_of(stored.data)
        if stored.table == "requests":
            earlier_requests += len(ids)
            ids = np.arange(stored.first_id, stored.first_id + stored.rows)
            if since_ns is not None and stored.first_ns < since_ns:
                is_recent = _begun_since(batch, since_ns)
                batch = batch.filter(is_recent)
                ids = ids[is_recent.to_numpy(zero_copy_only=False)]
        elif stored.table in _OF_REQUESTS:
            batch = _renumbered(batch, ids, earlier_requests + 1)
        database.insert(stored.table, batch)
    return database


def _renumbered(batch: pa.RecordBatch, ids: NDArray[np.int64], first: int) -> pa.RecordBatch:
    """Return the lines of the requests ``ids``, which are renumbered from ``first`` on."""
    import pyarrow as pa

    from kanalyze.export.arrow import array_of  # imported late, as pyarrow is

    index = batch.schema.get_field_index(REQUEST_ID.name)
    old = batch.column(index).to_numpy()
    indices = np.searchsorted(ids, old)
    numbers = array_of(indices + first, pa.int64())
    batch = batch.set_column(index, batch.schema.field(index), numbers)
    return batch.filter(array_of(np.append(ids, 0)[indices] == old, pa.bool_()))


def _stored(
    table: str, batch: pa.RecordBatch, first_id: int, first_ns: int, last_ns: int
) -> _StoredBatch:
    return _StoredBatch(table, batch.num_rows, first_id, first_ns, last_ns, _compressed(batch))


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


def _begun_since(batch: pa.RecordBatch, since_ns: int) -> pa.BooleanArray:
    import pyarrow.compute as pc

    began_ns = pc.coalesce(batch.column("request_start_ns"), batch.column("response_start_ns"))
    return pc.greater_equal(began_ns, since_ns)


SPAN_NS: Final = 660 * 1_000_000_000
"""Time span of the rows: longer than the longest idle time in a finding."""
MAX_ROWS: Final = 100_000
"""Maximum number of rows of each table."""
SHARE: Final = 20
_MIN_PAUSE_NS: Final = 5_000_000_000
_FIRST_NS: Final = 1_000_000_000
_ROUND_MEMORY_BYTES: Final = 128 << 20
_ROUND_QUERY_S: Final = 5.0
_MAX_LAGS: Final = 1000


class FindingsWatch:
    """Searches for findings repeatedly, one round at a time."""

    def __init__(self, rows: KeptRows, executor: Executor | None = None) -> None:
        """Search in ``rows``; the executor must have a single thread."""
        if executor is None:
            from concurrent.futures import ThreadPoolExecutor

            executor = ThreadPoolExecutor(1, "findings")
        self._rows = rows
        self._executor = executor
        self._round: Future[tuple[LatestFindings, int]] | None = None
        self._due_ns: int | None = None
        self._dropped_packets = 0
        self.latest: LatestFindings | None = None
        """None until the first round has ended."""

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> None:
        """Collect the answer of a finished round; begin a round if it is due.

        ``now_ns`` is the time of the packets, ``clock_ns`` that of a monotonic clock.
        """
        if self._due_ns is None:
            self._due_ns = clock_ns + _FIRST_NS
        if self._round is not None:
            self._collect(clock_ns)
        elif clock_ns >= self._due_ns and state.packets:
            dropped = state.dropped_packets or 0
            is_behind, self._dropped_packets = dropped > self._dropped_packets, dropped
            if is_behind:
                self._due_ns = clock_ns + _MIN_PAUSE_NS
                return
            batches = self._rows.latest(SPAN_NS, MAX_ROWS)
            facts = list(facts_of(_quality_fields(state)))
            search = partial(ask, self._rows.search, batches, now_ns, facts)
            self._round = self._executor.submit(search)

    def close(self) -> None:
        """Wait for the current round to end."""
        self._executor.shutdown()

    def _collect(self, clock_ns: int) -> None:
        if self._round is not None and self._round.done():
            self.latest, duration_ns = self._round.result()
            self._round = None
            self._due_ns = clock_ns + max(_MIN_PAUSE_NS, SHARE * duration_ns)


def ask(
    search: FindingSearch, rows: RowBatches, time_ns: int, facts: Sequence[QualityFact] = ()
) -> tuple[LatestFindings, int]:
    """Search for findings and lag in some rows at a time; return also what it cost.

    The cost is the CPU time of the thread in ns: elapsed time would include that of other threads.
    """
    began_ns = time.thread_time_ns()
    lag: tuple[LagOfTopic, ...] | None = None

    @contextmanager
    def opened() -> Iterator[Database]:
        nonlocal lag
        with database_of(rows.batches, facts, _ROUND_MEMORY_BYTES) as database:
            yield database
            lag = _lag_in(database)

    findings, not_searched = search.search(opened, _ROUND_QUERY_S)
    span_ns = rows.last_ns - rows.first_ns
    latest = LatestFindings(time_ns, rows.requests, span_ns, tuple(findings), not_searched, lag)
    return latest, time.thread_time_ns() - began_ns


def _lag_in(database: Database) -> tuple[LagOfTopic, ...] | None:
    """Return the lag of groups; None if the query fails, or takes too long."""
    try:
        with _interrupted_after(database, _ROUND_QUERY_S):
            lines = database.answer(built_in("report")["lag"], {"most_keys": _MAX_LAGS})
    except UsageError:
        return None
    return tuple(LagOfTopic(**bounded_line(line)) for line in lines)


def _quality_fields(state: CaptureState) -> dict[str, Any]:
    """Return the known fields of the quality so far, named as in the report."""
    anomalies = {str(kind): {"count": count} for kind, count in (state.anomalies or {}).items()}
    return {
        "packets": state.packets,
        "wire_bytes": state.wire_bytes,
        "dropped_packets": state.dropped_packets,
        "connections": state.connections_seen,
        "anomalies": anomalies,
        **(state.doubts or {}),
    }
