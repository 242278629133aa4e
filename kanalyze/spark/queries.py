"""Queries to start from, over rows in a view ``requests``.

In: a name. Out: SQL, to be run (``spark.sql(query("rebalances"))``) or edited. Must not know:
Spark, nor where the view comes from. The texts are in ``sql/``; their comments say what they count.
"""

from __future__ import annotations

from importlib.resources import files

from kanalyze.errors import UsageError

__all__ = ["queries", "query"]

_SUFFIX = ".sql"


def queries() -> list[str]:
    """Return the names of all queries, in order."""
    names = (file.name for file in files(__package__).joinpath("sql").iterdir())
    return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def query(name: str) -> str:
    """Return the text of a query; raises UsageError where there is none of that name."""
    if name not in queries():
        raise UsageError(f"unknown query: {name!r}; there are {', '.join(queries())}")
    return files(__package__).joinpath("sql", name + _SUFFIX).read_text(encoding="utf-8")
