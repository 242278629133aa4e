"""Saves the tables of a run to a file that is read in place of the captures.

In: an analysis. Out: a file, whole or not at all. This module must not know what is in a table.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanalyze.api.saved import header_of
from kanalyze.api.tables import fill
from kanalyze.errors import UsageError
from kanalyze.export.files import OutputFile
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.runtime.pipeline import Analysis

__all__ = ["SAVED_TABLES", "save_tables"]

SAVED_TABLES = ("groups", "metadata", "capture_quality")
"""What is saved beside the tables that every run fills. Records are not: they are what others
wrote, and may be as large as the captures."""


def save_tables(
    analysis: Analysis,
    destination: str,
    options: Mapping[str, Any],
    *,
    max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> int:
    """Write the tables of an analysis to a file; return how many requests there are.

    Args:
        analysis: is run here.
        destination: a path; a file that is there is replaced once the new one is whole.
        options: what the analysis was asked for, as plain values, for those who look.
        max_memory_bytes: what the tables may take of memory while they are written.

    Raises:
        KanalyzeError: a capture cannot be read, or the file not be written.
        UsageError: the destination is a capture, a pipe or standard output.
        OSError: the file cannot be made.
    """
    with OutputFile(destination) as output:
        partial = output.partial
        if partial is None:
            raise UsageError(f"{destination}: tables are not saved to a stream: give a file")
        mode = partial.stat().st_mode
        partial.unlink()  # DuckDB takes no file that is empty
        limits = {"max_memory_bytes": max_memory_bytes, "threads": 1}
        try:
            with Database(file=str(partial.absolute()), **limits) as database:
                partial.chmod(mode)
                fill(database, analysis, SAVED_TABLES)
                ((requests,),) = database.values("SELECT count(*) FROM requests", {})
                database.finish(header_of(analysis, options, __version__))
        finally:
            with suppress(OSError):
                Path(f"{partial}.wal").unlink()
    return int(requests)
