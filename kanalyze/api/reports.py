"""The report on the rows of an analysis, by queries over their tables.

In: an analysis, and an empty database. Out: the report, made of plain values, with what is wrong in
``findings``. This module must not know how a report is shown.
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
        analysis: not begun yet; it is read to its end.
        database: an empty one; afterwards it has the tables that queries of reports need.
        kinds: what is looked for.
        thresholds: as :func:`kanalyze.queries.findings.findings_of` takes them.

    Raises:
        KanalyzeError: a capture cannot be read.
        QueryError: a finding of a user cannot be answered.
        UsageError: there is no such threshold.
    """
    fill(database, analysis, {table for kind in kinds for table in kind.tables})
    conditions = analysis.row_filter.conditions
    return report_with_findings(database, analysis.quality, conditions, kinds, thresholds)
