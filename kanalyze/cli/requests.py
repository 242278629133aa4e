"""``kanalyze requests``."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kanalyze.cli.analyze import analysis_of, with_progress
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.open import format_of, open_writer
from kanalyze.export.schema import choose_columns
from kanalyze.render.table import RowTable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from kanalyze.analysis.row import Row

    _Write: TypeAlias = Callable[[Sequence[Row]], None]

__all__ = ["requests"]

_TABLE = "table"


def requests(arguments: argparse.Namespace) -> None:
    """Write one row per request; raises KanalyzeError and OSError."""
    analysis = analysis_of(arguments)
    columns = None if arguments.columns is None else _names(arguments.columns)
    row_format = arguments.format or _default_format(arguments.output)
    # A bar and rows on one terminal would write over each other.
    is_seen = arguments.output == STANDARD_OUTPUT and sys.stdout.isatty()
    with _opened(arguments.output, row_format, columns) as write:
        for rows in with_progress(analysis, wanted=not is_seen):
            write(rows)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _default_format(destination: str) -> str:
    if destination == STANDARD_OUTPUT or Path(destination).suffix.lower() == ".txt":
        return _TABLE
    return format_of(destination)


def _opened(
    destination: str, row_format: str, columns: list[str] | None
) -> AbstractContextManager[_Write]:
    if row_format == _TABLE:
        return _table(destination, columns)
    return _file(destination, row_format, columns)


@contextmanager
def _file(destination: str, row_format: str, columns: list[str] | None) -> Iterator[_Write]:
    with open_writer(destination, row_format, columns) as writer:
        yield writer.write


@contextmanager
def _table(destination: str, columns: list[str] | None) -> Iterator[_Write]:
    chosen = None if columns is None else choose_columns(columns)
    if destination == STANDARD_OUTPUT:
        console = Console()
        table = RowTable(
            sys.stdout,
            width=_width(console),
            colour=console.is_terminal and console.color_system is not None,
            columns=chosen,
        )
        yield table.write
        table.close()
        return
    with OutputFile(destination) as output:
        text = io.TextIOWrapper(output.file, encoding="utf-8", errors="backslashreplace")
        table = RowTable(text, width=None, colour=False, columns=chosen)
        yield table.write
        table.close()
        text.detach()


def _width(console: Console) -> int | None:
    """Return what a line may take: no limit where the reader is a program."""
    return console.width if sys.stdout.isatty() or "COLUMNS" in os.environ else None
