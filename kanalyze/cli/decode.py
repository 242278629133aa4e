"""``kanalyze decode``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.analysis.decoding.bodies import BodyReader
from kanalyze.cli.analyze import analysis_of, progress_bar, tell_if_none
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.kip673 import LogLines
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import Decoders
from kanalyze.protocol.kafka07 import RequestType
from kanalyze.render.tree import TreeText

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.analysis.block import RowBlock
    from kanalyze.analysis.decoding.bodies import DecodedExchange
    from kanalyze.connection.exchange import Exchange
    from kanalyze.connection.kafka import Keep

    _Lines: TypeAlias = Callable[[Sequence[Exchange], RowBlock], Iterator[str]]

__all__ = ["decode"]

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".txt": "text"}


def decode(arguments: argparse.Namespace) -> None:
    """Write every field of every message; raises KanalyzeError and OSError."""
    catalog = Catalog(arguments.definitions)
    text_format = arguments.format or _default_format(arguments.output)
    analysis = analysis_of(arguments, keep=_kept(arguments.api, catalog), catalog=catalog)
    lines = _lines_maker(catalog, text_format, everything=arguments.all)
    # A bar and lines on one terminal would write over each other.
    is_seen = arguments.output == STANDARD_OUTPUT and sys.stdout.isatty()
    written = 0
    with OutputFile(arguments.output) as output, progress_bar(analysis, wanted=not is_seen):
        for exchanges, block in analysis.exchange_blocks():
            written += len(exchanges)
            for line in lines(exchanges, block):
                output.file.write(f"{line}\n".encode("utf-8", "backslashreplace"))
    tell_if_none(written, arguments, analysis)


def _default_format(destination: str) -> str:
    if destination == STANDARD_OUTPUT:
        return "jsonl"
    found = _ENDINGS.get(Path(destination).suffix.lower())
    if found is None:
        raise UsageError(
            f"cannot tell the format of {destination!r}: "
            f"end it in {', '.join(_ENDINGS)}, or use --format"
        )
    return found


def _kept(apis: Sequence[str], catalog: Catalog) -> Keep:
    """Return whose bytes are needed: those of the APIs asked for, of all when none was."""
    if not apis:
        return _always
    # Kafka 0.7's names too; Produce and Fetch have the same keys in both.
    keys = {kind.api_name.lower(): int(kind) for kind in RequestType}
    keys |= {api.name.lower(): api.key for api in catalog.apis}
    wanted = {
        int(text) if text.isascii() and text.isdigit() else keys.get(text.lower()) for text in apis
    }
    return wanted.__contains__


def _always(_: int) -> bool:
    return True


def _lines_maker(catalog: Catalog, text_format: str, *, everything: bool) -> _Lines:
    reader = BodyReader(catalog, Decoders(catalog))
    if text_format == "text":
        tree = TreeText(reader, everything=everything)

        def text(exchanges: Sequence[Exchange], block: RowBlock) -> Iterator[str]:
            for exchange, row in zip(exchanges, block.rows(), strict=True):
                yield from tree.lines(exchange, row, reader.exchange(exchange))
                yield ""
                _let_go(exchange)

        return text
    log = LogLines(catalog)

    def json(exchanges: Sequence[Exchange], block: RowBlock) -> Iterator[str]:
        return log.lines(exchanges, block, _decoded(reader, exchanges))

    return json


def _decoded(reader: BodyReader, exchanges: Sequence[Exchange]) -> Iterator[DecodedExchange]:
    for exchange in exchanges:
        yield reader.exchange(exchange)
        _let_go(exchange)


def _let_go(exchange: Exchange) -> None:
    """Give back the frames: a batch of exchanges may hold many large ones."""
    for message in (exchange.request, exchange.response):
        if message is not None:
            message.data = None
