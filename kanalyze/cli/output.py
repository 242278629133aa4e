"""Writes the rows of a command to a table or a file.

In: the arguments for output; rows. Out: a table on the terminal, or a file.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from kanalyze.cli.analyze import names_in, report_unread, zone_named_in
from kanalyze.cli.console import is_plain, plain_width
from kanalyze.cli.progress import progress_of
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.open import TRACE_FORMAT, format_of, open_writer
from kanalyze.export.schema import choose_columns
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.spec.columns import AnyRow, Column
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.name_columns import NameColumns

TABLE = "table"


class RowSink(Protocol):
    """A writer of rows: a file, or a table for people. Methods raise OSError."""

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows in this order."""

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block like ``write``."""


class CountedSink:
    """A sink that counts its rows."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink
        self.rows = 0

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows in this order."""
        self.rows += len(rows)
        self._sink.write(rows)

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block like ``write``."""
        self.rows += len(block)
        self._sink.write_block(block)


class Output(NamedTuple):
    """The destination and the format of rows."""

    destination: str
    """A file, or ``-``."""
    row_format: str
    """``table``, or a format of :mod:`kanalyze.export.open`."""
    names: list[str] | None
    """The columns of ``--columns``. None for all columns, or in a table for the readable ones."""
    table: tuple[Column, ...] = COLUMNS
    """All columns."""
    table_style: Mapping[str, Any] | None = None
    """More arguments of ``RowTable``."""
    zone: Zone = UTC
    """The time zone of a table."""
    has_files: Callable[[], bool] = bool
    """Returns whether a table says which capture a packet is in."""
    private: bool = False
    """True if only the owner may read the file."""
    address_names: NameColumns | None = None
    """Adds the names of addresses to rows; the columns have them already."""

    @contextmanager
    def opened(self) -> Iterator[CountedSink]:
        """Open the output; yield its sink. Raises UsageError and OSError."""
        is_table = self.row_format == TABLE
        names = self.address_names
        with self._table() if is_table else self._file() as sink:
            if names is None:
                yield CountedSink(sink)
                return
            from kanalyze.export.named_rows import NamedSink  # imported late: few runs have names

            yield CountedSink(NamedSink(sink, names, as_objects=is_table))

    @contextmanager
    def _file(self) -> Iterator[RowSink]:
        writer = open_writer(
            self.destination, self.row_format, self.names, self.table, private=self.private
        )
        with writer:
            yield writer

    @contextmanager
    def _table(self) -> Iterator[RowSink]:
        from kanalyze.render.table import RowTable  # imported late: files need no table

        columns = None
        if self.names is not None:
            columns = choose_columns(self.names, with_times(self.table))
        style = {"zone": self.zone, "has_files": self.has_files, **(self.table_style or {})}
        if self.destination == STANDARD_OUTPUT:
            width, colour = _width_and_colour()
            table = RowTable(sys.stdout, width=width, colour=colour, columns=columns, **style)
            yield table
            table.close()
            return
        with OutputFile(self.destination, private=self.private) as output:
            text = io.TextIOWrapper(output.file, encoding="utf-8", errors="backslashreplace")
            table = RowTable(text, width=None, colour=False, columns=columns, **style)
            yield table
            table.close()
            text.detach()


def write_rows(
    arguments: argparse.Namespace,
    analysis: Analysis | SavedAnalysis,
    batches: Iterable[Sequence[AnyRow]],
    table: tuple[Column, ...] = COLUMNS,
    table_style: Mapping[str, Any] | None = None,
) -> None:
    """Write rows to the output of the arguments; raises KanalyzeError and OSError.

    ``batches`` are rows of ``analysis``, whose progress is shown. For ``table`` and ``table_style``
    see :class:`Output`.
    """
    with opened_output(
        arguments, analysis, table, table_style, address_names=name_columns(arguments)
    ) as sink:
        for rows in batches:
            sink.write(rows)
    report_unread(sink.rows, arguments, analysis)


@contextmanager
def opened_output(
    arguments: argparse.Namespace,
    analysis: Analysis | SavedAnalysis,
    table: tuple[Column, ...] = COLUMNS,
    table_style: Mapping[str, Any] | None = None,
    *,
    private: bool = False,
    address_names: NameColumns | None = None,
) -> Iterator[CountedSink]:
    """Open the output of the arguments; while it is open, show the progress of ``analysis``.

    For the others see :class:`Output`; ``table`` is without the columns of names.
    """
    row_format = arguments.format or default_format(arguments.output)
    names = column_names(arguments.columns)
    zone = zone_named_in(arguments)

    def has_files() -> bool:
        return analysis.has_several_captures

    if row_format == TRACE_FORMAT:
        address_names = None
    if address_names is not None:
        from kanalyze.spec.rows.names import NAME_COLUMNS

        table = (*table, *NAME_COLUMNS)
        if row_format == TABLE:
            from kanalyze.render.table import with_name_columns

            table_style = with_name_columns(table_style or {})
    output = Output(
        *(arguments.output, row_format, names, table, table_style, zone, has_files, private),
        address_names,
    )
    if row_format == "parquet":
        from kanalyze.cli.pyarrow_alone import import_pyarrow  # imported late: for Parquet alone

        import_pyarrow(arguments, "pyarrow.parquet")
    progress = progress_of(arguments, arguments.output, is_streamed=True)
    with output.opened() as sink, progress.shown(), progress.reading(analysis):
        yield sink


def name_columns(arguments: argparse.Namespace) -> NameColumns | None:
    """Return what adds names of addresses to the rows of a command; None without ``--names``."""
    names = names_in(arguments)
    if names is None:
        return None
    from kanalyze.spec.rows.names import NAMED_ROWS  # imported late: few commands have names
    from kanalyze.tables.name_columns import NameColumns

    return NameColumns(names, NAMED_ROWS[arguments.command])


def column_names(text: str | None) -> list[str] | None:
    """Return the names of ``--columns``; None if it was not given."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def default_format(destination: str) -> str:
    """Return the format that the destination implies; raises UsageError."""
    if destination == STANDARD_OUTPUT or paths.ending(destination) == ".txt":
        return TABLE
    return format_of(destination)


def _width_and_colour() -> tuple[int | None, bool]:
    """Return the width of lines (None for programs), and whether they have colours."""
    is_for_people = sys.stdout.isatty() or "COLUMNS" in os.environ
    if is_plain():
        return plain_width() if is_for_people else None, False
    from rich.console import Console

    console = Console()
    colour = console.is_terminal and console.color_system is not None
    return console.width if is_for_people else None, colour
