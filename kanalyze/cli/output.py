"""Where the rows of a command go: a table, or a file.

In: what the arguments say of output. Out: a function that takes rows. This module must not know
which rows.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from kanalyze.cli.analyze import progress_bar, tell_if_none
from kanalyze.cli.screen import is_plain, plain_width
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.open import format_of, open_writer
from kanalyze.export.schema import choose_columns
from kanalyze.render.table import RowTable
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.row import AnyRow, Column

__all__ = [
    "TABLE",
    "CountedSink",
    "Output",
    "RowSink",
    "column_names",
    "default_format",
    "write_requests",
    "write_rows",
]

TABLE = "table"


class RowSink(Protocol):
    """What rows are written to: a file, or a table for people. Methods raise OSError."""

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows, in this order."""

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block, as ``write`` would."""


class CountedSink:
    """A sink that knows how many rows it was given."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink
        self.rows = 0

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows, in this order."""
        self.rows += len(rows)
        self._sink.write(rows)

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block, as ``write`` would."""
        self.rows += len(block)
        self._sink.write_block(block)


class Output(NamedTuple):
    """Where rows go, and how."""

    destination: str
    """A file, or ``-``."""
    row_format: str
    """``table``, or a format of :mod:`kanalyze.export.open`."""
    names: list[str] | None
    """Columns, as asked for; None for all, or in a table for those made for reading."""
    table: tuple[Column, ...] = COLUMNS
    """The columns there are."""
    table_style: Mapping[str, Any] | None = None
    """How a table looks: more arguments of ``RowTable``."""
    private: bool = False
    """Whether a file is for its owner alone."""

    @contextmanager
    def opened(self) -> Iterator[CountedSink]:
        """Open it; gives what rows are written to. Raises UsageError and OSError."""
        with self._table() if self.row_format == TABLE else self._file() as sink:
            yield CountedSink(sink)

    @contextmanager
    def _file(self) -> Iterator[RowSink]:
        writer = open_writer(
            self.destination, self.row_format, self.names, self.table, private=self.private
        )
        with writer:
            yield writer

    @contextmanager
    def _table(self) -> Iterator[RowSink]:
        chosen = None if self.names is None else choose_columns(self.names, self.table)
        style = self.table_style or {}
        if self.destination == STANDARD_OUTPUT:
            width, colour = _width_and_colour()
            table = RowTable(sys.stdout, width=width, colour=colour, columns=chosen, **style)
            yield table
            table.close()
            return
        with OutputFile(self.destination, private=self.private) as output:
            text = io.TextIOWrapper(output.file, encoding="utf-8", errors="backslashreplace")
            table = RowTable(text, width=None, colour=False, columns=chosen, **style)
            yield table
            table.close()
            text.detach()


def write_rows(
    arguments: argparse.Namespace,
    analysis: Analysis,
    batches: Iterable[Sequence[AnyRow]],
    table: tuple[Column, ...] = COLUMNS,
    table_style: Mapping[str, Any] | None = None,
) -> None:
    """Write rows where the arguments say; raises KanalyzeError and OSError.

    ``batches`` are the rows that ``analysis`` gives while its progress is shown; ``table`` and
    ``table_style`` are as in :class:`Output`.
    """
    with _opened(arguments, analysis, table, table_style) as sink:
        for rows in batches:
            sink.write(rows)
    tell_if_none(sink.rows, arguments, analysis)


def write_requests(arguments: argparse.Namespace, analysis: Analysis) -> None:
    """Write the rows of requests, as :func:`write_rows`, by column."""
    with closing(analysis):
        # Workers read while the output is opened, which for Parquet takes a while.
        analysis.start()
        with _opened(arguments, analysis) as sink:
            for block in analysis.batches():
                sink.write_block(block)
    tell_if_none(sink.rows, arguments, analysis)


@contextmanager
def _opened(
    arguments: argparse.Namespace,
    analysis: Analysis,
    table: tuple[Column, ...] = COLUMNS,
    table_style: Mapping[str, Any] | None = None,
) -> Iterator[CountedSink]:
    row_format = arguments.format or default_format(arguments.output)
    names = column_names(arguments.columns)
    # A bar and rows on one terminal would write over each other.
    is_seen = arguments.output == STANDARD_OUTPUT and sys.stdout.isatty()
    output = Output(arguments.output, row_format, names, table, table_style)
    with output.opened() as sink, progress_bar(analysis, wanted=not is_seen):
        yield sink


def column_names(text: str | None) -> list[str] | None:
    """Return what ``--columns`` says; None where it was not given."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def default_format(destination: str) -> str:
    """Return the format for a destination when none is asked for; raises UsageError."""
    if destination == STANDARD_OUTPUT or paths.ending(destination) == ".txt":
        return TABLE
    return format_of(destination)


def _width_and_colour() -> tuple[int | None, bool]:
    """Return what a line may take (no limit where a program reads it), and whether in colour."""
    is_for_people = sys.stdout.isatty() or "COLUMNS" in os.environ
    if is_plain():
        return plain_width() if is_for_people else None, False
    from rich.console import Console

    console = Console()
    colour = console.is_terminal and console.color_system is not None
    return console.width if is_for_people else None, colour
