"""``kanalyze requests``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kanalyze.cli.analyze import analysis_of, with_progress
from kanalyze.cli.output import Output, column_names, default_format
from kanalyze.export.files import STANDARD_OUTPUT

if TYPE_CHECKING:
    import argparse

__all__ = ["requests"]


def requests(arguments: argparse.Namespace) -> None:
    """Write one row per request; raises KanalyzeError and OSError."""
    analysis = analysis_of(arguments)
    columns = column_names(arguments.columns)
    row_format = arguments.format or default_format(arguments.output)
    # A bar and rows on one terminal would write over each other.
    is_seen = arguments.output == STANDARD_OUTPUT and sys.stdout.isatty()
    with Output(arguments.output, row_format, columns).opened() as write:
        for rows in with_progress(analysis, wanted=not is_seen):
            write(rows)
