"""Looks for findings while a run goes on: with the queries of a report, in the latest rows.

In: rows that are kept, and the time. Out: :class:`~kanalyze.live.window.snapshot.LatestFindings`.
Must not know: what shows them.

A round of queries takes some 0.2 s, and 2 us for each request. It runs on a thread of its own;
DuckDB lets the others run meanwhile. Rounds take at most one part in :data:`SHARE` of a processor,
however long one takes, and while packets are dropped there is none: the capture comes first.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.kept_rows import database_of
from kanalyze.live.window.snapshot import LatestFindings
from kanalyze.tables.quality_facts import facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from kanalyze.live.finding_search import FindingSearch
    from kanalyze.live.kept_rows import KeptRows, RowParts
    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.queries.findings import Finding
    from kanalyze.tables.quality_facts import QualityFact

__all__ = ["FindingsWatch", "ask"]

SPAN_NS: Final = 660 * 1_000_000_000
"""Longer than the longest silence that a finding asks for."""
MOST_ROWS: Final = 100_000
"""Of each table."""
SHARE: Final = 20
_REST_NS: Final = 5_000_000_000
_FIRST_NS: Final = 1_000_000_000
_MOST_MEMORY_BYTES: Final = 128 << 20
_LONGEST_QUERY_S: Final = 5.0


class Answer(NamedTuple):
    """What a round found, and what it took."""

    findings: tuple[Finding, ...]
    left_out: dict[str, str]
    """By name of a kind of finding: why it was not looked for."""
    duration_ns: int
    """Of the processor's time: others may be busy too."""


class _Executor(Protocol):
    """The part of :class:`concurrent.futures.Executor` that is used."""

    def submit(self, fn: Callable[[], Answer], /) -> Future[Answer]: ...

    def shutdown(self) -> None: ...


class FindingsWatch:
    """Looks for findings again and again, one round at a time."""

    def __init__(self, kept: KeptRows, executor: _Executor | None = None) -> None:
        """Look for findings in ``kept``; the executor has one thread."""
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

        ``now_ns`` is the time of the packets, ``clock_ns`` that of a monotonic clock.
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
            parts = self._kept.latest(SPAN_NS, MOST_ROWS)
            facts = list(facts_of(_quality_fields(state)))
            future = self._executor.submit(partial(ask, self._kept.search, parts, facts))
            self._round = (future, parts, now_ns)

    def close(self) -> None:
        """Wait for the round that goes on."""
        self._executor.shutdown()

    def _take(self, clock_ns: int) -> None:
        assert self._round is not None
        future, parts, time_ns = self._round
        if future.done():
            self._round = None
            found, left_out, duration_ns = future.result()
            span_ns = parts.last_ns - parts.first_ns
            self.latest = LatestFindings(time_ns, parts.requests, span_ns, found, left_out)
            self._due_ns = clock_ns + max(_REST_NS, SHARE * duration_ns)


def ask(search: FindingSearch, parts: RowParts, facts: Sequence[QualityFact] = ()) -> Answer:
    """Return the findings in some rows, the worst first."""
    began_ns = time.thread_time_ns()
    found, left_out = search.search(
        lambda: database_of(parts.parts, facts, _MOST_MEMORY_BYTES), _LONGEST_QUERY_S
    )
    return Answer(tuple(found), left_out, time.thread_time_ns() - began_ns)


def _quality_fields(state: CaptureState) -> dict[str, Any]:
    """Return what is known of the quality so far, by the names of the report."""
    anomalies = {str(kind): {"count": count} for kind, count in (state.anomalies or {}).items()}
    return {
        "packets": state.packets,
        "wire_bytes": state.wire_bytes,
        "dropped_packets": state.dropped_packets,
        "connections": state.begun_connections,
        "anomalies": anomalies,
        **(state.doubts or {}),
    }
