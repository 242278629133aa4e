"""The built-in questions as Spark SQL: queries to start from, over rows in a view ``requests``.

In: a name. Out: SQL for ``spark.sql``. This module must not import pyspark: a query is a text.
"""

from __future__ import annotations

from kanalyze.queries.files import built_in, find_query
from kanalyze.spark.dialect import spark_sql

__all__ = ["queries", "query"]


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
