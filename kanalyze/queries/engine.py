"""The interface of query engines, as the report needs it.

In, out: see :class:`QueryEngine`. A query that fails costs what it would have answered: who runs
several goes on with the others, and keeps :class:`FailedQueries`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kanalyze.common.texts import bounded_text
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.queries.files import Query

__all__ = ["FailedQueries", "QueryEngine", "QueryError"]


class QueryError(UsageError):
    """A query failed; the text is the engine's message in one line.

    Attributes:
        query: the name of the query; None if it has none.
        reason: the message without that name.
    """

    def __init__(self, reason: str, query: str | None = None) -> None:
        """Make an error; ``query`` is the name of the query, if it has one."""
        super().__init__(reason if query is None else f"query {query!r}: {reason}")
        self.query = query
        self.reason = reason


class FailedQueries:
    """The queries that failed, as in a report's ``failed_queries``."""

    def __init__(self) -> None:
        """Begin without any."""
        self.lines: list[dict[str, str]] = []

    def add(self, kind: str, name: str, error: UsageError) -> None:
        """Add a query, unless it is there already.

        Args:
            kind: what it is for: ``table``, ``finding``, ``page`` or ``comparison``.
            name: its name.
            error: what it raised.
        """
        reason = error.reason if isinstance(error, QueryError) else str(error)
        if all((line["kind"], line["name"]) != (kind, name) for line in self.lines):
            self.lines.append({"kind": kind, "name": name, "reason": bounded_text(reason)})

    def add_to(self, result: dict[str, Any]) -> None:
        """Add the queries, if any, to the ``failed_queries`` of a report or a comparison."""
        if self.lines:
            result["failed_queries"] = [*result.get("failed_queries", ()), *self.lines]


class QueryEngine(Protocol):
    """Tables of a run, and views of them, that can be queried."""

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables, without views."""

    def answer(
        self, query: Query, parameters: Mapping[str, object], worst: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a query's result, or only the ``worst``, those of the most ``weight``.

        ``parameters`` may have more names than the query. Raises QueryError if the query fails.
        """

    def keep(self, table: str, query: Query, parameters: Mapping[str, object]) -> None:
        """Store the result of a query as a table; it replaces a table of that name.

        Raises QueryError if the query fails.
        """

    def forget(self, table: str) -> None:
        """Remove a table of :meth:`keep`."""
