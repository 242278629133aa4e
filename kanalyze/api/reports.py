"""Makes the report on the rows of an analysis, by SQL queries over their tables.

In: an analysis, and an empty database. Out: the report as plain values, with ``findings``. This
module must not know how a report is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.api.tables import fill
from kanalyze.queries.report import report_with_findings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.queries.database import Database
    from kanalyze.queries.findings import FindingKind
    from kanalyze.runtime.pipeline import Analysis

__all__ = ["report_on"]


def report_on(
    analysis: Analysis | SavedAnalysis,
    database: Database,
    kinds: Sequence[FindingKind],
    thresholds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Fill a database with the rows of an analysis, and return the report on them.

    Args:
        analysis: an analysis that has not started; it is read to the end.
        database: an empty database; afterwards it has the tables that report queries need.
        kinds: the kinds of findings to search for.
        thresholds: see :func:`kanalyze.queries.findings.findings_of`.

    Raises:
        KanalyzeError: a capture cannot be read.
        QueryError: the query of a user's finding fails.
        UsageError: a threshold does not exist.
    """
    fill(database, analysis, {table for kind in kinds for table in kind.tables})
    conditions = analysis.row_filter.conditions
    return report_with_findings(database, analysis.quality, conditions, kinds, thresholds)
