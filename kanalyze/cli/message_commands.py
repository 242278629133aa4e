"""``kanalyze decode`` and ``records``: commands that read what is inside messages.

Each imports only what it needs, because imports take most of a short command's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.api.inputs import keeps_bytes, make_filter, read_schemas
from kanalyze.cli.analyze import analysis_of, report_unread
from kanalyze.cli.console import print_message
from kanalyze.cli.output import TABLE, column_names, default_format, name_columns, opened_output
from kanalyze.cli.progress import progress_of
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.open import format_of
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock

    _Lines: TypeAlias = Callable[[Sequence[Exchange], RowBlock], Iterator[str]]

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".txt": "text"}


def decode(arguments: argparse.Namespace) -> None:
    """Write every field of every message; raises KanalyzeError and OSError."""
    catalog = Catalog(arguments.definitions)
    default = "jsonl" if arguments.output == STANDARD_OUTPUT else None
    text_format = arguments.format or default or format_of(arguments.output, _ENDINGS)
    if arguments.all and text_format != "text":
        raise UsageError(f"--all works for text only: {text_format} has everything")
    keep = keeps_bytes(make_filter(catalog, api=arguments.api), catalog)
    analysis = analysis_of(arguments, keep=keep, catalog=catalog)
    lines = _lines_maker(catalog, text_format, everything=arguments.all)
    written = 0
    progress = progress_of(arguments, arguments.output, is_streamed=True)
    with (
        OutputFile(arguments.output) as output,
        progress.shown(),
        progress.reading(analysis),
    ):
        for exchanges, block in _first(analysis.exchange_blocks(), arguments.limit):
            written += len(exchanges)
            for line in lines(exchanges, block):
                output.file.write(f"{line}\n".encode("utf-8", "backslashreplace"))
    report_unread(written, arguments, analysis)


def _first(
    blocks: Iterator[tuple[Sequence[Exchange], RowBlock]], limit: int | None
) -> Iterator[tuple[Sequence[Exchange], RowBlock]]:
    """Yield the first ``limit`` exchanges, or all if it is None."""
    left = limit
    for exchanges, block in blocks:
        if left is not None and len(exchanges) >= left:
            yield exchanges[:left], block.take(range(left))
            return
        yield exchanges, block
        left = None if left is None else left - len(exchanges)


def _lines_maker(catalog: Catalog, text_format: str, *, everything: bool) -> _Lines:
    from kanalyze.decoding.bodies import BodyReader

    reader = BodyReader(catalog, Decoders(catalog))
    if text_format == "text":
        from kanalyze.render.tree import TreeText

        tree = TreeText(reader, everything=everything)

        def text(exchanges: Sequence[Exchange], block: RowBlock) -> Iterator[str]:
            decoded = reader.exchanges(exchanges)
            for exchange, row, bodies in zip(exchanges, block.rows(), decoded, strict=True):
                yield from tree.lines(exchange, row, bodies)
                yield ""

        return text
    from kanalyze.export.kip673 import LogLines

    log = LogLines(catalog)

    def json(exchanges: Sequence[Exchange], block: RowBlock) -> Iterator[str]:
        return log.lines(exchanges, block, reader.exchanges(exchanges))

    return json


def records(arguments: argparse.Namespace) -> None:
    """Write one row per record; raises KanalyzeError and OSError."""
    from kanalyze.api.record_blocks import record_blocks
    from kanalyze.render.table import LONGEST_SHOWN, record_columns, record_status
    from kanalyze.spec.rows.records import RECORD_COLUMNS, RecordRow, columns_of_records
    from kanalyze.tables.records.rows import has_records

    analysis = analysis_of(arguments, keep=has_records)
    names = column_names(arguments.columns)
    row_format = arguments.format or default_format(arguments.output)
    table = columns_of_records(values=arguments.values)
    if arguments.top_keys is None:
        _check_names(names, table)
    elif not arguments.values:
        raise UsageError("--top-keys shows keys, which are users' data: use it with --values")
    schemas = None if arguments.schemas is None else read_schemas(arguments.schemas)
    # Without chosen columns a table is for people; everything else is for programs.
    is_for_reading = row_format == TABLE and names is None and arguments.top_keys is None
    blocks = record_blocks(
        analysis,
        Catalog(arguments.definitions),
        arguments.max_records,
        values_as=("escaped" if is_for_reading else "base64") if arguments.values else None,
        longest_value=LONGEST_SHOWN if row_format == TABLE and not arguments.top_keys else None,
        search=arguments.search,
        schemas=schemas,
    )
    if arguments.top_keys is not None:
        _write_top_keys(arguments, analysis, blocks)
        return
    addresses = name_columns(arguments)
    readable = record_columns(values=arguments.values, search=arguments.search is not None)
    style = {"readable": readable, "status_of": record_status}
    # The file contains users' data, so only the owner may read it.
    with opened_output(
        arguments, analysis, table, style, private=arguments.values, address_names=addresses
    ) as sink:
        for block in blocks:
            if row_format == TABLE:
                sink.write(block.rows(RecordRow, RECORD_COLUMNS))
            else:
                sink.write_block(block)
    report_unread(sink.rows, arguments, analysis)
    for problem in () if schemas is None else schemas.problems():
        print_message(problem)


def _write_top_keys(
    arguments: argparse.Namespace, analysis: Analysis, blocks: Iterable[RowBlock]
) -> None:
    """Write the most frequent keys of each topic."""
    from kanalyze.tables.records.hot_keys import HOT_KEY_COLUMNS, HotKeys

    keys, style = HotKeys(), {"status_of": lambda _: ""}
    arguments.columns = arguments.columns or ",".join(column.name for column in HOT_KEY_COLUMNS)
    with opened_output(arguments, analysis, HOT_KEY_COLUMNS, style, private=True) as sink:
        for records in blocks:
            keys.add(records)
        sink.write(list(keys.most(arguments.top_keys)))
    report_unread(sink.rows, arguments, analysis)


def _check_names(names: list[str] | None, table: tuple[Column, ...]) -> None:
    """Raise UsageError for columns that need ``--values``."""
    from kanalyze.spec.rows.records import VALUE_COLUMNS

    hidden = VALUE_COLUMNS - {column.name for column in table}
    for name in names or ():
        if name in hidden:
            raise UsageError(f"column {name!r} has users' data: use --values")
