"""Which of many queries can find anything: one look at each table says so for all of them.

In: queries. Out: those that are worth running. To plan a query takes as long as to count 100,000
rows, and most findings need something that a healthy cluster does not have.

A line ``only if TABLE: CONDITION`` in the comment of a query says what it needs. The condition is
an aggregate of all rows of the table or view, with the parameters of the query. If it is false or
null, the result of the query has no lines. If there are several such lines, it needs all of them.
Views are only made for queries that have what they need in tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.queries.engine import QueryError
from kanalyze.queries.files import Query, built_in, parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kanalyze.queries.database import Database

_CONDITION = re.compile(r"^only if (\w+): (.+)$", re.MULTILINE)
_PARAMETER = re.compile(r"\$(?=[a-z_])")


class _Need(NamedTuple):
    """What a query needs in a table."""

    table: str
    sql: str


def conditions_of(query: Query) -> list[_Need]:
    """Return what a query needs to find anything; a query without conditions is always run."""
    return [_Need(*found) for found in _CONDITION.findall(query.description)]


def promising(
    engine: Database, asked: Iterable[tuple[Query, Mapping[str, object]]]
) -> frozenset[Query]:
    """Return the queries that can find anything.

    Args:
        engine: the tables; what is needed in a table that it does not have is not there.
        asked: queries with their parameters; each may have more than it uses.
    """
    views = built_in("tables").keys()
    in_tables = _promising(engine, asked, lambda table: table not in views)
    return frozenset(query for query, _ in _promising(engine, in_tables, views.__contains__))


def _promising(
    engine: Database,
    asked: Iterable[tuple[Query, Mapping[str, object]]],
    is_looked_at: Callable[[str], bool],
) -> list[tuple[Query, Mapping[str, object]]]:
    """Return the queries that have what they need in some of the tables."""
    queries = list(asked)
    # By table and SQL: many queries need the same.
    needed: dict[str, dict[str, int]] = {}
    values: dict[str, object] = {}
    places_of: list[list[tuple[str, int]]] = []
    for number, (query, parameters) in enumerate(queries):
        places: list[tuple[str, int]] = []
        places_of.append(places)
        for table, sql in conditions_of(query):
            if not is_looked_at(table):
                continue
            names = parameters_of(sql)
            # Queries have parameters of the same name.
            values |= {f"q{number}_{name}": parameters[name] for name in names}
            numbered = _PARAMETER.sub(f"$q{number}_", sql)
            of_table = needed.setdefault(table, {})
            places.append((table, of_table.setdefault(numbered, len(of_table))))
    held = {
        table: _held(engine, table, list(conditions), values)
        for table, conditions in needed.items()
    }
    return [
        each
        for each, places in zip(queries, places_of, strict=True)
        if all(held[table][place] for table, place in places)
    ]


def _held(
    engine: Database, table: str, conditions: list[str], values: Mapping[str, object]
) -> list[bool]:
    """Return whether each condition holds."""
    if table not in engine.tables | built_in("tables").keys():
        return [False] * len(conditions)
    columns = ", ".join(f"{sql} AS c{number}" for number, sql in enumerate(conditions))
    text = f"SELECT {columns} FROM {table}"  # noqa: S608 - of files that are run as they are
    query = Query(f"conditions of {table}", "", "", parameters_of(text), text)
    try:
        (line,) = engine.answer(query, values)
    except QueryError:
        # Each query is run, and those that fail for the same reason say so by themselves.
        return [True] * len(conditions)
    return [bool(value) for value in line.values()]
