"""Saves the tables of a run to a file that can be read in place of the captures.

In: an analysis. Out: a complete file, or none.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanalyze.api.saved import header_of
from kanalyze.api.tables import fill
from kanalyze.common import unfinished
from kanalyze.errors import UsageError
from kanalyze.export.files import OutputFile
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.runtime.pipeline import Analysis

__all__ = ["SAVED_TABLES", "save_tables"]

SAVED_TABLES = ("groups", "metadata", "capture_quality")
"""Tables to save in addition to those that every run fills. Records are not saved: they are users'
data, and may be as large as the captures."""


def save_tables(
    analysis: Analysis,
    destination: str,
    options: Mapping[str, Any],
    *,
    max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> int:
    """Write the tables of an analysis to a file; return the number of requests.

    Args:
        analysis: the analysis to run.
        destination: a path; an existing file is replaced when the new one is complete.
        options: options of the analysis as plain values, for information.
        max_memory_bytes: memory in bytes for the tables while they are written.

    Raises:
        KanalyzeError: a capture cannot be read, or the file cannot be written.
        UsageError: the destination is a capture, a pipe or standard output.
        OSError: the file cannot be created.
    """
    with OutputFile(destination) as output:
        partial = output.partial
        if partial is None:
            raise UsageError(f"{destination}: tables are not saved to a stream: use a file")
        mode = partial.stat().st_mode
        partial.unlink()  # DuckDB does not accept an empty file
        limits = {"max_memory_bytes": max_memory_bytes, "threads": 1}
        log = f"{partial}.wal"
        unfinished.begin(log)
        try:
            with Database(file=str(partial.absolute()), **limits) as database:
                partial.chmod(mode)
                fill(database, analysis, SAVED_TABLES)
                ((requests,),) = database.values("SELECT count(*) FROM requests", {})
                database.finish(header_of(analysis, options, __version__))
        finally:
            with suppress(OSError):
                Path(log).unlink()
            unfinished.end(log)
    return int(requests)
