"""Makes the report on the tables of a run, its HTML page, and comparisons of two inputs.

In: filled tables; two captures, saved files or reports. Out: reports and comparisons as plain
values; the bytes of a page.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kanalyze.api.tables import opened_tables
from kanalyze.common import paths
from kanalyze.common.paths import is_database
from kanalyze.errors import UsageError
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES
from kanalyze.queries.files import built_in, words_below
from kanalyze.queries.report import MAX_SLOWEST, report_with_findings
from kanalyze.queries.report_names import add_names
from kanalyze.spec.columns import time_name
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.api.tables import OpenedTables
    from kanalyze.common.zones import Zone
    from kanalyze.queries.compare.comparison import Thresholds
    from kanalyze.queries.compare.sides import Side
    from kanalyze.queries.database import Database
    from kanalyze.queries.files import Query
    from kanalyze.queries.finding import Finding
    from kanalyze.queries.findings import FindingKind
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.filters import FoundRows
    from kanalyze.tables.names import AddressNames

_TIMES = frozenset(time_name(column.name) for column in COLUMNS if column.is_time)
"""Columns of timestamps of requests: views for users name some, no query of a report uses any."""


def tables_of(kinds: Iterable[FindingKind]) -> set[str]:
    """Return the tables that findings and a report need, besides those that every run fills."""
    return {"changes", "groups"}.union(*(kind.tables for kind in kinds))


def names_of(kinds: Iterable[FindingKind], *, has_page: bool) -> frozenset[str] | None:
    """Return a set of names that contains every column that the queries of a report use.

    None if the columns are unknown, because a user's query may use ``*``.

    Args:
        kinds: the kinds of findings to search for.
        has_page: whether the queries of the page are included.
    """
    folders = ("tables", "report", "findings", *(("page",) if has_page else ()))
    queries = _queries_in(*folders)
    if not all(kind.query in queries for kind in kinds):
        return None
    return _words_of_all(queries) - _TIMES


def _queries_in(*folders: str) -> list[Query]:
    return [query for folder in folders for query in built_in(folder).values()]


def _words_of_all(queries: Iterable[Query]) -> frozenset[str]:
    return frozenset[str]().union(*(words_below(query.sql) for query in queries))


def report_on(
    tables: OpenedTables,
    kinds: Sequence[FindingKind],
    thresholds: Mapping[str, float] | None = None,
    *,
    most_slowest: int = MAX_SLOWEST,
    names: AddressNames | None = None,
) -> dict[str, Any]:
    """Return the report on the tables of a run.

    Args:
        tables: the tables of the run, including those of :func:`tables_of`.
        kinds: the kinds of findings to search for.
        thresholds: see :func:`kanalyze.queries.findings.findings_of`.
        most_slowest: number of the slowest requests to list.
        names: the names of addresses; None for none.

    Raises:
        UsageError: a threshold does not exist.
    """
    report = report_with_findings(*tables, kinds, thresholds, most_slowest=most_slowest)
    add_names(report, names)
    return report


def found_rows(tables: OpenedTables, findings: Iterable[Finding]) -> FoundRows:
    """Return the rows that findings are about.

    Args:
        tables: the tables in which the findings were found.
        findings: findings of :func:`~kanalyze.queries.named_findings.named_findings`.
    """
    from kanalyze.tables.filters import KEY_COLUMNS, FoundRows

    rows: dict[str, set[Any]] = {"requests": set(), "connections": set()}
    for finding in findings:
        rows[finding.command].update(finding.rows)
    keys = tables.database.values(
        f"SELECT {', '.join(KEY_COLUMNS)} FROM requests"  # noqa: S608 - our own names
        " WHERE request_id IN (SELECT unnest($ids))",
        {"ids": list(rows["requests"])},
    )
    connections = {
        (connection, int(number))
        for connection, _, number in (key.rpartition(" ") for key in rows["connections"])
    }
    return FoundRows(
        frozenset(keys),
        frozenset(connections),
        frozenset(connections.union((key[0], key[1]) for key in keys)),
    )


def page_of(
    engine: Database,
    report: dict[str, Any],
    zone: Zone,
    inputs: Sequence[str] | None = None,
) -> bytes:
    """Return a report as one HTML file with times of ``zone``.

    ``engine`` has the tables of the report; ``inputs`` are the captures as the user named them.

    Queries of the page that fail are added to the report.
    """
    from kanalyze.queries.engine import FailedQueries
    from kanalyze.queries.page import cube_of
    from kanalyze.queries.report_names import with_names
    from kanalyze.render.html import html_page, plain_page

    failed = FailedQueries()
    cube = cube_of(engine, report, failed)
    failed.add_to(report)
    shown = with_names(report)
    if cube is None:
        return plain_page(shown, zone).encode("utf-8")
    page = html_page(shown, with_names(cube, report.get("names")), zone, inputs)
    return page.encode("utf-8")


_MAX_REPORT_BYTES = 256 << 20


def report_in(source: object) -> dict[str, Any] | None:
    """Return the report in a dict or a JSON file; None if it is something else.

    Raises UsageError for JSON that is not a report, and OSError.
    """
    from kanalyze.queries.compare.sides import checked_report, is_report, parse_report

    if isinstance(source, dict):
        return checked_report("report", source)
    if not isinstance(source, str | os.PathLike) or not paths.is_file(source):
        return None
    with paths.opened(source) as file:
        first = file.read(64)
        if is_database(first) or not is_report(first):
            return None
        text = first + file.read(_MAX_REPORT_BYTES)
    if len(text) > _MAX_REPORT_BYTES:
        raise UsageError(f"{source}: a report may have at most 256 MiB")
    return parse_report(os.fspath(source), text)


def compare_inputs(
    a: object,
    b: object,
    analysis_of: Callable[[Any], Analysis | SavedAnalysis],
    thresholds: Thresholds,
    *,
    max_memory_bytes: int | None = None,
    threads: int = 1,
    watched: Callable[[Analysis | SavedAnalysis, str], AbstractContextManager[None]] | None = None,
) -> dict[str, Any]:
    """Return the differences between A and B.

    Args:
        a: before: captures, saved files, or a report (a JSON file or a dict).
        b: after: the same.
        analysis_of: makes an analysis of captures or saved files.
        thresholds: the smallest differences to list.
        max_memory_bytes: memory in bytes for the tables of both sides together.
        threads: number of threads of a query.
        watched: returns a context manager, which is entered while an analysis runs; its arguments
            are the analysis and the name of the side, ``A`` or ``B``.

    Raises:
        KanalyzeError: an input is missing, or is not a capture, saved file or report.
    """
    from kanalyze.queries.compare.comparison import compare_sides
    from kanalyze.queries.compare.sides import side_of_report, side_of_rows
    from kanalyze.queries.findings import finding_kinds

    memory_bytes = (max_memory_bytes or DEFAULT_MEMORY_BYTES) // 2
    reports = [report_in(source) for source in (a, b)]
    kinds = finding_kinds()
    names = _words_of_all(_queries_in("tables", "findings", "compare")) - _TIMES
    with ExitStack() as stack:

        def opened(source: object, name: str) -> OpenedTables:
            analysis = analysis_of(source)
            tables = opened_tables(
                analysis,
                tables_of(kinds),
                names,
                max_memory_bytes=memory_bytes,
                threads=threads,
                progress=watched(analysis, name) if watched else None,
            )
            return stack.enter_context(tables)

        tables_of_sides = [
            None if report is not None else opened(source, name)
            for name, source, report in zip(("A", "B"), (a, b), reports, strict=True)
        ]
        sides: list[Side] = []
        for name, source, report, tables, slices in zip(
            ("A", "B"), (a, b), reports, tables_of_sides, _slices(tables_of_sides), strict=True
        ):
            if tables is not None:
                sides.append(side_of_rows(*tables, slices, kinds))
            elif report is not None:
                sides.append(side_of_report(source if isinstance(source, str) else name, report))
    return compare_sides(sides[0], sides[1], thresholds)


def _slices(sides: list[OpenedTables | None]) -> tuple[int | None, int | None]:
    """Return the number of slices of time for each side; None if differences are not tested."""
    from kanalyze.queries.compare.chance import slices_of
    from kanalyze.queries.compare.sides import active_seconds

    seconds = [active_seconds(tables.database) for tables in sides if tables is not None]
    slices = slices_of(*seconds) if len(seconds) == len(sides) else None
    return slices or (None, None)
