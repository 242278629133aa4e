"""Chooses a writer by format, or by the suffix of a file name.

In: a destination and a format. Out: a row writer. The module of a writer is imported when that
writer is chosen.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kanalyze.common import paths
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT
from kanalyze.export.schema import choose_columns
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.export.files import FileWriter
    from kanalyze.spec.columns import Column

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
_WRITERS = {
    "csv": ("text_files", "CsvWriter"),
    "jsonl": ("text_files", "JsonLinesWriter"),
    "parquet": ("parquet", "ParquetWriter"),
    TRACE_FORMAT: ("perfetto", "PerfettoWriter"),
}
"""The module and the class of each format's writer."""


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
) -> FileWriter:
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
    if file_format == TRACE_FORMAT and (columns is not None or table is not COLUMNS):
        raise UsageError(f"{TRACE_FORMAT} shows requests, without --columns")
    if file_format not in _WRITERS:
        raise UsageError(f"unknown format {file_format!r}: use one of {', '.join(FORMATS)}")
    # Texts have timestamps only if they are asked for: they would be half of a file.
    has_times = file_format == "parquet" or columns is not None
    chosen = choose_columns(columns, with_times(table) if has_times else table)
    module, name = _WRITERS[file_format]
    writer: FileWriter = getattr(import_module(f"kanalyze.export.{module}"), name)(
        destination, chosen, private=private
    )
    return writer
