"""The views of ``sql/tables/``, which exist as soon as a statement names one.

In: statements. Out: views and tables in a database, which are dropped when rows are added, because
they are computed from rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.queries.files import built_in, words_of

if TYPE_CHECKING:
    import duckdb

__all__ = ["DerivedViews"]


class DerivedViews:
    """The views that exist now."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Begin without views; they will be made in ``connection``."""
        self._connection = connection
        self._kinds: dict[str, str] = {}
        """TABLE or VIEW, by name."""

    def make(self, sql: str, above: frozenset[str] = frozenset()) -> None:
        """Make the views that a statement may name, and those that they name.

        Args:
            sql: the statement.
            above: views that are being made, and that this statement is a part of.
        """
        tables = built_in("tables")
        for name in sorted(words_of(sql) & tables.keys() - above):
            if name not in self._kinds:
                kind = "TABLE" if tables[name].is_stored else "VIEW"
                self.make(tables[name].sql, above | {name})
                self._connection.execute(f"CREATE TEMP {kind} {name} AS {tables[name].sql}")
                self._kinds[name] = kind

    def drop(self) -> None:
        """Remove all views."""
        for name, kind in self._kinds.items():
            self._connection.execute(f"DROP {kind} {name}")
        self._kinds.clear()
