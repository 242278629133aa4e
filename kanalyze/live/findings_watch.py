"""Searches for findings during a live run: with the queries of a report, in the latest rows.

In: the kept rows, and the time. Out: :class:`~kanalyze.live.window.snapshot.LatestFindings`.

A round of queries takes some 0.2 s, and 2 us for each request. It runs in its own thread, and
DuckDB releases the interpreter lock. Rounds take at most 1 / :data:`SHARE` of the time of one
processor. No round begins while packets are dropped, because the capture is more important.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.kept_rows import database_of
from kanalyze.live.window.snapshot import LatestFindings
from kanalyze.tables.quality import facts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future

    from kanalyze.live.finding_search import FindingSearch
    from kanalyze.live.kept_rows import KeptRows, RowBatches
    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.queries.findings import Finding
    from kanalyze.spec.rows.anomalies import QualityFact

__all__ = ["FindingsWatch", "ask"]

SPAN_NS: Final = 660 * 1_000_000_000
"""Time span of the rows: longer than the longest idle time in a finding."""
MAX_ROWS: Final = 100_000
"""Maximum number of rows of each table."""
SHARE: Final = 20
_MIN_PAUSE_NS: Final = 5_000_000_000
_FIRST_NS: Final = 1_000_000_000
_MAX_MEMORY_BYTES: Final = 128 << 20
_LONGEST_QUERY_S: Final = 5.0


class Answer(NamedTuple):
    """The result of a round, and its cost."""

    findings: tuple[Finding, ...]
    not_searched: dict[str, str]
    """By kind of finding: why it was not searched for."""
    duration_ns: int
    """CPU time of the thread: elapsed time would include that of other threads."""


class FindingsWatch:
    """Searches for findings repeatedly, one round at a time."""

    def __init__(self, rows: KeptRows, executor: Executor | None = None) -> None:
        """Search in ``rows``; the executor must have a single thread."""
        if executor is None:
            from concurrent.futures import ThreadPoolExecutor

            executor = ThreadPoolExecutor(1, "findings")
        self._rows = rows
        self._executor = executor
        self._round: tuple[Future[Answer], RowBatches, int] | None = None
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
            future = self._executor.submit(partial(ask, self._rows.search, batches, facts))
            self._round = (future, batches, now_ns)

    def close(self) -> None:
        """Wait for the current round to end."""
        self._executor.shutdown()

    def _collect(self, clock_ns: int) -> None:
        assert self._round is not None
        future, batches, time_ns = self._round
        if future.done():
            self._round = None
            findings, not_searched, duration_ns = future.result()
            span_ns = batches.last_ns - batches.first_ns
            self.latest = LatestFindings(time_ns, batches.requests, span_ns, findings, not_searched)
            self._due_ns = clock_ns + max(_MIN_PAUSE_NS, SHARE * duration_ns)


def ask(search: FindingSearch, rows: RowBatches, facts: Sequence[QualityFact] = ()) -> Answer:
    """Search for findings in some rows; return them, the most severe first, and the cost."""
    began_ns = time.thread_time_ns()
    findings, not_searched = search.search(
        lambda: database_of(rows.batches, facts, _MAX_MEMORY_BYTES), _LONGEST_QUERY_S
    )
    return Answer(tuple(findings), not_searched, time.thread_time_ns() - began_ns)


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
