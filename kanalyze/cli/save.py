"""``kanalyze save``: writes the tables of captures to a file."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from kanalyze.api.saving import save_tables
from kanalyze.cli.analyze import analysis_of, report_unread
from kanalyze.cli.console import print_message
from kanalyze.cli.progress import progress_of
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    import argparse
__all__ = ["save"]


def save(arguments: argparse.Namespace) -> None:
    """Write the tables of captures to a file; raises KanalyzeError and OSError."""
    analysis = analysis_of(arguments)
    progress = progress_of(arguments)
    with closing(analysis), progress.shown(), progress.reading(analysis):
        requests = save_tables(
            analysis,
            arguments.output,
            _options(arguments),
            max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        )
    print_message(f"{arguments.output}: has all tables but records, which are users' data")
    report_unread(requests, arguments, analysis)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that change how captures are read, to be stored in the file."""
    return {name: getattr(arguments, name) for name in ("port", "topic_ids", "definitions")}
