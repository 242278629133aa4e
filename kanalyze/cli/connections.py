"""``kanalyze connections``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.cli.analyze import analysis_of
from kanalyze.cli.output import write_rows
from kanalyze.render.connections import CONNECTION_TABLE, connection_status
from kanalyze.tables.connections import CONNECTION_COLUMNS

if TYPE_CHECKING:
    import argparse

__all__ = ["connections"]


def connections(arguments: argparse.Namespace) -> None:
    """Write one row per TCP connection; raises KanalyzeError and OSError."""
    analysis = analysis_of(arguments)
    style = {"readable": CONNECTION_TABLE, "status_of": connection_status}
    write_rows(arguments, analysis, analysis.connection_batches(), CONNECTION_COLUMNS, style)
