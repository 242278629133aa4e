"""``kanalyze records``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.cli.analyze import analysis_of, report_unread
from kanalyze.cli.output import TABLE, Output, column_names, default_format
from kanalyze.cli.progress import progress_of
from kanalyze.errors import UsageError
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.render.table import LONGEST_SHOWN, record_columns, record_status
from kanalyze.spec.rows.records import RECORD_COLUMNS, VALUE_COLUMNS, RecordRow, columns_of_records
from kanalyze.tables.records.offset_ranges import ProducedOffsets
from kanalyze.tables.records.rows import RecordReader, has_records

if TYPE_CHECKING:
    import argparse

    from kanalyze.spec.columns import Column

__all__ = ["records"]


def records(arguments: argparse.Namespace) -> None:
    """Write one row per record; raises KanalyzeError and OSError."""
    analysis = analysis_of(arguments, keep=has_records)
    names = column_names(arguments.columns)
    row_format = arguments.format or default_format(arguments.output)
    table = columns_of_records(values=arguments.values)
    _check_names(names, table)
    # Without chosen columns a table is for people; everything else is for programs.
    is_for_reading = row_format == TABLE and names is None
    catalog = Catalog(arguments.definitions)
    produced = ProducedOffsets()
    reader = RecordReader(
        catalog,
        Decoders(catalog),
        row_filter=analysis.row_filter,
        values_as=("escaped" if is_for_reading else "base64") if arguments.values else None,
        longest_value=LONGEST_SHOWN if row_format == TABLE else None,
        limits=DecompressionLimits(most_records=arguments.max_records),
        produced=produced,
        search=arguments.search,
    )
    readable = record_columns(values=arguments.values, search=arguments.search is not None)
    style = {"readable": readable, "status_of": record_status}
    # The file contains users' data, so only the owner may read it.
    output = Output(arguments.output, row_format, names, table, style, private=arguments.values)
    progress = progress_of(arguments, arguments.output, is_streamed=True)
    with output.opened() as sink, progress.shown(), progress.reading(analysis):
        for exchanges, block in analysis.exchange_blocks(produced.note):
            for record_block in reader.blocks(exchanges, block):
                if row_format == TABLE:
                    sink.write(record_block.rows(RecordRow, RECORD_COLUMNS))
                else:
                    sink.write_block(record_block)
    report_unread(sink.rows, arguments, analysis)


def _check_names(names: list[str] | None, table: tuple[Column, ...]) -> None:
    """Raise UsageError for columns that need ``--values``."""
    hidden = VALUE_COLUMNS - {column.name for column in table}
    for name in names or ():
        if name in hidden:
            raise UsageError(f"column {name!r} has users' data: use --values")
