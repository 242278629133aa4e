"""Queries in Spark's SQL: written once in DuckDB's dialect, and translated by sqlglot.

In: a :class:`~kanalyze.queries.files.Query`. Out: its text for Spark, over a view ``requests`` (and
``connections``, where it asks them) with the columns of those tables. This module must not know
what a query asks. sqlglot is imported when a query is translated: it takes 0.1 s.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kanalyze.queries.files import built_in

if TYPE_CHECKING:
    from kanalyze.queries.files import Query

__all__ = ["spark_sql"]

_NUMBERED = "SELECT *, monotonically_increasing_id() AS request_id FROM requests"
"""Spark's rows have no order, and no number of their own."""


def spark_sql(query: Query) -> str:
    """Return a query for ``spark.sql``; its parameters are written ``:name``.

    What it asks of the views that DuckDB has (``partitions``, ``measured``, ...) stands in front of
    it, so that ``requests`` is all there has to be.
    """
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(query.sql, read="duckdb")
    tree.comments = None
    own = tree.args.get("with_") or exp.With(expressions=[])
    tree.set("with_", exp.With(expressions=[*_views_of(tree), *own.expressions]))
    return tree.sql(dialect=_dialect(), pretty=True)


def _views_of(tree: Any) -> list[Any]:
    """Return the views that a query asks, and those that these ask, each behind what it asks."""
    import sqlglot
    from sqlglot import exp

    views = built_in("tables")
    found: dict[str, Any] = {}

    def look(node: Any) -> None:
        for table in node.find_all(exp.Table):
            if table.name in views and table.name not in found:
                view = sqlglot.parse_one(views[table.name].sql, read="duckdb")
                look(view)
                found[table.name] = exp.CTE(
                    this=view, alias=exp.TableAlias(this=exp.to_identifier(table.name))
                )

    look(tree)
    if found:
        numbered = exp.CTE(
            this=sqlglot.parse_one(_NUMBERED, read="spark"),
            alias=exp.TableAlias(this=exp.to_identifier("requests")),
        )
        return [numbered, *found.values()]
    return []


@cache
def _dialect() -> Any:
    """Return Spark's dialect with exact percentiles: sqlglot writes approximate ones."""
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark

    def within_group(generator: Any, node: Any) -> str:
        inner = node.this
        if not isinstance(inner, exp.PercentileDisc):
            return str(Spark.Generator.TRANSFORMS[exp.WithinGroup](generator, node))
        order = generator.sql(node, "expression").strip()
        return f"PERCENTILE_DISC({generator.sql(inner, 'this')}) WITHIN GROUP ({order})"

    class Exact(Spark):
        class Generator(Spark.Generator):  # type: ignore[misc,valid-type]
            TRANSFORMS = {**Spark.Generator.TRANSFORMS, exp.WithinGroup: within_group}  # noqa: RUF012

    return Exact
