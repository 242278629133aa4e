"""Translates queries from DuckDB's dialect of SQL to Spark's, with sqlglot.

In: a :class:`~kanalyze.queries.files.Query`. Out: its text for Spark, over views with the columns
of our tables. This module must not know what a query is for. sqlglot is imported when a query is
translated, because the import takes 0.1 s.

Where the same words mean something else in Spark, or Spark has no equivalent, a rule here defines
the translation.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from kanalyze.errors import UsageError
from kanalyze.queries.files import built_in
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from kanalyze.queries.files import Query

__all__ = [
    "QUANTILE_ERROR",
    "referenced_derived_tables",
    "referenced_names",
    "referenced_tables",
    "spark_sql",
]

QUANTILE_ERROR = 0.004
"""Maximum relative error of a quantile that is not exact."""

_STEPS = 150
"""Steps per unit of the logarithm. The middle of a step, as a whole number of at least 1000, is off
by less than 0.4 % (``exp(1 / 300)`` and a half)."""
_DECIMAL = re.compile(r"\d*\.\d+")
_USUAL_SHARES = ("0.5", "0.9", "0.99")
_NUMBER = "MONOTONICALLY_INCREASING_ID() AS request_id"
"""Spark's rows have no order, and most tables of them have no numbers."""


def spark_sql(
    query: Query, sources: Mapping[str, str] | None = None, *, has_exact_quantiles: bool = True
) -> str:
    """Return a query for ``spark.sql``; its parameters are written ``:name``.

    The views of DuckDB that it uses (``partitions``, ``measured``, ...) are put in front of it, so
    that only the tables must exist.

    Args:
        query: the query.
        sources: the Spark view of each table, and of each stored derived table; ``requests`` has
            row numbers (``request_id``). None if each view has the name of its table, and
            ``requests`` may have no such column.
        has_exact_quantiles: whether quantiles are exact, which takes memory for each value;
            otherwise they are within :data:`QUANTILE_ERROR`, for any number of rows.
    """
    from sqlglot import exp

    tree = _tree(query).copy()
    views = _views_of(tree, sources or ())
    ctes = tree.args.get("with_") or exp.With(expressions=[])
    named = _sources(query, tree, views) if sources is None else _renamed(tree, views, sources)
    used = [_cte(name, view.copy()) for name, view in views.items()]
    tree.set("with_", exp.With(expressions=[*named, *used, *ctes.expressions]))
    return str(tree.sql(dialect=_dialect(is_exact=has_exact_quantiles), pretty=True))


def referenced_tables(query: Query) -> frozenset[str]:
    """Return the tables that a query uses, directly or through views."""
    tree = _tree(query)
    views = _views_of(tree)
    return frozenset(_tables(tree, views))


def referenced_derived_tables(query: Query) -> list[str]:
    """Return the derived tables that a query uses and that should be stored, in order."""
    return [name for name in _views_of(_tree(query)) if built_in("tables")[name].is_stored]


def referenced_names(query: Query) -> frozenset[str]:
    """Return all names in a query and in its views: of columns, and of others."""
    from sqlglot import exp

    tree = _tree(query)
    trees = (tree, *_views_of(tree).values())
    return frozenset(name.this for each in trees for name in each.find_all(exp.Identifier))


# Many queries use the same views, and a report looks at each query several times.
@lru_cache(maxsize=512)
def _tree(query: Query) -> Any:
    """Return a query as a tree, which is not to be changed."""
    import sqlglot

    try:
        tree = sqlglot.parse_one(query.sql, read="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise UsageError(f"query {query.name!r}: {str(error).partition(chr(10))[0]}") from None
    tree.comments = None
    return tree


def _cte_names(tree: Any) -> set[str]:
    """Return the names that a query defines itself, such as those of WITH."""
    from sqlglot import exp

    return {cte.alias for cte in tree.find_all(exp.CTE)}


def _views_of(tree: Any, known: Container[str] = ()) -> dict[str, Any]:
    """Return the trees of the views that a query uses, also indirectly.

    Each comes after those that it uses. Names in ``known`` are tables, even if there is a view of
    that name.
    """
    from sqlglot import exp

    views = built_in("tables")
    used: dict[str, Any] = {}

    def look(node: Any) -> None:
        ctes = _cte_names(node)
        for table in node.find_all(exp.Table):
            name = table.name
            if name in views and name not in ctes and name not in used and name not in known:
                view = _tree(views[name])
                look(view)
                used[name] = view

    look(tree)
    return used


def _tables(tree: Any, views: Mapping[str, Any]) -> list[str]:
    """Return the names of the tables that a query and its views use."""
    from sqlglot import exp

    names: dict[str, None] = {}
    for node in (*views.values(), tree):
        ctes = _cte_names(node)
        for table in node.find_all(exp.Table):
            if table.name and table.name not in ctes and table.name not in views:
                names[table.name] = None
    return list(names)


def _sources(query: Query, tree: Any, views: Mapping[str, Any]) -> list[Any]:
    """Return ``requests`` with numbers if views use them, and with the columns used."""
    from sqlglot import exp

    if "requests" not in _tables(tree, views) or not views:
        return []
    names = referenced_names(query)
    columns = [column.name for column in COLUMNS if column.name in names]
    return [_cte("requests", exp.select(*columns, _NUMBER, dialect="spark").from_("requests"))]


def _renamed(tree: Any, views: Mapping[str, Any], sources: Mapping[str, str]) -> list[Any]:
    """Return the used tables under the names of their Spark views."""
    from sqlglot import exp

    renamed = [name for name in _tables(tree, views) if name in sources]
    return [_cte(name, exp.select("*").from_(sources[name])) for name in renamed]


def _cte(name: str, select: Any) -> Any:
    """Return one part of a WITH."""
    from sqlglot import exp

    return exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(name)))


# -- words ----------------------------------------------------------------------------------------


@cache
def _dialect(*, is_exact: bool) -> Any:
    """Return Spark's dialect, with rules for what sqlglot leaves to us."""
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark

    class Rules(Spark):
        class Generator(Spark.Generator):  # type: ignore[misc,valid-type]
            TRANSFORMS = {  # noqa: RUF012
                **Spark.Generator.TRANSFORMS,
                exp.Anonymous: _function,
                exp.ArrayAgg: _list,
                exp.Concat: _text,
                exp.Filter: _filtered,
                exp.Literal: _literal,
                exp.Round: _rounded,
                exp.WithinGroup: _exact_quantile if is_exact else _quantile_in_steps,
            }

    return Rules


def _literal(generator: Any, node: Any) -> str:
    """Write 100.0 as a float: DuckDB divides it as one, Spark would divide decimals."""
    text = str(generator.literal_sql(node))
    return f"{text}D" if not node.is_string and _DECIMAL.fullmatch(text) else text


def _rounded(generator: Any, node: Any) -> str:
    """Round as DuckDB does: to whole numbers, halves away from zero."""
    value, digits = generator.sql(node, "this"), generator.sql(node, "decimals")
    return f"ROUND({value} * 1e{digits}) / 1e{digits}" if digits else f"ROUND({value})"


def _text(generator: Any, node: Any) -> str:
    """Join values as texts, without nulls.

    Java writes large floats with an exponent, which DuckDB does not; rounded ones are cast.
    """
    from sqlglot import exp

    texts = []
    for each in node.expressions:
        text = generator.sql(each)
        if isinstance(each, exp.Round) and each.args.get("decimals"):
            text = f"CAST({text} AS DECIMAL(38, {generator.sql(each, 'decimals')}))"
        texts.append(text if each.is_string else f"COALESCE(CAST({text} AS STRING), '')")
    return f"CONCAT({', '.join(texts)})"


def _list(generator: Any, node: Any) -> str:
    """Return a list in the given order, which sqlglot would drop."""
    from sqlglot import exp

    if not isinstance(node.this, exp.Order):
        return str(generator.func("COLLECT_LIST", node.this))
    order_key = generator.sql(node.this.expressions[0], "this")
    pair = f"STRUCT({order_key} AS sort_key, {generator.sql(node.this, 'this')} AS item)"
    return f"TRANSFORM(SORT_ARRAY(COLLECT_LIST({pair})), pair -> pair.item)"


def _function(generator: Any, node: Any) -> str:
    """Translate DuckDB's ``histogram``, which Spark does not have; other functions unchanged.

    (Spark's ``histogram_numeric`` makes bins of its own.)
    """
    if node.name.lower() != "histogram":
        return str(generator.anonymous_sql(node))
    values = f"COLLECT_LIST({generator.sql(node.expressions[0])})"
    count = f"CAST(SIZE(FILTER({values}, each -> each = bin)) AS BIGINT)"
    return f"MAP_FROM_ENTRIES(TRANSFORM(ARRAY_DISTINCT({values}), bin -> STRUCT(bin, {count})))"


# -- quantiles ------------------------------------------------------------------------------------


def _filtered(generator: Any, node: Any) -> str:
    """Translate an aggregate with a condition; a quantile consists of several aggregates."""
    from sqlglot import exp

    if isinstance(node.this, exp.WithinGroup):
        return str(generator.sql(node, "this"))
    return str(generator.filter_sql(node))


def _exact_quantile(generator: Any, node: Any) -> str:
    """Return a quantile by nearest rank.

    Spark's own takes eight times as long, and returns a float. Quantiles of the same values share
    one list.
    """
    values, share, condition, is_falling = _quantile_arguments(generator, node)
    rank = f"CAST(CEIL({share} * COUNT({values}){condition}) AS INT) - 1"
    order = ", FALSE" if is_falling else ""
    return f"GET(SORT_ARRAY(COLLECT_LIST({values}){condition}{order}), {rank})"


def _quantile_in_steps(generator: Any, node: Any) -> str:
    """Return a quantile by the middles of steps, as a float; values below 1000 are exact.

    There are some thousand steps, however many values there are, and Spark counts each. sqlglot
    would write an approximate quantile, whose error is an error of the rank.
    """
    values, share, condition, is_falling = _quantile_arguments(generator, node)
    middle = f"ROUND(EXP(ROUND(LN({values}) * {_STEPS}) / {_STEPS}))"
    steps = f"CASE WHEN {values} < 1000 THEN {values} ELSE {middle} END"
    order = f"{steps} DESC" if is_falling else steps
    # One array for all usual shares, which Spark computes once.
    shares = sorted({*_USUAL_SHARES, share}, key=float)
    array = f"PERCENTILE_DISC(ARRAY({', '.join(shares)})) WITHIN GROUP (ORDER BY {order})"
    found = f"({array}{condition})[{shares.index(share)}]"
    return f"GREATEST(MIN({values}){condition}, LEAST(MAX({values}){condition}, {found}))"


def _quantile_arguments(generator: Any, node: Any) -> tuple[str, str, str, bool]:
    """Return the values of a quantile, its share, the condition, and whether it is descending."""
    from sqlglot import exp

    assert isinstance(node.this, exp.PercentileDisc), "the only one WITHIN GROUP in our queries"
    (order,) = node.expression.expressions
    condition = ""
    if isinstance(node.parent, exp.Filter):
        condition = f" FILTER({generator.sql(node.parent, 'expression').strip()})"
    return generator.sql(order, "this"), node.this.this.sql(), condition, bool(order.args["desc"])
