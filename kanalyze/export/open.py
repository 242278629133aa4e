"""Chooses a writer by format, or by the suffix of a file name.

In: a destination and a format. Out: a row writer. The module of a writer is imported when that
writer is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common import paths
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT
from kanalyze.export.schema import choose_columns
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.export.files import RowWriter
    from kanalyze.spec.columns import Column

__all__ = ["FORMATS", "TRACE_FORMAT", "format_of", "open_writer"]

FORMATS = ("csv", "jsonl", "parquet")
"""Formats for any table."""
TRACE_FORMAT = "perfetto"
"""The format for requests only, always with all their columns."""

_ENDINGS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(destination: str, endings: Mapping[str, str] = _ENDINGS) -> str:
    """Return the format that the suffix of a file name means, one of ``endings``.

    Raises UsageError if the suffix is unknown.
    """
    ending = paths.ending(destination)
    if ending not in endings:
        raise UsageError(
            f"cannot tell the format of {destination!r} from its ending; "
            f"give --format, or one of {' '.join(endings)}"
        )
    return endings[ending]


def open_writer(
    destination: str,
    file_format: str | None = None,
    columns: Iterable[str] | None = None,
    table: tuple[Column, ...] = COLUMNS,
    *,
    private: bool = False,
) -> RowWriter:
    """Open a file, or ``-`` for standard output, for rows.

    ``file_format`` is one of :data:`FORMATS` or :data:`TRACE_FORMAT`; None follows the file's
    ending (JSON Lines for standard output). ``columns`` are names of columns of ``table``, None for
    all; Parquet has the timestamps of :func:`~kanalyze.spec.columns.with_times` too, CSV and JSON
    Lines those that ``columns`` name. ``private`` is as in
    :class:`~kanalyze.export.files.OutputFile`. Raises UsageError for invalid arguments, and
    OSError if the file cannot be opened.
    """
    if file_format is None:
        file_format = "jsonl" if destination == STANDARD_OUTPUT else format_of(destination)
    # Texts have timestamps only if they are asked for: they would be half of a file.
    has_times = file_format == "parquet" or (
        file_format in ("csv", "jsonl") and columns is not None
    )
    chosen = choose_columns(columns, with_times(table) if has_times else table)
    if file_format == TRACE_FORMAT:
        from kanalyze.export.perfetto import PerfettoWriter

        if columns is not None or table is not COLUMNS:
            raise UsageError(f"{TRACE_FORMAT} shows requests, without --columns")
        return PerfettoWriter(destination, private=private)
    if file_format == "csv":
        from kanalyze.export.text_files import CsvWriter

        return CsvWriter(destination, chosen, private=private)
    if file_format == "jsonl":
        from kanalyze.export.text_files import JsonLinesWriter

        return JsonLinesWriter(destination, chosen, private=private)
    if file_format == "parquet":
        from kanalyze.export.parquet import ParquetWriter

        return ParquetWriter(destination, chosen, private=private)
    raise UsageError(f"unknown format {file_format!r}: use one of {', '.join(FORMATS)}")
