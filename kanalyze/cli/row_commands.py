"""``kanalyze requests``, ``connections`` and ``anomalies``: commands that write rows.

Each command imports only its own table, because imports take most of a short command's time.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kanalyze.cli.analyze import report_unread, rows_of
from kanalyze.cli.output import name_columns, opened_output, write_rows
from kanalyze.cli.progress import progress_of
from kanalyze.common.behind import called_behind
from kanalyze.errors import UsageError
from kanalyze.export.files import OutputFile

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.name_columns import NameColumns


def requests(arguments: argparse.Namespace) -> None:
    """Write one row per request, by column; raises KanalyzeError and OSError."""
    if arguments.wireshark:
        _write_display_filters(arguments)
        return
    if arguments.format == "otlp" or arguments.otlp is not None or arguments.traceparent:
        from kanalyze.cli.otlp import write_spans  # imported late: only for spans

        write_spans(arguments, _chosen)
        return
    names = name_columns(arguments)
    with closing(rows_of(arguments)) as analysis:
        # Workers read while the output is opened, which takes long for Parquet.
        blocks = _chosen(arguments, analysis.batches() if names is None else _told(analysis, names))
        with (
            opened_output(arguments, analysis, address_names=names) as sink,
            called_behind(sink.write_block, in_thread=analysis.has_workers) as write_block,
        ):
            for block in blocks:
                write_block(block)
    report_unread(sink.rows, arguments, analysis)


def _told(analysis: Analysis | SavedAnalysis, names: NameColumns) -> Iterator[RowBlock]:
    """Return the rows, while ``names`` learns what responses say of brokers."""
    from kanalyze.api.broker_names import told  # imported late: few runs have names

    return told(analysis, names)


def _chosen(arguments: argparse.Namespace, blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """Return the rows that ``--sort`` and ``--limit`` choose."""
    if arguments.limit is None:
        if arguments.sort is not None:
            raise UsageError("--sort needs --limit: sorted rows are kept in memory")
        return blocks
    from kanalyze.tables.columns.first_rows import first_rows, limited, sort_column

    if arguments.sort is None:
        return limited(blocks, arguments.limit)
    return first_rows(blocks, sort_column(arguments.sort), arguments.limit)


def _write_display_filters(arguments: argparse.Namespace) -> None:
    """Write the display filter of the packets of requests, a line for each capture."""
    from kanalyze.render.wireshark import filter_lines

    if arguments.format or arguments.columns:
        raise UsageError("--wireshark writes display filters: omit --format and --columns")
    packets: list[tuple[str, int | None]] = []
    requests = 0
    progress = progress_of(arguments, arguments.output)
    with (
        closing(rows_of(arguments)) as analysis,
        OutputFile(arguments.output) as output,
        progress.shown(),
        progress.reading(analysis),
    ):
        for block in _chosen(arguments, analysis.batches()):
            requests += len(block)
            for piece in block.pieces():
                rows = piece.rows()
                packets += [(row.capture, row.request_packet) for row in rows]
                packets += [(row.capture, row.response_packet) for row in rows]
        for line in filter_lines(packets, of_several=analysis.has_several_captures):
            output.file.write(f"{line}\n".encode())
    report_unread(requests, arguments, analysis)


def connections(arguments: argparse.Namespace) -> None:
    """Write one row per TCP connection; raises KanalyzeError and OSError."""
    from kanalyze.render.table import CONNECTION_TABLE, connection_status
    from kanalyze.spec.rows.connections import CONNECTION_COLUMNS

    style = {"readable": CONNECTION_TABLE, "status_of": connection_status}
    with closing(rows_of(arguments)) as analysis:
        write_rows(arguments, analysis, analysis.connection_batches(), CONNECTION_COLUMNS, style)


def anomalies(arguments: argparse.Namespace) -> None:
    """Write one row per anomaly; raises KanalyzeError and OSError."""
    from kanalyze.render.table import ANOMALY_TABLE, anomaly_status
    from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS
    from kanalyze.tables.anomalies import parse_kinds

    kinds = parse_kinds(arguments.kind)
    style = {"readable": ANOMALY_TABLE, "status_of": anomaly_status}
    with closing(rows_of(arguments)) as analysis:
        write_rows(arguments, analysis, _of_kinds(analysis, kinds), ANOMALY_COLUMNS, style)


def _of_kinds(
    analysis: Analysis | SavedAnalysis, kinds: frozenset[str]
) -> Iterator[list[AnomalyRow]]:
    for rows in analysis.anomaly_batches():
        yield [row for row in rows if row.kind in kinds] if kinds else rows
