"""Translates queries from DuckDB's dialect of SQL to Spark's, with sqlglot.

In: a :class:`~kanalyze.queries.files.Query`. Out: its text for Spark, over views with the columns
of our tables. sqlglot is imported when a query is translated, because the import takes 0.1 s.

Where the same SQL means something else in Spark, or Spark has no equivalent, a rule here defines
the translation.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from kanalyze.errors import UsageError
from kanalyze.queries.files import built_in, derived, find_query
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from kanalyze.queries.files import Query

__all__ = [
    "QUANTILE_ERROR",
    "queries",
    "query",
    "referenced_derived_tables",
    "referenced_names",
    "referenced_tables",
    "spark_sql",
]

QUANTILE_ERROR = 0.004
"""Maximum relative error of a quantile that is not exact."""

_DECIMAL = re.compile(r"\d*\.\d+")
_USUAL_FRACTIONS = ("0.5", "0.9", "0.99")
_ROW_NUMBER = "MONOTONICALLY_INCREASING_ID() AS request_id"
"""Numbers the rows: in Spark rows have no order, and most tables of requests have no such column.
"""


def spark_sql(
    query: Query, sources: Mapping[str, str] | None = None, *, has_exact_quantiles: bool = True
) -> str:
    """Return a query for ``spark.sql``; its parameters are written ``:name``.

    The views of DuckDB that it uses (``partitions``, ``measured``, ...) become a WITH clause, so
    only the tables must exist.

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
    with_clause = tree.args.get("with_") or exp.With(expressions=[])
    table_ctes = _sources(query, tree, views) if sources is None else _renamed(tree, views, sources)
    view_ctes = [_cte(name, view.copy()) for name, view in views.items()]
    tree.set("with_", exp.With(expressions=[*table_ctes, *view_ctes, *with_clause.expressions]))
    return str(tree.sql(dialect=_dialect(is_exact=has_exact_quantiles), pretty=True))


def referenced_tables(query: Query) -> frozenset[str]:
    """Return the tables that a query uses, directly or through views."""
    tree = _tree(query)
    views = _views_of(tree)
    return frozenset(_tables(tree, views))


def referenced_derived_tables(query: Query) -> list[str]:
    """Return the derived tables that a query uses and that should be stored, in order."""
    return [name for name in _views_of(_tree(query)) if derived()[name].is_stored]


def referenced_names(query: Query) -> frozenset[str]:
    """Return all names in a query and in its views: of columns, tables and aliases."""
    from sqlglot import exp

    tree = _tree(query)
    trees = (tree, *_views_of(tree).values())
    return frozenset(name.this for root in trees for name in root.find_all(exp.Identifier))


# Many queries use the same views, and a report looks at each query several times.
@lru_cache(maxsize=512)
def _tree(query: Query) -> Any:
    """Return the syntax tree of a query. It is cached: copy it before changing it."""
    import sqlglot

    try:
        tree = sqlglot.parse_one(query.sql, read="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise UsageError(f"query {query.name!r}: {str(error).partition(chr(10))[0]}") from None
    tree.comments = None
    return _expanded(tree)


@cache
def _macro(name: str) -> Any:
    """Return the statement that creates a macro of ours; None if there is none of that name."""
    import sqlglot

    macro = built_in("macros").get(name)
    return macro and sqlglot.parse_one(macro.sql, read="duckdb")


def _expanded(tree: Any) -> Any:
    """Return a tree with calls of our macros replaced by what they stand for."""
    from sqlglot import exp

    def expanded(node: Any) -> Any:
        macro = _macro(node.name.lower()) if isinstance(node, exp.Anonymous) else None
        if macro is None:
            return node
        names = [name.name for name in macro.this.expressions]
        values = dict(zip(names, node.expressions, strict=True))

        def with_value(part: Any) -> Any:
            if not isinstance(part, exp.Column) or part.name not in values:
                return part
            value = values[part.name].copy()
            return exp.paren(value) if isinstance(value, exp.Binary) else value

        return _expanded(macro.expression.transform(with_value))

    return tree.transform(expanded)


def _cte_names(tree: Any) -> set[str]:
    """Return the names that a query defines itself, such as those of WITH."""
    from sqlglot import exp

    return {cte.alias for cte in tree.find_all(exp.CTE)}


def _views_of(tree: Any, tables: Container[str] = ()) -> dict[str, Any]:
    """Return the trees of the views that a query uses, directly or through other views.

    Each view comes after the views that it uses. Names in ``tables`` are tables, even if there is a
    view of that name.
    """
    from sqlglot import exp

    views = derived()
    views_used: dict[str, Any] = {}

    def visit(node: Any) -> None:
        ctes = _cte_names(node)
        for table in node.find_all(exp.Table):
            name = table.name
            if name in views and name not in ctes and name not in views_used and name not in tables:
                view = _tree(views[name])
                visit(view)
                views_used[name] = view

    visit(tree)
    return views_used


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
    """Return ``requests`` with row numbers and the used columns, for the views; or nothing."""
    from sqlglot import exp

    if "requests" not in _tables(tree, views) or not views:
        return []
    names = referenced_names(query)
    columns = [column.name for column in COLUMNS if column.name in names]
    return [_cte("requests", exp.select(*columns, _ROW_NUMBER, dialect="spark").from_("requests"))]


def _renamed(tree: Any, views: Mapping[str, Any], sources: Mapping[str, str]) -> list[Any]:
    """Return the used tables under the names of their Spark views."""
    from sqlglot import exp

    renamed = [name for name in _tables(tree, views) if name in sources]
    return [_cte(name, exp.select("*").from_(sources[name])) for name in renamed]


def _cte(name: str, select: Any) -> Any:
    """Return one part of a WITH."""
    from sqlglot import exp

    return exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(name)))


# -- functions and literals -----------------------------------------------------------------------


@cache
def _dialect(*, is_exact: bool) -> Any:
    """Return Spark's dialect, with rules for what sqlglot does not translate."""
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
                exp.WithinGroup: _exact_quantile if is_exact else _quantile_in_bins,
            }

    return Rules


def _literal(generator: Any, node: Any) -> str:
    """Write 100.0 as a float: DuckDB divides it as one, Spark would divide decimals."""
    text = str(generator.literal_sql(node))
    return f"{text}D" if not node.is_string and _DECIMAL.fullmatch(text) else text


def _rounded(generator: Any, node: Any) -> str:
    """Round halves away from zero, as DuckDB does.

    Our own queries round to tenths by ``round(x * 10) / 10``: given a number of decimals, DuckDB's
    releases differ on values such as 0.15, which no float is equal to.
    """
    value, digits = generator.sql(node, "this"), generator.sql(node, "decimals")
    return f"ROUND({value} * 1e{digits}) / 1e{digits}" if digits else f"ROUND({value})"


def _text(generator: Any, node: Any) -> str:
    """Concatenate values as texts; nulls become empty texts.

    Tenths are cast to decimals: Java would write large floats with an exponent, which DuckDB does
    not.
    """
    texts = []
    for value in node.expressions:
        text = generator.sql(value)
        if _is_tenths(value):
            text = f"CAST({text} AS DECIMAL(38, 1))"
        texts.append(text if value.is_string else f"COALESCE(CAST({text} AS STRING), '')")
    return f"CONCAT({', '.join(texts)})"


def _is_tenths(value: Any) -> bool:
    """Return true if a value is written ``round(x * 10) / 10``."""
    from sqlglot import exp

    if not isinstance(value, exp.Div) or not isinstance(value.this, exp.Round):
        return False
    return str(value.expression) == "10"


def _list(generator: Any, node: Any) -> str:
    """Return a list in the given order, which sqlglot would drop."""
    from sqlglot import exp

    if not isinstance(node.this, exp.Order):
        return str(generator.func("COLLECT_LIST", node.this))
    order_key = generator.sql(node.this.expressions[0], "this")
    pair = f"STRUCT({order_key} AS sort_key, {generator.sql(node.this, 'this')} AS item)"
    return f"TRANSFORM(SORT_ARRAY(COLLECT_LIST({pair})), pair -> pair.item)"


def _function(generator: Any, node: Any) -> str:
    """Translate functions of DuckDB that Spark does not have; others unchanged.

    (Spark's ``histogram_numeric`` makes bins of its own; its timestamps have microseconds.)
    """
    if node.name.lower() == "make_timestamp_ns":
        return f"TIMESTAMP_MICROS({generator.sql(node.expressions[0])} DIV 1000)"
    if node.name.lower() != "histogram":
        return str(generator.anonymous_sql(node))
    values = f"COLLECT_LIST({generator.sql(node.expressions[0])})"
    count = f"CAST(SIZE(FILTER({values}, each -> each = bin)) AS BIGINT)"
    return f"MAP_FROM_ENTRIES(TRANSFORM(ARRAY_DISTINCT({values}), bin -> STRUCT(bin, {count})))"


# -- quantiles ------------------------------------------------------------------------------------


def _filtered(generator: Any, node: Any) -> str:
    """Translate an aggregate with FILTER; a quantile has the filter in each of its aggregates."""
    from sqlglot import exp

    if isinstance(node.this, exp.WithinGroup):
        return str(generator.sql(node, "this"))
    if isinstance(node.this, exp.IgnoreNulls):  # Spark has the filter first, sqlglot has it last
        filtered = exp.Filter(this=node.this.this, expression=node.expression)
        return f"{generator.filter_sql(filtered)} IGNORE NULLS"
    return str(generator.filter_sql(node))


def _exact_quantile(generator: Any, node: Any) -> str:
    """Return SQL for a quantile by nearest rank.

    Spark's own function takes eight times as long, and returns a float. Quantiles of the same
    values share one list.
    """
    values, fraction, condition, is_descending = _quantile_arguments(generator, node)
    rank = f"CAST(CEIL({fraction} * COUNT({values}){condition}) AS INT) - 1"
    order = ", FALSE" if is_descending else ""
    return f"GET(SORT_ARRAY(COLLECT_LIST({values}){condition}{order}), {rank})"


def _quantile_in_bins(generator: Any, node: Any) -> str:
    """Return SQL for a quantile of values rounded to bins, as a float; below 1000 it is exact.

    Spark counts the values of each bin: there are some thousand bins, however many values.
    sqlglot would write Spark's approximate quantile, which limits the error of the rank, not of the
    value.
    """
    values, fraction, condition, is_descending = _quantile_arguments(generator, node)
    (order_key,) = node.expression.expressions
    middle = generator.sql(_expanded(_call("bin_amount", _call("amount_bin", order_key.this))))
    rounded = f"CASE WHEN {values} < 1000 THEN {values} ELSE {middle} END"
    order = f"{rounded} DESC" if is_descending else rounded
    # One array for all usual fractions, which Spark computes once.
    fractions = sorted({*_USUAL_FRACTIONS, fraction}, key=float)
    array = f"PERCENTILE_DISC(ARRAY({', '.join(fractions)})) WITHIN GROUP (ORDER BY {order})"
    quantile = f"({array}{condition})[{fractions.index(fraction)}]"
    return f"GREATEST(MIN({values}){condition}, LEAST(MAX({values}){condition}, {quantile}))"


def _call(name: str, value: Any) -> Any:
    from sqlglot import exp

    return exp.Anonymous(this=name, expressions=[value.copy()])


def _quantile_arguments(generator: Any, node: Any) -> tuple[str, str, str, bool]:
    """Return a quantile's values, fraction and condition, and whether its order is descending."""
    from sqlglot import exp

    assert isinstance(node.this, exp.PercentileDisc), "our queries have no other WITHIN GROUP"
    (order,) = node.expression.expressions
    condition = ""
    if isinstance(node.parent, exp.Filter):
        condition = f" FILTER({generator.sql(node.parent, 'expression').strip()})"
    return generator.sql(order, "this"), node.this.this.sql(), condition, bool(order.args["desc"])


def queries() -> list[str]:
    """Return the names of all queries, in order."""
    return sorted(built_in("questions"))


def query(name: str) -> str:
    """Return the text of a query, whose parameters are written ``:name``.

    It begins with its title and description, as comments. Raises UsageError for an unknown name.
    """
    question = find_query(name)
    lines = [question.title, "", *question.description.splitlines()]
    comment = "\n".join(f"-- {line}".rstrip() for line in lines)
    return f"{comment}\n{spark_sql(question)}"
