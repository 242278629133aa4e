"""Asks for findings while a run goes on: the same queries as a report, over the latest rows.

In: rows that are kept, and the time. Out: :class:`~kanalyze.live.window.snapshot.LatestFindings`.
Must not know: what shows them.

A round of queries takes some 0.2 s, and 2 us for each request. It runs on a thread of its own;
DuckDB lets the others run meanwhile. Rounds take at most one part in :data:`SHARE` of a processor,
however long one takes, and while packets are dropped there is none: the capture comes first.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.kept_rows import database_of
from kanalyze.live.window.snapshot import LatestFindings
from kanalyze.queries.database import QueryError
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import findings_of, kind_of_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from kanalyze.live.kept_rows import KeptRows, RowParts
    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.queries.findings import Finding, FindingKind

__all__ = ["FindingsWatch", "ask"]

SPAN_NS: Final = 660 * 1_000_000_000
"""Longer than the longest silence that a finding asks for."""
MOST_REQUESTS: Final = 100_000
SHARE: Final = 20
_REST_NS: Final = 5_000_000_000
_FIRST_NS: Final = 1_000_000_000
_MOST_MEMORY_BYTES: Final = 128 << 20


class Answer(NamedTuple):
    """What a round found, and what it took."""

    findings: tuple[Finding, ...]
    duration_ns: int
    """Of the processor's time: others may be busy too."""


class _Executor(Protocol):
    """The part of :class:`concurrent.futures.Executor` that is used."""

    def submit(self, fn: Callable[[RowParts], Answer], parts: RowParts, /) -> Future[Answer]: ...

    def shutdown(self) -> None: ...


class FindingsWatch:
    """Asks again and again, one round at a time."""

    def __init__(self, kept: KeptRows, executor: _Executor | None = None) -> None:
        """Ask for the findings of ``kept``; the executor has one thread."""
        if executor is None:
            from concurrent.futures import ThreadPoolExecutor

            executor = ThreadPoolExecutor(1, "findings")
        self._kept = kept
        self._executor = executor
        self._round: tuple[Future[Answer], RowParts, int] | None = None
        self._due_ns: int | None = None
        self._dropped_packets = 0
        self.latest: LatestFindings | None = None
        """None before the first round has ended."""

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> None:
        """Take the answer of a round that has ended; begin one that is due.

        ``now_ns`` is the time of the packets, ``clock_ns`` that of a monotonic clock. Raises what
        goes wrong in a round.
        """
        if self._due_ns is None:
            self._due_ns = clock_ns + _FIRST_NS
        if self._round is not None:
            self._take(clock_ns)
        elif clock_ns >= self._due_ns and state.packets:
            dropped = state.dropped_packets or 0
            is_behind, self._dropped_packets = dropped > self._dropped_packets, dropped
            if is_behind:
                self._due_ns = clock_ns + _REST_NS
                return
            parts = self._kept.latest(SPAN_NS, MOST_REQUESTS)
            self._round = (self._executor.submit(ask, parts), parts, now_ns)

    def close(self) -> None:
        """Wait for the round that goes on."""
        self._executor.shutdown()

    def _take(self, clock_ns: int) -> None:
        assert self._round is not None
        future, parts, time_ns = self._round
        if future.done():
            self._round = None
            found, duration_ns = future.result()
            span_ns = parts.last_ns - parts.first_ns
            self.latest = LatestFindings(time_ns, parts.requests, span_ns, found)
            self._due_ns = clock_ns + max(_REST_NS, SHARE * duration_ns)


def ask(parts: RowParts) -> Answer:
    """Return the findings of some rows, the worst first.

    A query that cannot be answered, of a table that is not kept or for lack of memory, finds
    nothing.
    """
    began_ns = time.thread_time_ns()
    found: list[Finding] = []
    with database_of(parts.parts, _MOST_MEMORY_BYTES) as database:
        for kind in _kinds():
            try:
                found += findings_of(database, [kind])
            except QueryError:
                continue
    found.sort(key=lambda each: (-each.severity, each.name, -each.weight))
    return Answer(tuple(found), time.thread_time_ns() - began_ns)


def _kinds() -> Sequence[FindingKind]:
    return [kind_of_finding(query) for query in built_in("findings").values()]
