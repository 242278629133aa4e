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
        """Return the lines that answer a query, which takes the parameters that it has of these.

        Only the first ``most`` of them, if that is given.
        """

    def keep(self, table: str, query: Query, parameters: Mapping[str, object]) -> None:
        """Store the answer to a query as a table; it replaces a table of that name."""

    def forget(self, table: str) -> None:
        """Remove a table of :meth:`keep`."""
