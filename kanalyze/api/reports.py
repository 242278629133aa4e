"""Makes the report on the tables of a run, by SQL queries, and its HTML page.

In: filled tables. Out: the report as plain values, with ``findings``; the bytes of a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.queries.files import built_in, words_of
from kanalyze.queries.report import MAX_SLOWEST, report_with_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kanalyze.api.tables import OpenedTables
    from kanalyze.queries.engine import QueryEngine
    from kanalyze.queries.findings import FindingKind

__all__ = ["names_of", "page_of", "report_on", "tables_of"]


def tables_of(kinds: Iterable[FindingKind]) -> set[str]:
    """Return the tables that findings need, besides those that every run fills."""
    return {table for kind in kinds for table in kind.tables}


def names_of(kinds: Iterable[FindingKind], *, has_page: bool) -> frozenset[str] | None:
    """Return a set of names that contains every column that the queries of a report use.

    None if the columns are unknown, because a user's query may use ``*``.

    Args:
        kinds: the kinds of findings to search for.
        has_page: whether the queries of the page are included.
    """
    folders = ("tables", "report", "findings", *(("page",) if has_page else ()))
    queries = [query for folder in folders for query in built_in(folder).values()]
    if not all(kind.query in queries for kind in kinds):
        return None
    return frozenset[str]().union(*(words_of(query.sql) for query in queries))


def report_on(
    tables: OpenedTables,
    kinds: Sequence[FindingKind],
    thresholds: Mapping[str, float] | None = None,
    *,
    most_slowest: int = MAX_SLOWEST,
) -> dict[str, Any]:
    """Return the report on the tables of a run.

    Args:
        tables: the tables of the run, including those of :func:`tables_of`.
        kinds: the kinds of findings to search for.
        thresholds: see :func:`kanalyze.queries.findings.findings_of`.
        most_slowest: number of the slowest requests to list.

    Raises:
        UsageError: a threshold does not exist.
    """
    return report_with_findings(*tables, kinds, thresholds, most_slowest=most_slowest)


def page_of(engine: QueryEngine, report: dict[str, Any]) -> bytes:
    """Return a report as one HTML file; ``engine`` has the tables of the report.

    Queries of the page that fail are added to the report.
    """
    from kanalyze.queries.engine import FailedQueries
    from kanalyze.queries.page import cube_of
    from kanalyze.render.html import html_page, plain_page

    failed = FailedQueries()
    cube = cube_of(engine, report, failed)
    failed.add_to(report)
    page = plain_page(report) if cube is None else html_page(report, cube)
    return page.encode("utf-8")
