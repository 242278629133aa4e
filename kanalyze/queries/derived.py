"""The views of ``sql/tables/`` and the macros of ``sql/macros/``, made when a statement names one.

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
        self._macros: set[str] = set()

    def make(self, sql: str, above: frozenset[str] = frozenset()) -> None:
        """Make the views and macros that a statement may name, and those that they name.

        Args:
            sql: the statement.
            above: views that are being made, and that this statement is a part of.
        """
        tables, macros = built_in("tables"), built_in("macros")
        words = words_of(sql)
        for name in sorted(words & macros.keys() - self._macros):
            self._connection.execute(macros[name].sql)
            self._macros.add(name)
        for name in sorted(words & tables.keys() - above):
            if name not in self._kinds:
                kind = "TABLE" if tables[name].is_stored else "VIEW"
                self.make(tables[name].sql, above | {name})
                self._connection.execute(f"CREATE TEMP {kind} {name} AS {tables[name].sql}")
                self._kinds[name] = kind

    def drop(self) -> None:
        """Remove all views; macros stay, because no rows are in them."""
        for name, kind in self._kinds.items():
            self._connection.execute(f"DROP {kind} {name}")
        self._kinds.clear()
