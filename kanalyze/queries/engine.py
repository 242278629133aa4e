"""The interface of query engines, as the report needs it.

In, out: see :class:`QueryEngine`. This module must not know any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.queries.files import Query

__all__ = ["QueryEngine"]


class QueryEngine(Protocol):
    """Tables of a run, and views of them, that can be queried."""

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables, without views."""

    def answer(
        self, query: Query, parameters: Mapping[str, object], most: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a query's result: the first ``most`` of them, or all if it is None.

        ``parameters`` may have more names than the query.
        """

    def keep(self, table: str, query: Query, parameters: Mapping[str, object]) -> None:
        """Store the result of a query as a table; it replaces a table of that name."""

    def forget(self, table: str) -> None:
        """Remove a table of :meth:`keep`."""
