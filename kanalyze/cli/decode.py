"""``kanalyze decode``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.api.filters import keeps_bytes, make_filter
from kanalyze.cli.analyze import analysis_of, report_unread
from kanalyze.cli.progress import progress_of
from kanalyze.decoding.bodies import BodyReader
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.kip673 import LogLines
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.render.tree import TreeText

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.columns.block import RowBlock

    _Lines: TypeAlias = Callable[[Sequence[Exchange], RowBlock], Iterator[str]]

__all__ = ["decode"]

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".txt": "text"}


def decode(arguments: argparse.Namespace) -> None:
    """Write every field of every message; raises KanalyzeError and OSError."""
    catalog = Catalog(arguments.definitions)
    text_format = arguments.format or _default_format(arguments.output)
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
        for exchanges, block in analysis.exchange_blocks():
            written += len(exchanges)
            for line in lines(exchanges, block):
                output.file.write(f"{line}\n".encode("utf-8", "backslashreplace"))
    report_unread(written, arguments, analysis)


def _default_format(destination: str) -> str:
    if destination == STANDARD_OUTPUT:
        return "jsonl"
    output_format = _ENDINGS.get(Path(destination).suffix.lower())
    if output_format is None:
        raise UsageError(
            f"cannot tell the format of {destination!r}: "
            f"end it in {', '.join(_ENDINGS)}, or use --format"
        )
    return output_format


def _lines_maker(catalog: Catalog, text_format: str, *, everything: bool) -> _Lines:
    reader = BodyReader(catalog, Decoders(catalog))
    if text_format == "text":
        tree = TreeText(reader, everything=everything)

        def text(exchanges: Sequence[Exchange], block: RowBlock) -> Iterator[str]:
            decoded = reader.exchanges(exchanges)
            for exchange, row, bodies in zip(exchanges, block.rows(), decoded, strict=True):
                yield from tree.lines(exchange, row, bodies)
                yield ""

        return text
    log = LogLines(catalog)

    def json(exchanges: Sequence[Exchange], block: RowBlock) -> Iterator[str]:
        return log.lines(exchanges, block, reader.exchanges(exchanges))

    return json
