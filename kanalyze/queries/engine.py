"""What answers queries, on one machine or on many: what the report asks of it.

In, out: see :class:`QueryEngine`. This module must not know any that there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.queries.files import Query

__all__ = ["QueryEngine"]


class QueryEngine(Protocol):
    """Tables of a run, and views of them, that answer queries."""

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables that were made, without those of views."""

    def answer(
        self, query: Query, parameters: Mapping[str, object], most: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the lines that answer a query, which takes the parameters that it has of these.

        Only the first ``most`` of them, if that is given.
        """

    def keep(self, table: str, query: Query, parameters: Mapping[str, object]) -> None:
        """Keep the answer to a query as a table, in place of one of that name."""

    def forget(self, table: str) -> None:
        """Remove a table that was kept."""
