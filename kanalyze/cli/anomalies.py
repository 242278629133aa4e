"""``kanalyze anomalies``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.cli.analyze import analysis_of
from kanalyze.cli.output import write_rows
from kanalyze.render.anomalies import ANOMALY_TABLE, anomaly_status
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, parse_kinds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.anomalies import AnomalyRow

__all__ = ["anomalies"]


def anomalies(arguments: argparse.Namespace) -> None:
    """Write one row per anomaly; raises KanalyzeError and OSError."""
    analysis = analysis_of(arguments)
    kinds = parse_kinds(arguments.kind)
    style = {"readable": ANOMALY_TABLE, "status_of": anomaly_status}
    write_rows(arguments, analysis, _of_kinds(analysis, kinds), ANOMALY_COLUMNS, style)


def _of_kinds(analysis: Analysis, kinds: frozenset[str]) -> Iterator[list[AnomalyRow]]:
    for rows in analysis.anomaly_batches():
        yield [row for row in rows if row.kind in kinds] if kinds else rows
