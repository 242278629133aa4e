"""Queries that fail.

A query that fails costs what it would have answered: who runs several goes on with the others, and
keeps :class:`FailedQueries`.
"""

from __future__ import annotations

from typing import Any

from kanalyze.common.texts import bounded_text
from kanalyze.errors import UsageError


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
