"""Searches for findings in the rows of a live run, even if a user's queries fail.

In: kinds of findings, databases of rows. Out: findings, and why some kinds are left out.

A query that fails is left out of this search, and runs again in the next one. A query that takes
too long is interrupted, and never runs again. Each reason is reported once, in one line.
"""

from __future__ import annotations

from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.queries.findings import findings_of, unfiltered_only
from kanalyze.spec.rows.anomalies import QUALITY
from kanalyze.spec.rows.tables import ALWAYS
from kanalyze.tables.cluster.reader import CLUSTER_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from kanalyze.queries.database import Database
    from kanalyze.queries.findings import Finding, FindingKind

__all__ = ["LIVE_TABLES", "FindingSearch"]

LIVE_TABLES = frozenset({*ALWAYS, *CLUSTER_TABLES, QUALITY})
"""Tables that a live run has."""


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
        self._kinds: list[FindingKind] = []
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
                self._kinds.append(kind)

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
        kinds = list(self._kinds)
        try:
            with make_database() as database:
                while kinds:
                    findings += self._ask(database, kinds.pop(0), failed, longest_s)
        except (KanalyzeError, OSError) as error:  # no disk space or memory for a database
            for kind in kinds:
                self._leave_out(failed, kind, str(error))
        findings.sort(key=lambda finding: (-finding.severity, finding.name, -finding.weight))
        return findings, {**self._never, **failed}

    def _ask(
        self, database: Database, kind: FindingKind, failed: dict[str, str], longest_s: float
    ) -> list[Finding]:
        """Return the findings of one kind; none, and a reason in ``failed``, if its query fails."""
        timer = _Timer(database, longest_s)
        try:
            return findings_of(database, [kind])
        except UsageError as error:
            if timer.is_over:
                self._kinds.remove(kind)
                reason = f"its query takes longer than {longest_s:g} s"
                self._leave_out(self._never, kind, reason)
            else:
                self._leave_out(failed, kind, str(error))
            return []
        finally:
            timer.stop()

    def _leave_out(self, kinds: dict[str, str], kind: FindingKind, reason: str) -> None:
        name = kind.query.name
        kinds[name] = reason
        if name not in self._reported:
            self._reported.add(name)
            self._warn(f"finding {name!r} is left out: {reason}")


class _Timer:
    """Interrupts the query of a database after some seconds."""

    def __init__(self, database: Database, seconds: float) -> None:
        self._over = Event()
        self._database = database
        self._timer = Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    @property
    def is_over(self) -> bool:
        """True if the query was interrupted."""
        return self._over.is_set()

    def stop(self) -> None:
        """Stop the timer: the query is no longer interrupted."""
        self._timer.cancel()
        self._timer.join()

    def _end(self) -> None:
        self._over.set()
        self._database.interrupt()
