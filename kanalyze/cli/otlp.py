"""``kanalyze requests --format otlp`` and ``--otlp URL``: requests as spans of OpenTelemetry.

In: arguments. Out: lines of OTLP in a file, or messages to a collector.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from kanalyze.cli.analyze import analysis_of, report_unread, rows_of
from kanalyze.cli.console import print_message
from kanalyze.cli.progress import progress_of
from kanalyze.common.paths import saved_files
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.otlp import SpanWriter
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.spec.rows.records import RECORD_COLUMNS
from kanalyze.tables.records.rows import RecordReader, has_records

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.export.otlp import SpanId
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.columns.block import RowBlock

OTLP = "otlp"
"""The format of ``--format``."""
_CONTEXT = [column for column in RECORD_COLUMNS if column.name in ("trace_id", "parent_span_id")]


def write_spans(
    arguments: argparse.Namespace,
    chosen: Callable[[argparse.Namespace, Iterator[RowBlock]], Iterator[RowBlock]],
) -> None:
    """Write or send the spans of requests; raises KanalyzeError and OSError.

    ``chosen`` returns the rows that ``--sort`` and ``--limit`` choose.
    """
    _check(arguments)
    written = 0
    if arguments.traceparent:
        of_captures = analysis_of(arguments, keep=has_records)
        analysis: Analysis | SavedAnalysis = of_captures
        rows = _with_parents(arguments, of_captures)
    else:
        analysis = rows_of(arguments)
        rows = ((block, ()) for block in chosen(arguments, analysis.batches()))
    progress = progress_of(arguments, arguments.output, is_streamed=True)
    with (
        closing(analysis),
        _opened(arguments) as spans,
        progress.shown(),
        progress.reading(analysis),
    ):
        for block, parents in rows:
            spans.write_block(block, parents)
            written += len(block)
    report_unread(written, arguments, analysis)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.columns is not None or arguments.format not in (None, OTLP):
        raise UsageError("spans of OpenTelemetry have all columns: use --format otlp alone")
    if arguments.otlp is None and arguments.format is None:
        raise UsageError("--traceparent is about spans: use --format otlp or --otlp URL")
    if arguments.otlp is not None and arguments.output != STANDARD_OUTPUT:
        raise UsageError("--otlp sends spans in place of writing them: omit --output")
    if arguments.traceparent and arguments.limit is not None:
        raise UsageError("--traceparent reads requests in their order: omit --sort and --limit")
    if arguments.traceparent and (files := saved_files(arguments.captures)):
        raise UsageError(f"{files[0]} has no records: --traceparent needs captures")


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[SpanWriter]:
    """Yield a writer to the collector of ``--otlp``, or to the output."""
    if arguments.otlp is None:
        with OutputFile(arguments.output) as output:
            yield SpanWriter(output.file.write)
        return
    from kanalyze.export.otlp_http import Collector  # imported late: only to send

    collector = Collector(arguments.otlp)
    yield SpanWriter(collector.post)
    if collector.rejected:
        print_message(f"{collector.url}: {collector.rejected}")


def _with_parents(
    arguments: argparse.Namespace, analysis: Analysis
) -> Iterator[tuple[RowBlock, Sequence[Sequence[SpanId]]]]:
    """Yield rows, with the spans that ``traceparent`` headers of each one's records name."""
    catalog = Catalog(arguments.definitions)
    reader = RecordReader(catalog, Decoders(catalog), limits=DecompressionLimits())
    for exchanges, block in analysis.exchange_blocks(checks_crc=False):
        yield block, [_parents(reader, each, block, at) for at, each in enumerate(exchanges)]


def _parents(reader: RecordReader, exchange: Exchange, block: RowBlock, at: int) -> list[SpanId]:
    """Return the spans that the records of one request name, without repetition."""
    if exchange.api_key is None or not has_records(exchange.api_key):
        return []
    found: dict[SpanId, None] = {}
    for records in reader.blocks([exchange], block.part(at, at + 1)):
        found.update(dict.fromkeys(zip(*records.values(_CONTEXT), strict=True)))
    return [span for span in found if None not in span]
